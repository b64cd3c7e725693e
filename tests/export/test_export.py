"""A calibrator in another language predicts what `apply` predicts: in DuckDB, and by the interpreter of the docs."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
import sqlglot

import calcli
from calcli.errors import UsageError
from calcli.export.dialects import DIALECTS
from calcli.methods import catalog
from calcli.methods.spec import MethodSpec
from calcli.verbs.export import ExportRequest, export, export_onnx
from tests.support.export import applied, assert_same, in_duckdb
from tests.support.samples import breeds, clicks, odd_visits, unseen, visits

ROWS = [row for row in catalog.specs() if row.closed_form and not row.needs_features]
EACH = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@EACH
@pytest.mark.parametrize("classes", [2, 4])
def test_each_method_says_what_it_predicts(row: MethodSpec, classes: int, here: Path, interpreter: Any) -> None:
    frame = clicks(200).select("label", "logit") if classes == 2 else breeds(200)
    calcli.fit(frame, method=row.name, output="kept", holdout="none")
    table = unseen([name for name in frame.columns if name != "label"], rows=60)
    expected = applied("kept", table)
    assert_same(interpreter("kept", table), expected)


CELLS = {"tau": 5, "min_rows": 40}


def visits_with_cells(level: str, **given: Any) -> pl.DataFrame:
    """Rows with this level in place of a city, on which `kept` is fitted."""
    frame = visits(1500).with_columns(pl.col("city").replace("Riga", level))
    params = {**CELLS, "partition": "tree", **given}
    calcli.fit(frame, method="heterogeneous", params=params, output="kept", holdout="none")
    return frame


@pytest.mark.slow
@pytest.mark.parametrize(
    ("classes", "method", "given"),
    [
        (2, "heterogeneous", {**CELLS, "partition": "forest", "trees": 3}),
        (2, "heterogeneous", {**CELLS, "partition": "boosted", "trees": 4}),
        (2, "heterogeneous", {**CELLS, "partition": "tree", "leaf": "beta", "depth": 4}),
        (3, "heterogeneous", {**CELLS, "partition": "tree"}),
        (2, "effects", {}),
        (3, "effects", {"pairs": 5}),
        (2, "boost", {"rounds": 30, "depth": 3}),
        (2, "forest", {"trees": 3, "min_rows": 40, "weight": 0.6}),
        (3, "forest", {"trees": 2, "min_rows": 40, "weight": 0.6}),
        (3, "boost", {"rounds": 20}),
        (2, "ccl", {"embedding": "features", "clusters": 12, "temperature": 1.0, "tau": 20}),
        (2, "ccl", {"embedding": "features", "clusters": 4, "temperature": 0.0, "tau": 0, "inner": "isotonic"}),
        (3, "ccl", {"embedding": "columns", "columns": "hours", "clusters": 7, "temperature": 2.0, "tau": 5}),
        (2, "pool", {"members": "platt,heterogeneous,boost", "weights": "0.3,0.3,0.4"}),
    ],
)
def test_features_too(here: Path, classes: int, method: str, given: dict[str, Any], interpreter: Any) -> None:
    """Missing values, levels that were never seen, numbers beyond all others."""
    calcli.fit(visits(1500, classes), method=method, params=given, output="kept", holdout="none")
    assert max(len(section.rows) for section in calcli.inspect("kept", rules=True).sections) > 2
    table = odd_visits(150, classes)
    expected = applied("kept", table)
    assert_same(in_duckdb(table, ExportRequest("kept", shape="query", table='"the table"')), expected)
    if given.get("partition") in ("forest", "tree") and classes == 2:  # of others the expression is too long
        assert_same(in_duckdb(table, ExportRequest("kept")), expected)
    assert_same(interpreter("kept", table), expected)


def test_a_large_forest_is_refused_in_a_line(here: Path) -> None:
    calcli.fit(visits(1500), method="forest", params={"weight": 0.6}, output="kept", holdout="none")
    languages: tuple[Any, ...] = ("sql", "json")
    for language in languages:
        with pytest.raises(UsageError, match=r"holds a forest of [\d,]+ nodes, too many for SQL and JSON"):
            export(ExportRequest("kept", to=language))


def test_a_condition_of_many_levels_joins_nothing(here: Path) -> None:
    """DuckDB would join a large table with the constants of IN, before it asks which rows come to the condition."""
    frame = visits(1500).with_columns(city=pl.format("city {}", pl.int_range(pl.len()) * 7919 % 30))
    frame = frame.with_columns(label=(pl.col("city").str.slice(5).cast(pl.Int64) % 3 == 0).cast(pl.Int8))
    calcli.fit(frame, method="heterogeneous", params={**CELLS, "partition": "tree"}, output="kept", holdout="none")
    text = export(ExportRequest("kept", shape="query", table="many"))
    assert text.count("'city ") >= 10
    connection = duckdb.connect()
    connection.register("few", frame.to_arrow())
    connection.execute("CREATE TABLE many AS SELECT few.* FROM few, range(200)")
    plan = str(connection.execute(f"EXPLAIN {text}").fetchall()).lower()
    assert "projection" in plan
    assert not re.search(r"join|\bmark\b", plan)


@pytest.mark.parametrize("embedding", ["shap", "leaves"])
def test_clusters_by_a_model_have_no_formula(here: Path, embedding: str) -> None:
    given = {"embedding": embedding, "clusters": 3, "tau": 5}
    calcli.fit(visits(600), method="ccl", params=given, output="kept", holdout="none")
    with pytest.raises(UsageError, match="of a model have no formula") as raised:
        export(ExportRequest("kept"))
    assert "embedding=columns" in str(raised.value.hint)


@pytest.mark.parametrize(
    "columns",
    [
        {"prob": lambda p: p},
        {"prob_0": lambda p: 1 - p, "prob_1": lambda p: p},
        {"logit_0": lambda p: -np.log(p), "logit_1": lambda p: 2 * np.log(p)},
    ],
)
@pytest.mark.parametrize("positive", ["0", "1"])
def test_two_classes_in_any_form(here: Path, columns: dict[str, Any], positive: str) -> None:
    rng = np.random.default_rng(3)
    prob = rng.uniform(0, 1, 900)
    prob[:4] = [0.0, 1.0, 1e-14, 0.5]
    with np.errstate(divide="ignore"):
        scores = {name: make(np.clip(prob, 1e-300, 1) if "logit" in name else prob) for name, make in columns.items()}
    table = pl.DataFrame({"label": rng.integers(0, 2, 900), **scores})
    flags = calcli.Flags(positive=positive)
    calcli.fit(table, method="platt", flags=flags, output="kept", holdout="none")
    odd = table.drop("label").with_columns(pl.when(pl.int_range(pl.len()) != 9).then(pl.all()))
    odd = odd.with_columns(pl.when(pl.int_range(pl.len()) == 11).then(pl.all() * 0 + 1.2).otherwise(pl.all()))
    expected = applied("kept", odd)
    assert_same(in_duckdb(odd, ExportRequest("kept")), expected)
    assert_same(in_duckdb(odd, ExportRequest("kept", scale="logit")), applied("kept", odd, scale="logit"))


@pytest.mark.parametrize("flag", ["percent", "logprob"])
def test_a_score_that_is_computed_reads_the_column_of_the_table(here: Path, flag: str) -> None:
    table = clicks(400).select("label", prob=1.0 / (1.0 + (-pl.col("logit")).exp()))
    given = {"percent": 100.0 * pl.col("prob"), "logprob": pl.col("prob").log()}[flag]
    table = table.select("label", given=given)
    calcli.fit(table, method="platt", flags=calcli.Flags(**{flag: "given"}), output="kept", holdout="none")
    odd = [None, math.nan, math.inf, -math.inf, 0.0, 100.0, 101.0, 1e-3, -1e-9, -699.0, -705.0, -720.0, -1e9]
    rows = pl.concat([table.select("given"), pl.DataFrame({"given": odd})])
    assert_same(in_duckdb(rows, ExportRequest("kept")), applied("kept", rows))
    assert duckdb.sql(export(ExportRequest("kept", check=20))).fetchall() == []
    pytest.importorskip("onnxruntime")
    assert export_onnx(ExportRequest("kept", float32=True))  # which compares itself with `apply`


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("exact", [False, True])
def test_endings_come_along(here: Path, classes: int, exact: bool) -> None:
    frame = clicks(900).select("label", "logit") if classes == 2 else breeds(700)
    shift = "0.02" if classes == 2 else "a=0.1,b=0.2,c=0.3,d=0.4"
    calcli.fit(frame, method="histogram", exact=exact, prior_shift=shift, output="kept", holdout="none")
    table = unseen([name for name in frame.columns if name != "label"])
    assert_same(in_duckdb(table, ExportRequest("kept", shape="query", table='"the table"')), applied("kept", table))


@pytest.mark.parametrize("normalise", [False, True])
def test_probabilities_that_do_not_add_up_to_1_are_divided_as_they_are_by_apply(here: Path, normalise: bool) -> None:
    rng = np.random.default_rng(0)
    prob = rng.dirichlet(np.ones(3), size=400)
    wrong = prob * rng.uniform(0.985, 1.0, size=(400, 1))
    names = ["prob_a", "prob_b", "prob_c"]
    label = pl.Series("label", list("abc")).gather((prob.cumsum(axis=1) > rng.uniform(size=(400, 1))).argmax(axis=1))
    frame = pl.DataFrame(wrong, schema=names).with_columns(label)
    flags = calcli.Flags(normalise=normalise)
    fitted = calcli.fit(frame, method="vector", flags=flags, bad_rows="null", output="kept", holdout="none")
    assert fitted.report.data.rows_normalised == (400 if normalise else (wrong.sum(axis=1) >= 0.99).sum())
    table = frame.drop("label")
    got = in_duckdb(table, ExportRequest("kept", shape="query", table='"the table"'))
    assert_same(got, applied("kept", table))
    assert got["calibrated_a"].null_count() == (0 if normalise else (wrong.sum(axis=1) < 0.99).sum())


def test_names_are_quoted(here: Path) -> None:
    name = """lo"git'; DROP TABLE x --"""
    frame = clicks(400).select("label", pl.col("logit").alias(name))
    calcli.fit(frame, method="beta", flags=calcli.Flags(logit=name), output="kept", holdout="none")
    expected = applied("kept", frame, column='a "b"')
    got = in_duckdb(frame, ExportRequest("kept", column='a "b"'))
    np.testing.assert_allclose(got['a "b"'].to_numpy(), expected['a "b"'].to_numpy(), rtol=1e-12)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calibrators of four classes under the names of their methods; read only."""
    folder = tmp_path_factory.mktemp("kept")
    for method in ("sms", "isotonic"):
        calcli.fit(breeds(400), method=method, output=folder / method, holdout="none")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("method", ["sms", "isotonic"])
def test_every_dialect_parses(kept: Path, dialect: str, method: str) -> None:
    artifact = str(kept / method)
    text = export(ExportRequest(artifact, dialect=dialect, shape="query", table="scores", keep=("logit_a",)))
    parsed = sqlglot.parse_one(text, read=dialect)
    assert [column.alias_or_name for column in parsed.selects][1:] == [f"calibrated_{one}" for one in "abcd"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"dialect": "postgress"}, "no dialect 'postgress'.*did you mean 'postgres'"),
        ({"shape": "query"}, "needs the table"),
        ({"shape": "tables"}, "needs the table"),
        ({"shape": "expression", "keep": ("a",)}, "an expression reads no table"),
        ({"keep": ("a",)}, "needs the table"),
        ({"shape": "query", "table": "t", "dialect": "postgres"}, "cannot give all columns but those of its own steps"),
    ],
)
def test_what_cannot_be_is_refused(
    here: Path, request_: dict[str, Any], message: str, fit_once: Callable[..., None]
) -> None:
    fit_once("train.parquet", method="platt", output="kept", holdout="none")
    with pytest.raises(UsageError, match=message):
        export(ExportRequest("kept", **request_))


NAMES = ('a"b', "a'b", "a/*", "$$", "a`b", "a;b", "a--b", "a]b", "1a", "a b", "(select 1)", "a\\b", "Ä")


QUOTING = ("duckdb", "postgres", "mysql", "clickhouse", "bigquery", "tsql")
"""Dialects that quote each in its way; the others quote as one of these."""


@pytest.mark.parametrize(
    "dialect", [name if name in QUOTING else pytest.param(name, marks=pytest.mark.slow) for name in DIALECTS]
)
def test_a_name_of_a_table_is_a_name(dialect: str, here: Path, fit_once: Callable[..., None]) -> None:
    """However odd it is, the statement reads the table of this name, and does nothing else."""
    fit_once("train.parquet", method="identity", output="kept", holdout="none")
    named = [(name, [name]) for name in NAMES]
    for name in NAMES[:2]:
        named += [(f"s.{name}", ["s", name]), (f'"{name.replace(chr(34), 2 * chr(34))}"', [name])]
    for given, parts in named:
        text = export(ExportRequest("kept", dialect=dialect, shape="query", table=given, keep=("logit",)))
        body = text[text.index("SELECT") :]
        (parsed,) = sqlglot.parse(body, read=dialect)
        (table,) = parsed.find_all(sqlglot.exp.Table)
        assert [part.name for part in table.parts] == parts, given
        assert not table.comments


def test_an_odd_name_is_read_by_databases(here: Path) -> None:
    calcli.fit("train.parquet", method="platt", output="kept", holdout="none")
    duck, lite = duckdb.connect(), sqlite3.connect(":memory:")
    for name in NAMES:
        own = '"' + name.replace('"', '""') + '"'
        for database, dialect in ((duck, "duckdb"), (lite, "sqlite")):
            database.execute(f"CREATE TABLE {own} (logit DOUBLE)")
            database.execute(f"INSERT INTO {own} VALUES (0.5)")
            text = export(ExportRequest("kept", dialect=dialect, shape="query", table=name, keep=("logit",)))
            assert len(database.execute(text).fetchall()) == 1, name


@pytest.mark.parametrize("table", ["", ".", "a.", ".a", "a..b", '"a', '"a"b', '""', "a\nb"])
def test_what_is_no_name_of_a_table_is_refused(table: str, here: Path, fit_once: Callable[..., None]) -> None:
    fit_once("train.parquet", method="platt", output="kept", holdout="none")
    for shape in ("query", "view", "tables", "auto"):
        with pytest.raises(UsageError, match="is no name of a table"):
            export(ExportRequest("kept", shape=shape, table=table))


def test_an_expression_that_is_too_long_is_refused(kept: Path) -> None:
    with pytest.raises(UsageError, match=r"would have .* terms.*--table NAME"):
        export(ExportRequest(str(kept / "sms")))


def test_an_expression_is_chosen_up_to_a_hundred_kilobytes(here: Path) -> None:
    calcli.fit("train.parquet", method="isotonic", output="kept", holdout="none")
    calcli.fit("train.parquet", method="bbq", output="long", holdout="none")
    assert not export(ExportRequest("kept")).partition("CAST(")[0].strip().endswith("SELECT")
    assert "\nFROM scores" in export(ExportRequest("kept", table="scores")).replace('"', "")
    with pytest.raises(UsageError, match=r"would have [\d,]+ terms.*--table NAME"):
        export(ExportRequest("long"))
    calcli.fit(breeds(400), method="platt", output="wide", holdout="none")
    with pytest.raises(UsageError, match=r"has [\d,]+ characters.*--table NAME"):
        export(ExportRequest("wide"))


def test_a_step_of_too_many_columns_is_refused(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = ExportRequest(str(kept / "sms"), dialect="postgres", table="scores", keep=())
    export(request)
    monkeypatch.setitem(DIALECTS, "postgres", replace(DIALECTS["postgres"], most_columns=4))
    with pytest.raises(UsageError, match=r"would have \d+ columns, and postgres takes 4.*ONNX"):
        export(request)


def test_a_statement_says_where_it_comes_from(here: Path) -> None:
    calcli.fit("train.parquet", method="platt", output="kept", holdout="none")
    first, second, _ = export(ExportRequest("kept", dialect="bigquery")).splitlines()
    assert str(calcli.load("kept").sha256) in first
    assert "bigquery are generated only" in second


def test_a_check_finds_the_rows_that_differ(here: Path) -> None:
    """Once in another formula: all of them."""
    calcli.fit("train.parquet", method="platt", output="kept", holdout="none")
    right = export(ExportRequest("kept", check=30))
    assert duckdb.sql(right).fetchall() == []
    slope = f"{calcli.load('kept').calibrator.state.number('a')!r}e0"
    assert right.count(slope) == 1
    assert len(duckdb.sql(right.replace(slope, "0.123e0")).fetchall()) == 30


def test_a_macro_of_dbt_reads_the_relation_it_is_given(here: Path) -> None:
    """Its levels are no templates."""
    jinja2 = pytest.importorskip("jinja2")
    frame = visits_with_cells("{{ dbt }}")
    table = frame.drop("label").with_columns(place=pl.int_range(pl.len()))
    macro = export(ExportRequest("kept", shape="dbt", column="better"))
    model = f"{macro}SELECT * FROM ({{{{ better('\"the table\"') }}}}) AS scored ORDER BY place"
    connection = duckdb.connect()
    connection.register("the table", table.to_arrow())
    found = connection.sql(jinja2.Template(model).render()).pl()
    expected = applied("kept", table, column="better")
    np.testing.assert_allclose(found["better"], expected["better"], rtol=0, atol=1e-12)
    assert found.columns == [*table.columns, "better"]


@pytest.mark.parametrize(
    ("level", "column", "words"),
    [("{% endraw %}", "better", "where dbt begins to read"), ("Riga", "not one", "no name of a macro")],
)
def test_what_is_no_macro_of_dbt_is_refused(here: Path, level: str, column: str, words: str) -> None:
    visits_with_cells(level)
    with pytest.raises(UsageError, match=words):
        export(ExportRequest("kept", shape="dbt", column=column))
    with pytest.raises(UsageError, match="where it is called"):
        export(ExportRequest("kept", shape="dbt", table="scores"))


def test_a_function_ends_nowhere_in_a_level(here: Path) -> None:
    visits_with_cells("$$", depth=2)
    with pytest.raises(UsageError, match=r"a level has \$\$"):
        export(ExportRequest("kept", shape="function", dialect="postgres"))
