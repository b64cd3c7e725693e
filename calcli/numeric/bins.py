"""Bins of probabilities: their edges, and the bin that a probability falls into; sums by group, and ranks of rows.

Bins are right-closed: bin j holds the values in (edges[j], edges[j + 1]]. The first bin also holds everything below,
the last one everything above, so that every value has a bin. This is the convention of scikit-learn's
``calibration_curve``, and of the code published with Guo et al. 2017 and Kumar et al. 2019.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, spans
from calcli.errors import UsageError
from calcli.numeric.links import log_odds, sigmoid


def totals(group: NDArray[np.integer], values: FloatArray | None, count: int = 0) -> FloatArray:
    """The sum of the values (of ones if None) in each group 0 .. `count` - 1, or up to the greatest that occurs."""
    return np.asarray(np.bincount(group, values, minlength=count), dtype=np.float64)


def run_starts(values: NDArray[Any]) -> IntArray:
    """The places where a value differs from the one before it, and the first place."""
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])[: len(values)])


def grid(bound: float) -> float:
    """A number that rounds terms by being added and subtracted again, so that their sums are exact.

    ``(x + grid) - grid`` is x rounded to a multiple of one power of two, so small that less than 2^-51 of `bound` is
    lost. Multiples of one power of two whose absolute values add up to less than 2^53 of it add without rounding in
    float64. So terms whose absolute values add up to no more than `bound` have the same sum bit for bit, forwards or
    backwards, in blocks, on threads or on machines.
    """
    if not 0.0 < bound < math.inf:
        raise ValueError(f"no grid for sums up to {bound}")
    _, exponent = math.frexp(bound)
    return 3.0 * 2.0**exponent  # with any term added it stays between 2 and 4 times the power: one step for all


def weight_below(values: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """For each row, the weight of the rows with a smaller value, and half the weight of those with the same, itself
    among them.

    Without weights it is the mid-rank less one half. A row of weight two counts as two rows of weight one.
    """
    _, place = np.unique(values, return_inverse=True)
    mass = totals(place, weight)
    middle: FloatArray = np.cumsum(mass) - mass / 2.0
    return middle[place]


def rising(prob: FloatArray) -> IntArray:
    """The stable order of probabilities, as ``np.argsort(prob, kind="stable")`` gives it, some four times faster.

    The bits of a non-negative float, read as an integer, rise with it. Their upper part and the row's number together
    fill one integer, and sorting plain integers is what numpy does fastest. Only rows whose upper bits agree are left
    to be sorted by the whole value, and those are nearly in order.
    """
    low = max(len(prob) - 1, 1).bit_length()
    keys = (prob + 0.0).view(np.int64)  # adding 0.0 copies, and makes -0.0 an ordinary zero
    keys >>= low
    keys <<= low
    for some in spans(len(keys)):
        keys[some] |= np.arange(some.start, some.stop)
    keys.sort()
    tied = np.zeros(len(keys), dtype=np.bool_)
    for some in spans(len(keys) - 1):
        same = keys[some] >> low == keys[some.start + 1 : some.stop + 1] >> low
        tied[some] |= same
        tied[some.start + 1 : some.stop + 1] |= same
    keys &= (1 << low) - 1
    if tied.any():
        rows = keys[tied]
        keys[tied] = rows[np.argsort(prob[rows], kind="stable")]
    return keys


BINS = 15
"""The number of bins unless another is asked for, in metrics as in pictures, after Guo et al. 2017."""

MOST_BINS = 100_000
"""More than these tell nothing apart, and cost memory."""

BinCount: TypeAlias = int | Literal["auto"]
"""How many bins; ``auto`` is `bins_of_rows` of the number of rows."""

ROUNDING = 1e-14
"""More than two ways to compute a log-odds differ, relative to 1 + |z|; scores of data lie farther apart."""

_FEW_EDGES = 32
"""Up to so many edges, comparing with each of them in turn is faster than a binary search."""


def check_bins(bins: int | str) -> None:
    """Refuse what is no number of bins."""
    if bins != "auto" and (isinstance(bins, str) or not 1 <= bins <= MOST_BINS):
        raise UsageError(f"bins is {bins}; it must be a number from 1 to {MOST_BINS:,}, or auto")


def bins_of_rows(rows: int) -> int:
    """The cube root of the number of rows, rounded up: scikit-learn's ``n_bins="cube_root"``.

    With bins of equal width or of equal mass, the bound on the bias of the ECE is the least where the number of bins
    is of this order (Futami & Fujisawa, NeurIPS 2024).
    """
    near = round(math.cbrt(rows))
    return min(max(1, near if near**3 >= rows else near + 1), MOST_BINS)


def just_above(cuts: FloatArray) -> FloatArray:
    """Slightly higher cuts: a score on a cut, or as near as logarithms differ from library to library, lies below."""
    return cuts + ROUNDING * (1.0 + np.abs(cuts))


def just_below(cuts: FloatArray) -> FloatArray:
    """Slightly lower cuts: a score on a cut, or as near as rounding, lies above."""
    return -just_above(-cuts)


def edges_just_above(edges: FloatArray) -> FloatArray:
    """Slightly higher edges, which are probabilities; 0 and 1 stay."""
    moved = edges.copy()
    moved[1:-1] = np.maximum(edges[1:-1], sigmoid(just_above(log_odds(edges[1:-1]))))
    return moved


def width_edges(count: int) -> FloatArray:
    """The edges of `count` bins of equal width on [0, 1]."""
    return np.linspace(0.0, 1.0, count + 1)


def mass_edges(prob: FloatArray, count: int, weight: FloatArray | None = None) -> FloatArray:
    """The edges of `count` bins that hold equal shares of the rows, or of their weight.

    They are the quantiles of `prob` at 0, 1/count, .. 1, interpolated linearly between order statistics (type 7 of
    Hyndman & Fan 1996, numpy's default). With weights the order statistics stand at the middles of their weights, and
    the first and the last one at the quantiles 0 and 1: equal weights give exactly what no weights give, and neither
    the scale of the weights nor rows of weight zero matter.

    Where many rows share one value, edges coincide, and the bins between them are empty. There must be a row of
    positive weight.
    """
    share = np.linspace(0.0, 1.0, count + 1)
    if weight is not None:
        weighted = weight > 0
        if not weighted.all():
            prob, weight = prob[weighted], weight[weighted]
        if weight.min() < weight.max():
            value, group, rows = np.unique(prob, return_inverse=True, return_counts=True)
            return weighted_quantiles(value, rows, totals(group, weight), share)
    return np.percentile(prob, share * 100.0)


def pooled_edges(
    prob: FloatArray, rows: FloatArray, weight: FloatArray, count: int, *, snap: float = 0.0
) -> FloatArray:
    """The `mass_edges` of rows that are pooled by their value, in rising order; `snap` as in `weighted_quantiles`.

    Rows whose weights differ by no more than `snap`, relative to the first, are of one weight.
    """
    share = np.linspace(0.0, 1.0, count + 1)
    each = weight / rows
    if np.ptp(each) > snap * each[0]:
        return weighted_quantiles(prob, rows, weight, share, snap=snap)
    return repeated_quantiles(prob, rows, share)


def weighted_quantiles(
    value: FloatArray, rows: FloatArray | IntArray, weight: FloatArray, share: FloatArray, *, snap: float = 0.0
) -> FloatArray:
    """Quantiles of type 7 of weighted rows that are pooled by their value, at each `share`.

    `value` are the distinct values in rising order, `rows` the number of rows with each of them, and `weight` that of
    these rows, which they share evenly, so that their order does not matter. A quantile as near as `snap` to the share
    of an order statistic is that order statistic, not missed by rounding.
    """
    half = weight / rows / 2.0
    above = np.cumsum(weight)
    # Of the rows with one value the first and the last stand at the middles of their own weights.
    place = np.column_stack([above - weight + half, above - half]).ravel()
    place = np.maximum.accumulate(place)  # rounding may have swapped neighbours
    span = place[-1] - place[0]
    place = (place - place[0]) / span if span > 0 else np.linspace(0.0, 1.0, len(place))
    value = np.repeat(value, 2)
    quantiles: FloatArray = np.interp(share, place, value)
    if snap:
        nearest = np.searchsorted(place, share - snap)
        quantiles = np.where(np.abs(place[nearest] - share) <= snap, value[nearest], quantiles)
    return quantiles


def repeated_quantiles(value: FloatArray, rows: FloatArray, share: FloatArray) -> FloatArray:
    """``np.percentile(np.repeat(value, rows), 100 share)`` bit for bit, without the repetition."""
    n = round(float(rows.sum()))
    virtual = (n - 1) * (share * 100.0 / 100.0)  # numpy's own order of operations: an edge often equals a value
    low = np.floor(virtual)
    part = virtual - low
    above = np.cumsum(rows)
    first = value[np.searchsorted(above, low, side="right")]
    second = value[np.searchsorted(above, np.minimum(low + 1, n - 1), side="right")]
    gap = second - first
    quantiles: FloatArray = np.where(part >= 0.5, second - gap * (1.0 - part), first + gap * part)
    return quantiles


def assign(prob: FloatArray, edges: FloatArray) -> IntArray:
    """The bin of each value, 0 .. len(edges) - 2."""
    inner = edges[1:-1]
    place: IntArray = np.empty(len(prob), dtype=np.int64)
    if len(inner) > _FEW_EDGES:
        place[:] = np.searchsorted(inner, prob, side="left")
        return place
    for some in spans(len(prob)):
        chunk = prob[some]
        edges_below: NDArray[np.uint8] = np.zeros(len(chunk), dtype=np.uint8)
        for edge in inner:
            edges_below += chunk > edge
        place[some] = edges_below
    return place
