"""The protocol that every calibration method follows.

A method is a class with two methods, `fit` and `predict`; one that can be fitted from sums over rows has two more,
`gather` and `finish`. A large one is a module of its own with these functions. Nothing is registered by importing: the
catalog names the class or the module.

Methods report the progress of a long fit to `told`, and need not know who listens.

The calibrator of a cell or cluster is drawn to that of all rows. On log-odds (more than two classes: log-probabilities)
z = (H z_own + tau z_without) / (H + tau). H is the information in the cell's calibration rows: the sum of w q (1 - q)
(more than two classes: of w (1 - |q|^2)), q the probability without the cell's own calibrator. With tau = 0 each cell
stands alone; with tau = inf its calibrator is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import NO_SIDE_INPUTS, Batch, Column, FloatArray, Group, IntArray, SideInputs
from calcli.state import Json, Rules, State, unnest

if TYPE_CHECKING:  # a method that is applied needs none of them
    from calcli.expressions import Inputs, Terms
    from calcli.learners.tree_models import Contributions
    from calcli.numeric.pooled import Pooled
    from calcli.numeric.seeded import Split

ParamValue: TypeAlias = bool | int | float | str | None
Params: TypeAlias = Mapping[str, ParamValue]

LEAST = 4096
"""How many distinct scores are kept apart in any case."""

READS = "reads"
"""The parameter of a state that lists the features which `predict` reads, if it does not read all that the fit had."""

WHOLE_TABLE = "whole_table"
"""The parameter of a state that is true if a row's result depends on the other rows of its table: `predict` must then
get exactly the rows of that table.
"""

SETTINGS = "settings"
"""The parameter of a state that has the values which the fit chose for open parameters. A fit that is given them, on
other rows of the same table, has nothing to search for.
"""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over rows, by name: those of two parts of a table add up to those of the whole.

    `scores` are sums for each distinct score.
    """

    arrays: Mapping[str, FloatArray] = field(default_factory=dict)
    scores: Mapping[str, Pooled] = field(default_factory=dict)

    def __add__(self, other: Sums) -> Sums:
        if self.arrays.keys() != other.arrays.keys():
            raise ValueError(f"sums of {sorted(self.arrays)} and of {sorted(other.arrays)} do not add up")
        return Sums(
            {name: self.arrays[name] + other.arrays[name] for name in self.arrays},
            {name: self.scores[name] + other.scores[name] for name in self.scores},
        )

    def within(self, most: int) -> Sums:
        """These sums with at most so many distinct scores; if there are more, near ones become one."""
        each = max(LEAST, most // max(1, len(self.scores)))
        return Sums(self.arrays, {name: pooled.within(each) for name, pooled in self.scores.items()})

    @property
    def step(self) -> float:
        """The width of the widest cells within which scores were made one; 0 where they are exact."""
        return max((pooled.step for pooled in self.scores.values()), default=0.0)


class Method(Protocol):
    """A way to calibrate."""

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        """Learn from rows with labels. The same arguments give the same state, bit for bit."""
        ...

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        """Probabilities of the positive class, shape (n,), or of each class, shape (n, K). The only forward pass."""
        ...

    def holds(self, classes: int) -> Rules:
        """Rules for the numbers of its state, which are checked before an artifact is used."""
        return {}


@dataclass(frozen=True, slots=True)
class Intervals:
    """Numbers with their intervals, to be drawn beside each other."""

    title: str
    names: tuple[str, ...]
    """The name of each number."""

    series: Mapping[str, Sequence[tuple[float, float, float]]]
    """By name, a number and the ends of its interval for each of `names`."""

    unit: str
    ordered: bool = False
    """Whether the names have an order, as bins have."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table about a fitted method, for people and as JSON; each of `rows` has a value for each of `columns`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Json, ...], ...]
    note: str = ""

    moves: tuple[float, ...] = ()
    """How much each row of a table that can be long moves predictions: text shows those that move most."""

    brief: tuple[tuple[Json, ...], ...] = ()
    """The rows as text shows them, where that is shorter."""

    pictures: tuple[Intervals, ...] = ()
    """The pictures that can be drawn of it."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The choices of a method by held-out rows."""

    settings: Params = field(default_factory=dict)
    """The values of its open parameters; none where the splits hold out too few rows to choose by."""

    states: Mapping[int, State] = field(default_factory=dict)
    """The states that `fit` gives with these settings on the training rows of a split, by the place of the split; only
    where the choice has made that fit.
    """

    whole: State | None = None
    """The state of all rows, where the choice has come to it: then nothing is fitted again."""


class ExtendedMethod(Method, Protocol):
    """The optional functions of a method; its `MethodSpec` says which ones it has."""

    def choose(self, batch: Batch, sides: SideInputs, params: Params, seed: int, splits: Sequence[Split]) -> Chosen:
        """The open parameters, chosen by the rows that these splits hold out."""
        ...

    def fit_each(self, batch: Batch, groups: Sequence[Group], params: Params) -> list[State | None]:
        """The states that `fit` gives on each group of the rows, but for rounding; None for one that it has to fit.

        Each group has rows of two labels.
        """
        ...

    def interval(self, state: State, batch: Batch) -> tuple[FloatArray, FloatArray]:
        """Two probabilities for each row; with more than two classes a column for each class against the rest."""
        ...

    def extras(self, state: State, batch: Batch, sides: SideInputs) -> Mapping[str, FloatArray]:
        """Further output columns, such as the cluster of a row: an array of shape (n,) for each name in the spec."""
        ...

    def explain(self, state: State) -> tuple[Section, ...]:
        """The rules, leaves or clusters that were learned."""
        ...

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        """The probability of the positive class, or of each class, as terms over score and features."""
        ...

    def contributions(self, state: State, batch: Batch, rows: IntArray, background: IntArray) -> Contributions | None:
        """The parts of the score (first) and each feature in the log-odds of some rows minus the raw ones.

        The base is expected before any column is known; None where there is nothing to take apart.
        """
        ...

    def remarks(self, state: State, sides: SideInputs, nodes: Column | None) -> tuple[str, ...]:
        """Sentences for the user about the fit; if ids of `nodes` are given, about applying it to those rows."""
        ...


class SumsMethod(Method, Protocol):
    """A method that needs only sums over its rows, so that chunks, threads and machines share one code."""

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        return self.finish(self.gather(batch, params), params)

    def gather(self, batch: Batch, params: Params) -> Sums:
        """The sums of these rows."""
        ...

    def finish(self, sums: Sums, params: Params) -> State:
        """The state that `fit` gives on all rows that the sums are of."""
        ...


class ScoresMethod(SumsMethod, Protocol):
    """A method that is fitted from sums for each distinct score: it has `fit` or `finish`, each gives the other."""

    def gather(self, batch: Batch, params: Params) -> Sums:
        from calcli.numeric.pooled import by_score

        return Sums(scores={"all": by_score(batch.score, batch.labels, batch.weight)})

    def finish(self, sums: Sums, params: Params) -> State:
        return self.fit(sums.scores["all"].batch(), NO_SIDE_INPUTS, params, 0)


def of_classes(state: State, classes: int) -> list[State]:
    """The states of a binary method that has been fitted to each class against the rest."""
    return [*unnest(state, map(str, range(classes))).values()]


def ranges(start: NDArray[np.integer], count: NDArray[np.integer]) -> IntArray:
    """The numbers ``start[i]`` .. ``start[i] + count[i] - 1`` for each i, one range after the other."""
    numbers: IntArray = np.arange(count.sum()) + np.repeat(start - (np.cumsum(count) - count), count)
    return numbers


def number(params: Params, name: str) -> float:
    """A resolved numeric parameter."""
    value = params[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"parameter {name!r} is {value!r}, not a number")
    return value


def candidates(params: Params, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
    """The values of a parameter to choose from: `default` if it is ``auto``, else the one that is given."""
    value = params[name]
    if value == "auto":
        return default
    return (math.inf,) if value == "inf" else (number(params, name),)


_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("progress listener", default=None)


def tell(step: str) -> None:
    """Report the current step in a few words, if anybody listens."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(step)


@contextmanager
def told(listener: Callable[[str], None]) -> Iterator[None]:
    """Call `listener` with the steps of the fits inside."""
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def information(prob: FloatArray, weight: FloatArray) -> FloatArray:
    """The contribution of each row to H."""
    return weight * (prob * (1.0 - prob) if prob.ndim == 1 else 1.0 - np.square(prob).sum(axis=1))


def own_share(information: FloatArray, tau: float) -> FloatArray:
    """H / (H + tau)."""
    if tau == 0:
        return np.ones_like(information)
    return np.zeros_like(information) if np.isinf(tau) else information / (information + tau)
