"""The metrics, as data: what each measures, which way is better, where its function is."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from calcli.errors import UsageError, unknown_name

if TYPE_CHECKING:  # the catalog is read at start-up: numpy must not be
    from calcli.batch import FloatArray
    from calcli.metrics.base import Direction, Measured, Options, Scored

    Metric: TypeAlias = Callable[[Scored, Options], Measured]
    RowMetric: TypeAlias = Callable[[Scored], FloatArray]


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
    rows
        ``module:function`` of what each row adds, for a metric that is a mean over rows: paired differences need it.
    """

    name: str
    family: Literal["proper", "ranking", "binned", "shuffled"]
    target: str
    summary: str
    direction: Direction
    kind: Literal["smooth", "gap"]
    default: bool = True
    rows: str | None = None

    def load(self) -> Metric:
        return cast("Metric", _resolve(self.target))

    def load_rows(self) -> RowMetric | None:
        return None if self.rows is None else cast("RowMetric", _resolve(self.rows))


def _resolve(target: str) -> object:
    module, function = target.split(":")
    return getattr(importlib.import_module(module), function)


_ROWS = (
    Row(
        "nll",
        "proper",
        "calcli.metrics.proper:nll",
        "log-loss in nats, p clipped at 1e-12",
        "lower",
        "smooth",
        rows="calcli.metrics.proper:nll_rows",
    ),
    Row(
        "brier",
        "proper",
        "calcli.metrics.proper:brier",
        "mean squared error of the probability",
        "lower",
        "smooth",
        rows="calcli.metrics.proper:brier_rows",
    ),
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
    """Each metric's number for one score, or None with the reason; never NaN or infinite."""
    scored = scored.moderate
    return {row.name: _finite(row.load()(scored, options)) for row in chosen}


def _finite(measured: Measured) -> Measured:
    """What was measured, with None in place of numbers that are none."""

    def known(value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None

    value, per_class = known(measured.value), measured.per_class
    return replace(
        measured,
        value=value,
        floor=known(measured.floor),
        p=known(measured.p),
        lo=known(measured.lo),
        hi=known(measured.hi),
        reason=measured.reason or ("the result is not a finite number" if value is None else None),
        per_class=None if per_class is None else tuple(known(one) for one in per_class),
    )
