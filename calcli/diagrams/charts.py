"""Charts: several lines over one x axis.

One kind shows how the error rate falls as rows are rejected. The others are of decisions by a threshold on labelled
rows: their cost, their benefit, their rates, and the errors left. Rows with at least that probability get yes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import numpy as np

from calcli.batch import FloatArray
from calcli.diagrams.axis import Axis, rounded_up
from calcli.diagrams.captions import REACHED, caption
from calcli.diagrams.curves import Bands, Curve, Point, axes, axis_end, axis_of, band_text, scale_text
from calcli.state import Json


@dataclass(frozen=True, slots=True)
class Track:
    """One line of a chart."""

    name: str
    points: tuple[Point, ...]
    """In the order of x; lo and hi are the ends of its band."""

    note: str = ""
    """The words that follow the name in the legend, with their own punctuation: ": 0.41 at 0.05"."""

    plain: bool = False
    """Whether it is there for comparison, and has no colour of its own."""

    @property
    def banded(self) -> bool:
        return bool(self.points) and self.points[0].lo is not None


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines to be compared."""

    tracks: tuple[Track, ...]
    x_name: str
    y_name: str
    x: Axis
    y: Axis
    """`x`, `y`: the axes. Values beyond the ends of `y` are drawn there."""

    title: str = ""
    drawn: Literal["rejection", "chart"] = "chart"
    """The wording of the pointer's text in a page."""

    marks: tuple[tuple[float, str], ...] = ()
    """Named places on the x axis."""

    band: str = ""
    """The meaning of the bands, in words."""

    square: bool = False
    """Whether both axes are the same, and each line has its name at its end."""

    first: int = 0
    """The place of the first track's colour: a score has one colour in all charts."""

    @property
    def colors(self) -> list[int | None]:
        """The place of each track's colour; None for plain ones."""
        count = iter(range(self.first, self.first + len(self.tracks)))
        return [None if track.plain else next(count) for track in self.tracks]

    @property
    def named(self) -> list[tuple[Track, int | None]]:
        """The lines that can have their names at their ends, each with the place of its colour."""
        pairs = zip(self.tracks, self.colors, strict=True)
        return [(track, place) for track, place in pairs if track.points and not track.plain]

    def within(self) -> Chart:
        """The chart without the ends of lines that lie outside of the plot."""
        return replace(self, tracks=tuple(replace(track, points=self._within(track.points)) for track in self.tracks))

    def _within(self, points: Sequence[Point]) -> tuple[Point, ...]:
        inside = [place for place, point in enumerate(points) if self.y.begin <= point.y <= self.y.end]
        if not inside:
            return tuple(points) if self.square else ()  # a line that has its name at its end has an end
        return tuple(points[inside[0] : inside[-1] + 1])


def curve_charts(curves: Sequence[Curve], label: str, bands: Bands) -> list[Chart]:
    """The charts of curves that have no panels."""
    if curves[0].kind == "rejection":  # the error rates of all scores in one chart
        tracks = tuple(Track(curve.score, curve.points, caption(curve).because) for curve in curves)
        band, end = "" if bands == "none" else band_text(bands), Axis(axis_end(curves))
        return [Chart(tracks, *axes(curves[0], label), Axis(1.0), end, drawn="rejection", band=band)]
    found: list[Chart] = []
    by_threshold = curves[0].by_threshold
    for (of, rows), group in groupby(curves, key=lambda curve: (curve.of, curve.group if by_threshold else "")):
        members = list(group)
        alone = [curve for curve in members if curve.versus is None]
        name = f" of {label} = {of}" if of is not None and len({curve.of for curve in curves}) > 1 else ""
        name += f", {rows}" if rows else ""
        if not by_threshold:
            found.append(_overlay(members, label))
            continue
        found.append(_by_threshold(alone, f"{THRESHOLD_TITLES[curves[0].kind]}{name}"))
        if apart := [curve for curve in members if curve.versus is not None]:
            found.append(_differences(apart, f"{found[-1].title}, less that of {apart[0].versus}", bands, found[-1]))
    return found


MOST_OVERLAID = 6
"""The most scores that can be told apart on one axis."""


def _overlay(curves: Sequence[Curve], label: str) -> Chart:
    """Several scores on one axis, beside the diagonal of a calibrated score."""
    axis = axis_of(curves)
    tracks = [
        Track(curve.score, tuple(Point(one.x, one.y, one.n) for one in curve.points), f": {caption(curve).text[:-1]}")
        for curve in curves
    ]
    ends = tuple(Point(at, at, 0.0) for at in (axis.begin, axis.end))
    said = scale_text(curves)
    return Chart(
        (*tracks, Track("calibrated", ends, plain=True)), *axes(curves[0], label), axis, axis, said, square=True
    )


THRESHOLD_TITLES = {"benefit": "Net benefit", "murphy": "Cost of mistakes"}


