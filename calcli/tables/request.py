"""Requests that name a table: opened here, or on a cluster, whose options are checked also where there is none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from calcli.errors import UsageError
from calcli.places import Database, place
from calcli.tables.source import Data, Source, open_source

Engine: TypeAlias = Literal["local", "spark"]
"""Where the work is done: on this machine, or on a cluster."""


TABLE = "table:"
"""Before the name of a table that Spark knows: `table:db.scores`."""


class TableRequest(Protocol):
    """The fields of a request that say which table it is about."""

    @property
    def data(self) -> Data: ...
    @property
    def input_format(self) -> str | None: ...
    @property
    def delimiter(self) -> str | None: ...


class EngineRequest(TableRequest, Protocol):
    """The fields of a request whose table may be on a cluster."""

    @property
    def engine(self) -> Engine: ...
    @property
    def master(self) -> str | None: ...


def open_table(request: TableRequest, *, last: int | None = None) -> Source:
    """The table of a request on this machine; `last` is how many of its files are taken, None for all."""
    return open_source(request.data, format=request.input_format, delimiter=request.delimiter, last=last)


def paths_of(data: Data, input_format: str | None, delimiter: str | None) -> list[str]:
    """The paths of a table that Spark can read."""
    given = [data] if isinstance(data, str | os.PathLike) else data
    if not isinstance(given, Sequence) or any(str(path) == "-" or isinstance(place(path), Database) for path in given):
        raise UsageError(f"--engine spark reads directories and files of Parquet, or a table by name: {TABLE}db.scores")
    check_parquet(input_format, "--input-format")
    if delimiter is not None:
        raise UsageError("--engine spark reads Parquet, which has no delimiter", hint="leave out --delimiter")
    paths = [str(path) for path in given]
    if len(paths) > 1 and any(path.startswith(TABLE) for path in paths):
        raise UsageError("--engine spark reads one table by name, and nothing else beside it")
    return paths


def check_parquet(given: str | None, flag: str) -> None:
    """Refuse other formats."""
    if given not in (None, "parquet"):
        raise UsageError(f"--engine spark reads and writes Parquet, not {given}", hint=f"leave out {flag}")


def check_master(engine: str, master: str | None, sample: int | None = None) -> None:
    """Refuse a cluster, or a sample of its rows, for an engine that has none."""
    if master is not None and engine != "spark":
        raise UsageError("--master is the URL of a Spark cluster", hint="add --engine spark")
    if sample is not None and engine != "spark":
        raise UsageError("--sample is how many rows a Spark cluster hands over", hint="add --engine spark")


BadRows: TypeAlias = Literal["fail", "null"]
"""What to do with a row that cannot be used: refuse the table, or go on without it."""
