"""Reduction of multiclass problems to binary ones, and of their metrics to one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.conventions import convention

Reduction = Literal["top", "confidence", "binned", "macro", "each", "sum"]
"""``top``: the predicted class of more than two. ``confidence``: also of two. ``binned``: ``top``, or what the
convention takes. ``macro``: the mean over classes one-vs-rest. ``each``: that mean for two classes, too. ``sum``: the
sum over classes one-vs-rest."""

Value = Callable[[Scored, Options], float | None]
"""A metric of a binary problem, None where it is not defined."""


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


def over_classes(reduction: Reduction) -> bool:
    """Whether the problems are one-vs-rest."""
    return reduction in {"macro", "each", "sum"}


def combined(values: Sequence[float | None], reduction: Reduction) -> float | None:
    """One number from those of the binary problems; classes for which there is none are left out of a mean."""
    defined = [value for value in values if value is not None]
    if not defined or (reduction == "sum" and len(defined) < len(values)):
        return None
    return math.fsum(defined) if reduction == "sum" else math.fsum(defined) / len(defined)


class OfClasses(Protocol):
    """Rows, or sums over them."""

    @property
    def binary(self) -> bool: ...


def reduction_text(rows: OfClasses, reduction: Reduction, options: Options) -> str:
    """The reduction as the definition states it."""
    top = "top label"
    if rows.binary and reduction != "each":
        return top if reduction == "binned" and convention(options.convention).top else "positive class"
    return {"top": top, "binned": top, "sum": "sum over classes one-vs-rest"}.get(reduction, "macro one-vs-rest")


def measured(
    scored: Scored, options: Options, value: Value, reduction: Reduction, definition: Definition, undefined: str
) -> Measured:
    """A metric that is a number for each binary problem; `undefined` is why it may have none."""
    if scored.nothing:
        return Measured(None, definition, reason=scored.nothing)
    values = [value(part, options) for part in problems(scored, reduction, options)]
    rest = None
    if not scored.binary:
        over = over_classes(reduction)
        rest = values if over else [value(one, options) for one in problems(scored, "macro", options)]
    return assembled(values, rest, reduction, definition, undefined)


def assembled(
    values: Sequence[float | None],
    rest: Sequence[float | None] | None,
    reduction: Reduction,
    definition: Definition,
    undefined: str,
) -> Measured:
    """The metric from the numbers of its binary problems; `rest` are those of each class, of more than two."""
    value = combined(values, reduction)
    reason = undefined if value is None else None
    left_out = [str(index) for index, one in enumerate(values) if one is None]
    if value is not None and left_out:
        reason = f"mean over {len(values) - len(left_out)} classes; not defined for class {', '.join(left_out)}"
    return Measured(value, definition, reason=reason, per_class=None if rest is None else tuple(rest))