def _by_threshold(curves: Sequence[Curve], title: str) -> Chart:
    """Decisions by each score, and those without a score."""
    thresholds = [point.x for point in curves[0].points]
    x = Axis(1.0)
    if thresholds and thresholds[0] > 1e-4:
        x = Axis(thresholds[-1], thresholds[0])
    elif thresholds:
        reached = [one.x for curve in curves for one in curve.points if one.n >= REACHED * curve.total > 0.0]
        x = Axis(min(rounded_up(max(reached, default=1.0)), 1.0))
    scale = curves[0].scale
    if thresholds and scale is not None and scale != "prob":
        x = Axis(min(x.end, thresholds[-1]), thresholds[0], scale)
    tracks = tuple(
        Track(curve.score, _inside(curve, x), "" if curve.plain else _noted(curve), plain=curve.plain)
        for curve in sorted(curves, key=lambda curve: curve.plain)
    )
    top = rounded_up(max([1e-6, *(point.y for track in tracks for point in track.points)]))
    low = min([0.0, *(point.y for track in tracks if not track.plain for point in track.points)])
    y, costs = Axis(top, -top / 5.0 if low < 0.0 else 0.0), curves[0].costs
    marks = () if costs is None else ((costs.threshold, f"where a false positive costs {costs.fp:g}"),)
    return Chart(tracks, *axes(curves[0], ""), x, y, title, marks=marks)


def _differences(curves: Sequence[Curve], title: str, bands: Bands, above: Chart) -> Chart:
    """How much more decisions by each score are worth, or cost, than those by the first; `above` has all of them."""
    x = above.x
    tracks = tuple(Track(curve.score, _inside(curve, x), _noted(curve)) for curve in curves)
    points = [point for track in tracks for point in track.points]
    ends = [0.0, *(end for one in points for end in (one.y, one.lo, one.hi) if end is not None)]
    y = Axis(rounded_up(max(*ends, 1e-6)), -rounded_up(max(*(-end for end in ends), 1e-6)))
    none = Track("no difference", tuple(Point(at, 0.0, 0.0) for at in (x.begin, x.end)), plain=True)
    band = "" if bands == "none" else "95 % interval of the difference"
    x_name, y_name = axes(curves[0], "")
    y_name = y_name if curves[0].costs is not None else f"difference in {y_name}"
    return Chart((*tracks, none), x_name, y_name, x, y, title, marks=above.marks, band=band, first=1)


def _inside(curve: Curve, x: Axis) -> tuple[Point, ...]:
    return tuple(point for point in curve.points if x.begin <= point.x <= x.end)


def _noted(curve: Curve) -> str:
    said = caption(curve)
    return f": {said.answer if curve.kind == 'murphy' else said.answer.lower()}{said.because}"


STEPS = 200
"""The number of thresholds from 0 to the end of the axis."""

SEEN = 0.999
"""The axis ends where this share of the rows has smaller probabilities, so that rare classes fill the plot."""

ROOM = 1.3
"""The end of the axis of costs, as a multiple of the cost of all yes or all no, whichever is less."""

THRESHOLD = "threshold"


@dataclass(frozen=True, slots=True)
class AtThresholds:
    """A score at the thresholds of `thresholds_of`."""

    name: str
    thresholds: FloatArray
    tp: FloatArray
    fp: FloatArray
    fn: FloatArray
    tn: FloatArray
    """`tp`, `fp`, `fn`, `tn`: the weight of the rows by decision and truth."""

    cost: FloatArray | None = None
    """Per row, of the decisions; None where nothing has a price."""

    @property
    def rows(self) -> float:
        return float(self.tp[0] + self.fp[0] + self.fn[0] + self.tn[0])

    @property
    def rate(self) -> float:
        """The share of positives."""
        return float(self.tp[0] + self.fn[0]) / self.rows

    @property
    def benefit(self) -> FloatArray:
        """Net benefit (Vickers and Elkin 2006): true positives, less false ones at the odds of the threshold, a row.

        NaN at 1, where a false positive outweighs all true ones.
        """
        return self.tp / self.rows - self.fp / self.rows * _share(self.thresholds, 1.0 - self.thresholds)

    def to_json(self) -> dict[str, Json]:
        arrays = {name: getattr(self, name) for name in ("thresholds", "tp", "fp", "fn", "tn", "cost")}
        return {"score": self.name} | {name: None if one is None else one.tolist() for name, one in arrays.items()}

    def place(self, threshold: float) -> int:
        """The place of the nearest threshold."""
        return int(np.abs(self.thresholds - threshold).argmin())


def thresholds_of(probs: Iterable[FloatArray], chosen: Iterable[float]) -> FloatArray:
    """The thresholds at which decisions by these probabilities are shown.

    In even steps from 0 to the end of the axis, at the thresholds that were chosen, and at one that nothing reaches.
    """
    marks = [threshold for threshold in chosen if threshold <= 1.0]
    end = rounded_up(max([*(float(np.quantile(prob, SEEN)) for prob in probs), *marks]))
    return np.append(np.union1d(np.linspace(0.0, min(end, 1.0), STEPS + 1), marks), np.nextafter(1.0, 2.0))


