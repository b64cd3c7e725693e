"""Sentences about a report: whether scores are better, whether rows are scarce, what gates and refits decided."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from calcli.diagrams.captions import caption, means, p_text, told
from calcli.diagrams.curves import percent
from calcli.metrics.multiple import POWER
from calcli.reporting.facts import JsonObject
from calcli.reporting.tables import Findings, part_of
from calcli.reporting.typesetting import NOTHING, Table, decimals, glued, interval, number, signed, spelled
from calcli.reports.schema import RAW

if TYPE_CHECKING:
    from calcli.metrics.diagnosis import Diagnosis
    from calcli.reports.schema import Difference, Report, ScoreRow

Kind = Literal["better", "worse", "unclear", "same", "unknown"]

DECISIVE = {"nll": "log-loss", "brier": "Brier score"}
"""The metrics that decide, the first that was measured: proper scores, which reward nothing but the truth."""

_WRONG = {
    "high": "too high on average",
    "low": "too low on average",
    "over": "over-confident",
    "under": "under-confident",
    "shape": "non-linearly miscalibrated",
}
"""The answer by fault."""

_WRONG_CONFIDENCE = {
    "high": "over-confident",
    "low": "under-confident",
    "over": "too extreme",
    "under": "too moderate",
}
"""The answer by fault where the score is the confidence in the predicted class."""

NO_GAIN = "Nothing, as far as these rows show: no method is better than the score as it is."
"""The sentence about recalibration where no calibration is chosen."""

_UNDECIDED = "nll or brier in --metrics would say which is better"
"""The end of a verdict without a proper score."""

_ROUNDING = 1e-5
"""A difference up to this share of the loss is none: probabilities that become log-odds and back are rounded."""

_FEW = 50
"""Reports warn of low power if the rarest class has fewer rows."""


class Verdict(NamedTuple):
    """The verdict on one score."""

    kind: Kind
    text: str
    """A sentence."""

    answer: str = ""
    """The words of the sentence that are the answer."""

    size: str = ""
    """The difference from the raw score."""


class Gate(NamedTuple):
    """The outcome of an expression of ``--fail-if``: a sentence, and each number that failed it with its limit."""

    passed: bool
    text: str
    failures: list[tuple[str, float]]


def verdicts(findings: Findings) -> list[Verdict]:
    """The verdict on each calibrated score; without any, the one on the raw score."""
    return [_compared(findings, score) for score in findings.calibrated] or [_alone(findings)]


def _compared(findings: Findings, score: ScoreRow) -> Verdict:
    """Whether a score is better than the raw one: by log-loss, and by the interval of the difference."""
    for metric, words in DECISIVE.items():
        difference = findings.differences.get((score.name, metric))
        before, after = part_of(findings.raw, metric), part_of(score, metric)
        if difference is not None and difference.value is not None and before is not None and after is not None:
            return _judged(score.name, (words, findings.place, findings.base), (before, after), difference)
    if any(metric in findings.definitions for metric in DECISIVE):
        return Verdict("unknown", f"{score.name} cannot be compared with {findings.base}: its log-loss is undefined.")
    changes = _changes(findings, score)
    text = f"With {score.name}, {_listed(changes)}" if changes else f"Nothing of {score.name} is defined"
    return Verdict("unknown", f"{text}; {_UNDECIDED}.", size="; ".join(changes[:1]))


def _changes(findings: Findings, score: ScoreRow) -> list[str]:
    """The first metrics of a score beside those of the raw one, in words."""
    found = []
    for metric in list(findings.definitions)[:2]:
        before, after = part_of(findings.raw, metric), part_of(score, metric)
        if before is not None and after is not None:
            digits = decimals([before, after])
            found.append(f"{metric} goes from {number(before, digits)} to {number(after, digits)}")
    return found


def _judged(name: str, measure: tuple[str, str, str], values: tuple[float, float], difference: Difference) -> Verdict:
    words, place, base = measure
    digits = decimals(values)
    before, after = (f"{value:.{digits}f}" for value in values)
    size = _size(values[0], difference)
    moved = f"{place} from {before} to {after} ({size})"
    kind = _kind(values[0], difference)
    answer = {
        "better": f"lowers the {words}",
        "worse": f"WORSE than {base}",
        "same": "changes nothing",
    }.get(kind, "NOT shown to be better")
    text = {
        "better": f"{name} {glued(answer)}{moved}.",
        "worse": f"{name} is {glued(answer)}: it raises the {words}{moved}.",
        "same": f"{name} {glued(answer)}: the {words}{place} stays {before}.",
    }.get(kind, f"{name} is {glued(answer)} than {base}: the {words} changes{moved}.")
    return Verdict(kind, text, answer, "" if kind == "same" else size)


def _kind(before: float, difference: Difference) -> Kind:
    value, lo, hi = difference.value or 0.0, difference.lo, difference.hi
    if all(abs(part or 0.0) <= _ROUNDING * before for part in (value, lo, hi)):
        return "same"
    if lo is None or hi is None or lo <= 0 <= hi:
        return "unclear"
    return "better" if hi < 0 else "worse"


def _alone(findings: Findings) -> Verdict:
    """Whether a raw score without any other is calibrated, and what is wrong if it is not."""
    curve = findings.curve
    if findings.base == "the base rate":
        area = part_of(findings.raw, "auc")
        ranked = "" if area is None else f" with an AUC of {area:.3f}"
        text = f"The raw score only ranks{ranked}: it is no probability; see calcli fit, and --with ARTIFACT."
        return Verdict("unknown", text)
    test = None if curve is None else curve.diagnosis
    if curve is not None and curve.points and test is None:
        return Verdict("unknown", "Not tested: a score always looks calibrated on the rows that it was fitted on.")
    if curve is None or test is None:
        return Verdict("unknown", "Only the raw score was measured; add --with ARTIFACT to compare a calibrator.")
    groups = _listed([f"{off} of {count} groups of {by}" for by, (off, count) in findings.groups.items() if off])
    if not test.chance:
        words = _WRONG if curve.of is not None else _WRONG | _WRONG_CONFIDENCE
        answer, *others = [words[fault] for fault in test.faults]
        also = f" It is also {_listed(others)}." if others else ""
        within = f" It is miscalibrated in {groups}." if groups else ""
        shown = f"{_shown(test, curve.of)} ({glued(p_text(test.p))})"
        return Verdict("unclear", f"The raw score is {glued(answer)}: {shown}.{also}{within}", answer)
    power = "" if test.detectable is None else f", with 80 % power to detect a mean error of {test.detectable:.2g}"
    if groups:
        answer = f"miscalibrated in {groups}"
        text = f"The raw score is {glued(answer)}; over all rows no miscalibration is detected."
        return Verdict("unclear", text, answer)
    answer = "No miscalibration"
    return Verdict("same", f"{glued(answer)} of the raw score is detected: {told(test)}{power}.", answer)


def _shown(test: Diagnosis, of: str | None) -> str:
    """The number that shows the main fault."""
    if test.faults[0] in {"high", "low"}:
        return means(test, of)
    if test.faults[0] == "shape":
        return "no intercept and slope on its log-odds correct it"
    slope = test.slope or 0.0
    told = f"the slope of the labels on its log-odds is {slope:.2f}, not 1"
    return told if slope >= 0 else f"{told}: it ranks backwards"


def _listed(parts: Sequence[str]) -> str:
    """``one, two and three``."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def best(findings: Findings, judged: list[Verdict]) -> str:
    """The sentence above several verdicts: the best score."""
    metric = next((name for name in DECISIVE if name in findings.definitions), None)
    if metric is None:
        return f"Of several scores, {_UNDECIDED}:"
    words = DECISIVE[metric]
    before, *values = findings.numbers(metric)
    better = [
        (value, score.name)
        for value, score, each in zip(values, findings.calibrated, judged, strict=True)
        if each.kind == "better" and value is not None
    ]
    if not better or before is None:
        return f"None is shown to be better than {findings.base}, by {words}."
    value, name = min(better)
    digits = decimals([before, value])
    lowest = f"{name} has the lowest {words}{findings.place}, {value:.{digits}f}"
    return f"{lowest}; the raw score has {before:.{digits}f}. Against raw:"


