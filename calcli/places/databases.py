"""Rows of databases in batches of Arrow, by their ADBC drivers, and DuckDB by itself.

Every statement runs in a transaction. One that reads is never committed, so that a query that would change something
does not; one that writes is committed when the last row is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from calcli.errors import DataError, FileSystemError, UsageError
from calcli.extras import require
from calcli.places import Database

_DRIVERS = {"postgresql": "adbc_driver_postgresql", "sqlite": "adbc_driver_sqlite", "duckdb": "duckdb"}

_SQLITE_ROWS = {"adbc.sqlite.query.batch_rows": 1 << 16}
"""The types of columns are those of the first batch: the larger it is, the less is seen too late."""

_GROUP = 1 << 25
"""Bytes of a row group, which is held in memory."""

_LOST = ("FATAL:", "closed the connection", "connection to server")
"""Words of PostgreSQL where the server fails, and not the query; in the middle of the rows there is no SQLSTATE."""

_DENIED = ("28", "42501")
"""SQLSTATE of a wrong password, and of a missing privilege."""


def fetch(database: Database, target: Path) -> None:
    """Run the query, once, and write its rows into a Parquet file."""
    if (database.query, database.table) == (None, None):
        raise UsageError(f"{database} has many tables", hint="choose rows with --query 'select ...' or --table NAME")
    statement = database.query or f"select * from {_quoted(database)}"
    with _connected(database, write=False) as cursor, _refusals(database, "read"):
        cursor.execute(statement)
        rows = cursor.fetch_record_batch()
        schema = pa.schema([(field.name, _plain(field)) for field in rows.schema])
        if not schema.names:
            raise DataError(f"the query to {database} gives no columns", hint="it must be a select")
        with pyarrow.parquet.ParquetWriter(target, schema, compression="lz4", use_dictionary=False) as writer:
            for group in _grouped(rows):
                writer.write_table(pa.Table.from_batches([_as_plain(batch, schema) for batch in group], schema))


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches that make a row group of a Parquet file: some drivers give a thousand rows at a time."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= _GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def write(database: Database, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Add rows to the table, or put them in its place, in one transaction; a table that is not there is made."""
    if database.table is None:
        raise UsageError(f"{database} has many tables", hint="choose the one to write with --table NAME")
    broken: list[BaseException] = []
    with _connected(database, write=True) as cursor, _refusals(database, "write"):
        there = _columns(database, cursor)
        order = schema.names if there is None or database.replace else _matched(database, schema.names, there)
        rows = pa.RecordBatchReader.from_batches(
            pa.schema([schema.field(name) for name in order]), (batch.select(order) for batch in _kept(batches, broken))
        )
        space, _, name = database.table.rpartition(".")
        try:
            mode = "create" if there is None else "replace" if database.replace else "append"
            cursor.adbc_ingest(name, rows, mode=mode, db_schema_name=space or None)
        finally:
            if broken:  # a driver may take what breaks off for the end
                raise broken[0]
        cursor.connection.commit()


def _kept(batches: Iterable[pa.RecordBatch], broken: list[BaseException]) -> Iterator[pa.RecordBatch]:
    """The batches; what is raised on the way to them is kept, because the drivers pass on its text, or nothing."""
    try:
        yield from batches
    except BaseException as error:
        broken.append(error)
        raise


def _columns(database: Database, cursor: Any) -> list[str] | None:
    """The columns of the table; None if there is no such table."""
    try:
        cursor.execute(f"select * from {_quoted(database)} where 1 = 0")
        return list(cursor.fetch_record_batch().schema.names)
    except Exception:
        cursor.connection.rollback()  # the transaction is of no use any more
        return None


def _matched(database: Database, names: Sequence[str], there: Sequence[str]) -> list[str]:
    """The columns in the order of the table: some drivers go by the place of a column, not by its name."""
    if sorted(names) != sorted(there):
        more, less = [name for name in names if name not in there], [name for name in there if name not in names]
        parts = [f"no column {more[0]!r}"] if more else []
        parts += [f"a column {less[0]!r} that is not written"] if less else []
        raise DataError(f"{database} has {' and '.join(parts)}", hint="name the columns with --keep, or --replace it")
    return list(there)


