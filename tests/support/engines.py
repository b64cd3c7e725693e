"""Databases that run exported statements: those in this process, and servers of this machine, started for the tests.

A server has its files in a directory of its own and listens on a socket in it. Where an engine is not installed, the
tests that need it are skipped under its name; `tests/export/engines.sh` installs all of them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calcli.export.dialects import DIALECTS, quoted
from tests.support.shell import soon

TABLE = "the rows"
TYPES: Mapping[str, tuple[str, str, str]] = {  # of a number, a text and a truth value
    "postgres": ("double precision", "text", "boolean"),
    "sqlite": ("real", "text", "integer"),
    "mysql": ("double", "text character set utf8mb4", "boolean"),
}
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
ROOT = os.getuid() == 0 if hasattr(os, "getuid") else False


@dataclass
class Engine:
    """A database: `load` makes a frame the table `TABLE`, `run` gives the rows of a statement, `execute` wants none."""

    dialect: str
    load: Callable[[pl.DataFrame], None]
    run: Callable[[str], pl.DataFrame]
    execute: Callable[[str], object]
    infinite: bool = True

    @property
    def table(self) -> str:
        return quoted(TABLE, DIALECTS[self.dialect])

    def holds(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame as the database can hold it."""
        numbers = [name for name, dtype in frame.schema.items() if dtype.is_float()]
        if self.infinite:
            return frame
        return frame.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in numbers)


@contextmanager
def started(dialect: str) -> Iterator[Engine]:
    """The engine of a dialect; skips the test where there is none."""
    with ExitStack() as stack:
        yield _STARTS[dialect](stack)


def _need(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module}")


def _duckdb(stack: ExitStack) -> Engine:
    import duckdb

    connection = stack.enter_context(duckdb.connect())
    return Engine(
        "duckdb",
        lambda frame: connection.register(TABLE, frame.to_arrow()),
        lambda sql: connection.sql(sql).pl(),
        connection.execute,
    )


def _sqlite(stack: ExitStack) -> Engine:
    connection = sqlite3.connect(":memory:")
    stack.callback(connection.close)
    return _of_connection("sqlite", connection, "?")


def _of_connection(dialect: str, connection: Any, mark: str, *, infinite: bool = True) -> Engine:
    """Of a connection after PEP 249."""
    number, text, truth = TYPES[dialect]

    def name(one: str) -> str:
        # a percent sign in a statement with parameters is no mark
        return quoted(one, DIALECTS[dialect]).replace("%", "%%" if mark == "%s" else "%")

    def kind(dtype: pl.DataType) -> str:
        if dtype == pl.Boolean:
            return truth
        return text if dtype == pl.String else number if dtype.is_float() else "bigint"

    def load(frame: pl.DataFrame) -> None:
        columns = ", ".join(f"{quoted(one, DIALECTS[dialect])} {kind(dtype)}" for one, dtype in frame.schema.items())
        cursor = connection.cursor()
        cursor.execute(f"DROP TABLE IF EXISTS {quoted(TABLE, DIALECTS[dialect])}")
        cursor.execute(f"CREATE TABLE {quoted(TABLE, DIALECTS[dialect])} ({columns})")
        marks = ", ".join([mark] * frame.width)
        cursor.executemany(f"INSERT INTO {name(TABLE)} VALUES ({marks})", frame.rows())
        connection.commit()

    def run(sql: str) -> pl.DataFrame:
        cursor = connection.cursor()
        cursor.execute(sql)
        names = [column[0] for column in cursor.description]
        return pl.DataFrame(list(map(tuple, cursor.fetchall())), names, orient="row", infer_schema_length=None)

    return Engine(dialect, load, run, lambda sql: connection.cursor().execute(sql), infinite)


