"""From more than two classes to binary problems, and back to one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.conventions import convention

Reduction = Literal["top", "binned", "macro", "each", "sum"]
"""``top``: the predicted class. ``binned``: the same, or what the convention takes. ``macro``: the mean over classes
one-vs-rest. ``each``: that mean for two classes, too. ``sum``: the sum over classes one-vs-rest."""

Value = Callable[[Scored, Options], float | None]
"""A metric of a binary problem, None where it is not defined."""


def problems(scored: Scored, reduction: Reduction, options: Options) -> tuple[Scored, ...]:
    """The binary problems that a metric is made of."""
    if reduction == "top":
        return (scored.top,)
    if reduction == "binned":
        return (convention(options.convention).problem(scored),)
    if scored.binary and reduction != "each":
        return (scored,)
    return tuple(scored.one_vs_rest(index) for index in range(scored.classes))


def combined(values: Sequence[float | None], reduction: Reduction) -> float | None:
    """One number from those of the binary problems; classes for which there is none are left out of a mean."""
    held = [value for value in values if value is not None]
    if not held or (reduction == "sum" and len(held) < len(values)):
        return None
    return math.fsum(held) if reduction == "sum" else math.fsum(held) / len(held)


def reduction_text(scored: Scored, reduction: Reduction, options: Options) -> str:
    """What the definition says of it."""
    top = "top label"
    if scored.binary and reduction != "each":
        return top if reduction == "binned" and convention(options.convention).top else "positive class"
    return {"top": top, "binned": top, "sum": "sum over classes one-vs-rest"}.get(reduction, "macro one-vs-rest")


def measured(
    scored: Scored, options: Options, value: Value, reduction: Reduction, definition: Definition, undefined: str
) -> Measured:
    """A metric that is a number for each binary problem; `undefined` is why it may have none."""
    if scored.nothing:
        return Measured(None, definition, reason=scored.nothing)
    parts = problems(scored, reduction, options)
    values = [value(part, options) for part in parts]
    per_class = None
    if not scored.binary:
        over_classes = reduction in {"macro", "each", "sum"}
        rest = values if over_classes else [value(one, options) for one in problems(scored, "macro", options)]
        per_class = tuple(rest)
    found = combined(values, reduction)
    reason = undefined if found is None else None
    left_out = [str(index) for index, one in enumerate(values) if one is None]
    if found is not None and left_out:
        reason = f"mean over {len(values) - len(left_out)} classes; not defined for class {', '.join(left_out)}"
    return Measured(found, definition, reason=reason, per_class=per_class)
