"""Metrics: numbers, each with the definition that tells it from others of its name.

In Python each metric of the catalog is a function of arrays, ``calcli.metrics.nll(y_true, prob)``, and `summary` gives
several with their intervals.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """The functions of arrays, which stand above the rooms that they need (PEP 562)."""
    from calcli.homes import at_home
    from calcli.metrics.catalog import names

    if name == "summary" or name in names():
        return at_home("metrics", name)
    raise AttributeError(f"module 'calcli.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    from calcli.metrics.catalog import names

    return ["summary", *names()]
