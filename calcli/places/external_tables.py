"""Tables of databases, Delta Lake and Apache Iceberg, fetched into a Parquet file; rows written into a database.

Databases are reached by their ADBC drivers, DuckDB by itself, and every statement runs in a transaction. A transaction
that reads is never committed, so that no query changes anything; one that writes is committed with the last row. Those
that are only queried may have no transactions.

Tables of Delta and Iceberg are read by polars and the library of each in their present version: the files in their
directories also hold rows that were deleted or replaced.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
import pyarrow as pa

from calcli.batch import grouped
from calcli.errors import DataError, FileSystemError, MissingExtraError, UsageError
from calcli.extras import installed, require
from calcli.places import QUERIED, Database, Lake, LakeKind, Url, stores

_DRIVERS = {"postgresql": "adbc_driver_postgresql", "sqlite": "adbc_driver_sqlite", "duckdb": "duckdb"}

_FLIGHT_SQL = "adbc_driver_flightsql"
_PACKAGED = {
    "snowflake": "adbc_driver_snowflake",
    "bigquery": "adbc_driver_bigquery",
    "grpc": _FLIGHT_SQL,
    "grpc+tls": _FLIGHT_SQL,
}
"""The packages of databases that are only queried; the drivers of others are installed under the names of schemes."""

_SQLITE_ROWS = {"adbc.sqlite.query.batch_rows": 1 << 16}
"""The first batch decides the types of the columns: the larger it is, the fewer values are seen too late."""

_GROUP = 1 << 25
"""The size in bytes of a row group, which is held in memory: some drivers give a thousand rows at a time."""

_LOST = ("FATAL:", "closed the connection", "connection to server")
"""Words of PostgreSQL when the server and not the query fails; amid the rows there is no SQLSTATE."""

_DENIED = ("28", "42501")
"""The SQLSTATE of a wrong password and that of a missing privilege."""


def fetch_rows(database: Database, target: Path) -> None:
    """Run the query once, and write its rows into a Parquet file."""
    from pyarrow.parquet import ParquetWriter

    if (database.query, database.table) == (None, None):
        raise UsageError(f"{database} has many tables", hint="choose rows with --query 'select ...' or --table NAME")
    if database.query is None and database.scheme in QUERIED:
        raise UsageError(f"{database}: only a query is read", hint="choose rows with --query 'select ...'")
    statement = database.query or f"select * from {_quoted(database)}"
    with _connected(database, write=False) as cursor, _refusals(database, "read"):
        cursor.execute(statement)
        rows = cursor.fetch_record_batch()
        schema = pa.schema([(field.name, _plain(field)) for field in rows.schema])
        if not schema.names:
            raise DataError(f"the query to {database} gives no columns", hint="it must be a select")
        with ParquetWriter(target, schema, compression="lz4", use_dictionary=False) as writer:
            for group in grouped(rows, lambda batch: int(batch.nbytes), _GROUP):
                writer.write_table(pa.Table.from_batches([_as_plain(batch, schema) for batch in group], schema))


def write_rows(database: Database, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Add rows to the table, or replace it, in one transaction; a missing table is made."""
    if database.table is None:
        raise UsageError(f"{database} has many tables", hint="choose the one to write with --table NAME")
    if database.scheme in QUERIED:
        raise UsageError(f"{database} is only read", hint="write Parquet, and let the database load it")
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
    """The batches; an exception on the way is kept in `broken`, because drivers pass on its text at most."""
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
    """The columns in the order of the table: some drivers go by the position of a column, not by its name."""
    if sorted(names) != sorted(there):
        extra, lacking = [name for name in names if name not in there], [name for name in there if name not in names]
        parts = [f"no column {extra[0]!r}"] if extra else []
        parts += [f"a column {lacking[0]!r} that is not written"] if lacking else []
        raise DataError(f"{database} has {' and '.join(parts)}", hint="name the columns with --keep, or --replace it")
    return list(there)


def _quoted(database: Database) -> str:
    return ".".join(map(_identifier, str(database.table).split(".")))


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _connected(database: Database, *, write: bool) -> Iterator[Any]:
    """A cursor in a transaction, which is rolled back at the end unless it was committed."""
    connect = _connector(database)
    address: str | Path = database.url if database.file is None else database.file
    if isinstance(address, Path) and not address.is_file():
        if not write:
            raise DataError(f"there is no database {str(address)!r}", hint="a path from / has four slashes")
        if not address.absolute().parent.is_dir():
            raise FileSystemError(f"cannot write {database}: there is no directory {str(address.parent)!r}")
    with _refusals(database, "reach"), warnings.catch_warnings(action="ignore"):  # that there are no transactions
        connection = connect(str(address))
    try:
        with connection.cursor() as cursor:
            if database.scheme == "sqlite":
                cursor.adbc_statement.set_options(**_SQLITE_ROWS)
            yield cursor
    finally:
        connection.close()


def _connector(database: Database) -> Any:
    """A function that connects to the address of the database, with the driver that its scheme chooses."""
    scheme, package = database.scheme, _PACKAGED.get(database.scheme)
    if scheme in _DRIVERS:
        require(_DRIVERS[scheme], f"{scheme}://")
        return _DuckDB if scheme == "duckdb" else import_module(f"{_DRIVERS[scheme]}.dbapi").connect
    if package is None:
        require("adbc_driver_sqlite", f"{scheme}://")  # with which the manager of drivers comes
        return partial(_by_name, scheme)
    if not installed(package):
        name = package.replace("_", "-")
        raise _without_driver(f"the package {name!r}, which is not installed", f"pip install {name}", scheme)
    dbapi = import_module(f"{package}.dbapi")
    return dbapi.connect if scheme != "bigquery" else lambda address: dbapi.connect(db_kwargs=_of_bigquery(address))


