"""The methods, as data: ``calcli methods``, shell completion, the docs and the contract tests read it.

None of them import a method. A new method is a class, or a module, and its spec: in `score_methods` if it needs nothing
but the score, else in `feature_methods`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from calcli import extras
from calcli.errors import UsageError, unknown_name
from calcli.methods.feature_methods import CCL, POOL, RECAL, TREES
from calcli.methods.score_methods import BINNING, SCALING
from calcli.methods.spec import MethodSpec

if TYPE_CHECKING:
    from calcli.batch import Batch
    from calcli.methods.base import Params

AUTO = "auto"
"""The name of the choice among several methods on held-out rows; it has no spec."""

_SPECS = (*SCALING, *BINNING, *TREES, CCL, RECAL, POOL)


def specs() -> tuple[MethodSpec, ...]:
    """All methods, in the order of the catalog."""
    return _SPECS


def names() -> tuple[str, ...]:
    return tuple(spec.name for spec in _SPECS)


def candidates_for(classes: int) -> list[MethodSpec]:
    """The methods that `auto` compares, the simplest first."""
    kind = "binary" if classes == 2 else "multiclass"
    return sorted((spec for spec in _SPECS if spec.auto in ("yes", kind)), key=lambda spec: spec.simplicity)


def suited_to(batch: Batch) -> list[MethodSpec]:
    """The candidates that find the columns they need in these rows."""
    return [spec for spec in candidates_for(batch.classes) if not spec.lacks_columns(batch)]


def require(spec: MethodSpec, params: Params, features: int, sides: Collection[str]) -> None:
    """A `MissingExtraError` where a fit of this method needs packages that are not installed."""
    if (package := spec.lacks(params, features, sides)) is not None:
        more = "" if package in spec.needs(params, 0, sides) else f" with {features} features"
        extras.require(package, f"{spec.name}{more}")


def installed(
    asked: Mapping[MethodSpec, Params], features: int, sides: Collection[str]
) -> tuple[dict[MethodSpec, Params], dict[str, str]]:
    """The methods whose packages are installed, and for each of the others the package that it lacks."""
    lacking = {spec: spec.lacks(params, features, sides) for spec, params in asked.items()}
    kept = {spec: params for spec, params in asked.items() if lacking[spec] is None}
    return kept, {spec.name: package for spec, package in lacking.items() if package is not None}


def find(name: str) -> MethodSpec:
    """The spec of a method, or a `UsageError` with the nearest name."""
    for spec in _SPECS:
        if spec.name == name:
            return spec
    raise UsageError(unknown_name("method", name, names()), hint="try: calcli methods")
