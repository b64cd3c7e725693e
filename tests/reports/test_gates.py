import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calcli.errors import UsageError
from calcli.metrics import catalog
from calcli.metrics.base import Definition
from calcli.reports.conditions import check_gates
from calcli.reports.gates import FIELDS, LACKING, Comparison, Gate, Term, parse
from calcli.reports.schema import DataFacts, Difference, MetricValue, Report, ScoreRow, ScoreSource
from tests.support.drawing import examples

names = st.text(min_size=1, max_size=8) | st.sampled_from(
    ["train.platt", "a b", "and", "or", 'q"uo\\te', "x='1'", "<=", "0.5"]
)
plain = st.builds(Term, st.sampled_from(catalog.names()), st.none() | names)
terms = st.builds(
    lambda term, field, at, group: replace(
        term,
        field="value" if field in LACKING[catalog.find(term.metric).kind] else field,
        column=at,
        group=group if at is not None else None,
    ),
    plain,
    st.sampled_from(["value", *FIELDS]),
    st.none() | names,
    st.none() | names,
)
comparisons = st.builds(
    Comparison, terms, st.sampled_from(["<", "<=", ">", ">="]), st.floats(allow_nan=False, allow_infinity=False)
)
gates = st.builds(
    Gate, st.lists(st.lists(comparisons, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple)
)


@given(gates)
def test_what_is_written_is_read_again(gate):
    again = parse(str(gate))
    assert again.alternatives == gate.alternatives
    assert again.expr == str(gate)


@given(st.text() | st.text(alphabet="ece.p@= <>01\"'andor", max_size=30))
@example("ece>")
@example("ece > 1e999")
@example("'")
@example("@")
@examples(100)
def test_garbage_is_a_usage_error_or_a_gate(text):
    try:
        gate = parse(text)
    except UsageError as error:
        assert error.message.startswith("--fail-if")  # noqa: PT017 - other text is a gate
    else:
        assert parse(str(gate)).alternatives == gate.alternatives


def test_and_binds_tighter():
    gate = parse("ece>0.1 and auc<0.7 or nll >= 1 and raw.brier<=-.5")
    assert [[str(one) for one in together] for together in gate.alternatives] == [
        ["ece > 0.1", "auc < 0.7"],
        ["nll >= 1.0", "raw.brier <= -0.5"],
    ]


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("ece", Term("ece")),
        ("ece.p", Term("ece", field="p")),
        ("p.ece.p", Term("ece", "p", "p")),
        ("train.platt.nll.diff", Term("nll", "train.platt", "diff")),
        ("train.platt.nll.diff.hi", Term("nll", "train.platt", "diff.hi")),
        ("diff.nll.lo", Term("nll", "diff", "lo")),
        ("ece.change", Term("ece", field="change")),
        ("train.platt.nll.change@day", Term("nll", "train.platt", "change", "day")),
        ("change.nll", Term("nll", "change")),
        ("ece@country", Term("ece", column="country")),
        ("a.ece@country=US", Term("ece", "a", column="country", group="US")),
        ("ece.null_hi @ 'site id' = v1.2.3", Term("ece", field="null_hi", column="site id", group="v1.2.3")),
        ('"my score".ece@x=""', Term("ece", "my score", column="x", group="")),
        ("ece@x=-1.5", Term("ece", column="x", group="-1.5")),
        ("segments.gap", Term("segments.gap")),
        ("a.b.segments.gap", Term("segments.gap", "a.b")),
    ],
)
def test_terms(text, term):
    assert parse(f"{text}<1").alternatives == ((Comparison(term, "<", 1.0),),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: expected a metric, found the end"),
        ("eec > 0.1", "character 1: no metric 'eec'; did you mean 'ece'"),
        ("ece.dif > 0.1", "character 1: no metric or field 'dif'; did you mean 'diff'"),
        ("nll > 1 or nll.chnge > 0.1", "character 12: no metric or field 'chnge'; did you mean 'change'"),
        ("ece 0.1", "character 5: expected <, <=, > or >=, found '0'"),
        ("ece == 0.1", "character 5: expected <, <=, > or >=, found '='"),
        ("ece >", "character 6: expected a number, found the end"),
        ("ece > x", "character 7: 'x' is not a finite number"),
        ("ece > nan", "character 7: 'nan' is not a finite number"),
        ("ece > 1e400", "character 7: '1e400' is not a finite number"),
        ("ece > 1_0", "character 7: '1_0' is not a finite number"),
        ("ece > 1 xor nll > 1", "character 9: expected 'and', 'or' or the end, found 'xor'"),
        ("ece > 1 and", "character 12: expected a metric, found the end"),
        ("ece@ > 1", "character 6: expected a column after '@', found '>'"),
        ("ece@a= > 1", "character 8: expected a group after '=', found '>'"),
        ("'ece > 1", "character 1: this quote is not closed"),
        ("raw. > 1", "character 6: expected a name after '.', found '>'"),
        ("ece.hi > 0.05", "character 1: there is no ece.hi; available: ece, ece.null_hi, ece.p, ece.diff, ece.change"),
        ("nll > 1 or a.b.mvce.diff.lo > 0", "character 12: there is no mvce.diff.lo; available: mvce, mvce.null_hi"),
        ("nll.null_hi > 1", "character 1: there is no nll.null_hi; available: nll, nll.lo, nll.hi, nll.p, nll.diff"),
        ("spiegelhalter_z.hi > 1", "there is no spiegelhalter_z.hi; available: spiegelhalter_z, spiegelhalter_z.p"),
        ("segments.gap@site > 1", "character 1: segments.gap is about all rows; leave out @site"),
        ("raw.segments.p > 1", "no field of segments 'p'; available: gap"),
        ("segments.foo > 1", "character 1: no field of segments 'foo'; available: gap; try: segments.gap"),
        ("__import__('os') > 1", r"character 1: no metric '__import__\('"),
    ],
)
def test_errors_point_at_what_is_wrong(text, message):
    with pytest.raises(UsageError, match=message) as raised:
        parse(text)
    assert repr(text) in raised.value.message


