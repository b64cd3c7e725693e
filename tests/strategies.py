"""Hypothesis strategies that several rooms share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from calcli.metrics.base import Clusters, Scored

EXTREMES = (0.0, 1.0, 0.5, 1e-15, 1.0 - 1e-15)


def probabilities(rows: int) -> st.SearchStrategy[NDArray[np.float64]]:
    """Probabilities with ties, with 0 and 1, and with values on the edges of bins."""
    pool = st.sampled_from(EXTREMES + tuple(np.linspace(0, 1, 16)) + tuple(np.linspace(0, 1, 11)))
    any_value = st.floats(0.0, 1.0, allow_subnormal=False)
    return st.lists(pool | any_value, min_size=rows, max_size=rows).map(np.array)


def weights(rows: int) -> st.SearchStrategy[NDArray[np.float64]]:
    """Weights, some of them zero, but not all."""
    one = st.just(0.0) | st.sampled_from([1.0, 2.0, 3.0]) | st.floats(1e-3, 1e3)
    return st.lists(one, min_size=rows, max_size=rows).map(np.array).filter(lambda found: bool(found.sum() > 0))


def _weighted(draw: st.DrawFn, rows: int, weighted: bool | None) -> NDArray[np.float64] | None:
    return draw(weights(rows)) if (draw(st.booleans()) if weighted is None else weighted) else None


@st.composite
def _clusters(draw: st.DrawFn, rows: int) -> Clusters:
    """Up to four clusters, some of which may hold no row."""
    place = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    return Clusters(np.array(place, dtype=np.int64), 4, "drawn")


@st.composite
def binary_rows(draw: st.DrawFn, *, least: int = 1, most: int = 24, weighted: bool | None = None) -> Scored:
    """Rows of two classes. `weighted` None: sometimes."""
    rows = draw(st.integers(least, most))
    prob = draw(probabilities(rows))
    label = np.array(draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows)), dtype=np.int64)
    return Scored(label, prob, _weighted(draw, rows, weighted), draw(_clusters(rows)))


@st.composite
def multiclass_rows(draw: st.DrawFn, *, least: int = 1, most: int = 14, weighted: bool | None = None) -> Scored:
    """Rows of three to five classes, not all of which need occur; rows of probabilities add up to one."""
    rows, classes = draw(st.integers(least, most)), draw(st.integers(3, 5))
    parts = draw(st.lists(st.integers(0, 9), min_size=rows * classes, max_size=rows * classes))
    table = np.array(parts, dtype=np.float64).reshape(rows, classes)
    table[table.sum(axis=1) == 0.0] = 1.0
    label = np.array(draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows)), dtype=np.int64)
    weight = _weighted(draw, rows, weighted)
    return Scored(label, table / table.sum(axis=1, keepdims=True), weight, draw(_clusters(rows)))


def any_rows(*, least: int = 1, weighted: bool | None = None) -> st.SearchStrategy[Scored]:
    """Rows of two or more classes."""
    return binary_rows(least=least, weighted=weighted) | multiclass_rows(least=least, weighted=weighted)
