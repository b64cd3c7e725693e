"""Metrics of rows that are not all held in memory: sums over parts of the rows, and the metric from their total."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.reduce import Reduction, assembled, over_classes, problems


class Sums(Protocol):
    """Sums over parts of the rows add up to those over all."""

    def __add__(self, other: Any, /) -> Self: ...


S = TypeVar("S", bound=Sums)


@dataclass(frozen=True, slots=True)
class Additive(Generic[S]):
    """A metric by its sums.

    Attributes
    ----------
    gather
        The sums over some rows.
    finish
        The metric of several scores of the same rows, by one definition, from the sums of each.
    """

    gather: Callable[[Scored, Options], S]
    finish: Callable[[Sequence[S], Options], list[Measured]]


@dataclass(frozen=True, slots=True)
class OfProblems(Generic[S]):
    """The sums of each binary problem of a metric.

    Attributes
    ----------
    binary
        Whether there are two classes.
    parts
        The problems whose numbers are combined.
    rest
        Each class against the others, for `Measured.per_class`; empty where `parts` are these already.
    """

    binary: bool
    parts: tuple[S, ...]
    rest: tuple[S, ...]

    def __add__(self, other: OfProblems[S]) -> OfProblems[S]:
        return OfProblems(self.binary, _added(self.parts, other.parts), _added(self.rest, other.rest))


def _added(some: tuple[S, ...], more: tuple[S, ...]) -> tuple[S, ...]:
    return tuple(one + other for one, other in zip(some, more, strict=True))


def of_problems(
    reduction: Reduction,
    gather: Callable[[Scored, Options], S],
    value: Callable[[S, Options], float | None],
    definition: Callable[[Sequence[OfProblems[S]], Options], Definition],
    undefined: str,
    floor: Callable[[S, Options], float] | None = None,
) -> Additive[OfProblems[S]]:
    """A metric that is a number for each binary problem; `undefined` is why it may have none.

    `floor` is what a calibrated score would show, where that is known of the one problem that there is.
    """

    def gathered(scored: Scored, options: Options) -> OfProblems[S]:
        def of(how: Reduction) -> tuple[S, ...]:
            return tuple(gather(one, options) for one in problems(scored, how, options))

        rest = () if scored.binary or over_classes(reduction) else of("macro")
        return OfProblems(scored.binary, of(reduction), rest)

    def finished(scores: Sequence[OfProblems[S]], options: Options) -> list[Measured]:
        measurements = []
        for sums in scores:
            values = [value(one, options) for one in sums.parts]
            rest = [value(one, options) for one in sums.rest] or values
            per_class = None if sums.binary else rest
            found = assembled(values, per_class, reduction, definition(scores, options), undefined)
            if floor is not None and found.value is not None:
                found = replace(found, floor=floor(sums.parts[0], options))
            measurements.append(found)
        return measurements

    return Additive(gathered, finished)
