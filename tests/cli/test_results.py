"""Reports on a screen, from reports made by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from calcli.cli import results as view
from calcli.cli.screen import Screen, shown_width
from calcli.metrics.base import Definition
from calcli.metrics.clustered import NO_CLUSTERS
from calcli.reporting import tables
from calcli.reporting.typesetting import decimals
from calcli.reports.schema import Change, DataFacts, MetricValue, Report
from tests.support.curves import OVER, bars
from tests.support.reports import BINDING, better, nll_change, report, score

PLAIN = Screen()


def text(made: Report, screen: Screen = PLAIN) -> str:
    return "\n".join(view.measured(made, screen))


def first(made: Report) -> str:
    """The verdict, unwrapped."""
    return " ".join(text(made).partition("\n\n")[0].split())


def changed(nll: float, *difference: float, name: str = "x") -> Report:
    """A report of one calibrated score with this log-loss, and its difference from the raw one with the interval."""
    return report(score(name, nll=nll), differences=(nll_change(name, *difference),))


def raw_alone(fault: str | None, *more: str, of: str | None = "1", groups: tuple[float | None, ...] = ()) -> Report:
    """A report of the raw score alone with these faults; in groups of countries with these p-values."""
    curve = bars(*OVER, of=of, fault=fault)
    assert curve.diagnosis is not None
    curve = replace(curve, diagnosis=replace(curve.diagnosis, faults=(*curve.diagnosis.faults, *more)))
    entry = {"by": "country", "score": "raw", "rows": 10, "metrics": {}, "detectable": 0.1, "p": 0.0}
    entries = tuple(entry | {"group": str(place), "p_adjusted": p} for place, p in enumerate(groups))
    return replace(report(), scores=(score("raw"),), curves=(curve,), groups=entries)


ECE_ALONE = replace(better(), definitions={"ece": better().definitions["ece"]}, differences=())
WORSE_AND_UNCLEAR = (nll_change("one", 0.1, 0.05, 0.2), nll_change("two", 0.0, -0.1, 0.1))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            better(),
            "platt lowers the log-loss on held-out rows from 0.4321 to 0.3987 (-7.7 %, 95 % interval -8.1 to -7.2 %).",
        ),
        (
            changed(0.4400, 0.0079, 0.0021, 0.0137),
            "x is WORSE than no calibration: it raises the log-loss from 0.4321 to 0.4400 "
            "(+1.8 %, 95 % interval +0.5 to +3.2 %).",
        ),
        (
            changed(0.4318, -0.0003, -0.0009, 0.0003),
            "x is NOT shown to be better than no calibration: the log-loss changes from 0.4321 to 0.4318 "
            "(-0.07 %, 95 % interval -0.21 to +0.07 %).",
        ),
        (changed(0.4321, 0.0, 0.0, 0.0), "x changes nothing: the log-loss stays 0.4321."),
        # No calibration, through log-odds and back, is no calibration.
        (
            changed(0.4321, -3e-7, -9e-7, 3e-7, name="identity"),
            "identity changes nothing: the log-loss stays 0.4321.",
        ),
        # A loss falls by no more than all of it: an interval beyond that has the units of the log-loss.
        (
            changed(0.1, -0.3321, -0.5432, -0.1210),
            "x lowers the log-loss from 0.4321 to 0.1000 (-0.3321, 95 % interval -0.5432 to -0.1210).",
        ),
        (
            ECE_ALONE,
            "With platt, ece goes from 0.0776 to 0.0125; nll or brier in --metrics would say which is better.",
        ),
        (
            report(score("one", nll=0.5321), score("two"), differences=WORSE_AND_UNCLEAR),
            "None is shown to be better than no calibration, by log-loss.",
        ),
        (
            raw_alone("high"),
            "The raw score is too high on average: mean prediction 0.50, observed rate 0.40 (p < 0.005).",
        ),
        (
            raw_alone("over"),
            "The raw score is over-confident: the slope of the labels on its log-odds is 0.81, not 1 (p < 0.005).",
        ),
        (
            raw_alone("shape"),
            "The raw score is non-linearly miscalibrated: no intercept and slope on its log-odds correct it "
            "(p < 0.005).",
        ),
        (
            raw_alone("high", of=None),
            "The raw score is over-confident: mean confidence 0.50, accuracy 0.40 (p < 0.005).",
        ),
        (
            raw_alone(None),
            "No miscalibration of the raw score is detected: joint calibration test at the 5 % level, p = 0.4, "
            "with 80 % power to detect a mean error of 0.012.",
        ),
    ],
)
def test_the_verdict_is_a_sentence(made: Report, said: str) -> None:
    assert first(made) == said


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (changed(0.3, -0.1321), "x is NOT shown to be better than no calibration ..."),  # there is no interval
        (changed(0.4321, -3e-5, -4e-5, -2e-5), "x lowers the log-loss ..."),
        (replace(report(), command="fit"), "Not evaluated: no rows were held out. ..."),
        (raw_alone("over", "low"), "... (p < 0.005). It is also too low on average."),
        (
            raw_alone("low", groups=(0.0, 0.9, None)),
            "... (p < 0.005). It is miscalibrated in 1 of 3 groups of country.",
        ),
        (
            raw_alone(None, groups=(0.0, 0.9, None)),
            "The raw score is miscalibrated in 1 of 3 groups of country; over all rows no ...",
        ),
    ],
)
def test_the_verdict_begins_and_ends(made: Report, said: str) -> None:
    begins, _, ends = said.partition("...")
    assert first(made).startswith(begins.strip())
    assert first(made).endswith(ends.strip())


def test_a_perfect_raw_score_has_no_percentage() -> None:
    made = replace(changed(0.01, 0.01, 0.005, 0.015), scores=(score("raw", nll=0.0), score("x", nll=0.01)))
    assert "(+0.01, 95 % interval +0.01 to +0.01)" in first(made) or "+0.0100" in first(made)


def few(rows: int, rate: float | dict[str, float]) -> Report:
    return replace(better(), data=DataFacts((), rows, 0, float(rows), rate))


@pytest.mark.parametrize(
    ("rows", "rate", "said"),
    [
        (10_000, 0.1498, None),
        (1000, 0.05, None),
        (1000, 0.012, "Only 12 rows have the label 1,"),
        (1000, 0.999, "Only 1 row has the label 0,"),
        (200, 0.0, "No row has the label 1,"),
        (300, {"a": 0.5, "b": 0.4, "c": 0.1}, "Only 30 rows have the label c,"),
    ],
)
def test_few_rows_of_a_class_are_said_first(rows: int, rate: float | dict[str, float], said: str | None) -> None:
    made = few(rows, rate)
    assert ("tests have little power" in text(made)) == (said is not None)
    assert first(made).startswith(said or "platt lowers")


def test_scores_without_a_proper_score_open_with_their_numbers() -> None:
    definitions = {name: report().definitions[name] for name in ("mvce", "ece")}
    made = replace(report(score("a", mvce=0.02, ece=0.01), score("b", mvce=0.03, ece=0.02)), definitions=definitions)
    lines = text(made).splitlines()
    assert lines[0].startswith("Of several scores, nll or brier in --metrics would say which is better:")
    assert [" ".join(line.split()) for line in lines[2:4]] == [
        "a unknown mvce goes from 0.0713 to 0.0200",
        "b unknown mvce goes from 0.0713 to 0.0300",
    ]


def test_the_size_of_error_that_few_rows_show() -> None:
    """Simulated: labels whose rate is off by as much are told from those that are predicted in four of five tables."""
    rng = np.random.default_rng(0)
    rows, rate = 400, 0.1
    size = float(re.search(r"([0-9.]+) percentage points or more", first(few(rows, rate)))[1]) / 100
    error = np.sqrt(rate * (1 - rate) / rows)
    found = np.abs(rng.binomial(rows, rate + size, 4000) / rows - rate) > 1.96 * error
    assert found.mean() == pytest.approx(0.8, abs=0.06)


def test_an_error_beyond_the_rate_has_no_exponent() -> None:
    assert "61 percentage points or more (153 % of the label's rate)" in first(few(5, 0.6))


def test_several_scores_are_listed_with_the_best_first_said() -> None:
    made = report(
        score("one", nll=0.40),
        score("two", nll=0.39),
        score("three", nll=0.45),
        differences=(
            nll_change("one", -0.0321, -0.04, -0.02),
            nll_change("two", -0.0421, -0.05, -0.03),
            nll_change("three", 0.0179, 0.01, 0.03),
        ),
    )
    lines = text(made).splitlines()
    assert lines[0] == "two has the lowest log-loss, 0.3900; the raw score has 0.4321. Against raw:"
    assert [line.split()[:2] for line in lines[2:5]] == [["one", "better"], ["two", "better"], ["three", "WORSE"]]


def test_mvce_never_stands_without_its_floor() -> None:
    for made in (report(), better(), report(score("a"), score("b"))):
        lines = text(made).splitlines()
        place = next(place for place, line in enumerate(lines) if line.split()[:1] == ["mvce"])
        assert lines[place + 1].split()[0] == "floor"
        assert "0.0156" in lines[place + 1]
        assert "value of a calibrated score" in lines[-1]


def test_no_clusters_are_a_dim_word() -> None:
    """Its line says n/a, and what it is says why; other reasons stand below the table, each once."""
    cece = MetricValue(None, reason=NO_CLUSTERS)
    slope = MetricValue(None, reason="the rows are all of one class")
    made = report(score("x"))
    made = replace(
        made,
        definitions=made.definitions | {"cece": Definition("lower", binning="clusters"), "slope": Definition("target")},
        scores=tuple(replace(one, metrics={**one.metrics, "cece": cece, "slope": slope}) for one in made.scores),
    )
    shown = Screen(color=True).fit(text(made, Screen(color=True)).splitlines()).splitlines()
    (line,) = [line for line in shown if line.split()[:2] == ["\x1b[2m", "cece"] and "n/a" in line]
    assert line.startswith("\x1b[2m")
    assert "\n".join(shown).count("the rows are all of one class") == 1
    assert NO_CLUSTERS[:20] not in "\n".join(shown)
    assert "no features" in "\n".join(shown)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_groups_fit_the_screen(width: int) -> None:
    """The last metrics give way, and are named; what the groups are tested by stays."""
    names = ("nll", "brier", "auc", "ece", "mvce", "cece")
    common = {"by": "device", "rows": 12_345, "score": "raw", "detectable": 0.0312, "p": 0.5, "p_adjusted": 0.0}
    entry = {**common, "group": "a-rather-long-value", "metrics": {name: {"value": 0.25} for name in names}}
    lines = view.groups(replace(report(), groups=(entry,)), Screen(width=width))
    header = lines[2].split()
    assert max(map(shown_width, lines)) <= width
    assert header[-2:] == ["detectable", "p-value"]
    shown = header[1:-2]
    assert shown == list(names[: len(shown)])
    assert ("more" in "\n".join(lines)) == (len(shown) < 6)
    assert len(shown) == {60: 1, 80: 3, 120: 6}[width]


MORE_CLASSES = report(
    binding={
        **BINDING,
        "classes": ["a", "b", "c"],
        "positive": None,
        "score": {"kind": "prob", "columns": ["prob_a", "prob_b", "prob_c"]},
        "weight": "w",
        "features": [f"f{number}" for number in range(12)],
    },
    data=DataFacts(({"path": None, "bytes": 1, "sha256": "0"},), 10, 2, 8.0, {"a": 0.5, "b": 0.25, "c": 0.25}),
)
AUC_UNDEFINED = replace(
    score("raw"), metrics={**score("raw").metrics, "auc": MetricValue(None, reason="there is one class only")}
)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (better(), ("nll lower 0.4321 0.3987", "auc higher", "15 bins of equal width", "32 bins of 312 rows")),
        (
            better(),
            (
                "test.parquet, 10,000 rows, 15 % with label 1",
                "label clicked: 1 is positive, 0 negative",
                "score z: the log-odds of 1",
                "dropped row_id (named like an id)",
            ),
        ),
        (
            MORE_CLASSES,
            (
                "standard input, 10 rows, 2 of them left out as bad, 50 % a, 25 % b, 25 % c",
                "3 classes: a, b, c",
                "prob_a, prob_b, prob_c: probabilities",
                "and 4 more",
            ),
        ),
        (replace(report(), scores=(AUC_UNDEFINED,)), ("n/a", "auc of raw: there is one class only")),
    ],
)
def test_the_numbers_the_facts_and_the_definitions_are_there(made: Report, said: tuple[str, ...]) -> None:
    shown = " ".join(text(made).split())
    for part in said:
        assert part in shown


def test_small_numbers_keep_two_digits() -> None:
    assert decimals([0.4, 0.012]) == 4
    assert decimals([0.4, 0.00032]) == 5
    assert decimals([0.000012]) == 6
    assert decimals([0.0, 1e-12, 0.5]) == 4


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_everything_fits_80_columns(count: int) -> None:
    names = [f"campaign-{number}.isotonic" for number in range(count)]
    changes = tuple(nll_change(name, -0.03, -0.04, -0.02) for name in names)
    shown = text(report(*(score(name, nll=0.4) for name in names), differences=changes))
    assert max(map(len, shown.splitlines())) <= 80
    for name in names:
        assert name in shown
    if count == 8:  # scores stand in lines
        header = next(line for line in shown.splitlines() if "nll" in line and "auc" in line)
        assert header.split() == ["nll", "auc", "ece", "mvce", "mvce"]


def test_what_does_not_fit_is_left_out() -> None:
    shown = text(better())
    assert "-0.0350 to -0.0311" in shown
    made = report(score("a-name-of-thirty-five-letters-in-all"))
    made = replace(made, differences=(nll_change("a-name-of-thirty-five-letters-in-all", -0.01, -0.02, -0.005),))
    shown = text(made)
    assert "change" in shown
    assert "-0.0200 to" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_p_value_stands_below_its_metric() -> None:
    made = report()
    raw = replace(made.scores[0], metrics={**made.scores[0].metrics, "auc": MetricValue(8170.88, p=0.25)})
    lines = text(replace(made, scores=(raw,))).splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("  auc"))
    assert lines[place].split() == ["auc", "higher", "8170.9"]
    assert lines[place + 1].split() == ["p", "0.2500"]


def test_colours_change_no_column_and_the_letters_are_ascii() -> None:
    for made in (report(), better(), report(score("a"), score("b"))):
        painted, plain = (view.measured(made, Screen(color=color)) for color in (True, False))
        assert [shown_width(line) for line in painted] == [shown_width(line) for line in plain]
        assert Screen(unicode=False).fit(plain).isascii()
    painted = Screen(color=True)
    assert "\x1b[32mlowers the log-loss\x1b[0m" in painted.fit(view.measured(better(), painted))


def test_a_class_cannot_move_the_cursor() -> None:
    binding = {**BINDING, "classes": ["a\x1b[2J", "b\r"], "positive": "b\r"}
    shown = PLAIN.fit(text(report(binding=binding)).splitlines())
    assert "\x1b" not in shown
    assert "\r" not in shown
    painted = Screen(color=True)
    assert painted.fit([painted.good("yes")]) == "\x1b[32myes\x1b[0m"


def test_findings_of_a_report_and_scores_that_failed() -> None:
    failed = replace(score("broken"), status="failed", reason="out of time", metrics={})
    found = tables.Findings.of_report(report(failed, score("fine")))
    assert [each.name for each in found.calibrated] == ["fine"]


def test_what_has_changed_since_the_baseline() -> None:
    changes = (
        Change("raw", "nll", None, None, 0.41, 0.4321, 0.0221),
        Change("raw", "ece", None, None, 0.07, 0.0776, None, comparable=False, reason="ece is another one"),
        Change("raw", "nll", "site", "A", 0.1, 0.2, 0.1),
    )
    made = report(baseline={"path": "old.json", "sha256": "0", "version": "0"}, changes=changes)
    assert view.changes(report(), PLAIN) == []
    assert [line.split() for line in view.changes(made, PLAIN)] == [
        [],
        ["changes", "since", "old.json"],
        ["before", "now", "change"],
        ["raw", "nll", "0.4100", "0.4321", "+0.0221"],
        ["raw", "ece", "0.0700", "0.0776", "n/a"],
        ["ece", "is", "another", "one"],
    ]