def _by_name(scheme: str, address: str) -> Any:
    """A connection by a driver that is installed under the name of the scheme."""
    dbapi = import_module("adbc_driver_manager.dbapi")
    try:
        return dbapi.connect(driver=scheme, db_kwargs={"uri": address})
    except dbapi.Error as error:
        if f"Could not load `{scheme}`" not in str(error):
            raise
        what = f"an ADBC driver, and none is installed under the name {scheme!r}"
        raise _without_driver(what, f"pip install dbc && dbc install {scheme}", scheme) from None


def _without_driver(what: str, install: str, scheme: str) -> MissingExtraError:
    hint = f"try: {install}; or let the database write Parquet, and read that"
    return MissingExtraError(f"{scheme}:// needs {what}", hint=hint)


def _of_bigquery(address: str) -> dict[str, str]:
    """The settings of ``bigquery://PROJECT/DATASET``, whose driver takes no address."""
    project, _, dataset = address.partition("://")[2].partition("?")[0].partition("/")
    named = {"project_id": project, "dataset_id": dataset}
    return {f"adbc.bigquery.sql.{name}": value for name, value in named.items() if value}


@contextmanager
def _refusals(database: Database, action: str) -> Iterator[None]:
    """Turn errors of a driver into a line without passwords: a `DataError` if the query is at fault."""
    errors = import_module("duckdb" if database.scheme == "duckdb" else "adbc_driver_manager")
    try:
        yield
    except (errors.Error, pa.ArrowException, OSError) as error:
        reason, state = _reason(database, error), str(getattr(error, "sqlstate", None) or "")
        lost = action != "read" or isinstance(error, errors.OperationalError) or state.startswith(_DENIED)
        lost = lost or any(words in str(error) for words in _LOST)
        raise (FileSystemError if lost else DataError)(f"cannot {action} {database}: {reason}") from None


def _reason(database: Database, error: BaseException) -> str:
    """The first line of the server's message, without the words that the driver puts around it."""
    text = str(error)
    for secret in sorted(database.secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    line = text.strip().split("\n", 1)[0]
    line = re.split(r"(?:ERROR|FATAL):\s+|\[(?:libpq|SQLite)\] |^[A-Z_]+: ", line)[-1]
    return line.strip().rstrip(".") or type(error).__name__


def _plain(field: pa.Field) -> pa.DataType:
    """The type of a column that any reader knows: numbers of any precision become doubles."""
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
    """DuckDB in the shape of both an ADBC connection and its cursor.

    DuckDB's ADBC driver opens a file a second time if this process has it open, and then the rows of one are lost.
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


def lake_kind(names: Iterable[str]) -> LakeKind | None:
    """The kind of table that a directory holds, by the names of the files below it; None for plain files."""
    for name in names:
        if re.match(r"_delta_log/.*\.(json|parquet)$", name):
            return "delta"
        if re.match(r"metadata/[^/]*\.metadata\.json$", name):
            return "iceberg"
    return None


def fetch_lake(lake: Lake, target: Path) -> str:
    """Write the rows of the present version into a Parquet file, and return the name of the version."""
    product, package = {"delta": ("Delta", "deltalake"), "iceberg": ("Iceberg", "pyiceberg")}[lake.kind]
    require(package, f"a table of {product}")
    try:
        with warnings.catch_warnings(action="ignore"):  # polars would rather plan with a package of its own
            frame, version = _delta(lake) if lake.kind == "delta" else _iceberg(lake)
            frame.sink_parquet(target, compression_level=1)
    except Exception as error:  # each library has exceptions of its own, and their texts can hold options
        raise DataError(f"{lake}, a table of {product}, cannot be read: {stores.reason(error)}") from None
    return f"{lake.kind} {version}"


def _delta(lake: Lake) -> tuple[pl.LazyFrame, str]:
    from deltalake import DeltaTable

    options = stores.settings(lake.where) if isinstance(lake.where, Url) else None
    table = DeltaTable(str(lake.where), storage_options=options)
    return pl.scan_delta(table, storage_options=options), f"version {table.version()}"


def _iceberg(lake: Lake) -> tuple[pl.LazyFrame, str]:
    from pyiceberg.table import StaticTable

    names = [name for name in lake.names if name.endswith(".metadata.json")]
    newest = max(names, key=lambda name: int((re.search(r"\d+", PurePosixPath(name).name) or [0])[0]))
    table = StaticTable.from_metadata(f"{lake.where}/{newest}", properties=_properties(lake.where))
    snapshot = table.current_snapshot()
    return pl.scan_iceberg(table), f"snapshot {None if snapshot is None else snapshot.snapshot_id}"


def _properties(where: Path | Url) -> dict[str, str]:
    """The options of a store in the words of pyiceberg."""
    if isinstance(where, Path):
        return {}
    words = {"endpoint": "s3.endpoint", "region": "s3.region", "access_key_id": "s3.access-key-id"}
    words |= {"secret_access_key": "s3.secret-access-key", "session_token": "s3.session-token"}
    found = stores.settings(where)
    return {word: found[f"aws_{name}"] for name, word in words.items() if f"aws_{name}" in found}