def postgres_server(stack: ExitStack) -> Path:
    """Start a PostgreSQL server; gives the directory of its socket, where the user `calcli` needs no password."""
    if not POSTGRES:
        pytest.skip("no PostgreSQL server")
    user: dict[str, Any] = {"user": "postgres"} if ROOT else {}  # as root the server does not start
    folder = _folder(stack, **user)
    programs = POSTGRES[-1]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **user}
    initdb = [programs / "initdb", "-D", folder / "data", "-U", "calcli", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(initdb, check=True, **quiet)
    flags = ["-D", folder / "data", "-k", folder, "-c", "listen_addresses=", "-F"]
    asked = [programs / "pg_isready", "-q", "-h", folder]
    _serve(stack, [programs / "postgres", *flags], lambda: subprocess.run(asked, check=False).returncode == 0, **quiet)
    return folder


def _postgres(stack: ExitStack) -> Engine:
    _need("psycopg")
    import psycopg

    folder = postgres_server(stack)
    connection = psycopg.connect(host=str(folder), user="calcli", dbname="postgres")
    stack.callback(connection.close)
    return _of_connection("postgres", connection, "%s")


def _mysql(stack: ExitStack) -> Engine:
    _need("pymysql")
    install, server = shutil.which("mariadb-install-db"), shutil.which("mariadbd") or shutil.which("mysqld")
    if install is None or server is None:
        pytest.skip("no MariaDB server")
    import pymysql

    folder = _folder(stack)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    own = ["--no-defaults", f"--datadir={folder}/data", *(["--user=root"] if ROOT else [])]
    subprocess.run([install, *own, "--auth-root-authentication-method=normal"], check=True, **quiet)
    socket = str(folder / "socket")

    def answers() -> bool:
        with suppress(pymysql.err.OperationalError):
            pymysql.connect(unix_socket=socket, user="root").close()
            return True
        return False

    _serve(stack, [server, *own, f"--socket={socket}", "--skip-networking", "--skip-log-bin"], answers, **quiet)
    connection = pymysql.connect(unix_socket=socket, user="root", charset="utf8mb4")
    stack.callback(connection.close)
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE calcli CHARACTER SET utf8mb4")
        cursor.execute("USE calcli")
    return _of_connection("mysql", connection, "%s", infinite=False)


def _clickhouse(stack: ExitStack) -> Engine:
    _need("chdb")
    from chdb import session

    folder = _folder(stack)
    database = session.Session(str(folder / "data"))
    stack.callback(database.close)
    name = quoted(TABLE, DIALECTS["clickhouse"])

    def load(frame: pl.DataFrame) -> None:
        frame.write_parquet(folder / "rows.parquet")
        database.query(f"DROP TABLE IF EXISTS {name}")
        database.query(
            f"CREATE TABLE {name} ENGINE = Memory AS SELECT * FROM file('{folder}/rows.parquet', Parquet) "
            "SETTINGS schema_inference_make_columns_nullable = 1"
        )

    def run(sql: str) -> pl.DataFrame:
        import io

        *settings, sql = sql.split(";\n")
        for setting in settings:
            database.query(setting)
        return pl.read_parquet(io.BytesIO(database.query(sql, "Parquet").bytes()))

    return Engine("clickhouse", load, run, database.query)


def _spark(stack: ExitStack) -> Engine:
    _need("pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java for Spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    folder = _folder(stack)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    # Else Spark keeps the plans of the last thousand statements, as texts of megabytes.
    builder = builder.config("spark.sql.maxPlanStringLength", "1000").config("spark.sql.ui.retainedExecutions", "1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    stack.callback(session.stop)
    session.sparkContext.setLogLevel("OFF")
    count = iter(range(1_000_000))

    def load(frame: pl.DataFrame) -> None:
        path = folder / f"{next(count)}.parquet"
        frame.write_parquet(path)
        session.read.parquet(str(path)).createOrReplaceTempView(f"`{TABLE}`")

    def run(sql: str) -> pl.DataFrame:
        return pl.from_arrow(session.sql(sql).toArrow())  # type: ignore[return-value]

    return Engine("spark", load, run, session.sql)


FAKESNOW = Path(sys.prefix) / "fakesnow" / "bin" / "python"
"""Of an environment of its own: it asks for other versions of what calcli needs."""

_SNOWFLAKE = """
import json, sys
import fakesnow, snowflake.connector
with fakesnow.patch():
    cursor = snowflake.connector.connect(database="calcli", schema="tests").cursor()
    for line in sys.stdin:
        try:
            cursor.execute(json.loads(line))
            answer = [column[0] for column in cursor.description], cursor.fetchall()
        except Exception as error:
            answer = str(error)
        print(json.dumps(answer, default=float), flush=True)
"""


def _snowflake(stack: ExitStack) -> Engine:
    if not FAKESNOW.exists():
        pytest.skip("no fakesnow in an environment of its own")
    folder = _folder(stack)
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(FAKESNOW), "-W", "ignore", "-c", _SNOWFLAKE]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env=alone)
    stack.enter_context(process)

    def run(sql: str) -> pl.DataFrame:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(sql) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert not isinstance(answer, str), answer
        names, rows = answer
        return pl.DataFrame(rows, names, orient="row", infer_schema_length=None)

    def load(frame: pl.DataFrame) -> None:
        kinds = {pl.String: "VARCHAR", pl.Boolean: "BOOLEAN", pl.Float64: "DOUBLE"}
        name = quoted(TABLE, DIALECTS["snowflake"])
        columns = (
            f"{quoted(one, DIALECTS['snowflake'])} {kinds.get(type(dtype), 'BIGINT')}"
            for one, dtype in frame.schema.items()
        )
        run(f"CREATE OR REPLACE TABLE {name} ({', '.join(columns)})")
        run(f"INSERT INTO {name} VALUES " + ", ".join(map(_snowflake_row, frame.rows())))

    return Engine("snowflake", load, run, run)


def _snowflake_row(row: tuple[Any, ...]) -> str:
    """The values as literals, which `CAST` makes of texts where they are no finite numbers."""

    def literal(value: Any) -> str:
        if isinstance(value, str):
            return DIALECTS["snowflake"].literal(value)
        if isinstance(value, float) and value - value != 0:
            return f"CAST('{value}' AS DOUBLE)"
        return "NULL" if value is None else str(value)

    return f"({', '.join(map(literal, row))})"


_STARTS: Mapping[str, Callable[[ExitStack], Engine]] = {
    "duckdb": _duckdb,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "mysql": _mysql,
    "clickhouse": _clickhouse,
    "spark": _spark,
    "snowflake": _snowflake,
}


def _folder(stack: ExitStack, *, user: str | None = None) -> Path:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calcli-", ignore_cleanup_errors=True)))
    if user is not None:
        shutil.chown(folder, user)
    return folder


def _serve(stack: ExitStack, command: list[Any], answers: Callable[[], bool], **more: Any) -> None:
    """Start a server, and wait until it answers."""
    process = subprocess.Popen(command, **more)

    def stop() -> None:
        process.terminate()
        process.wait()

    stack.callback(stop)
    assert soon(answers, process), f"{command[0]} did not start"
