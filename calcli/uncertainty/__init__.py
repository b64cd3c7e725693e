"""Ensembles of models that know what they do not know (Malinin, Prokhorenkova & Ustimenko, ICLR 2021).

In Python `Ensemble` is an estimator of arrays: ``calcli.uncertainty.Ensemble().fit(X, y).uncertainty(X)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calcli.estimators.ensemble import Ensemble as Ensemble


def __getattr__(name: str) -> Any:
    """The estimator, which stands above the rooms that it needs (PEP 562)."""
    if name == "Ensemble":
        from calcli.homes import at_home

        return at_home("uncertainty", name)
    raise AttributeError(f"module 'calcli.uncertainty' has no attribute {name!r}")
