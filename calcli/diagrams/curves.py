"""The curves of pictures and of the report's ``curves``: points, and summaries of them.

All pictures are of a binary problem: the positive class of two, the class that is predicted, or one class against the
rest. A point says what was predicted on average, and what came true. The texts of pictures are made here too: axes,
legends, numbers, and a caption in one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from calcli.diagrams.axis import LEAST, Axis, Scale
from calcli.state import Json

if TYPE_CHECKING:  # a caption needs the numbers of a curve, not what measures them
    from calcli.decisions.costs import Costs
    from calcli.metrics.diagnosis import Diagnosis

Kind: TypeAlias = Literal["reliability", "corp", "smooth", "rejection", "benefit", "murphy"]
PAGE_KINDS: tuple[Kind, ...] = ("reliability", "corp", "smooth", "rejection", "benefit")
"""The kinds of curves that a page shows, in the order of its switches."""

Binning: TypeAlias = Literal["width", "mass"]
Bands: TypeAlias = Literal["consistency", "bootstrap", "none"]


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a curve."""

    x: float
    y: float
    """`x`, `y`: reliability: the mean prediction, and the share that came true. Rejection: the share of rows that are
    rejected, and the error rate of the rows that are kept. Benefit, murphy: the threshold, and what decisions by it are
    worth or cost, a row.
    """

    n: float
    """How many rows it stands for, or how much weight. Benefit, murphy: the rows that get yes, or, of a difference,
    those that two scores decide otherwise.
    """

    lo: float | None = None
    hi: float | None = None
    """`lo`, `hi`: the band: 95 % of what y would be for a calibrated score (consistency), or on as many rows drawn anew
    (bootstrap); None where none was asked for.
    """

    off: bool = False
    """Whether it is beyond chance: y is outside the consistency band, whichever band is shown, there are `FEWEST` rows
    or more, and all gaps together are beyond chance.
    """

    @property
    def side(self) -> Literal["over", "under"]:
        """Whether the score is over-confident here, in that less happens than is predicted, or under-confident."""
        return "over" if self.y < self.x else "under"


@dataclass(frozen=True, slots=True)
class Curve:
    """One score on one binary problem."""

    score: str
    """The name of the score."""

    of: str | None
    """The class whose probability it is; None for the class that is predicted."""

    kind: Kind
    points: tuple[Point, ...] = ()
    """In the order of x; bins without rows have none."""

    error: float = 0.0
    """The picture in one number: the mean gap between prediction and rate (reliability: the ECE of these bins; smooth:
    the smooth ECE), what isotonic recalibration takes off the Brier score (corp), the error rate before anything is
    rejected, or the Brier score (murphy).
    """

    total: float = 0.0
    """All rows, or their weight."""

    diagnosis: Diagnosis | None = None
    """Whether all gaps together are beyond chance, and what is wrong then; None without rows, and on rows of the fit.
    """

    edges: tuple[tuple[float, float], ...] = ()
    """Where the bin of each point begins and ends; empty for curves."""

    bins: int = 0
    """How many bins there are, those without rows among them; 0 for curves."""

    by: str | None = None
    """The number by which rows are rejected; None for the confidence in the predicted class."""

    loss: str = "error rate"
    """The name of the y axis of a rejection curve."""

    counts: tuple[tuple[float, float, float], ...] = ()
    """The cells of a curve without bins that hold rows: where each begins and ends, and how many rows it holds."""

    versus: str | None = None
    """The score, of the same group, from which this one differs by y; None for a curve by itself."""

    plain: bool = False
    """Whether it is no score, but there to compare scores with."""

    rate: float = 0.0
    """Benefit, murphy: the share of positive rows."""

    group: str = ""
    """The group of rows that it is of, which `score` names too; empty for all rows."""

    costs: Costs | None = None
    """Benefit: what mistakes cost, if `y` is in money."""

    overlaid: bool = False
    """Whether it is drawn over the curves of other scores."""

    scale: Scale | None = None
    """The scale of the axes that was asked for; None chooses it."""

    @property
    def masses(self) -> list[tuple[float, float]]:
        """Where rows are: probabilities that rise, and how many rows are at each or just below."""
        if self.counts:
            return [(end, n) for _, end, n in self.counts]
        return [(point.x, point.n) for point in self.points]

    @property
    def charted(self) -> bool:
        """Whether it is a line in a chart with others, and has no panel of its own."""
        return self.overlaid or self.kind == "rejection" or self.by_threshold

    @property
    def by_threshold(self) -> bool:
        """Whether it is over thresholds of decisions."""
        return self.kind in {"benefit", "murphy"}

    def in_money(self, costs: Costs) -> Curve:
        """Net benefit, which counts true positives, as what each of them saves: the cost of a false negative."""
        worth = float(costs.fn)
        ends = ([None if end is None else worth * end for end in (one.lo, one.hi)] for one in self.points)
        points = (replace(one, y=worth * one.y, lo=lo, hi=hi) for one, (lo, hi) in zip(self.points, ends, strict=True))
        return replace(self, points=tuple(points), costs=costs)

    @property
    def chance(self) -> bool:
        """Whether chance alone can make all gaps."""
        return self.diagnosis is None or self.diagnosis.chance

    def heights(self, axis: Axis) -> list[tuple[float, float, float]]:
        """Where each bar of the histogram begins and ends, and its height: rows over the part of the axis they take.

        Bars are the bins; where there are none, cells, put together until they are no narrower than `NARROWEST`.
        """
        if self.edges:
            cells = [(*edge, point.n) for edge, point in zip(self.edges, self.points, strict=True)]
            return [(begin, end, n / (axis.share(end) - axis.share(begin) or 1.0)) for begin, end, n in cells]
        bars: list[tuple[float, float, float]] = []
        for begin, end, n in self.counts:
            last = axis.share(bars[-1][1]) - axis.share(bars[-1][0]) if bars else 1.0
            if last < NARROWEST and axis.share(end) - axis.share(bars[-1][0]) < 2.0 * NARROWEST:
                bars[-1] = (bars[-1][0], end, bars[-1][2] + n)
            else:
                bars.append((begin, end, n))
        wide = ((begin, end, max(axis.share(end) - axis.share(begin), NARROWEST), n) for begin, end, n in bars)
        return [(begin, end, n / width) for begin, end, width, n in wide]

    def to_json(self) -> list[dict[str, Json]]:
        """The points, as the report has them."""
        named: dict[str, Json] = {"score": self.score, "class": self.of}
        if self.by is not None:
            named["by"] = self.by
        if self.versus is not None:
            named["versus"] = in_group(self.versus, self.group)
        return [named | {"x": one.x, "y": one.y, "n": one.n, "lo": one.lo, "hi": one.hi} for one in self.points]


