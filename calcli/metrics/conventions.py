"""How libraries differ in the bins of the expected calibration error.

They agree on generic probabilities, but not on values on an edge, at 0 and at 1: fifteen rows with such values have
four different errors. A convention decides these; the number of bins stays as requested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Scored
from calcli.metrics.tied import TiedScores
from calcli.numeric import bins


@dataclass(frozen=True, slots=True)
class Convention:
    """The bin of a value on an edge."""

    text: str
    """The words of the definition about it."""

    side: Literal["lower", "upper", "truncated"] = "lower"
    """``lower``: a value on an inner edge belongs to the bin below it; ``upper``: above it; ``truncated``: to int(p /
    width), in floating point, which for 0.3 in ten bins is the bin above and for 0.7 the one below.
    """

    least: Literal["kept", "unbinned", "dropped", "own"] = "kept"
    """Values on the first edge are ``kept`` in the first bin, ``unbinned`` (no gap, but they count among the rows),
    ``dropped``, or have a bin of their ``own``.
    """

    last_own: bool = False
    """Whether a value on the last edge has a bin of its own."""

    fewer: int = 0
    """By how much the number of bins is below the one given."""

    between: bool = False
    """Whether edges of equal mass lie halfway between two rows, and not at quantiles."""

    top: bool = False
    """Whether two classes are judged by the predicted one."""

    def count(self, given: int) -> int:
        """The number of bins."""
        return max(1, given - self.fewer)

    def problem(self, scored: Scored) -> Scored:
        """The binary problem that is binned: the positive class, or the predicted one."""
        return scored.confidence if self.top else scored.top

    def mass_edges(self, ties: TiedScores, count: int) -> FloatArray:
        """The edges of bins of equal mass; `ties` must all hold rows."""
        if not self.between:
            return ties.quantiles(count)
        return np.concatenate([[0.0], ties.halfway_cuts(count), [1.0]])

    def locate(self, prob: FloatArray, edges: FloatArray) -> IntArray:
        """The bin of each value: 0 if it has none, else from 1 to one more than there are between the edges."""
        count = len(edges) - 1
        if self.side == "lower":
            place = bins.assign(prob, edges)
        elif self.side == "upper":
            place = np.searchsorted(edges[1:-1], prob, side="right").astype(np.int64)
        else:
            place = (prob / (1.0 / count)).astype(np.int64)
        if self.least != "kept":
            place[prob <= edges[0]] = count if self.least == "own" else -1
        if self.last_own:
            place[prob >= edges[-1]] = count
        place += 1
        return place

    def runs(self, prob: FloatArray, edges: FloatArray) -> tuple[IntArray, IntArray]:
        """The runs of rising values that share a bin: where each starts, and which bin that is."""
        n, count = len(prob), len(edges) - 1
        if self.side == "truncated":
            place = self.locate(prob, edges)
            starts = np.flatnonzero(np.diff(place, prepend=-1))
            return starts, place[starts]
        low = 0 if self.least == "kept" else int(np.searchsorted(prob, edges[0], side="right"))
        high = int(np.searchsorted(prob, edges[-1], side="left")) if self.last_own else n
        inner = np.searchsorted(prob, edges[1:-1], side="right" if self.side == "lower" else "left")
        starts = np.concatenate([[0], np.clip([low, *inner], low, max(low, high)), [high], [n]])
        into = np.array([count + 1 if self.least == "own" else 0, *range(1, count + 1), count + 1])
        some = np.diff(starts) > 0
        return starts[:-1][some], into[some]


_LOWER = "right-closed, 0 in the first bin"
_UPPER = "left-closed, 1 in the last bin"

_ALL = {
    "sklearn": Convention(_LOWER),
    "kumar": Convention(_LOWER + " (kumar; equal mass is cut halfway between rows)", between=True),
    "guo": Convention("right-closed, 0 in no bin (guo)", least="unbinned", top=True),
    "pycalib": Convention(_LOWER + " (pycalib)"),
    "netcal": Convention(_UPPER + " (netcal)", side="upper"),
    "torchmetrics": Convention("left-closed, 1 in a bin of its own (torchmetrics)", side="upper", last_own=True),
    "mcgrad": Convention(_UPPER + " (mcgrad)", side="upper"),
    "probcal": Convention(_UPPER + " (probcal)", side="upper"),
    "relplot": Convention("int(p / width), 1 in a bin of its own (relplot)", side="truncated"),
    "mapie": Convention("right-closed, 0 in a bin of its own, one bin fewer (mapie)", least="own", fewer=1),
    "calzone": Convention("right-closed, rows at the first edge are left out (calzone)", least="dropped"),
    "google": Convention(
        "left-closed, 1 in a bin of its own (uncertainty-metrics)", side="upper", last_own=True, top=True
    ),
}


def convention(name: str) -> Convention:
    """The convention of that name; `Options` has checked that there is one."""
    return _ALL[name]
