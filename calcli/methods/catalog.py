"""The methods, as data.

`calcli.methods.catalogs` has the specs of each family. They are read by ``calcli methods``, by shell completion, by the
docs and by the contract tests, none of which import a method. A new method is one module, and one spec in the catalog
of its family.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from calcli import extras
from calcli.errors import UsageError, unknown_name
from calcli.methods.catalogs.binning import SPECS as BINNING
from calcli.methods.catalogs.clusters import SPECS as CLUSTERS
from calcli.methods.catalogs.graphs import SPECS as GRAPHS
from calcli.methods.catalogs.mixtures import SPECS as MIXTURES
from calcli.methods.catalogs.scaling import SPECS as SCALING
from calcli.methods.catalogs.trees import SPECS as TREES
from calcli.methods.spec import MethodSpec

if TYPE_CHECKING:
    from calcli.batch import Batch
    from calcli.methods.base import Params

AUTO = "auto"
"""The name of the choice among several methods on held-out rows; it has no spec."""

_SPECS = (*SCALING, *BINNING, *TREES, *CLUSTERS, *GRAPHS, *MIXTURES)


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
    """Those of them that have the columns which they need."""
    return [spec for spec in candidates_for(batch.classes) if not spec.lacks_columns(batch)]


def require(spec: MethodSpec, params: Params, features: int, sides: Collection[str]) -> None:
    """A `MissingExtraError` where a fit of this method needs packages that are not installed."""
    if (package := spec.lacks(params, features, sides)) is not None:
        more = "" if package in spec.needs(params, 0, sides) else f" with {features} features"
        extras.require(package, f"{spec.name}{more}")


def installed(
    asked: Mapping[MethodSpec, Params], features: int, sides: Collection[str]
) -> tuple[dict[MethodSpec, Params], dict[str, str]]:
    """Those methods that can be fitted with the packages that are installed, and what each of the others lacks."""
    lacking = {spec: spec.lacks(params, features, sides) for spec, params in asked.items()}
    kept = {spec: params for spec, params in asked.items() if lacking[spec] is None}
    return kept, {spec.name: package for spec, package in lacking.items() if package is not None}


def find(name: str) -> MethodSpec:
    """The spec of a method, or a `UsageError` with the nearest name."""
    for spec in _SPECS:
        if spec.name == name:
            return spec
    raise UsageError(unknown_name("method", name, names()), hint="try: calcli methods")