def _quoted(database: Database) -> str:
    return ".".join(map(_identifier, str(database.table).split(".")))


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _connected(database: Database, *, write: bool) -> Iterator[Any]:
    """A cursor in a transaction, which ends with it: what was not committed has not been."""
    package = _DRIVERS[database.scheme]
    require(package, f"{database.scheme}://")
    connect: Any = _DuckDB if package == "duckdb" else import_module(f"{package}.dbapi").connect
    address: str | Path = database.url if database.file is None else database.file
    if isinstance(address, Path) and not address.is_file():
        if not write:
            raise DataError(f"there is no database {str(address)!r}", hint="a path from / has four slashes")
        if not address.absolute().parent.is_dir():
            raise FileSystemError(f"cannot write {database}: there is no directory {str(address.parent)!r}")
    with _refusals(database, "reach"):
        connection = connect(str(address))
    try:
        with connection.cursor() as cursor:
            if database.scheme == "sqlite":
                cursor.adbc_statement.set_options(**_SQLITE_ROWS)
            yield cursor
    finally:
        connection.close()


@contextmanager
def _refusals(database: Database, action: str) -> Iterator[None]:
    """What a driver says, as a line without passwords: rows that cannot be had are a `DataError`, the rest is not."""
    errors = import_module("duckdb" if database.scheme == "duckdb" else "adbc_driver_manager")
    try:
        yield
    except (errors.Error, pa.ArrowException, OSError) as error:
        reason, state = _reason(database, error), str(getattr(error, "sqlstate", None) or "")
        lost = action != "read" or isinstance(error, errors.OperationalError) or state.startswith(_DENIED)
        lost = lost or any(words in str(error) for words in _LOST)
        raise (FileSystemError if lost else DataError)(f"cannot {action} {database}: {reason}") from None


def _reason(database: Database, error: BaseException) -> str:
    """The first line of what the server says, without the driver's own words around it."""
    text = str(error)
    for secret in sorted(database.secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    line = text.strip().split("\n", 1)[0]
    line = re.split(r"(?:ERROR|FATAL):\s+|\[(?:libpq|SQLite)\] |^[A-Z_]+: ", line)[-1]
    return line.strip().rstrip(".") or type(error).__name__


def _plain(field: pa.Field) -> pa.DataType:
    """The type of a column without what only its database knows: numbers of any precision become doubles."""
    if not isinstance(field.type, pa.BaseExtensionType):
        return field.type
    if getattr(field.type, "type_name", None) == "numeric":
        return pa.float64()
    return field.type.storage_type


def _as_plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        (column.storage if isinstance(column, pa.ExtensionArray) else column).cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _DuckDB:
    """DuckDB in the shape of an ADBC connection, and of its cursor.

    Its ADBC driver opens a file anew where this process has it open already: what one of the two writes is lost.
    """

    def __init__(self, path: str) -> None:
        import duckdb

        self._own = duckdb.connect(path)
        self._own.execute("set enable_progress_bar = false")  # it is drawn on standard output, where the rows may go
        self._own.begin()
        self._rows: Any = None

    @property
    def connection(self) -> _DuckDB:
        return self

    def cursor(self) -> AbstractContextManager[_DuckDB]:
        return nullcontext(self)

    def execute(self, statement: str) -> None:
        self._rows = self._own.sql(statement)

    def fetch_record_batch(self) -> Any:
        if self._rows is None:
            raise DataError("the query gives no columns", hint="it must be a select")
        return self._rows.to_arrow_reader(1 << 16)

    def adbc_ingest(self, name: str, rows: pa.RecordBatchReader, *, mode: str, db_schema_name: str | None) -> None:
        table = ".".join(map(_identifier, filter(None, (db_schema_name, name))))
        start = {"append": f"insert into {table}", "replace": f"create or replace table {table} as"}
        self._own.register("rows of calcli", rows)
        self._own.execute(f'{start.get(mode, f"create table {table} as")} from "rows of calcli"')

    def commit(self) -> None:
        self._own.commit()

    def rollback(self) -> None:
        self._own.rollback()
        self._own.begin()

    def close(self) -> None:
        self._own.close()
