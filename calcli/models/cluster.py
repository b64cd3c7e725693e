"""The protocol of a cluster, on which the rows of a table stay. An engine is one room, and one line in `CLUSTERS`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from calcli.listener import Listener
from calcli.models.base import Model
from calcli.models.stream import ModelColumns, RowsWritten
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.passes import ClusterTable
from calcli.tables.request import BadRows, EngineRequest
from calcli.tables.source import Source

if TYPE_CHECKING:  # `apply` fits nothing
    from calcli.models.requests import FitRequest, FitResult
    from calcli.models.trial import TrialRows, TrialTable

Columns = TypeVar("Columns", bound=ModelColumns)


class CopyRequest(EngineRequest, Protocol):
    """A request to copy a table with columns added."""

    @property
    def output(self) -> str | os.PathLike[str] | None: ...
    @property
    def output_format(self) -> str | None: ...
    @property
    def keep(self) -> Sequence[str] | None: ...
    @property
    def bad_rows(self) -> BadRows: ...
    @property
    def dry_run(self) -> bool: ...


class Cluster(Protocol):
    """The functions of an engine whose rows stay where they are."""

    def table_of(self, request: EngineRequest, *, keep_going: bool) -> AbstractContextManager[ClusterTable]:
        """The table of a request, over which passes run."""
        ...

    def sampled_table(
        self,
        request: TrialTable,
        flags: Flags,
        unit: str | None,
        listener: Listener,
        known: Binding | None,
        most: int | None = None,
    ) -> AbstractContextManager[TrialRows]:
        """A sample of the rows for a trial, which knows how to measure on the others; of at most so many."""
        ...

    def fitting(self, request: FitRequest) -> AbstractContextManager[None]:
        """A session in which one fit reads its table several times."""
        ...

    def fit_from_sums(self, request: FitRequest, listener: Listener) -> FitResult | None:
        """Fit from sums over all rows; None where the method needs more than sums."""
        ...

    def copy_with(
        self, columns: Callable[[Source], Columns], model: Model, request: CopyRequest, listener: Listener
    ) -> tuple[Columns, RowsWritten]:
        """Copy a table with columns added, and count its rows."""
        ...


CLUSTERS = {"spark": "calcli.spark.cluster"}
"""The module of each engine but this machine; it has the functions of `Cluster`."""


def cluster(engine: str) -> Cluster:
    """The engine with this name."""
    return cast(Cluster, import_module(CLUSTERS[engine]))
