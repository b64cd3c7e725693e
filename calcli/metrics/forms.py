"""The forms of metrics: each is written once, and measured from rows, from sums over parts of them, or resampled.

A `RowMean` is a mean over rows. A `ProblemMetric` is a number for each binary problem that the rows are made of, and
what resamples need of it is a function of their tied scores. Gaps over clusters and the multi-view error have forms of
their own, beside their formulas.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.conventions import convention
from calcli.metrics.tied import TiedScores
from calcli.state import added

Reduction = Literal["top", "confidence", "binned", "macro", "each", "sum", "cumulative"]
"""``top``: the predicted class of more than two. ``confidence``: also of two. ``binned``: ``top``, or what the
convention takes. ``macro``: the mean over classes one-vs-rest. ``each``: that mean for two classes, too. ``sum``: the
sum over classes one-vs-rest."""

_TOP = "top label"

RowLoss = Callable[[Scored], FloatArray]
"""The loss of each row, before weighting."""


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

    There is a definition for two classes, and one for more, of which each may have a value of its own (`one_vs_rest`).
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


def row_mean(
    two: Definition, more: Definition | None = None, *, one_vs_rest: bool = True
) -> Callable[[RowLoss], RowMean]:
    """Makes a metric of the loss of each row; `more` is its definition where there are more than two classes."""
    return lambda rows: RowMean(rows, (two, more or two), one_vs_rest=one_vs_rest)


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
        return 1.0 - loss / rows.mean_of(self.loss.loss)


@dataclass(frozen=True, slots=True)
class OfProblems(Generic[S]):
    """The sums of each binary problem of a metric."""

    binary: bool
    """Whether there are two classes."""

    parts: tuple[S, ...]
    """The problems whose numbers are combined."""

    rest: tuple[S, ...] = ()
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
    """The number of a calibrated score, where it is known for the only problem."""

    def measure(self, scored: Scored, options: Options) -> Measured:
        """The metric of all rows, one problem after the other."""
        definition = self._definition([scored], scored.binary, options)
        if scored.undefined_reason:
            return Measured(None, definition, reason=scored.undefined_reason)
        return self._assembled(scored.binary, *self._sums(scored, options), definition, options)

    def gather(self, scored: Scored, options: Options) -> OfProblems[S]:
        """The sums of all problems."""
        parts, rest = self._sums(scored, options)
        return OfProblems(scored.binary, tuple(parts), tuple(rest))

    def finish(self, scores: Sequence[OfProblems[S]], options: Options) -> list[Measured]:
        """The metric of several scores of the same rows, from the sums of each."""
        definition = self._definition(scores, scores[0].binary, options)
        return [self._assembled(sums.binary, sums.parts, sums.rest, definition, options) for sums in scores]

    def _definition(self, scores: Sequence[Any], binary: bool, options: Options) -> Definition:
        """The definition with the reduction in words."""
        text = {"top": _TOP, "binned": _TOP, "confidence": _TOP, "sum": "sum over classes one-vs-rest"}
        text["cumulative"] = "mean over the thresholds between classes in order"
        reduction = text.get(self.reduction, "macro one-vs-rest")
        if binary and self.reduction not in {"each", "confidence"}:
            top = self.reduction == "binned" and convention(options.convention).top
            reduction = _TOP if top else "positive class"
        return replace(self.definition(scores, options), reduction=reduction)

    def _sums(self, scored: Scored, options: Options) -> tuple[Iterator[S], Iterator[S]]:
        """The sums of each problem, and of each class where there are more than two and these are not the problems."""
        known = scored.binary or self.reduction in {"macro", "each", "sum", "confidence", "cumulative"}
        return (self.of(one, options) for one in problems(scored, self.reduction, options)), (
            self.of(one, options) for one in (() if known else problems(scored, "macro", options))
        )

    def _assembled(
        self, binary: bool, parts: Iterable[S], rest: Iterable[S], definition: Definition, options: Options
    ) -> Measured:
        values: list[float | None] = []
        floor = None
        for sums in parts:
            values.append(self.value(sums, options))
            floor = None if self.floor is None or values[-1] is None else self.floor(sums, options)
        value = combined(values, self.reduction)
        reason = self.undefined if value is None else None
        left_out = [str(index) for index, one in enumerate(values) if one is None]
        if value is not None and left_out:
            reason = f"mean over {len(values) - len(left_out)} classes; not defined for class {', '.join(left_out)}"
        of_class = [self.value(sums, options) for sums in rest] or values
        if self.reduction == "cumulative":
            of_class = [None, *of_class]  # every row is of the first class or a later one
        per_class = None if binary or self.reduction == "confidence" else tuple(of_class)
        return Measured(value, definition, reason=reason, per_class=per_class, floor=floor)


class ProblemMetric(Metric):
    """A metric that is a number for each binary problem.

    `here` is the metric of all rows at once, `pooled` the number of a problem from the tied scores of its rows, or of a
    resample of them. If it is `ranked`, only the order of the scores counts: tied scores are then those that rows are
    ranked by. `sums` gives the metric from sums over parts of the rows, by the options, if there are such sums.
    `complete` adds to a measurement what is no number of a problem: an interval, a p-value, a reason.
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
    ties: Callable[[Scored], TiedScores] = lambda rows: rows.ties,
    sums: Additive[Any] | None = None,
    ranked: bool = False,
    complete: Callable[[Measured, Scored, Options], Measured] | None = None,
) -> Callable[[Callable[[TiedScores, Options], float | None]], ProblemMetric]:
    """Makes a metric of the number of a binary problem from its tied scores.

    `of_rows` gives that number of rows where they tell more than their tied scores do, or tell it sooner; `ties` pools
    them otherwise; `sums`, and what else is not described here, is as in `ProblemMetric`.
    """

    def defined(scores: Sequence[Scored], options: Options) -> Definition:
        return definition if isinstance(definition, Definition) else definition(scores[0], options)

    def made(value: Callable[[TiedScores, Options], float | None]) -> ProblemMetric:
        here: ByProblem[Any]
        if of_rows is None:
            here = ByProblem(reduction, lambda one, _: ties(one), value, defined, undefined)
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
    if reduction == "cumulative":
        return tuple(scored.from_class(index) for index in range(1, scored.classes))
    return tuple(scored.one_vs_rest(index) for index in range(scored.classes))


def combined(values: Sequence[float | None], reduction: Reduction) -> float | None:
    """One number from those of the binary problems; classes for which there is none are left out of a mean."""
    defined = [value for value in values if value is not None]
    if not defined or (reduction == "sum" and len(defined) < len(values)):
        return None
    return math.fsum(defined) if reduction == "sum" else math.fsum(defined) / len(defined)
