"""The methods, as data.

Each family has a ``catalog.py`` with its specs. They are read by ``calcli methods``, by shell completion, by the docs
and by the contract tests, none of which import a method. A new method is one module, and one spec in the catalog of its
family: ``scaling/``, ``binning/``, ``trees/`` (whose methods are beside it), ``clusters/`` or ``graphs/``.
"""

from __future__ import annotations

from calcli.errors import UsageError, unknown_name
from calcli.methods.binning.catalog import SPECS as BINNING
from calcli.methods.clusters.catalog import SPECS as CLUSTERS
from calcli.methods.graphs.catalog import SPECS as GRAPHS
from calcli.methods.scaling.catalog import SPECS as SCALING
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.catalog import SPECS as TREES

AUTO = "auto"
"""The name of the choice among several methods on held-out rows; it has no spec."""

_SPECS = (*SCALING, *BINNING, *TREES, *CLUSTERS, *GRAPHS)


def specs() -> tuple[MethodSpec, ...]:
    """All methods, in the order of the catalog."""
    return _SPECS


def names() -> tuple[str, ...]:
    return tuple(spec.name for spec in _SPECS)


def find(name: str) -> MethodSpec:
    """The spec of a method, or a `UsageError` with the nearest name."""
    for spec in _SPECS:
        if spec.name == name:
            return spec
    raise UsageError(unknown_name("method", name, names()), hint="try: calcli methods")
