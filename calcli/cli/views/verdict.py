"""The answer in a sentence: is it better than no calibration?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calcli.cli.views.findings import Change, Findings, Numbers

Kind = Literal["better", "worse", "unclear", "same", "unknown"]

WORDS = {"nll": "log-loss", "brier": "Brier score"}
"""The metrics that decide, the first that was measured: proper scores, that no miscalibrated prediction can win."""

AS_FLOOR = 1.1
"""Up to so many times its floor an MVCE is put down to chance: over 32 bins, the least that there are on 32 rows or
more, that is a mean error of 2.6 standard errors, which one calibrated score in a hundred has."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one score, and which of its words is the answer."""

    kind: Kind
    text: str
    answer: str = ""


def verdicts(found: Findings) -> list[Verdict]:
    """A sentence for each calibrated score; for the raw one where it is alone."""
    if not found.calibrated:
        return [_alone(found)] if found.scores else []
    return [verdict(found, score) for score in found.calibrated]


def verdict(found: Findings, score: Numbers) -> Verdict:
    """Whether a score is better than the raw one, by log-loss and by the interval of the difference."""
    for metric, words in WORDS.items():
        change = found.changes.get((score.name, metric))
        if change is not None and change.value is not None:
            return _judged(found, score, metric, words, change)
    return Verdict("unknown", f"Whether {score.name} is better cannot be said: add nll to --metrics.")


def _judged(found: Findings, score: Numbers, metric: str, words: str, change: Change) -> Verdict:
    before, after = found.raw.values[metric], score.values[metric]
    if before is None or after is None or change.value is None:
        return Verdict("unknown", f"Whether {score.name} is better cannot be said: its {words} is not defined.")
    digits = decimals([before, after])
    size = _size(before, change)
    values = f"from {before:.{digits}f} to {after:.{digits}f}"
    if change.value == 0 and not change.lo and not change.hi:
        answer = "changes nothing"
        return Verdict("same", f"{score.name} {answer}: the {words}{found.place} stays {before:.{digits}f}.", answer)
    sure = change.lo is not None and change.hi is not None and (change.hi < 0 or change.lo > 0)
    if sure and change.value < 0:
        answer = "lowers the " + words
        return Verdict("better", f"{score.name} {answer}{found.place} {values} ({size}).", answer)
    if sure:
        answer = "WORSE than no calibration"
        return Verdict("worse", f"{score.name} is {answer}: the {words}{found.place} rises {values} ({size}).", answer)
    answer = "NOT shown to be better"
    text = f"{score.name} is {answer} than no calibration: the {words}{found.place} goes {values} ({size})."
    return Verdict("unclear", text, answer)


def _alone(found: Findings) -> Verdict:
    """What can be said of a raw score: whether it is off on average."""
    mvce, floor = found.raw.values.get("mvce"), found.raw.floors.get("mvce")
    if mvce is None or not floor:
        return Verdict("unknown", "Only the raw score was measured; --with ARTIFACT measures one beside it.")
    times = f"{mvce / floor:.1f} times what a calibrated score would show on these rows"
    if mvce > AS_FLOOR * floor:
        answer = "off on average"
        return Verdict("unclear", f"The raw score is {answer}: its mvce is {times}.", answer)
    return Verdict("unknown", f"The raw score is right on average: its mvce is {times}. Errors that cancel do not show.")


def _size(before: float, change: Change) -> str:
    """``-7.7 %, 95 % interval -8.1 to -7.2 %``, relative to what it was."""
    if before <= 0 or change.value is None:
        return f"{change.value:+.4g}"
    value, *ends = [None if part is None else 100 * part / before for part in (change.value, change.lo, change.hi)]
    known = [part for part in (value, *ends) if part is not None]
    digits = 1 if max(map(abs, known)) >= 1 else 2
    text = f"{value:+.{digits}f} %"
    if ends[0] is None or ends[1] is None:
        return text
    return f"{text}, 95 % interval {ends[0]:+.{digits}f} to {ends[1]:+.{digits}f} %"


def decimals(values: list[float]) -> int:
    """So many decimals that the smallest number shows two digits; four at least, six at most."""
    least = min((abs(value) for value in values if abs(value) >= 1e-6), default=1.0)
    digits = 4
    while digits < 6 and least < 10 ** (1 - digits):
        digits += 1
    return digits
