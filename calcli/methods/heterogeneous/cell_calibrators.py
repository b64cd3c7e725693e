"""Calibrators in the cells of a partition, each drawn to what it would be without the partition.

On log-odds (more than two classes: log-probabilities) a cell's own answer and the one without it are mixed,
z = (H z_own + tau z_without) / (H + tau). H is what the cell's calibration rows can tell, the sum of q (1 - q) over
them (more than two classes: of 1 - |q|^2), q the probability without the partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.methods import calibrator
from calcli.methods.calibrator import Calibrator
from calcli.methods.heterogeneous.cell_platt import platt_each, sums
from calcli.methods.spec import MethodSpec
from calcli.numeric.links import probabilities, scores
from calcli.state import State


@dataclass(frozen=True)
class Cells:
    """What happens in the cells of one tree.

    Attributes
    ----------
    own
        The calibrator of each cell.
    share
        How much of the result is its own.
    weight, label, said
        Sums over the calibration rows in each cell: of their weights, and of weight times label and times the
        probability that came in, with a column for each class; of two classes one, of the positive one.
    """

    own: tuple[Calibrator, ...]
    share: FloatArray
    weight: FloatArray
    label: FloatArray
    said: FloatArray

    def check(self, leaves: int) -> None:
        """A `ValueError` where these are not the cells of so many leaves."""
        lengths = {len(self.own), *(len(each) for each in (self.share, self.weight, self.label, self.said))}
        if lengths != {leaves}:
            raise ValueError(f"there are {leaves} cells, and numbers of {', '.join(map(str, sorted(lengths)))}")

    def mixed(self, without: FloatArray, rows: Batch, cell: IntArray) -> FloatArray:
        """The scores of these rows, which lie in these cells and have the scores `without` without them."""
        return mix(own_scores(self.own, rows, cell), without, self.share[cell])


def parts(cell: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each cell that has rows, and its rows."""
    order = np.argsort(cell, kind="stable")
    ends = np.cumsum(np.bincount(cell))
    for index in np.flatnonzero(np.diff(ends, prepend=0)):
        yield int(index), order[(0 if index == 0 else ends[index - 1]) : ends[index]]


def own_scores(own: Sequence[Calibrator], rows: Batch, cell: IntArray) -> FloatArray:
    """What the calibrator of each row's cell makes of it, as a score."""
    found = np.empty_like(rows.score)
    for index, mine in parts(cell):
        found[mine] = scores(own[index].predict(Batch(rows.score[mine])))
    return found


def mix(own: FloatArray, without: FloatArray, share: FloatArray) -> FloatArray:
    """A share of the one and the rest of the other, row by row."""
    return without + (share if own.ndim == 1 else share[:, None]) * (own - without)


def own_share(told: FloatArray, tau: float) -> FloatArray:
    """H / (H + tau)."""
    if tau == 0:
        return np.ones_like(told)
    return np.zeros_like(told) if np.isinf(tau) else told / (told + tau)


def told(prob: FloatArray, weight: FloatArray) -> FloatArray:
    """What each row adds to H."""
    return weight * (prob * (1.0 - prob) if prob.ndim == 1 else 1.0 - (prob**2).sum(axis=1))


def calibrated(method: MethodSpec, rows: Batch) -> Calibrator:
    """A calibrator of these rows by their scores alone.

    It counts as many rows as they weigh: those that were equal have been put into one.
    """
    found = calibrator.fit(method, Batch(rows.score, rows.label, rows.weight), method.resolve())
    return replace(found, rows=max(1, round(float(rows.weights.sum()))))


def calibrated_each(
    method: MethodSpec, rows: Batch, cell: IntArray, otherwise: Sequence[Calibrator], *, rising: bool = False
) -> list[Calibrator]:
    """A calibrator for each cell; the one of `otherwise` where there are no rows.

    With `rising` a Platt scaling that would turn the order of the scores round gives way to one rate for all of them.
    """
    own = list(otherwise)
    if method.name != "platt" or rows.classes > 2:
        for index, mine in parts(cell):
            own[index] = calibrated(method, rows.take(mine))
        return own
    a, b = platt_each(rows, cell, len(own), rising=rising)
    weight = sums(cell, rows.weights, len(own))
    for index in np.flatnonzero(weight).tolist():
        own[index] = Calibrator(
            method, 2, max(1, round(weight[index])), State({"a": float(a[index]), "b": float(b[index])})
        )
    return own


def measured(own: Sequence[Calibrator], share: FloatArray, rows: Batch, cell: IntArray) -> Cells:
    """The cells, with what their calibration rows look like."""
    label, said = one_hot(rows), table(probabilities(rows.score))
    add = [
        np.stack([sums(cell, rows.weights * column, len(own)) for column in columns.T], axis=-1)
        for columns in (label, said)
    ]
    return Cells(tuple(own), share, sums(cell, rows.weights, len(own)), *add)


def one_hot(rows: Batch) -> FloatArray:
    """Labels as numbers: a column for each class; of two classes one, of the positive one."""
    if rows.classes == 2:
        return rows.labels[:, None].astype(np.float64)
    return np.eye(rows.classes)[rows.labels]


def table(prob: FloatArray) -> FloatArray:
    """Probabilities with a column for each class; of two classes one."""
    return prob[:, None] if prob.ndim == 1 else prob
