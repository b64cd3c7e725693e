"""The methods, as data.

Each family keeps its rows in a ``catalog.py`` of its own. They are read by ``calcli methods``, by shell completion, by
the docs and by the contract tests, none of which import a method. A new method is one module and one row.
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
"""The method that stands for the best of several, chosen on held-out rows: a name, not a row."""

_SPECS = (*SCALING, *BINNING, *TREES, *CLUSTERS, *GRAPHS)


def specs() -> tuple[MethodSpec, ...]:
    """All methods, in the order of the catalog."""
    return _SPECS


def names() -> tuple[str, ...]:
    return tuple(spec.name for spec in _SPECS)


def find(name: str) -> MethodSpec:
    """The row of a method, or a `UsageError` with the nearest name."""
    for spec in _SPECS:
        if spec.name == name:
            return spec
    raise UsageError(unknown_name("method", name, names()), hint="try: calcli methods")
