"""Hypothesis strategies: probabilities, weights, labelled rows, arrays, JSON values."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
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


json_text = st.text(st.characters(exclude_categories=["Cs"]))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | json_text,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(json_text, parts, max_size=4),
    max_leaves=20,
)

WIDE = ["i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8"]

KINDS = ["?", "i1", "u1", *(order + kind for order in "<>" for kind in WIDE)]


@st.composite
def arrays(draw):
    """Any bits in any shape, so that NaN payloads, -0.0 and subnormals are among them."""
    dtype = np.dtype(draw(st.sampled_from(KINDS)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    if dtype.kind == "b":
        data = bytes(byte & 1 for byte in data)
    array = np.frombuffer(data, dtype).reshape(shape)
    return array.copy(order=draw(st.sampled_from("CF")))