NAMED = 3
"""So many parts of the rows in which a score is wrong are in the first sentences; a table has all."""


def advice(report: Report) -> str:
    """A sentence about which score to use, and one about where not to trust it; empty where no segments were looked
    for.
    """
    searched = {search["score"] for search in report.segment_search}
    if not searched:
        return ""
    findings = Findings.of_report(report)
    name, use = _preferred(findings), ""
    raw = next(iter(verdicts(findings._replace(scores=findings.scores[:1]))), None)
    gain = None if report.recalibration is None else verdicts(Findings.of_report(report.recalibration))[0]
    if name != RAW:
        curve = next((one for one in report.curves if (one.score, one.kind) == (name, "reliability")), None)
        fault = "" if curve is None or curve.chance else caption(curve).answer.lower()
        fault = fault.replace("high and too low", "high in places, too low in others")
        use = (
            f"Use {name}. " + (f"Its probabilities are still {fault}. " if fault else "") + _better_still(report, name)
        )
    elif gain is not None and gain.kind == "better":
        use = "Recalibrate the raw score before you use its probabilities. "
    elif raw is not None and raw.kind == "same" and not scarcity(report):
        use = "The raw score can be used as it is. "
    found: list[Any] = [entry for entry in report.segments if entry["score"] == name]
    if name not in searched:
        return use.strip()
    if not found:
        return f"{use}No part of the rows was found in which {name} is more wrong than elsewhere."
    worst = sorted(found, key=lambda entry: -abs(entry["gap"] or 0.0))
    rates = ([glued(percent(entry[name])) for name in ("predicted", "observed")] for entry in worst)
    *others, last = (
        f"{entry['text']} (it says {says}, and {true} come true)"
        for entry, (says, true) in list(zip(worst, rates, strict=True))[:NAMED]
    )
    either = f"{', where '.join(others)}, or where " if others else ""
    more = len(found) - NAMED
    parts = f"{more} more part{'s' if more > 1 else ''} of the rows"
    less = f" It is off by less in {parts}, listed below." if more > 0 else ""
    return f"{use}Do not trust {name} where {either}{last}.{less}"