def row(name: str, ece: float | None, nll: float, **more: float) -> ScoreRow:
    metrics = {
        "ece": MetricValue(ece, reason=None if ece is not None else "there are no rows", **more),
        "nll": MetricValue(nll),
    }
    return ScoreRow(name, ScoreSource("raw"), metrics)


def report(*rows: ScoreRow, groups=(), differences=()) -> Report:
    facts = DataFacts((), 10, 0, 10.0, 0.5)
    definitions = {"ece": Definition("lower"), "nll": Definition("lower")}
    return Report(
        command="evaluate",
        version="1",
        seed=0,
        data=facts,
        binding={},
        definitions=definitions,
        scores=rows,
        differences=differences,
        groups=groups,
    )


def group(value: str, score: str, ece: float | None) -> dict:
    return {"by": "site", "group": value, "score": score, "rows": 5, "metrics": {"ece": {"value": ece, "p": 0.2}}}


BOTH = report(
    row("raw", 0.2, 0.7),
    row("a.platt", 0.05, 0.6, null_hi=0.04, p=0.01),
    row("b", 0.08, 0.5),
    differences=(Difference("a.platt", "raw", "ece", -0.15), Difference("b", "raw", "ece", -0.12),
                 Difference("a.platt", "raw", "nll", -0.1, -0.2, -0.05),
                 Difference("b", "raw", "nll", -0.2, -0.3, 0.1)),
    groups=(group("A", "raw", 0.3), group("B", "raw", 0.1), group("A", "b", 0.02), group("B", "b", 0.4),
            group("A", "a.platt", 0.01), group("B", "a.platt", 0.02)),
)  # fmt: skip


