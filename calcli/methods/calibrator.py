"""A fitted method, ready to be applied: the one way in which the rest of calcli meets methods.

Around the method itself stand the steps that are the same for all: one-vs-rest where a binary method meets more than
two classes, and the mix that keeps outputs off 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import NO_SIDES, Batch, FloatArray, Sides
from calcli.errors import FitError
from calcli.methods import catalog
from calcli.methods.base import Method, Params, Sums, SumsMethod
from calcli.methods.onevsrest import OneVsRest, OneVsRestSums
from calcli.methods.row import Row
from calcli.numeric.links import open_interval
from calcli.state import State, nest, unnest

_COUNTS = "rows and weight"
"""What is counted beside the sums of the method itself."""


@dataclass(frozen=True, slots=True)
class Calibrator:
    """A fitted method.

    Attributes
    ----------
    row
        The method's catalog row.
    classes
        K, the number of classes.
    rows
        How many rows it was fitted on: the weight of the mix (see `_mixed`).
    state
        The method's own numbers.
    """

    row: Row
    classes: int
    rows: int
    state: State

    def predict(self, batch: Batch, sides: Sides = NO_SIDES) -> FloatArray:
        """Calibrated probabilities: of the positive class, or a row for each."""
        prob = bound_method(self.row, self.classes).predict(self.state, batch, sides)
        if self.row.reaches_ends:
            prob = _mixed(prob, self.rows, self.classes)
        return open_interval(prob)

    def to_state(self) -> State:
        """Everything, for an artifact."""
        whole = nest({"method": self.state})
        return State({**whole.params, "classes": self.classes, "rows": self.rows}, whole.arrays, whole.blobs)

    @classmethod
    def from_state(cls, method: str, whole: State) -> Calibrator:
        """What `to_state` gave, for a method of the catalog."""
        state = unnest(whole, ["method"])["method"]
        return cls(catalog.find(method), int(whole.number("classes")), int(whole.number("rows")), state)


def fit(row: Row, batch: Batch, params: Params, *, sides: Sides = NO_SIDES, seed: int = 0) -> Calibrator:
    """Fit a method on rows with labels."""
    _check_rows(len(batch), float(batch.weights.sum()))
    state = bound_method(row, batch.classes).fit(batch, sides, params, seed)
    return Calibrator(row, batch.classes, len(batch), state)


def gather(row: Row, batch: Batch, params: Params) -> Sums:
    """The sums of some of the rows, for a method that is fitted from sums."""
    sums = bound_sums(row, batch.classes).gather(batch, params)
    return Sums({**sums.arrays, _COUNTS: np.array([float(len(batch)), float(batch.weights.sum())])})


def finish(row: Row, sums: Sums, params: Params, *, classes: int) -> Calibrator:
    """The calibrator that `fit` gives on all the rows that the sums are of."""
    rows, weight = sums.arrays[_COUNTS]
    _check_rows(int(rows), float(weight))
    own = Sums({name: array for name, array in sums.arrays.items() if name != _COUNTS})
    return Calibrator(row, classes, int(rows), bound_sums(row, classes).finish(own, params))


def bound_method(row: Row, classes: int) -> Method:
    """The method, made fit for this many classes."""
    method = row.load()
    return method if classes == 2 or row.multiclass == "native" else OneVsRest(method)


def bound_sums(row: Row, classes: int) -> SumsMethod:
    """The same for a method that is fitted from sums."""
    method = row.load_sums(classes)
    if method is None:
        raise ValueError(f"{row.name} is not fitted from sums for {classes} classes")
    return method if classes == 2 or row.multiclass == "native" else OneVsRestSums(method)


def _mixed(prob: FloatArray, rows: int, classes: int) -> FloatArray:
    """The Laplace mix (1 - 1/(n+1)) p + 1/((n+1) K): what n rows say never quite excludes a class."""
    share = 1.0 / (rows + 1)
    return (1.0 - share) * prob + share / classes


def _check_rows(rows: int, weight: float) -> None:
    if rows == 0:
        raise FitError("there are no rows to fit on")
    if not weight > 0:
        raise FitError("all rows have weight 0: there is nothing to fit on")
