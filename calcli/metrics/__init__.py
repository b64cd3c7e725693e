"""Metrics: numbers, each with the definition that tells it from others of its name.

In Python each metric of the catalog is a function of arrays, ``calcli.metrics.nll(y_true, prob)``, and `summary` gives
several with their intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calcli.estimators.metrics import summary as summary


class MetricFunction(Protocol):
    """A metric of arrays; `options` are those that `help` shows of it."""

    def __call__(
        self,
        y_true: ArrayLike,
        prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        **options: Any,
    ) -> float: ...


def __getattr__(name: str) -> MetricFunction:
    """The functions of arrays, which stand above the rooms that they need (PEP 562)."""
    from calcli.homes import at_home
    from calcli.metrics.catalog import names

    if name == "summary" or name in names():
        function: MetricFunction = at_home("metrics", name)
        return function
    raise AttributeError(f"module 'calcli.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    from calcli.metrics.catalog import names

    return ["summary", *names()]
