"""The verbs on a Spark cluster: workers sum over rows, the driver finishes from the sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calcli.spark.columns import calibrator as calibrator

__all__ = ["calibrator"]


def __getattr__(name: str) -> Any:
    """Nothing heavy is imported before it is used: workers import this package for each task."""
    if name != "calibrator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from calcli.spark.columns import calibrator

    return calibrator
