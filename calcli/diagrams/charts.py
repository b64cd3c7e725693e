"""Charts: several lines over one x axis, which begins at 0 as the y axis does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from calcli.diagrams.captions import axes, axis_end, band_text, caption
from calcli.diagrams.curves import Bands, Curve, Point


@dataclass(frozen=True, slots=True)
class Track:
    """One line of a chart.

    Attributes
    ----------
    points
        In the order of x; lo and hi are the ends of its band.
    note
        What follows the name in the legend, with its own punctuation: ": 0.41 at 0.05".
    plain
        Whether it is there for comparison, and has no colour of its own.
    """

    name: str
    points: tuple[Point, ...]
    note: str = ""
    plain: bool = False

    @property
    def banded(self) -> bool:
        return bool(self.points) and self.points[0].lo is not None


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines to be compared.

    Attributes
    ----------
    right, top
        Where the axes end. What lies above is drawn at the top, what lies below 0 at the bottom.
    drawn
        How the pointer's text in a page is worded.
    marks
        Places on the x axis that have a name.
    band
        What bands are, in words.
    """

    tracks: tuple[Track, ...]
    x_name: str
    y_name: str
    right: float
    top: float
    title: str = ""
    drawn: Literal["rejection", "chart"] = "chart"
    marks: tuple[tuple[float, str], ...] = ()
    band: str = ""

    @property
    def colors(self) -> list[int | None]:
        """The place of each track's colour; None for plain ones."""
        count = iter(range(len(self.tracks)))
        return [None if track.plain else next(count) for track in self.tracks]

    def within(self) -> Chart:
        """The same without the ends of lines that lie outside of the plot."""
        return replace(self, tracks=tuple(replace(track, points=self._within(track.points)) for track in self.tracks))

    def _within(self, points: Sequence[Point]) -> tuple[Point, ...]:
        inside = [place for place, point in enumerate(points) if 0.0 <= point.y <= self.top]
        return tuple(points[inside[0] : inside[-1] + 1]) if inside else ()


def rejections(curves: Sequence[Curve], label: str, bands: Bands) -> Chart:
    """The error rates of all scores in one chart."""
    tracks = tuple(Track(curve.score, curve.points, caption(curve).because) for curve in curves)
    band = "" if bands == "none" else band_text(bands)
    return Chart(tracks, *axes(curves[0], label), 1.0, axis_end(curves), drawn="rejection", band=band)
