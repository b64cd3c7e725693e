"""calcli calibrates predictions that already exist.

For arrays there are estimators of scikit-learn, metrics and a diagram::

    calcli.Calibrator("platt").fit(prob, y).predict_proba(prob)
    calcli.CalibratedClassifier(estimator, method="beta").fit(X, y)
    calcli.metrics.ece(y, prob)
    calcli.reliability_diagram(y, prob)

For files and frames there are the verbs of the command line::

    import calcli

    calcli.fit("train.parquet", method="platt")           # keeps train.platt/ and reports before and after
    model = calcli.load("train.platt")
    model.predict(frame)                                  # polars, pandas or pyarrow
    calcli.evaluate("test.parquet", artifacts=("train.platt",)).to_json()
    calcli.webpage(calcli.evaluate("test.parquet", artifacts=("train.platt",), every_curve=True))
    calcli.diagram("test.parquet", artifacts=("train.platt",), output="reliability.png")
    calcli.apply("train.platt", "new.parquet", "scored.parquet")

Nothing heavy is imported before something is used.
"""

# ruff: noqa: F405 the names of `__all__` come from `calcli.verbs.api`

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from calcli.homes import HOMES
from calcli.version import VERSION

__version__ = VERSION

__all__ = [
    "CalibratedClassifier",
    "CalibrationWarning",
    "Calibrator",
    "Database",
    "Flags",
    "Options",
    "SideFiles",
    "__version__",
    "apply",
    "apply_ensemble",
    "compare",
    "decide",
    "decompose",
    "diagram",
    "estimate",
    "evaluate",
    "evaluate_ensembles",
    "explain",
    "fit",
    "fit_ensemble",
    "inspect",
    "load",
    "load_ensemble",
    "metrics",
    "open_source",
    "refit",
    "reliability_diagram",
    "storage_options",
    "uncertainty",
    "webpage",
]

if TYPE_CHECKING:
    from calcli import metrics, uncertainty
    from calcli.estimators.calibrator import CalibrationWarning, Calibrator
    from calcli.estimators.classifier import CalibratedClassifier
    from calcli.estimators.metrics import reliability_diagram
    from calcli.reporting.webpage import webpage
    from calcli.verbs.api import *  # noqa: F403

_HOMES = {
    "CalibratedClassifier": "calcli.estimators.classifier",
    "CalibrationWarning": "calcli.estimators.calibrator",
    "Calibrator": "calcli.estimators.calibrator",
    "reliability_diagram": "calcli.estimators.metrics",
    "webpage": "calcli.reporting.webpage",
}
"""The modules of the names that are no verbs."""

HOMES |= {
    "notebook": "calcli.reporting.webpage",
    "metrics": "calcli.estimators.metrics",
    "uncertainty": "calcli.estimators.ensemble",
}


def __getattr__(name: str) -> object:
    """Import what is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'calcli' has no attribute {name!r}")
    if name in ("metrics", "uncertainty"):
        return import_module(f"calcli.{name}")
    return getattr(import_module(_HOMES.get(name, "calcli.verbs.api")), name)


def __dir__() -> list[str]:
    return list(__all__)
