"""Captions of curves: what is found, and the numbers that show it, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from calcli.diagrams.curves import Curve, amount, percent

if TYPE_CHECKING:
    from calcli.metrics.diagnosis import Diagnosis

Finding: TypeAlias = Literal["chance", "high", "low", "over", "under", "mixed", "rejects", "useful", "nothing"]

FINDINGS: Mapping[str, tuple[Finding, str]] = {
    "high": ("high", "Too high"),
    "low": ("low", "Too low"),
    "over": ("over", "Over-confident"),
    "under": ("under", "Under-confident"),
    "shape": ("mixed", "Too high and too low"),
}
"""The finding and its words for each fault of a score."""

CONFIDENCES = {"high": FINDINGS["over"], "low": FINDINGS["under"]}
"""The finding and its words for each fault of the confidence in the predicted class."""


class Caption(NamedTuple):
    """The caption of a picture."""

    finding: Finding
    answer: str
    """The first words, to be shown in colour: "Over-confident"."""

    because: str
    """The numbers that show it, to follow at once: ": predicted 0.90, observed 0.81"."""

    @property
    def text(self) -> str:
        """One sentence."""
        return f"{self.answer}{self.because}."

    @property
    def good(self) -> bool:
        return self.finding in {"chance", "rejects", "useful"}


def caption(curve: Curve) -> Caption:
    if not curve.points:
        return Caption("nothing", "No data", ": there are no rows")
    if curve.kind == "rejection":
        return _rejecting(curve)
    if curve.by_threshold:
        return _deciding(curve)
    test = curve.diagnosis
    if test is None:
        return Caption("nothing", "Not tested", ": the score was fitted on these rows")
    if test.chance:
        return Caption("chance", "No miscalibration detected", f": {told(test)}, {amount(curve.total)} rows")
    fault = test.faults[0]
    # The confidence in the predicted class has one direction only.
    finding, answer = FINDINGS[fault] if curve.of is not None else CONFIDENCES.get(fault, FINDINGS["shape"])
    # Of each side the point that stands out most from chance.
    sides = {"high": (-1,), "low": (1,)}.get(fault, (-1, 1))
    outside = [[one for one in curve.points if one.off and side * (one.y - one.x) > 0] for side in sides]
    worst = [max(of_side, key=lambda one: math.sqrt(one.n) * abs(one.y - one.x)) for of_side in outside if of_side]
    pairs, (x_name, y_name) = [pair(one.x, one.y) for one in worst], names(curve.of)
    numbers = "; ".join(f"{x_name} {predicted}, {y_name} {observed}" for predicted, observed in pairs)
    return Caption(finding, answer, f": {numbers or means(test, curve.of)} ({p_text(test.p)})")


def names(of: str | None) -> tuple[str, str]:
    """The names of a prediction and of the rate to compare it with, for a class or for the predicted one."""
    return ("confidence", "accuracy") if of is None else ("predicted", "observed")


def means(test: Diagnosis, of: str | None) -> str:
    """The mean prediction and the observed rate of all rows."""
    predicted, observed = pair(test.predicted, test.happened)
    what = ("mean confidence", "accuracy") if of is None else ("mean prediction", "observed rate")
    return f"{what[0]} {predicted}, {what[1]} {observed}"


def told(test: Diagnosis) -> str:
    """The result of the joint test that finds nothing: what was tested, and at which level."""
    return f"joint calibration test at the {percent(test.level)} level, {p_text(test.p)}"


def p_text(p: float) -> str:
    """``p = 0.032``; what is near the least that draws can tell is ``p < 0.005``."""
    return "p < 0.005" if p < 0.005 else f"p = {p:.2g}"


def _rejecting(curve: Curve) -> Caption:
    """The decrease of the error when the least certain fifth of the rows is rejected."""
    before = curve.points[0]
    after = min(curve.points, key=lambda point: abs(point.x - 0.2))
    change = f"the {curve.loss} is {percent(after.y)} instead of {percent(before.y)}"
    text = f": without the least certain {percent(after.x)} {change}"
    if after.y >= before.y:
        return Caption("mixed", "Rejecting does not help", text)
    return Caption("rejects", "Rejecting helps", text)


def _deciding(curve: Curve) -> Caption:
    """Where decisions by a score are worth more than those without it, or than those by another score."""
    if curve.versus is not None:
        return _against(curve, curve.versus)
    if curve.plain:
        return Caption("nothing", "Without a score", "")
    if curve.kind == "murphy" and curve.error == 0.0:
        return Caption("nothing", "Lower is better", "")
    if curve.kind == "murphy":
        return Caption("nothing", f"Brier score {curve.error:.4f}", ", twice the area below the curve")
    rate, unit, money = curve.rate, 1.0 if curve.costs is None else float(curve.costs.fn), _money(curve)
    worth = [one.y > unit * (max(0.0, rate - (1.0 - rate) * one.x / (1.0 - one.x)) + 1e-12) for one in curve.points]
    if not (found := _stretch(curve, worth)):
        text = ": no threshold at which it is worth more than acting on all or none"
        return Caption("mixed", "Not useful", f"{text}{money}")
    return Caption("useful", "Useful", f": worth more than acting on all or none at thresholds {found}{money}")


def _against(curve: Curve, versus: str) -> Caption:
    """Where decisions by a score are better and worse than those by another one, beyond chance."""
    side, money = 1.0 if curve.kind == "benefit" else -1.0, _money(curve)
    better, worse = (_stretch(curve, [one.off and way * one.y > 0 for one in curve.points]) for way in (side, -side))
    if better and worse:
        text = f" than {versus} at thresholds {better}, and worse at thresholds {worse}, both beyond chance{money}"
        return Caption("mixed", "Better", text)
    if better or worse:
        text = f" than {versus}, beyond chance, at thresholds {better or worse}{money}"
        return Caption("useful" if better else "mixed", "Better" if better else "Worse", text)
    return Caption("nothing", "No difference", f" from {versus} beyond chance{money}")


def _money(curve: Curve) -> str:
    """The sum that decisions by a score save at the threshold of the costs, if there are costs."""
    if curve.costs is None or curve.plain:
        return ""
    at = curve.costs.threshold
    point = min(curve.points, key=lambda one: abs(one.x - at))
    if curve.versus is None:
        return f"; at {at:.2g} it {'saves' if point.y >= 0.0 else 'loses'} {abs(point.y):.3g} per row"
    ends = "" if point.lo is None or point.hi is None else f" ({point.lo:.3g} to {point.hi:.3g})"
    return f"; the difference at {at:.2g} is {point.y:.3g} per row{ends}"


REACHED = 0.001
"""Nothing is said of a threshold that fewer than this share of the rows reach, or fail to reach."""


def _stretch(curve: Curve, chosen: Sequence[bool]) -> str:
    """The longest run of thresholds that are chosen, in words; empty without any."""
    least = REACHED * curve.total
    held = [
        yes and (curve.versus is not None or least <= one.n <= curve.total - least)
        for yes, one in zip(chosen, curve.points, strict=True)
    ]
    runs = [list(run) for yes, run in groupby(range(len(held)), key=held.__getitem__) if yes]
    if not runs:
        return ""
    longest = max(runs, key=lambda run: curve.points[run[-1]].x - curve.points[run[0]].x)
    low, high = (f"{curve.points[end].x:.2g}" for end in (longest[0], longest[-1]))
    return f"from {low} to {high}" if low != high else f"of {low}"


def pair(predicted: float, came: float) -> tuple[str, str]:
    """Both numbers as text, with as many decimals as it takes to tell them apart."""
    gap = abs(came - predicted)
    digits = 2
    while digits < 5 and gap < 2 * 10.0**-digits:
        digits += 1
    return f"{predicted:.{digits}f}", f"{came:.{digits}f}"
