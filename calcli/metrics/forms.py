"""The forms of metrics: each is written once, and measured from rows, from sums over parts of them, or resampled.

A `RowMean` is a mean over rows. A `ProblemMetric` is a number for each binary problem that the rows are made of, and
what resamples need of it is a function of their tied scores. Gaps over clusters and the multi-view error have forms of
their own, beside their formulas.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.conventions import convention
from calcli.metrics.tied import TiedScores
from calcli.state import added

Reduction = Literal["top", "confidence", "binned", "macro", "each", "sum"]
"""``top``: the predicted class of more than two. ``confidence``: also of two. ``binned``: ``top``, or what the
convention takes. ``macro``: the mean over classes one-vs-rest. ``each``: that mean for two classes, too. ``sum``: the
sum over classes one-vs-rest."""

RowLoss = Callable[[Scored], FloatArray]
"""The loss of each row, before weighting."""


class Sums(Protocol):
    """Sums over parts of the rows add up to those over all."""

    def __add__(self, other: Any, /) -> Self: ...


S = TypeVar("S")


class Additive(Protocol[S]):
    """A metric by its sums."""

    def gather(self, scored: Scored, options: Options, /) -> S:
        """The sums over some rows."""

    def finish(self, scores: Sequence[S], options: Options, /) -> list[Measured]:
        """The metric of several scores of the same rows, by one definition, from the sums of each."""


class Metric(ABC):
    """A function of rows and options. `rows` is what each row adds to a metric that is a mean over rows."""

    rows: RowLoss | None = None

    @abstractmethod
    def __call__(self, scored: Scored, options: Options) -> Measured:
        """The metric of all rows at once."""

    def sums(self, options: Options) -> Additive[Any] | None:
        """The sums over parts of the rows that determine the metric; None where it needs all rows at once."""
        return None

    def settled(self, scored: Sequence[Scored], options: Options) -> Options:
        """Options with which the metric is computed in the same way for all of these scores of the same rows."""
        return options


@dataclass(frozen=True, slots=True)
class LossSums:
    """Sums of w and of w times the loss, the latter also of each class one-vs-rest where there are more than two."""

    weight: float
    loss: float
    per_class: tuple[float, ...] | None
    binary: bool

    __add__ = added


class RowMean(Metric):
    """The weighted mean over rows of a loss.

    Parameters
    ----------
    rows
        The loss of each row.
    definition
        For two classes, and for more.
    one_vs_rest
        Whether it has a value for each of more than two classes.
    """

    def __init__(self, rows: RowLoss, definition: tuple[Definition, Definition], *, one_vs_rest: bool = True) -> None:
        self.rows = self.loss = rows
        self._definition, self._one_vs_rest = definition, one_vs_rest
        self.__doc__ = rows.__doc__

    def __call__(self, scored: Scored, options: Options) -> Measured:
        if scored.undefined_reason:
            return Measured(None, self._definition[not scored.binary], reason=scored.undefined_reason)
        return self.finish([self.gather(scored, options)], options)[0]

    def sums(self, options: Options) -> Additive[LossSums]:
        return self

    def gather(self, scored: Scored, options: Options) -> LossSums:
        per_class = None
        if self._one_vs_rest and not scored.binary:
            per_class = tuple(scored.one_vs_rest(index).sum_of(self.loss) for index in range(scored.classes))
        return LossSums(scored.total_weight, scored.sum_of(self.loss), per_class, scored.binary)

    def finish(self, scores: Sequence[LossSums], options: Options) -> list[Measured]:
        return [
            Measured(
                sums.loss / sums.weight,
                self._definition[not sums.binary],
                per_class=None if sums.per_class is None else tuple(loss / sums.weight for loss in sums.per_class),
            )
            for sums in scores
        ]


def row_mean(two: Definition, more: Definition | None = None) -> Callable[[RowLoss], RowMean]:
    """Makes a metric of the loss of each row; `more` is its definition where there are more than two classes."""
    return lambda rows: RowMean(rows, (two, more or two))


@dataclass(frozen=True, slots=True)
class SkillSums:
    """The sums of a loss, and the weight of each class."""

    loss: LossSums
    classes: FloatArray

    __add__ = added


class Skill(Metric):
    """D²: one minus a mean loss over that of the rates of the classes, predicted for every row."""

    def __init__(self, loss: RowMean, doc: str) -> None:
        self.loss, self.__doc__ = loss, doc

    def __call__(self, scored: Scored, options: Options) -> Measured:
        if scored.undefined_reason:
            lower = self.loss(scored, options)
            return replace(lower, definition=replace(lower.definition, direction="higher"))
        return self.finish([self.gather(scored, options)], options)[0]

    def sums(self, options: Options) -> Additive[SkillSums]:
        return self

    def gather(self, scored: Scored, options: Options) -> SkillSums:
        weight = np.bincount(scored.label, scored.weight, minlength=scored.classes).astype(np.float64)
        return SkillSums(self.loss.gather(scored, options), weight)

    def finish(self, scores: Sequence[SkillSums], options: Options) -> list[Measured]:
        found = []
        for sums, lower in zip(scores, self.loss.finish([one.loss for one in scores], options), strict=True):
            value, per_class = self.number(lower.value, sums.classes), None
            if lower.per_class is not None:
                rest = zip(lower.per_class, sums.classes, strict=True)
                total = sums.classes.sum()
                per_class = tuple(self.number(loss, np.array([total - weight, weight])) for loss, weight in rest)
            definition = replace(lower.definition, direction="higher")
            reason = "all rows are of one class" if value is None else None
            found.append(Measured(value, definition, reason=reason, per_class=per_class))
        return found

    def number(self, loss: float | None, classes: FloatArray) -> float | None:
        """The metric from the mean loss and the weight of each class; None where there are rows of one class alone."""
        if loss is None or np.count_nonzero(classes) < 2:
            return None
        rates = classes / classes.sum()
        prob = np.full(2, rates[1]) if len(rates) == 2 else np.tile(rates, (len(rates), 1))
        rows = Scored(np.arange(len(rates)), prob, rates)
        return 1.0 - loss / rows.mean(self.loss.loss(rows))


class OfClasses(Protocol):
    """Rows, or sums over them."""

    @property
    def binary(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class OfProblems(Generic[S]):
    """The sums of each binary problem of a metric."""

    binary: bool
    """Whether there are two classes."""

    parts: tuple[S, ...]
    """The problems whose numbers are combined."""

    rest: tuple[S, ...]
    """Each class against the others, for `Measured.per_class`; empty where `parts` are these already."""

    __add__ = added


@dataclass(frozen=True)
class ByProblem(Generic[S]):
    """A number for each binary problem, and one made of these."""

    reduction: Reduction
    """The problems, and how their numbers are combined."""

    of: Callable[[Scored, Options], S]
    """The sums over the rows of a problem: all that the number depends on."""

    value: Callable[[S, Options], float | None]
    """The number; None where it is not defined."""

    definition: Callable[[Sequence[Any], Options], Definition]
    """For several scores of the same rows, from their rows or sums; the reduction is added to it."""

    undefined: str = ""
    """Why there may be no number."""

    floor: Callable[[S, Options], float] | None = None
    """What a calibrated score would show, where that is known of the one problem that there is."""

    def measure(self, scored: Scored, options: Options) -> Measured:
        """The metric of all rows, one problem after the other."""
        definition = self._definition([scored], options)
        if scored.undefined_reason:
            return Measured(None, definition, reason=scored.undefined_reason)
        values: list[float | None] = []
        floor = None
        for one in problems(scored, self.reduction, options):
            sums = self.of(one, options)
            values.append(self.value(sums, options))
            floor = None if self.floor is None or values[-1] is None else self.floor(sums, options)
        rest = [self.value(self.of(one, options), options) for one in self._rest(scored, options)]
        return self._assembled(values, rest, definition, floor, binary=scored.binary)

    def gather(self, scored: Scored, options: Options) -> OfProblems[S]:
        """The sums of all problems."""
        parts = tuple(self.of(one, options) for one in problems(scored, self.reduction, options))
        return OfProblems(scored.binary, parts, tuple(self.of(one, options) for one in self._rest(scored, options)))

    def finish(self, scores: Sequence[OfProblems[S]], options: Options) -> list[Measured]:
        """The metric of several scores of the same rows, from the sums of each."""
        definition = self._definition(scores, options)
        found = []
        for sums in scores:
            values, rest = ([self.value(one, options) for one in part] for part in (sums.parts, sums.rest))
            floor = None if self.floor is None or values[0] is None else self.floor(sums.parts[0], options)
            found.append(self._assembled(values, rest, definition, floor, binary=sums.binary))
        return found

    def _definition(self, scores: Sequence[OfClasses], options: Options) -> Definition:
        return replace(self.definition(scores, options), reduction=_reduction_text(scores[0], self.reduction, options))

    def _rest(self, scored: Scored, options: Options) -> tuple[Scored, ...]:
        """The problems of each class, where there are more than two and these are not what is measured."""
        known = scored.binary or self.reduction in {"macro", "each", "sum", "confidence"}
        return () if known else problems(scored, "macro", options)

    def _assembled(
        self,
        values: Sequence[float | None],
        rest: Sequence[float | None],
        definition: Definition,
        floor: float | None,
        *,
        binary: bool,
    ) -> Measured:
        value = combined(values, self.reduction)
        reason = self.undefined if value is None else None
        left_out = [str(index) for index, one in enumerate(values) if one is None]
        if value is not None and left_out:
            reason = f"mean over {len(values) - len(left_out)} classes; not defined for class {', '.join(left_out)}"
        per_class = None if binary or self.reduction == "confidence" else tuple(rest or values)
        return Measured(value, definition, reason=reason, per_class=per_class, floor=floor)


class ProblemMetric(Metric):
    """A metric that is a number for each binary problem.

    Parameters
    ----------
    here
        The metric of all rows at once.
    pooled
        The number of a problem from the tied scores of its rows, or of a resample of them.
    sums
        The metric from sums over parts of the rows, by the options; None where there are no such sums.
    ranked
        Whether only the order of the scores counts: tied scores are then those that rows are ranked by.
    complete
        Adds to a measurement of these rows what is no number of a problem: an interval, a p-value, a reason.
    """

    def __init__(
        self,
        here: ByProblem[Any],
        pooled: Callable[[TiedScores, Options], float | None],
        *,
        sums: Callable[[Options], Additive[Any] | None] = lambda options: None,
        ranked: bool = False,
        complete: Callable[[Measured, Scored, Options], Measured] | None = None,
    ) -> None:
        self.pooled, self.reduction, self.ranked = pooled, here.reduction, ranked
        self._here, self._sums, self._complete = here, sums, complete
        self.__doc__ = pooled.__doc__

    def __call__(self, scored: Scored, options: Options) -> Measured:
        found = self._here.measure(scored, options)
        return found if self._complete is None or scored.undefined_reason else self._complete(found, scored, options)

    def sums(self, options: Options) -> Additive[Any] | None:
        return self._sums(options)


def of_ties(
    reduction: Reduction,
    definition: Definition | Callable[[Scored, Options], Definition],
    undefined: str = "",
    *,
    of_rows: Callable[[Scored, Options], float | None] | None = None,
    sums: Additive[Any] | None = None,
    ranked: bool = False,
    complete: Callable[[Measured, Scored, Options], Measured] | None = None,
) -> Callable[[Callable[[TiedScores, Options], float | None]], ProblemMetric]:
    """Makes a metric of the number of a binary problem from its tied scores.

    `of_rows` gives that number of rows where they tell more than their tied scores do, or tell it sooner; `sums`, and
    what else is not described here, is as in `ProblemMetric`.
    """

    def defined(scores: Sequence[Scored], options: Options) -> Definition:
        return definition if isinstance(definition, Definition) else definition(scores[0], options)

    def made(value: Callable[[TiedScores, Options], float | None]) -> ProblemMetric:
        here: ByProblem[Any]
        if of_rows is None:
            here = ByProblem(reduction, lambda one, _: one.ties, value, defined, undefined)
        else:
            here = ByProblem(reduction, lambda one, _: one, of_rows, defined, undefined)
        return ProblemMetric(here, value, sums=lambda _: sums, ranked=ranked, complete=complete)

    return made


def problems(scored: Scored, reduction: Reduction, options: Options) -> tuple[Scored, ...]:
    """The binary problems that a metric is made of."""
    if reduction == "top":
        return (scored.top,)
    if reduction == "confidence":
        return (scored.confidence,)
    if reduction == "binned":
        return (convention(options.convention).problem(scored),)
    if scored.binary and reduction != "each":
        return (scored,)
    return tuple(scored.one_vs_rest(index) for index in range(scored.classes))


def combined(values: Sequence[float | None], reduction: Reduction) -> float | None:
    """One number from those of the binary problems; classes for which there is none are left out of a mean."""
    defined = [value for value in values if value is not None]
    if not defined or (reduction == "sum" and len(defined) < len(values)):
        return None
    return math.fsum(defined) if reduction == "sum" else math.fsum(defined) / len(defined)


def _reduction_text(rows: OfClasses, reduction: Reduction, options: Options) -> str:
    """The reduction as the definition states it."""
    top = "top label"
    if rows.binary and reduction not in {"each", "confidence"}:
        return top if reduction == "binned" and convention(options.convention).top else "positive class"
    names = {"top": top, "binned": top, "confidence": top, "sum": "sum over classes one-vs-rest"}
    return names.get(reduction, "macro one-vs-rest")