def failed(expr: str, given_report: Report = BOTH, **how) -> list:
    (result,) = check_gates([parse(expr)], given_report, **how)
    assert result["passed"] == (not result["failed"])
    assert result["expr"] == expr
    return [(one["score"], one["group"], one["metric"], one["value"]) for one in result["failed"]]


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        ("ece > 0.1", []),
        ("ece > 0.06", [("b", None, "ece", 0.08)]),
        ("ece >= 0.05", [("a.platt", None, "ece", 0.05), ("b", None, "ece", 0.08)]),
        ("raw.ece > 0.1", [("raw", None, "ece", 0.2)]),
        ("a.platt.ece > 0.01", [("a.platt", None, "ece", 0.05)]),
        ("a.platt.ece.null_hi < 0.05", [("a.platt", None, "ece.null_hi", 0.04)]),
        ("a.platt.ece.p < 0.05", [("a.platt", None, "ece.p", 0.01)]),
        ("ece.diff > -0.13", [("b", None, "ece.diff", -0.12)]),
        ("nll.diff.hi >= 0", [("b", None, "nll.diff.hi", 0.1)]),
        ("nll.diff.lo < -0.25", [("b", None, "nll.diff.lo", -0.3)]),
        ("ece@site > 0.1", [("b", "B", "ece", 0.4)]),
        ("ece@site=A > 0.1", []),
        ("raw.ece@site > 0", [("raw", "A", "ece", 0.3), ("raw", "B", "ece", 0.1)]),
        ("ece.diff@site > 0", [("b", "B", "ece.diff", pytest.approx(0.3))]),
        ("ece > 0.06 and nll > 1", []),
        ("ece > 0.06 and nll < 0.55", [("b", None, "ece", 0.08), ("b", None, "nll", 0.5)]),
        ("nll > 1 or ece > 0.06", [("b", None, "ece", 0.08)]),
        ("ece > 0.06 or ece > 0.06", [("b", None, "ece", 0.08)]),
    ],
)
def test_judging(expr, found):
    assert failed(expr) == found


def test_raw_is_meant_where_it_is_alone():
    alone = report(row("raw", 0.2, 0.7))
    assert failed("ece > 0.1", alone) == [("raw", None, "ece", 0.2)]
    with pytest.raises(UsageError, match=r"\.diff needs a score to compare with raw"):
        failed("ece.diff > 0", alone)


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("c.ece > 1", "no score 'c'; available: raw, a.platt, b"),
        ("auc > 1", "no measured metric 'auc'; available: ece, nll; add it: --metrics default,auc"),
        ("raw.ece.diff > 1", "which has none from itself"),
        ("nll.change > 1", ".change needs a baseline; try: --baseline OLD.json"),
        ("ece@sit > 1", "no group column 'sit'; did you mean 'site'? available: site"),
        ("ece@site=C > 1", "no group 'C'; available: A, B"),
        ("ece.p > 1", "ece.p of b has no value; try: --allow-null"),
        ("nll.p > 1", "nll.p of a.platt has no value"),
        ("nll@site > 1", "nll of a.platt in group 'A' has no value"),
        ("nll.diff.hi@site > 1", "has no value"),
    ],
)
def test_what_is_not_there_is_said(expr, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        failed(expr)


def test_the_gap_of_segments_is_that_of_each_up_or_down():
    entries = [("raw", "age > 54", -0.2), ("b", "device = tv", -0.08), ("b", "age is missing", 0.03)]
    looked_for = replace(
        BOTH,
        segments=tuple({"score": score, "text": text, "gap": gap} for score, text, gap in entries),
        segment_search=tuple({"score": score} for score in ("raw", "a.platt", "b")),
    )
    assert failed("segments.gap > 0.05", looked_for) == [("b", "device = tv", "segments.gap", 0.08)]
    assert failed("raw.segments.gap > 0.05", looked_for) == [("raw", "age > 54", "segments.gap", 0.2)]
    assert failed("a.platt.segments.gap > 0", looked_for) == []
    with pytest.raises(UsageError, match="no segments were looked for; add --find-segments"):
        failed("segments.gap > 0.05")


def test_null_is_an_error_with_its_reason_unless_allowed():
    empty = report(row("raw", 0.2, 0.7), row("a", None, 0.5), row("b", 0.4, 0.5))
    with pytest.raises(UsageError, match="ece of a has no value: there are no rows; try: --allow-null"):
        failed("ece > 0.1", empty)
    assert failed("ece > 0.1", empty, allow_null=True) == [("b", None, "ece", 0.4)]
    assert failed("a.ece > 0.1", empty, allow_null=True) == []


def test_the_result_is_an_entry_of_the_report():
    (result,) = check_gates([parse("ece@site>0.1")], BOTH)
    assert result == {
        "expr": "ece@site>0.1",
        "passed": False,
        "failed": [{"score": "b", "group": "B", "metric": "ece", "value": 0.4, "limit": 0.1}],
    }