def in_group(score: str, group: str) -> str:
    """The name of a score on the rows of a group; `group` is empty for all rows."""
    return f"{score}, {group}" if group else score


def runs(points: Sequence[Point]) -> Iterable[list[Point]]:
    """Neighbours on one side that are all beyond chance, or none of them; each run with the first point of the next."""
    parts = [list(run) for _, run in groupby(points, key=lambda point: (point.side, point.off))]
    for place, part in enumerate(parts):
        yield part + (parts[place + 1][:1] if place + 1 < len(parts) else [])


def by_kind(curves: Iterable[Curve]) -> Mapping[str, list[dict[str, Json]]]:
    """The ``curves`` of a report: all points, by kind of curve."""
    points: dict[str, list[dict[str, Json]]] = {"reliability": [], "rejection": []}
    for one in curves:
        key = "reliability" if one.kind == "smooth" else one.kind
        points.setdefault(key, []).extend(one.to_json())
    return points


NARROWEST = 1.0 / 50.0
"""The part of an axis that a bar of a histogram takes at least."""

SIDES = {"over": "predicted too high", "under": "predicted too low"}
"""The two directions in which a prediction can be wrong."""


def percent(share: float) -> str:
    """``12 %``, ``1.3 %``."""
    return f"{100 * share:.3g} %" if share < 0.1 else f"{100 * share:.0f} %"


def amount(rows: float) -> str:
    """``12,345``; weights are rounded."""
    return f"{rows:,.0f}" if rows >= 10 or rows == int(rows) else f"{rows:.3g}"


def short(rows: float) -> str:
    """``950``, ``4.1k``, ``12M``."""
    power = 0 if rows < 999.5 else min(3, int(math.log10(rows * 1.0005) / 3))
    rows /= 1000.0**power
    return (f"{rows:.2g}" if rows < 99.5 else f"{rows:.0f}") + ("", "k", "M", "G")[power]


def fullest(curve: Curve) -> str:
    """The number of rows of the highest bar in the histogram; empty where bars are not equally wide.

    Bars of equal weight are the higher, the narrower they are: they show density, and no number belongs to them.
    """
    spans = [end - begin for begin, end in curve.edges]
    if not spans or max(spans) - min(spans) > 0.01 * max(spans):
        return ""
    return short(max(point.n for point in curve.points))


def axes(curve: Curve, label: str) -> tuple[str, str]:
    """The labels of the x and the y axis."""
    if curve.kind == "rejection":
        return "share of rows rejected, least certain first", f"{curve.loss} of the rows kept"
    if curve.costs is not None:
        return "threshold", f"saved per row (a false negative costs {curve.costs.fn:g})"
    if curve.by_threshold:
        return "threshold", "net benefit per row" if curve.kind == "benefit" else "cost of mistakes per row"
    if curve.of is None:
        return "confidence in the predicted class", "accuracy"
    return f"predicted probability that {label} is {curve.of}", f"observed rate of {label} = {curve.of}"