def _better_still(report: Report, name: str) -> str:
    """A sentence that a new fit loses less on held-out rows than the score that is advised; empty where it does not."""
    if report.recalibration is None:
        return ""
    method = report.recalibration.chosen
    fitted = next((part_of(row, "nll") for row in report.recalibration.scores if row.name == method), None)
    used = next((part_of(row, "nll") for row in report.scores if row.name == name), None)
    if fitted is None or used is None or fitted >= used:
        return ""
    return f"A new fit by {method} may be better still: see what recalibration would gain. "


def _preferred(findings: Findings) -> str:
    """The score with the lowest loss of those that are shown to be better than the raw one; else that."""
    metric = next((name for name in DECISIVE if name in findings.definitions), None)
    judged = zip(findings.calibrated, verdicts(findings), strict=False)
    better = [(part_of(score, metric), score.name) for score, one in judged if metric and one.kind == "better"]
    known = [(value, name) for value, name in better if value is not None]
    return min(known)[1] if known else RAW


def _size(before: float, difference: Difference) -> str:
    """``-7.7 %, 95 % interval -8.1 to -7.2 %``, relative to the value before; no line ends within a part.

    A loss cannot fall by more than all of it: an interval that says so is no share, and has the units of the metric.
    """
    value, lo, hi = difference.value or 0.0, difference.lo, difference.hi
    known = [part for part in (value, lo, hi) if part is not None]
    if max(map(abs, known)) > before:
        digits = decimals([before, value])
        ends = interval(lo, hi, digits)
        return glued(signed(value, digits)) + (f", {glued(f'95 % interval {ends}')}" if ends else "")
    digits = 1 if max(map(abs, known)) >= 0.01 * before else 2
    share, *shares = (f"{100 * part / before:+.{digits}f}" for part in known)
    ends = f"95 % interval {' to '.join(shares)} %"
    return glued(f"{share} %") + (f", {glued(ends)}" if shares else "")


def scarcity(report: Report) -> str:
    """The warning that a class has few rows, with the least error of the mean prediction that they would have shown;
    empty where there are enough.
    """
    rows, rate = report.data.rows - report.data.rows_bad, report.data.label_rate
    if rate is None or rows <= 0:
        return ""
    shares = rate if isinstance(rate, Mapping) else _of_both(report.binding, rate)
    name, share = min(shares.items(), key=lambda item: item[1])
    count = round(share * rows)
    if count >= _FEW:
        return ""
    seen = POWER * math.sqrt(max(share, 1.0 / rows) * (1.0 - share) / rows)
    size = f"{100 * seen:.2g} percentage points"
    what = "the mean prediction" if len(shares) == 2 else f"the mean prediction of {name}"
    many = "No row has" if count == 0 else f"Only {count:,} row{'s have' if count > 1 else ' has'}"
    beside = f" ({_percent(100 * seen / share)} % of the label's rate)" if count else ""
    return (
        f"{many} the label {name}, so tests have little power: they detect (with 80 % power) only errors of {what} of "
        f"{glued(size)} or more{glued(beside)}."
    )


def seen(report: Report) -> Table | None:
    """For each score the least errors that would have been found in 4 of 5 cases; None where none is known."""
    searches = {str(search["score"]): cast("JsonObject", search) for search in report.segment_search}
    tests = {one.score: one.diagnosis for one in report.curves if one.kind == "reliability" and one.diagnosis}
    names = [score.name for score in report.scores if score.name in tests.keys() | searches.keys()]
    whole = [_short(tests[name].detectable if name in tests else None) for name in names]
    columns = [("", names), ("all rows", whole)]
    if searches:
        share = next(iter(searches.values()))["share"]
        parts = [_short(searches[name]["detectable"] if name in searches else None) for name in names]
        columns.append((f"{100 * share:g} % of the rows", parts))
    rows = report.data.rows - report.data.rows_bad
    return Table.of_columns(columns)._replace(title=f"{rows:,} rows") if names else None


def _short(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2g}"


def _percent(value: float) -> str:
    return f"{value:.2g}" if value < 100.0 else f"{value:,.0f}"


def _of_both(binding: JsonObject, rate: float) -> dict[str, float]:
    """The shares of the positive class and of the other one."""
    positive = binding["positive"]
    other = next((each for each in binding["classes"] if each != positive), "of the other class")
    return {spelled(positive): rate, spelled(other): 1.0 - rate}


def gates(report: Report) -> Iterator[Gate]:
    for gate in (cast("JsonObject", gate) for gate in report.gates):
        failures = []
        for failure in gate["failed"]:
            group = f", {failure['group']}" if failure["group"] is not None else ""
            value = NOTHING if failure["value"] is None else f"{failure['value']:.6g}"
            failures.append((f"{failure['metric']} of {failure['score']}{group} is {value}", failure["limit"]))
        yield Gate(gate["passed"], f"{gate['expr']} is {'false' if gate['passed'] else 'true'}", failures)
