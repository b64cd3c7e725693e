"""A look at the numbers in a CatBoost model before CatBoost follows them.

A ``.cbm`` file is ``CBM1``, a size, and a flatbuffer of that size; where there are categories, tables of their
statistics follow (catboost/libs/model/flatbuffers: model.fbs, features.fbs, ctr_data.fbs). CatBoost checks that these
are well formed. It does not check that a split is among the features, or a leaf among the values: a forged model would
make it read memory that is not the model's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray

START = b"CBM1"
"""The first bytes of a model's file."""

_HEAD = 8
_DEEPEST = 16
_IN_A_BUCKET = 254
"""CatBoost lays the borders of a feature into buckets of so many."""

_BUCKET = np.dtype([("hash", "<u8"), ("place", "<u4")])
_UNUSED = (1 << 64) - 1
_STATISTICS = b"static_provider_v1"
"""The name of the part with the statistics of categories. Those of texts and embeddings are needed by no table."""

_SPLITS, _SIZES, _STARTS, _CATEGORIES, _NUMBERS, _ONE_HOTS, _CTRS, _VALUES, _WEIGHTS, _STEPS, _LEAVES = range(1, 12)
_TEXTS, _ESTIMATED, _BIASES, _BINS, _EMBEDDINGS = 12, 13, 16, 17, 18


def check(model: bytes) -> None:
    """A `ValueError` where the numbers of a model lead out of it."""
    size = struct.unpack_from("<I", model, 4)[0] if len(model) >= _HEAD else 0
    if not model.startswith(START) or _HEAD + size > len(model):
        raise ValueError("it is not a CatBoost model, or it is truncated")
    core = model[_HEAD : _HEAD + size]
    try:
        whole = _root(core)
        trees = whole.table(1)
        statistics: dict[_Key, int] = {}
        if any(core[part.place + 4 :].startswith(_STATISTICS) for part in whole.tables(3)[:1]):
            statistics = dict(map(_of_statistics, _parts(model[_HEAD + size :])))
        if trees is not None:
            _check_features(trees, statistics)
            _check_trees(trees)
    except struct.error:
        raise ValueError("the model of CatBoost is damaged") from None


def oblivious_trees(model: bytes) -> list[tuple[IntArray, FloatArray]] | None:
    """The features that each tree splits on, and how much weight fell into each of its leaves.

    None where trees are not oblivious, splits are of several features, or the weights were not kept.
    """
    trees = _root(model[_HEAD:]).table(1)
    if trees is None or len(trees.array(_STEPS, "<u4")) or trees.tables(_ESTIMATED):
        return None
    categories = [each.number(1, -1) for each in trees.tables(_CATEGORIES)]
    of_borders: list[int] = []
    for each in trees.tables(_NUMBERS):
        of_borders += [each.number(2, -1)] * len(each.array(3, "<f4"))
    for each in trees.tables(_ONE_HOTS):
        of_borders += [categories[each.number(0, -1)]] * len(each.array(1, "<i4"))
    for each in trees.tables(_CTRS):
        ctr = each.table(0)
        _, _, combined, numbers, one_hots = _key(None if ctr is None else ctr.table(0))
        if numbers or one_hots or len(combined) > 4:
            return None
        of_borders += [categories[int(np.frombuffer(combined, "<i4")[0])]] * len(each.array(1, "<f4"))
    sizes, weights = trees.array(_SIZES, "<i4"), trees.array(_WEIGHTS, "<f8")
    if not len(weights):
        return None
    features = np.array(of_borders, dtype=np.int64)[trees.array(_SPLITS, "<i4")]
    of_trees = np.split(features, np.cumsum(sizes)[:-1]), np.split(weights, np.cumsum(1 << sizes)[:-1])
    return list(zip(*of_trees, strict=True))