def axis_end(curves: Sequence[Curve]) -> float:
    """The end of the axes, which begin at 0: a round number, so that rare classes fill the plot."""
    rejected = bool(curves) and curves[0].kind == "rejection"
    reach = [one.y if rejected else max(one.x, one.y) for curve in curves for one in curve.points]
    reach += [end for curve in curves for _, end in curve.edges]
    tops = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0, 1.5)
    return next((top for top in tops if max(reach, default=1.0) <= top), 2.0)


CROWDED = 0.9
"""The share of rows in a tenth of the axis from which on another scale is chosen."""

SCALES = {"log": "logarithmic axes", "logit": "axes of log-odds"}


def axis_of(curves: Sequence[Curve]) -> Axis:
    """Both axes of panels that are to be compared: from 0, or on the scale that is asked for or that rows call for."""
    scale, end = _scale(curves), axis_end(curves)
    if scale == "prob":
        return Axis(end)
    masses = sorted(mass for curve in curves for mass in curve.masses)
    begin = max(_decade(_quantile(masses, 0.01)), LEAST)
    if scale == "log":
        return Axis(max(min(end, 1.0), 2.0 * begin), begin, "log")
    above = [(1.0 - at, n) for at, n in reversed(masses)]
    return Axis(1.0 - max(min(_decade(_quantile(above, 0.01)), 0.4), LEAST), min(begin, 0.1), "logit")


def _scale(curves: Sequence[Curve]) -> Scale:
    """The scale that was asked for; logarithms where the lowest tenth of the axes holds nearly all rows, log-odds where
    the highest does. Bars of equal width have even axes.
    """
    if curves[0].scale is not None:
        return curves[0].scale
    spans = [end - begin for curve in curves for begin, end in curve.edges]
    masses = [mass for curve in curves for mass in curve.masses]
    total = sum(n for _, n in masses)
    if total == 0.0 or (spans and max(spans) - min(spans) <= 0.01 * max(spans)):
        return "prob"
    tenth = axis_end(curves) / 10.0
    if sum(n for at, n in masses if at <= tenth) >= CROWDED * total:
        return "log"
    return "logit" if sum(n for at, n in masses if at > 0.9) >= CROWDED * total else "prob"


def _quantile(masses: Sequence[tuple[float, float]], share: float) -> float:
    """The first place, of places in order, up to which more than this share of the rows are."""
    rest = share * sum(n for _, n in masses)
    for at, n in masses:
        rest -= n
        if rest < 0.0:
            return at
    return 1.0


def _decade(value: float) -> float:
    """The power of ten at or below a value."""
    return float(10.0 ** math.floor(math.log10(max(value, LEAST)) + 1e-9))


def scale_text(curves: Sequence[Curve]) -> str:
    """The scale of the axes, and the reason for it; empty for even axes."""
    scale = axis_of(curves).scale
    if scale == "prob":
        return ""
    masses = [mass for curve in curves for mass in curve.masses]
    total, cut = sum(n for _, n in masses), axis_end(curves) / 10.0 if scale == "log" else 0.9
    below = sum(n for at, n in masses if at <= cut)
    share, side = (below / total, "below") if scale == "log" else (1.0 - below / total, "above")
    return f"{SCALES[scale]}: {100.0 * share:.3g} % of the rows are {side} {cut:.3g}"


_ERRORS = {
    "reliability": "ECE",
    "corp": "Brier reliability",
    "smooth": "smooth ECE",
    "rejection": "error rate",
    "benefit": "net benefit",
    "murphy": "Brier score",
}


def error_text(curve: Curve) -> str:
    """The name of a curve's error, with the bins on which it depends, and its value."""
    value = f"{curve.error:.4f}" if curve.error >= 0.001 or curve.error == 0.0 else f"{curve.error:.2g}"
    bins = f", {curve.bins:,} bins:" if curve.bins else ""
    return f"{_ERRORS[curve.kind]}{bins} {value}"


def rate_text(curves: Sequence[Curve]) -> str:
    """The name of the y value of bars."""
    return "accuracy" if all(curve.of is None for curve in curves) else "observed rate"


def legend(curves: Sequence[Curve], bands: Bands) -> list[tuple[str, str]]:
    """The entries of a legend: mark and meaning."""
    points = [point for curve in curves for point in curve.points]
    entries = [("rate", rate_text(curves)), ("bar", "as predicted")]
    sides = {point.side for point in points if point.y != point.x}
    entries += [(side, text) for side, text in SIDES.items() if side in sides]
    if not all(point.off for point in points):
        entries.append(("chance", "not significant"))
    if bands != "none":
        entries.append(("band", band_text(bands)))
    if points and (text := scale_text(curves)):
        entries.append(("scale", text))
    return entries


def band_text(bands: Bands) -> str:
    """The meaning of the bands, in words."""
    if bands == "consistency":
        return "95 % range of a calibrated score"
    return "95 % interval"
