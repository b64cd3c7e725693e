"""Calibrators in the cells of a partition, each shrunk to the prediction without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.methods import calibrator
from calcli.methods.calibrator import FittedMethod
from calcli.methods.heterogeneous.cell_platt import platt_each
from calcli.methods.spec import MethodSpec
from calcli.numeric.links import probabilities, scores
from calcli.numeric.seeded import class_order, ordered
from calcli.numeric.sums import totals
from calcli.state import State


@dataclass(frozen=True)
class Cells:
    """The cells of one tree.

    Attributes
    ----------
    own
        The calibrator of each cell.
    share
        The share of the result that comes from it; see `calcli.methods.shrinkage`.
    weight, label, predicted
        Sums over the calibration rows in each cell: of their weights, and of weight times label and times the
        incoming probability. The last two have a column for each class; of two classes only the positive one.
    """

    own: tuple[FittedMethod, ...]
    share: FloatArray
    weight: FloatArray
    label: FloatArray
    predicted: FloatArray

    def check(self, leaves: int) -> None:
        """A `ValueError` where these are not the cells of so many leaves."""
        arrays = (self.share, self.weight, self.label, self.predicted)
        lengths = {len(self.own), *(len(array) for array in arrays)}
        if lengths != {leaves}:
            raise ValueError(f"there are {leaves} cells, and numbers of {', '.join(map(str, sorted(lengths)))}")

    def calibrate(self, without: FloatArray, rows: Batch, cell: IntArray) -> FloatArray:
        """The scores of rows in these cells; `without` are their scores without the cells."""
        return mix(own_scores(self.own, rows, cell), without, self.share[cell])


def rows_by_cell(cell: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each cell that has rows, and its rows."""
    order = np.argsort(cell, kind="stable")
    ends = np.cumsum(np.bincount(cell))
    for index in np.flatnonzero(np.diff(ends, prepend=0)):
        yield int(index), order[(0 if index == 0 else ends[index - 1]) : ends[index]]


def own_scores(own: Sequence[FittedMethod], rows: Batch, cell: IntArray) -> FloatArray:
    """The score that the calibrator of each row's cell gives it."""
    score = np.empty_like(rows.score)
    for index, members in rows_by_cell(cell):
        score[members] = scores(own[index].predict(Batch(rows.score[members])))
    return score


def mix(own: FloatArray, without: FloatArray, share: FloatArray) -> FloatArray:
    """``(1 - share) without + share own``, row by row."""
    return without + (share if own.ndim == 1 else share[:, None]) * (own - without)


def fit_by_score(method: MethodSpec, rows: Batch) -> FittedMethod:
    """A calibrator of these rows by their scores alone.

    It counts as many rows as they weigh, for equal rows have been merged.
    """
    fitted = calibrator.fit(method, rows.bare, method.resolve())
    return replace(fitted, rows=max(1, round(float(rows.weights.sum()))))


def fit_each(
    method: MethodSpec, rows: Batch, cell: IntArray, default: Sequence[FittedMethod], *, rising: bool = False
) -> list[FittedMethod]:
    """A calibrator for each cell; the `default` one of a cell without rows.

    With `rising` a Platt scaling of negative slope, which would reverse the scores, is replaced by a constant.
    """
    own = list(default)
    if method.name != "platt" or rows.classes > 2:
        for index, members in rows_by_cell(cell):
            own[index] = fit_by_score(method, rows.take(members))
        return own
    a, b = platt_each(rows, cell, len(own), rising=rising)
    weight = totals(cell, rows.weights, len(own))
    for index in np.flatnonzero(weight).tolist():
        state = State({"a": float(a[index]), "b": float(b[index])})
        own[index] = FittedMethod(method, 2, max(1, round(weight[index])), state)
    return own


def summarise(own: Sequence[FittedMethod], share: FloatArray, rows: Batch, cell: IntArray) -> Cells:
    """The cells, with the sums over their calibration rows."""
    label, predicted = (
        np.stack([totals(cell, rows.weights * column, len(own)) for column in columns.T], axis=-1)
        for columns in (one_hot(rows), as_table(probabilities(rows.score)))
    )
    return Cells(tuple(own), share, totals(cell, rows.weights, len(own)), label, predicted)


def one_hot(rows: Batch) -> FloatArray:
    """Labels as numbers, a column for each class; of two classes only the positive one."""
    if rows.classes == 2:
        return rows.labels[:, None].astype(np.float64)
    return np.eye(rows.classes)[rows.labels]


def as_table(prob: FloatArray) -> FloatArray:
    """Probabilities with a column for each class; of two classes one."""
    return prob[:, None] if prob.ndim == 1 else prob


def in_order(target: FloatArray, rows: Batch) -> FloatArray:
    """Targets of trees with a column for each class in `class_order`; that of two classes is turned.

    Which child of a node is the left one follows from the first target, and chance goes by the place of a node: trees
    would else depend on which class is the positive one.
    """
    order = class_order(rows.score)
    return ordered(target, order) if rows.classes > 2 else ordered(target[:, 0], order)[:, None]
