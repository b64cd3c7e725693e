"""The engine that a request names: where its table is opened, and passes over the rows run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from calcli.errors import UsageError
from calcli.listener import Listener
from calcli.models.cluster import cluster
from calcli.tables.groupings import add_grouping
from calcli.tables.passes import ClusterTable, LocalTable
from calcli.tables.request import BadRows, EngineRequest, open_table
from calcli.tables.source import Source


def needs_all_rows(what: str, verb: str = "evaluate") -> UsageError:
    """The refusal of a flag or a score for which sums are not enough."""
    return UsageError(
        f"{what} needs all rows at once, and --engine spark has only sums over parts of them",
        hint=f"leave out {what}, or {verb} a sample of the rows on one machine",
    )


class BadRowsRequest(EngineRequest, Protocol):
    """A request that names an engine, and what is to be done with bad rows."""

    @property
    def bad_rows(self) -> BadRows: ...


def grouped(table: LocalTable | ClusterTable, asked: Sequence[str], listener: Listener) -> tuple[str, ...]:
    """The columns of groups that are asked for; on this machine they may be bins and crosses of columns."""
    return groups_here(table.tally.source, asked, listener) if isinstance(table, LocalTable) else tuple(asked)


def groups_here(source: Source, asked: Sequence[str], listener: Listener) -> tuple[str, ...]:
    """The columns of groups of a table on this machine, with notes on those that are made of others."""
    found = [add_grouping(source, name) for name in asked]
    for _, note in found:
        if note is not None:
            listener.note(note)
    return tuple(column for column, _ in found)


@contextmanager
def opened(request: BadRowsRequest) -> Iterator[LocalTable | ClusterTable]:
    keep_going = request.bad_rows == "null"
    if request.engine == "local":
        with open_table(request) as source:
            yield LocalTable.of(source, keep_going=keep_going)
        return
    with cluster(request.engine).table_of(request, keep_going=keep_going) as table:
        yield table