def _parts(rest: bytes) -> Iterator[bytes]:
    """The flatbuffers that follow the first: how many there are, then each with its size."""
    place = 4
    for _ in range(struct.unpack_from("<I", rest, 0)[0]):
        size = int(struct.unpack_from("<I", rest, place)[0])
        place += 4 + size
        if place > len(rest):
            raise struct.error("outside")
        yield rest[place - size : place]


def _root(core: bytes) -> _Table:
    return _Table(core, int(struct.unpack_from("<I", core, 0)[0]))


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a flatbuffer: where it begins."""

    core: bytes
    place: int

    def _field(self, number: int) -> int | None:
        shape = self.place - int(struct.unpack_from("<i", self.core, self.place)[0])
        if shape < 0 or self.place < 0:
            raise struct.error("outside")
        entry = 4 + 2 * number
        if entry >= struct.unpack_from("<H", self.core, shape)[0]:
            return None
        offset = int(struct.unpack_from("<H", self.core, shape + entry)[0])
        return self.place + offset if offset else None

    def number(self, number: int, default: int, form: str = "<i") -> int:
        place = self._field(number)
        return default if place is None else int(struct.unpack_from(form, self.core, place)[0])

    def table(self, number: int) -> _Table | None:
        place = self._field(number)
        return None if place is None else _Table(self.core, self._target(place))

    def array(self, number: int, dtype: str) -> NDArray[Any]:
        place = self._field(number)
        if place is None:
            return np.empty(0, dtype)
        start = self._target(place)
        count = int(struct.unpack_from("<I", self.core, start)[0])
        if start + 4 + count * np.dtype(dtype).itemsize > len(self.core):
            raise struct.error("outside")
        return np.frombuffer(self.core, dtype, count, start + 4)

    def tables(self, number: int) -> list[_Table]:
        places = self.array(number, "<u4")
        if not len(places):
            return []
        field = self._field(number)
        assert field is not None
        first = self._target(field) + 4
        return [_Table(self.core, first + 4 * index + int(offset)) for index, offset in enumerate(places)]

    def _target(self, place: int) -> int:
        return place + int(struct.unpack_from("<I", self.core, place)[0])


def _inside(values: NDArray[Any] | list[int], end: int, what: str) -> None:
    indices = np.asarray(values, dtype=np.int64)
    if ((indices < 0) | (indices >= end)).any():
        raise ValueError(f"the model of CatBoost names {what} that do not exist")


_Key: TypeAlias = tuple[int, int, bytes, bytes, bytes]
"""The kind of some statistics, of which border of the label, and of which features together."""


def _key(base: _Table | None) -> _Key:
    combined = None if base is None else base.table(0)
    if base is None or combined is None:
        raise ValueError("the model of CatBoost has statistics of no categories")
    one, two, three = (combined.array(place, of).tobytes() for place, of in enumerate(("<i4", "<i4,<f4", "<i4,<i4")))
    return base.number(1, 0, "<b"), base.number(2, 0), one, two, three


def _of_statistics(part: bytes) -> tuple[_Key, int]:
    """The kind of statistics of some categories, and their number of classes."""
    table = _root(part)
    key = _key(table.table(0))
    kind, classes = key[0], table.number(4, 0)
    size = {0: 4 * classes, 1: 4 * classes, 2: 8, 3: 8, 4: 4, 5: 4}.get(kind, 0)
    buckets = table.array(1, "u1")
    if size <= 0 or len(buckets) % _BUCKET.itemsize or len(buckets) == 0:
        raise ValueError("the model of CatBoost has statistics of an unknown kind")
    records = np.frombuffer(buckets.tobytes(), _BUCKET)
    used = records["hash"] != _UNUSED
    if len(records) & (len(records) - 1) or used.all():  # a search for a category that is not there would not end
        raise ValueError("the model of CatBoost has no room among its categories")
    _inside(records["place"][used], len(table.array(2, "u1")) // size, "statistics")
    return key, max(classes, 1)


def _check_features(trees: _Table, statistics: Mapping[_Key, int]) -> None:
    kinds = {kind: trees.tables(kind) for kind in (_CATEGORIES, _NUMBERS, _TEXTS, _EMBEDDINGS)}
    every = sum(map(len, kinds.values()))
    for kind, features in kinds.items():
        first = 1 if kind == _NUMBERS else 0  # a number says first whether it may be missing
        _inside([each.number(first, -1) for each in features], every, "features")
        _inside([each.number(first + 1, -1) for each in features], every, "features")
    categories, numbers = len(kinds[_CATEGORIES]), len(kinds[_NUMBERS])
    _inside([each.number(0, -1) for each in trees.tables(_ONE_HOTS)], categories, "categories")
    for feature in trees.tables(_CTRS):
        ctr = feature.table(0)
        base = None if ctr is None else ctr.table(0)
        key = _key(base)
        if ctr is None or key not in statistics:
            raise ValueError("the model of CatBoost asks for statistics that it does not have")
        _inside([ctr.number(1, 0)], statistics[key], "classes")
        _inside(np.frombuffer(key[2], "<i4"), categories, "categories")
        _inside(np.frombuffer(key[3], "<i4,<f4")["f0"], numbers, "numbers")
        _inside(np.frombuffer(key[4], "<i4,<i4")["f0"], categories, "categories")


def _check_trees(trees: _Table) -> None:
    parts = [(_NUMBERS, 3, "<f4"), (_ESTIMATED, 3, "<f4"), (_ONE_HOTS, 1, "<i4"), (_CTRS, 1, "<f4")]
    lists = [each.array(field, dtype) for kind, field, dtype in parts for each in trees.tables(kind)]
    if any((np.diff(each) <= 0).any() or np.isnan(each).any() for each in lists if each.dtype.kind == "f"):
        raise ValueError("the borders in the model of CatBoost do not rise")
    borders = [len(each) for each in lists]
    splits, sizes, starts = (trees.array(field, "<i4").astype(np.int64) for field in (_SPLITS, _SIZES, _STARTS))
    _inside(splits, sum(borders), "splits")
    _inside(trees.array(_BINS, "<u2,<u2")["f0"], sum(-(-count // _IN_A_BUCKET) for count in borders), "splits")
    dimension, values = trees.number(0, 0), len(trees.array(_VALUES, "<f8"))
    if dimension < 1 or not np.array_equal(starts, np.cumsum(sizes) - sizes) or sizes.sum() != len(splits):
        raise ValueError("the trees in the model of CatBoost are not laid out one after the other")
    if len(trees.array(_BINS, "<u4")) not in {0, len(splits)}:
        raise ValueError("the splits in the model of CatBoost are not those of its trees")
    steps = trees.array(_STEPS, "<u2,<u2")
    if len(steps):
        _check_steps(steps, trees.array(_LEAVES, "<u4"), sizes, values)
    else:
        _inside(sizes, _DEEPEST + 1, "trees")
        leaves = int((1 << sizes).sum())
        if values != dimension * leaves or len(trees.array(_WEIGHTS, "<f8")) not in {0, leaves}:
            raise ValueError("the leaves in the model of CatBoost are not those of its trees")


def _check_steps(steps: NDArray[Any], leaves: NDArray[Any], sizes: IntArray, values: int) -> None:
    """Trees whose nodes say how far away their children are."""
    end = np.repeat(np.cumsum(sizes), sizes)
    if len(steps) != len(end) or len(leaves) != len(end):
        raise ValueError("the nodes in the model of CatBoost are not those of its trees")
    for side in ("f0", "f1"):
        if (np.arange(len(end)) + steps[side] >= end).any():
            raise ValueError("the nodes in the model of CatBoost lead out of their trees")
    ends = (steps["f0"] == 0) | (steps["f1"] == 0)
    _inside(leaves[ends], values, "leaves")
