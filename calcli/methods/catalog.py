"""The methods, as data.

`calcli.methods.catalogs` has the specs of each family. They are read by ``calcli methods``, by shell completion, by the
docs and by the contract tests, none of which import a method. A new method is one module, and one spec in the catalog
of its family.
"""

from __future__ import annotations

from calcli.errors import UsageError, unknown_name
from calcli.methods.catalogs.binning import SPECS as BINNING
from calcli.methods.catalogs.clusters import SPECS as CLUSTERS
from calcli.methods.catalogs.graphs import SPECS as GRAPHS
from calcli.methods.catalogs.mixtures import SPECS as MIXTURES
from calcli.methods.catalogs.scaling import SPECS as SCALING
from calcli.methods.catalogs.trees import SPECS as TREES
from calcli.methods.spec import MethodSpec

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


def find(name: str) -> MethodSpec:
    """The spec of a method, or a `UsageError` with the nearest name."""
    for spec in _SPECS:
        if spec.name == name:
            return spec
    raise UsageError(unknown_name("method", name, names()), hint="try: calcli methods")
