"""The verdict on a score in words: whether it is better than no calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from calcli.diagrams.captions import means, p_text, told
from calcli.reporting.findings import Findings, Numbers
from calcli.reporting.typesetting import decimals, glued, interval, signed

if TYPE_CHECKING:
    from calcli.metrics.diagnosis import Diagnosis
    from calcli.reports.schema import Difference

Kind = Literal["better", "worse", "unclear", "same", "unknown"]

DECISIVE = {"nll": "log-loss", "brier": "Brier score"}
"""The metrics that decide, the first that was measured: proper scores, which reward nothing but the truth."""

WRONG = {
    "high": "too high on average",
    "low": "too low on average",
    "over": "over-confident",
    "under": "under-confident",
    "shape": "non-linearly miscalibrated",
}
"""By the fault."""

WRONG_OF_THE_PREDICTED = {
    "high": "over-confident",
    "low": "under-confident",
    "over": "too extreme",
    "under": "too moderate",
}
"""The same of the confidence in the predicted class."""


UNSEEN = 1e-5
"""Up to this share of the loss a difference is nothing: rounding, as where probabilities become log-odds and back."""


class Verdict(NamedTuple):
    """The verdict on one score.

    Attributes
    ----------
    text
        A sentence.
    answer
        Those of its words that are the answer.
    size
        How much the score differs from the raw one.
    """

    kind: Kind
    text: str
    answer: str = ""
    size: str = ""


def verdict(findings: Findings, score: Numbers) -> Verdict:
    """Whether a score is better than the raw one: by log-loss, and by the interval of the difference."""
    for metric, words in DECISIVE.items():
        difference = findings.differences.get((score.name, metric))
        before, after = findings.raw.values.get(metric), score.values.get(metric)
        if difference is not None and difference.value is not None and before is not None and after is not None:
            return _judged(score.name, (words, findings.place), (before, after), difference)
    if any(metric in findings.metrics for metric in DECISIVE):
        return Verdict("unknown", f"{score.name} cannot be compared with no calibration: its log-loss is undefined.")
    return Verdict("unknown", f"{score.name} cannot be compared with no calibration: add nll to --metrics.")


def _judged(name: str, measure: tuple[str, str], values: tuple[float, float], difference: Difference) -> Verdict:
    words, place = measure
    digits = decimals(list(values))
    before, after = (f"{value:.{digits}f}" for value in values)
    size = _size(values[0], difference)
    moved = f"{place} from {before} to {after} ({size})"
    kind = _kind(values[0], difference)
    answer = {
        "better": f"lowers the {words}",
        "worse": "WORSE than no calibration",
        "same": "changes nothing",
    }.get(kind, "NOT shown to be better")
    text = {
        "better": f"{name} {glued(answer)}{moved}.",
        "worse": f"{name} is {glued(answer)}: it raises the {words}{moved}.",
        "same": f"{name} {glued(answer)}: the {words}{place} stays {before}.",
    }.get(kind, f"{name} is {glued(answer)} than no calibration: the {words} changes{moved}.")
    return Verdict(kind, text, answer, "" if kind == "same" else size)


def _kind(before: float, difference: Difference) -> Kind:
    value, lo, hi = difference.value or 0.0, difference.lo, difference.hi
    if all(abs(part or 0.0) <= UNSEEN * before for part in (value, lo, hi)):
        return "same"
    if lo is None or hi is None or lo <= 0 <= hi:
        return "unclear"
    return "better" if hi < 0 else "worse"


def alone(findings: Findings) -> Verdict:
    """The verdict on a raw score without any other: whether it is calibrated, and what is wrong if it is not."""
    curve = findings.curve
    test = None if curve is None else curve.diagnosis
    if curve is not None and curve.points and test is None:
        return Verdict("unknown", "Not tested: a score always looks calibrated on the rows that it was fitted on.")
    if curve is None or test is None:
        return Verdict("unknown", "Only the raw score was measured; add --with ARTIFACT to compare a calibrator.")
    groups = _listed([f"{off} of {count} groups of {by}" for by, (off, count) in findings.groups.items() if off])
    if not test.chance:
        words = WRONG if curve.of is not None else WRONG | WRONG_OF_THE_PREDICTED
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
    """The number that shows what is wrong most."""
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
    """A sentence over several verdicts."""
    metric = next((name for name in DECISIVE if name in findings.metrics), None)
    if metric is None:
        return "The best score cannot be determined: add nll to --metrics."
    words = DECISIVE[metric]
    values = [score.values.get(metric) for score in findings.calibrated]
    better = [
        (value, score.name)
        for value, score, each in zip(values, findings.calibrated, judged, strict=True)
        if each.kind == "better" and value is not None
    ]
    before = findings.raw.values.get(metric)
    if not better or before is None:
        return f"None is shown to be better than no calibration, by {words}."
    value, name = min(better)
    digits = decimals([before, value])
    lowest = f"{name} has the lowest {words}{findings.place}, {value:.{digits}f}"
    return f"{lowest}; the raw score has {before:.{digits}f}. Against raw:"


def _size(before: float, difference: Difference) -> str:
    """``-7.7 %, 95 % interval -8.1 to -7.2 %``, relative to what it was; no line ends within a part.

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
