"""Requests that name a table: opened here, or on a cluster, whose options are checked also where there is none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from calcli.errors import UsageError, check_choices
from calcli.places import Database, place
from calcli.tables.binding_types import NO_FLAGS, Flags
from calcli.tables.source import Data, Source, open_source
from calcli.tables.weights import WeightKind

Engine: TypeAlias = Literal["local", "spark"]
"""Where the work is done: on this machine, or on a cluster."""

BadRows: TypeAlias = Literal["fail", "null"]
"""The treatment of a row that cannot be used: refuse the table, or go on without the row."""

TABLE = "table:"
"""Before the name of a table that Spark knows: `table:db.scores`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request whose choices are words that it knows."""

    def __post_init__(self) -> None:
        check_choices(self)


class _WithFlags(Protocol):
    @property
    def flags(self) -> Flags: ...


@dataclass(frozen=True, kw_only=True)
class ColumnsRequest:
    """A request about the columns of a table, each of which may be named by itself: the rest is as `flags` has it."""

    __slots__ = ()

    label: InitVar[str | None] = None
    prob: InitVar[str | None] = None
    logit: InitVar[str | None] = None
    weight: InitVar[str | None] = None
    weight_kind: InitVar[WeightKind | None] = None
    positive: InitVar[str | None] = None
    features: InitVar[Sequence[str] | None] = None
    ignore: InitVar[Sequence[str] | None] = None
    categories: InitVar[Sequence[str] | None] = None
    numbers: InitVar[Sequence[str] | None] = None
    node_id: InitVar[str | None] = None
    positives: InitVar[str | None] = None
    trials: InitVar[str | None] = None
    logprob: InitVar[str | None] = None
    percent: InitVar[str | None] = None
    rank: InitVar[str | None] = None
    descending: InitVar[bool | None] = None
    normalise: InitVar[bool | None] = None
    multi: InitVar[tuple[str, str] | None] = None
    classes: InitVar[Sequence[str] | None] = None  # last, where a request has other classes

    def __post_init__(self: _WithFlags, *columns: Any) -> None:  # type: ignore[override]  # one may be hidden
        check_choices(self)
        named = dict(zip(COLUMNS, columns, strict=False))
        given = {name: value for name, value in named.items() if value is not None}
        if given:
            object.__setattr__(self, "flags", replace(self.flags, **given))


COLUMNS = tuple(ColumnsRequest.__annotations__)
"""The columns that a request names by themselves, in the order of `ColumnsRequest`."""


@dataclass(frozen=True, kw_only=True)
class RowsRequest(ColumnsRequest):
    """A request about the rows of a table."""

    __slots__ = ()

    flags: Flags = NO_FLAGS
    input_format: str | None = None
    delimiter: str | None = None
    bad_rows: BadRows = "fail"


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


def paths_of(request: TableRequest) -> list[str]:
    """The paths of a table that Spark can read."""
    data = request.data
    given = [data] if isinstance(data, str | os.PathLike) else data
    if not isinstance(given, Sequence) or any(str(path) == "-" or isinstance(place(path), Database) for path in given):
        raise UsageError(f"--engine spark reads directories and files of Parquet, or a table by name: {TABLE}db.scores")
    check_parquet(request.input_format, "--input-format")
    if request.delimiter is not None:
        raise UsageError("--engine spark reads Parquet, which has no delimiter", hint="leave out --delimiter")
    paths = [str(path) for path in given]
    if len(paths) > 1 and any(path.startswith(TABLE) for path in paths):
        raise UsageError("--engine spark reads one table by name, and nothing else beside it")
    return paths


def check_parquet(given: str | None, flag: str) -> None:
    if given not in (None, "parquet"):
        raise UsageError(f"--engine spark reads and writes Parquet, not {given}", hint=f"leave out {flag}")


def check_master(engine: str, master: str | None, sample: int | None = None) -> None:
    """Refuse a cluster, or a sample of its rows, for an engine that has none."""
    if master is not None and engine != "spark":
        raise UsageError("--master is the URL of a Spark cluster", hint="add --engine spark")
    if sample is not None and engine != "spark":
        raise UsageError("--sample is how many rows a Spark cluster hands over", hint="add --engine spark")
