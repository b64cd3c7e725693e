"""The metrics, as data: what each measures, which way is better, where its function is."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, cast

from calcli.errors import UsageError, unknown_name
from calcli.metrics.base import Direction, Measured, Options, Scored

Metric = Callable[[Scored, Options], Measured]


@dataclass(frozen=True, slots=True)
class Row:
    """What calcli knows of a metric without importing it.

    Attributes
    ----------
    target
        ``module:function``.
    kind
        ``smooth`` metrics get bootstrap intervals; ``gap`` metrics are never zero on finite data and get a floor.
    default
        Whether `evaluate` shows it unasked.
    """

    name: str
    family: Literal["proper", "ranking", "binned", "shuffled"]
    target: str
    summary: str
    direction: Direction
    kind: Literal["smooth", "gap"]
    default: bool = True

    def load(self) -> Metric:
        module, function = self.target.split(":")
        return cast(Metric, getattr(importlib.import_module(module), function))


_ROWS = (
    Row("nll", "proper", "calcli.metrics.proper:nll", "log-loss in nats, p clipped at 1e-12", "lower", "smooth"),
    Row("brier", "proper", "calcli.metrics.proper:brier", "mean squared error of the probability", "lower", "smooth"),
    Row("auc", "ranking", "calcli.metrics.ranking:auc", "area under the ROC curve", "higher", "smooth"),
    Row("ece", "binned", "calcli.metrics.ece:ece", "mean gap between prediction and label over bins", "lower", "gap"),
    Row(
        "mvce",
        "shuffled",
        "calcli.metrics.mvce:mvce",
        "expected gap over bins of shuffled rows (MBCT), with its noise floor",
        "lower",
        "gap",
    ),
)


def rows() -> tuple[Row, ...]:
    """All metrics, in the order in which reports show them."""
    return _ROWS


def names() -> tuple[str, ...]:
    return tuple(row.name for row in _ROWS)


def find(name: str) -> Row:
    """The row of a metric, or a `UsageError` with the nearest name."""
    for row in _ROWS:
        if row.name == name:
            return row
    raise UsageError(unknown_name("metric", name, names()), hint="try: calcli metrics")


def choose(wanted: str | Iterable[str]) -> tuple[Row, ...]:
    """The rows meant by ``default``, ``all`` or a list of names (comma-separated as text)."""
    given = wanted.split(",") if isinstance(wanted, str) else list(wanted)
    chosen: dict[str, Row] = {}
    for name in (part.strip() for part in given):
        if name == "all":
            chosen |= {row.name: row for row in _ROWS}
        elif name == "default":
            chosen |= {row.name: row for row in _ROWS if row.default}
        elif name:
            chosen[name] = find(name)
    if not chosen:
        raise UsageError("no metric was named", hint="try: --metrics default")
    return tuple(chosen.values())


def measure(chosen: Iterable[Row], scored: Scored, options: Options) -> dict[str, Measured]:
    """Each metric's number for one score."""
    return {row.name: row.load()(scored, options) for row in chosen}
