"""Tables of databases, read and written."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
import pytest

from calcli.cli.main import main
from calcli.errors import DataError, FileSystemError, MissingExtraError, UsageError
from calcli.places import Database, place
from calcli.tables.sink import write
from calcli.tables.source import open_source
from tests.support.places import SECRET
from tests.support.samples import clicks

ROWS = pl.DataFrame(
    {"id": [1, 2, 3], "prob": [0.25, None, 0.75], "kind": ["a", None, 'it\'s; "c"'], "label": [0, 1, 1]},
)


Run: TypeAlias = Callable[..., pl.DataFrame]


@pytest.fixture
def run(database: str) -> Run:
    """Runs statements with the driver itself, and gives the rows of the last; there is a table ``rows``.

    DuckDB is one writer's at a time, so nothing is left open.
    """
    found = Database(database)
    driver = import_module(f"adbc_driver_{found.scheme}.dbapi")

    def run(*statements: str) -> pl.DataFrame:
        with closing(driver.connect(str(found.file or database))) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            rows = cursor.fetch_arrow_table() if statements[-1].startswith("select") else pa.table({})
            connection.commit()
            return pl.DataFrame(rows)

    run(
        *(f"drop table if exists {table}" for table in ("rows", "there", "kept")),
        "create table rows (id bigint, prob double precision, kind text, label bigint)",
        "insert into rows values (1, 0.25, 'a', 0), (2, null, null, 1), (3, 0.75, 'it''s; \"c\"', 1)",
    )
    return run


def read(data: Any) -> pl.DataFrame:
    with open_source(data) as source:
        return source.typed().collect()


def test_a_table_and_a_query_are_read(database: str, run: Run) -> None:
    assert read(f"{database}#rows").equals(ROWS)
    assert read(Database(database, table="rows")).equals(ROWS)
    statement = "select label, prob * 2 as twice from rows where id > 1 order by id desc"
    with open_source(Database(database, query=statement)) as source:
        assert (
            source.typed()
            .collect()
            .equals(ROWS.filter(pl.col("id") > 1).sort("id", descending=True).select("label", twice=pl.col("prob") * 2))
        )
        assert source.files()[0].query == statement


def test_a_query_is_run_once_and_read_as_often_as_needed(database: str, run: Run) -> None:
    with open_source(f"{database}#rows") as source:
        before = source.typed().collect()
        run("delete from rows where id = 1")
        assert source.typed().collect().equals(before)
        assert source.rows() == 3


def test_a_query_changes_nothing(database: str, run: Run) -> None:
    with contextlib.suppress(DataError):  # DuckDB answers with a number of rows
        read(Database(database, query="delete from rows"))
    assert run("select * from rows").equals(ROWS)


def test_rows_are_written_below_those_in_the_table_or_in_their_place(database: str, run: Run) -> None:
    there = Database(database, table="there")
    other = ROWS.select("label", "kind", "id", "prob").with_columns(pl.col("id") + 10)  # in another order
    assert write(ROWS.lazy(), there) == 3
    assert run("select * from there").equals(ROWS)
    assert write(other.lazy(), there) == 3
    assert run("select * from there").sort("id").equals(pl.concat([ROWS, other.select(ROWS.columns)]))
    assert write(other.lazy(), Database(database, table="there", replace=True)) == 3
    assert run("select * from there").select(ROWS.columns).equals(other.select(ROWS.columns))


def test_all_of_many_rows_are_written_and_read(database: str) -> None:
    """More than the drivers hand over at once."""
    many = pl.select(id=pl.int_range(70_000))
    assert write(many.lazy(), Database(database, table="many")) == len(many)
    assert read(f"{database}#many").sort("id").equals(many)


def test_columns_that_the_table_does_not_have_are_refused(database: str, run: Run) -> None:
    with pytest.raises(DataError, match=re.escape("no column 'more'")):
        write(ROWS.with_columns(more=pl.lit(1)).lazy(), Database(database, table="rows"))
    with pytest.raises(DataError, match="'label' that is not written"):
        write(ROWS.drop("label").lazy(), Database(database, table="rows"))
    assert run("select * from rows").equals(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("table", ["rows", "there"])
def test_a_write_that_fails_in_the_middle_writes_nothing(database: str, run: Run, table: str, replace: bool) -> None:
    many = pl.select(id=pl.int_range(600_000), prob=0.5, kind=pl.lit("many"), label=1)
    seen = 0

    def fail(batch: pl.DataFrame) -> pl.DataFrame:
        nonlocal seen
        seen += len(batch)
        if seen > 300_000:
            raise DataError("row 300001 is bad")
        return batch

    with pytest.raises(DataError, match="300001"):
        write(many.lazy().map_batches(fail, streamable=True), Database(database, table=table, replace=replace))
    assert seen > 300_000
    if table == "rows":
        assert run("select * from rows").equals(ROWS)
    else:
        with pytest.raises(DataError):
            read(f"{database}#there")


def test_the_commands_take_databases(database: str, run: Run, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(clicks().lazy(), Database(database, table="there"))
    statement = "select * from there"
    for words in (
        ["fit", database, "--query", statement, "-m", "platt", "-o", "kept"],
        ["apply", "kept", database, "--query", statement, "-o", database, "--table", "kept"],
        ["apply", "kept", database, "--query", statement, "-o", database, "--table", "kept", "--replace"],
        ["apply", "kept", database, "--table", "there", "-o", "scored.csv"],
        ["evaluate", database, "--table", "there", "--with", "kept"],
        ["inspect", "kept", "--format", "json"],
    ):
        assert main(words) == 0, capsys.readouterr().err
    told = capsys.readouterr()
    assert main(["apply", "kept", "train.parquet", "-o", "expected.parquet"]) == 0
    expected = pl.read_parquet("expected.parquet")
    assert run("select * from kept")["calibrated"].equals(expected["calibrated"])
    assert statement in told.out
    assert "geheim" not in told.out + told.err + (here / "kept" / "manifest.json").read_text()


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ([], 2, "--query"),
        (["--table", "rows", "--query", "select 1"], 2, "keep one"),
        (["--table", "nothing"], 3, "nothing"),
        (["--query", "selec 1"], 3, "selec"),
        (["--query", "select prob, label from rows where 1 = 0"], 3, "no rows"),
    ],
)
def test_what_is_refused_is_one_line(
    database: str, run: Run, capsys: pytest.CaptureFixture[str], options: list[str], code: int, says: str
) -> None:
    assert main(["evaluate", database, *options]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err
    assert "geheim" not in err


@pytest.mark.parametrize("url", ["sqlite:///nowhere.db#x", "duckdb:///nowhere.db#x"])
def test_reading_makes_no_database(here: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    pytest.importorskip("adbc_driver_manager")
    assert main(["evaluate", url]) == 3
    assert "there is no database" in capsys.readouterr().err
    assert not (here / "nowhere.db").exists()


def test_a_file_that_this_process_has_open_keeps_what_both_write(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(tmp_path / "here.db") as own:
        own.execute("create table there as select 1 as id")
        write(pl.LazyFrame({"id": [2]}), Database(f"duckdb:///{tmp_path}/here.db", table="there"))
        own.execute("insert into there values (3)")
        assert own.execute("select id from there order by id").fetchall() == [(1,), (2,), (3,)]


def test_a_number_of_any_precision_is_a_number(postgres: str) -> None:
    statement = "select 0.1::numeric as prob, null::numeric as missing, 1 as label, '{}'::jsonb as j"
    assert read(Database(postgres, query=statement)).rows() == [(0.1, None, 1, "{}")]


def test_a_connection_that_is_cut_off_while_it_is_read(postgres: str) -> None:
    statement = """
        select case when i = 400000 then pg_terminate_backend(pg_backend_pid())::int else 1 end as label,
               0.5::float8 as prob, repeat('x', 100) as text
        from generate_series(1, 1000000) i
    """
    with pytest.raises(FileSystemError, match="terminating connection"):
        read(Database(postgres, query=statement))


def test_a_connection_that_is_cut_off_while_it_is_written(postgres: str) -> None:
    import adbc_driver_postgresql.dbapi as driver

    seen = 0

    def cut(batch: pl.DataFrame) -> pl.DataFrame:
        nonlocal seen
        if seen <= 300_000 < seen + len(batch):
            with driver.connect(postgres) as other, other.cursor() as cursor:
                cursor.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where pid <> pg_backend_pid() and backend_type = 'client backend'"
                )
                cursor.fetchall()
        seen += len(batch)
        return batch

    write(ROWS.lazy(), Database(postgres, table="there", replace=True))
    many = pl.select(id=pl.int_range(1_200_000), prob=0.5, kind=pl.lit("many"), label=1)
    with pytest.raises(FileSystemError, match="cannot write"):
        write(many.lazy().map_batches(cut, streamable=True), Database(postgres, table="there"))
    assert read(f"{postgres}#there").equals(ROWS)


@pytest.mark.parametrize("words", ["evaluate {}#x", "evaluate {} --query select+1", "apply kept train.parquet -o {}#x"])
def test_no_password_is_said_where_there_is_no_server(
    here: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    pytest.importorskip("adbc_driver_postgresql")
    assert main(["fit", "train.parquet", "-m", "platt", "-o", "kept"]) == 0
    for password in (SECRET, "geheim%zz", "geheim/2", "geheim@2", "geheim#2", "2?geheim"):
        url = f"postgresql://calcli:{password}@127.0.0.1:1/none?sslpassword=geheim2"
        assert main([*words.format(url).split(), "--debug"]) == 7
        told = "".join(capsys.readouterr())
        assert "geheim" not in told
        assert "cannot reach postgresql://calcli@127.0.0.1:1/none" in told


@pytest.mark.parametrize("address", ["sqlite:///x.db?token=geheim", "duckdb:////nowhere/x.db?token=geheim"])
@pytest.mark.parametrize("words", ["evaluate {} --table t", "apply kept train.parquet -o {}#t"])
def test_no_token_is_said_where_there_is_no_file(
    here: Path, capsys: pytest.CaptureFixture[str], address: str, words: str
) -> None:
    assert main(["fit", "train.parquet", "-m", "platt", "-o", "kept"]) == 0
    main([*words.format(address).split(), "--debug"])
    assert "geheim" not in "".join(capsys.readouterr())


def test_a_setting_that_is_no_secret_is_not_cut_out_of_the_reason() -> None:
    assert Database("postgresql://me@host/x?user=u&host=o&sslmode=require").secrets == set()
    assert Database("postgresql://me@host/x?user=u&sslpassword=geheim").secrets == {"geheim"}


def test_a_place_has_its_name_without_secrets() -> None:
    for url, shown in (
        ("https://user:geheim@host/a/b.csv?sig=geheim", "https://host/a/b.csv"),
        ("s3://bucket/a/b.csv", "s3://bucket/a/b.csv"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net/a"),
        ("postgresql://user:geheim@host:1/db?password=geheim#t", "postgresql://user@host:1/db#t"),
        ("sqlite:////var/a.db#t", "sqlite:////var/a.db#t"),
    ):
        assert str(place(url)) == shown
        assert "geheim" not in repr(place(url))


def test_a_driver_that_is_installed_under_the_name_of_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's driver stands in for that of MySQL: to it, the address is a file."""
    pytest.importorskip("adbc_driver_sqlite.dbapi")
    sqlite: Any = import_module("adbc_driver_sqlite")
    drivers = tmp_path / "drivers"
    drivers.mkdir()
    (drivers / "mysql.toml").write_text(f'manifest_version = 1\n[Driver]\nshared = "{sqlite._driver_path()}"\n')
    monkeypatch.setenv("ADBC_DRIVER_PATH", str(drivers))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mysql:" / "me@host").mkdir(parents=True)
    with closing(sqlite.dbapi.connect("mysql:/me@host/ads")) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("rows", ROWS.to_arrow())
        connection.commit()
    url = "mysql://me@host/ads"
    assert read(Database(url, query="select * from rows")).equals(ROWS)
    assert main(["evaluate", url, "--query", "select * from rows where prob > 0", "--metrics", "nll"]) == 0
    with pytest.raises(DataError, match=r"cannot read mysql://me@host/ads: .*no such table"):
        read(Database(url, query="select * from absent"))
    with pytest.raises(UsageError, match="only a query is read"):
        read(f"{url}#rows")
    with pytest.raises(UsageError, match="is only read"):
        write(ROWS.lazy(), f"{url}#rows", format="parquet")


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("snowflake://me:secret@there/db", "pip install adbc-driver-snowflake"),
        ("bigquery://project", "pip install adbc-driver-bigquery"),
        ("grpc+tls://there:443", "pip install adbc-driver-flightsql"),
        ("trino://there", "dbc install trino"),
    ],
)
def test_drivers_that_are_not_installed(url: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADBC_DRIVER_PATH", "/nowhere")
    monkeypatch.setattr("calcli.places.external_tables.installed", lambda _: False)
    with pytest.raises(MissingExtraError) as error:
        read(Database(url, query="select 1"))
    assert line in str(error.value.hint)
    assert "Parquet" in str(error.value.hint)
    assert "secret" not in str(error.value)