def decision_charts(
    scores: Sequence[AtThresholds],
    chosen: Mapping[str, float],
    risks: Sequence[tuple[float, float, float]] = (),
    *,
    confidence: float = 0.95,
) -> tuple[Chart, ...]:
    """The charts of a policy: of the score that decides and of others beside it, all at the same thresholds.

    `chosen` are thresholds by name, that of the policy first; those above 1 are not drawn. `risks` are the share of
    rows that are decided, the error rate among them and its upper bound, which holds with the `confidence`.
    """
    marks = {name: threshold for name, threshold in chosen.items() if threshold <= 1.0}
    parts = [_costs(scores, marks), _benefits(scores, marks), _rates(scores[0], marks), _risks(risks, confidence)]
    return tuple(part for part in parts if part is not None)


def _costs(scores: Sequence[AtThresholds], marks: Mapping[str, float]) -> Chart | None:
    priced = {score.name: (score, score.cost) for score in scores if score.cost is not None}
    if not priced:
        return None
    tracks = [_track(name, score, cost, marks) for name, (score, cost) in priced.items()]
    first, cost = next(iter(priced.values()))
    tracks += [_plain(name, first, np.full(len(cost), cost[end])) for name, end in (("all yes", 0), ("all no", -1))]
    top = rounded_up(min(ROOM * float(min(cost[0], cost[-1])), float(cost.max())))
    return _chart("Expected cost", "cost per row", tracks, first, top, marks)


def _benefits(scores: Sequence[AtThresholds], marks: Mapping[str, float]) -> Chart:
    first = scores[0]
    everyone = first.rate - (1.0 - first.rate) * _share(first.thresholds, 1.0 - first.thresholds)
    tracks = [_track(score.name, score, score.benefit, marks) for score in scores]
    tracks += [_plain("all yes", first, everyone), _plain("all no", first, np.zeros(len(everyone)))]
    return _chart("Net benefit", "net benefit per row", tracks, first, rounded_up(first.rate), marks)


def _rates(score: AtThresholds, marks: Mapping[str, float]) -> Chart:
    yes = score.tp + score.fp
    rates = {
        "precision": _share(score.tp, yes),
        "recall": _share(score.tp, score.tp + score.fn),
        "alerts": yes / score.rows,
    }
    tracks = [_track(name, score, rate, marks) for name, rate in rates.items()]
    return _chart(f"Precision, recall and alerts: {score.name}", "share", tracks, score, 1.0, marks)


def _risks(risks: Sequence[tuple[float, float, float]], confidence: float) -> Chart | None:
    if not risks:
        return None
    shares, errors, bounds = np.array(sorted(risks)).T
    note = f": the most that all may be at once, with {confidence:g}"
    tracks = (Track("error rate", _points(shares, errors)), Track("bound", _points(shares, bounds), note, plain=True))
    names = ("share of the rows that are decided", "error rate among them")
    return Chart(tracks, *names, Axis(1.0), Axis(min(rounded_up(float(bounds.max())), 1.0)), "Risk and coverage")


def _chart(
    title: str, y_name: str, tracks: Sequence[Track], score: AtThresholds, top: float, marks: Mapping[str, float]
) -> Chart:
    named = tuple((threshold, name) for name, threshold in marks.items())
    x, y = Axis(float(score.thresholds[-2])), Axis(top)
    return Chart(tuple(tracks), THRESHOLD, y_name, x, y, title, marks=named)


def _track(name: str, score: AtThresholds, values: FloatArray, marks: Mapping[str, float]) -> Track:
    """A line, with its value at the threshold of the policy for the legend."""
    note = ""
    if marks:
        threshold = next(iter(marks.values()))
        value = float(values[score.place(threshold)])
        note = "" if math.isnan(value) else f": {value:.4g} at {threshold:.3g}"
    return Track(name, _points(score.thresholds[:-1], values[:-1]), note)


def _plain(name: str, score: AtThresholds, values: FloatArray) -> Track:
    note = f": {values[0]:.4g}" if (values == values[0]).all() else ""
    return Track(name, _points(score.thresholds[:-1], values[:-1]), note, plain=True)


def _points(x: FloatArray, y: FloatArray) -> tuple[Point, ...]:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return tuple(Point(at, value, 0.0) for at, value in pairs if not math.isnan(value))


def _share(part: FloatArray, of: FloatArray) -> FloatArray:
    """NaN where there is nothing to share."""
    share: FloatArray = np.divide(part, of, out=np.full(len(part), math.nan), where=of > 0.0)
    return share


def numbers(score: AtThresholds) -> dict[str, Json]:
    """The counts and the cost at each threshold, for the slider of a page."""
    counts = {name: getattr(score, name) for name in ("tp", "fp", "fn", "tn")}
    columns = {"threshold": score.thresholds} | counts | ({} if score.cost is None else {"cost": score.cost})
    return {name: [float(f"{value:.10g}") for value in column] for name, column in columns.items()}
