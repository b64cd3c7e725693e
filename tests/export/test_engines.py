"""Exported statements on real databases: every row as `apply` has it, whatever its names, texts and numbers are.

The largest difference of each engine is printed at the end. An engine that is not installed is skipped by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import UsageError
from calcli.export import sql
from calcli.export.dialects import DIALECTS, quoted
from calcli.export.subexpressions import inputs
from calcli.methods import catalog
from calcli.verbs.export import ExportRequest, calibrated_terms, export
from tests.support.differences import LARGEST
from tests.support.engines import Engine, started
from tests.support.export import difference, with_trees_apart
from tests.support.samples import breeds

pytestmark = pytest.mark.filterwarnings("ignore")  # of the databases' own libraries

METHODS = [row.name for row in catalog.specs() if row.closed_form and not row.needs_features and row.name != "pool"]
LEVELS = [
    "Oslo",
    "oslo",
    "oslo ",
    "óslo",
    "it's",
    'dq"',
    "back\\slash",
    "${x}",
    "",
    "{{ dbt }}",
    "名前",
    "a\nb",
    "%s",
    "7",
]
NUMBER, TEXT, TRUTH, COUNT = "select", 'naïve "text"', "tr`u\\e %s", "calcli_0"


def visits(rows: int, seed: int, classes: int = 2) -> pl.DataFrame:
    """Scores that are wrong by features with awkward names and values."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, len(LEVELS), rows)
    number = rng.normal(0, 3, rows).round(1)
    number[: rows // 8] = np.resize([np.nan, np.inf, -np.inf, -0.0, 0.0], rows // 8)
    truth, count = rng.random(rows) < 0.5, rng.integers(0, 30, rows)
    wrong = 1.5 * np.sin(level) - (np.nan_to_num(number, posinf=1.0, neginf=-1.0) > 0.5) + truth * (count > 9)
    z = rng.normal(-0.5, 1.5, (rows, classes))
    if classes == 2:
        prob = (1 / (1 + np.exp(-z[:, 0]))).round(2)
        label = (rng.random(rows) < 1 / (1 + np.exp(-z[:, 0] - wrong))).astype(int)
        scores = {"prob": prob}
    else:
        label = (z + np.outer(wrong, np.arange(classes)) / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
        scores = {f"logit_{index}": 2 * z[:, index] for index in range(classes)}
    frame = pl.DataFrame(
        {
            "label": label,
            **scores,
            NUMBER: number,
            TEXT: [LEVELS[one] for one in level],
            TRUTH: truth,
            COUNT: count,
        }
    )
    some = pl.int_range(pl.len()) % 9
    return frame.with_columns(
        pl.when(some != 1).then(TEXT).name.keep(),
        pl.when(some != 2).then(TRUTH).name.keep(),
        pl.when(some != 3).then(COUNT).name.keep(),
    )


def scores(rows: int, seed: int) -> pl.DataFrame:
    """Scores of one column, many of them equal and on the cuts between bins."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-1, 1.5, rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-z / 2))).astype(int)
    return pl.DataFrame({"label": label, "prob": (1 / (1 + np.exp(-z))).round(3)})


def with_bad_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Among the rows some whose scores are none, or lie at the ends of what they can be."""
    names = [name for name in frame.columns if name.startswith(("prob", "logit"))]
    ends = [0.0, 1.0, 1e-300, 1.2] if "prob" in names else [0.0, -0.0, 600.0, -600.0]
    hard = pl.DataFrame({"hard": np.resize([np.nan, np.inf, -np.inf, *ends], len(frame))})["hard"]
    which = pl.int_range(pl.len()) % 20
    return (
        frame.drop("label")
        .with_columns([pl.when(which == 5).then(hard).when(which != 6).then(name).alias(name) for name in names])
        .with_columns(place=pl.int_range(pl.len()))
    )


SPARK = (
    "venn-abers-prob",
    "dirichlet-4",
    "mbct-odds",
    "mbct-linear-joined",
    "mbct-many-joined",
    "heterogeneous-classes",
    "boost-2",
    "ccl-2",
)
"""Cases that are enough for an engine that takes seconds for each statement."""


@dataclass(frozen=True)
class Case:
    """A calibrator and rows for it."""

    name: str
    method: str
    fitted: pl.DataFrame
    rows: pl.DataFrame
    params: dict[str, Any]
    joined: bool = False


def _cases() -> Iterator[Case]:
    for method in METHODS:
        unseen = with_bad_rows(pl.concat([scores(900, 0), scores(200, 1)]))
        yield Case(f"{method}-prob", method, scores(900, 0), unseen, {})
        unseen = with_bad_rows(pl.concat([breeds(300), breeds(200, seed=1)]))
        yield Case(f"{method}-4", method, breeds(300), unseen, {})
    for name, params, classes in (
        ("odds", {"trees": "3", "depth": "3", "min_rows": "20"}, 2),
        ("small", {"trees": "2", "depth": "2", "min_rows": "50"}, 2),
        ("linear", {"trees": "2", "depth": "3", "min_rows": "20", "link": "linear", "score_binning": "width"}, 2),
        ("classes", {"trees": "2", "depth": "2", "min_rows": "20"}, 3),
        ("many", {"trees": "53", "depth": "2", "min_rows": "20"}, 2),
    ):
        fitted, rows = visits(1500, 0, classes), with_bad_rows(visits(500, 1, classes))
        if name != "many":
            yield Case(f"mbct-{name}", "mbct", fitted, rows, params)
        if name != "small":
            yield Case(f"mbct-{name}-joined", "mbct", fitted, rows, params, joined=True)
    for name, params, classes in (
        ("forest", {"partition": "forest", "trees": "3"}, 2),
        ("boosted", {"partition": "boosted", "trees": "3"}, 2),
        ("classes", {"partition": "tree"}, 3),
    ):
        given = {"tau": "5", "min_rows": "40", **params}
        fitted, rows = visits(1500, 0, classes), with_bad_rows(visits(500, 1, classes))
        yield Case(f"heterogeneous-{name}", "heterogeneous", fitted, rows, given)
    for name, params, classes in (("effects-2", {"pairs": "8"}, 2), ("effects-3", {"pairs": "4"}, 3)):
        fitted, rows = visits(1500, 0, classes), with_bad_rows(visits(500, 1, classes))
        yield Case(name, "effects", fitted, rows, params)
        yield Case(f"{name}-joined", "effects", fitted, rows, params, joined=True)
    for name, params, classes in (
        ("boost-2", {"rounds": "30"}, 2),
        ("boost-deep", {"rounds": "10", "depth": "7"}, 2),
        ("boost-3", {"rounds": "15"}, 3),
    ):
        yield Case(name, "boost", visits(1500, 0, classes), with_bad_rows(visits(500, 1, classes)), params)
    for name, params, classes in (
        ("ccl-2", {"clusters": "12", "temperature": "1", "tau": "20"}, 2),
        ("ccl-nearest", {"clusters": "6", "temperature": "0", "tau": "5", "inner": "isotonic"}, 2),
        ("ccl-3", {"clusters": "7", "temperature": "2", "tau": "5"}, 3),
    ):
        given = {"embedding": "features", **params}
        yield Case(name, "ccl", visits(1500, 0, classes), with_bad_rows(visits(500, 1, classes)), given)
    given = {"members": "platt,isotonic,mbct,boost", "weights": "0.2,0.2,0.3,0.3"}
    yield Case("pool", "pool", visits(1500, 0), with_bad_rows(visits(500, 1)), given)


CASES = {case.name: case for case in _cases()}


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The artifact of a case, fitted once."""
    folder = tmp_path_factory.mktemp("artifacts")

    def artifact(case: Case) -> Path:
        path = folder / case.name.removesuffix("-joined")
        if not path.exists():
            calcli.fit(case.fitted, method=case.method, params=case.params, output=path, holdout="none")
        return path

    return artifact


ENGINES = [
    pytest.param(name, marks=() if name == "duckdb" else pytest.mark.slow)
    for name, one in DIALECTS.items()
    if one.engine
]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with started(request.param) as running:
        yield running


@dataclass(frozen=True)
class Loaded:
    """An artifact, and rows for it in a database."""

    engine: Engine
    artifact: Path
    rows: pl.DataFrame
    folder: Path

    def export(self, **more: Any) -> str:
        """The statement that calibrates the rows in the database."""
        given = {"dialect": self.engine.dialect, "table": self.engine.table, "keep": ("place",), **more}
        return export(ExportRequest(self.artifact, **given))

    def error(self, found: pl.DataFrame) -> float:
        """The largest difference from what `apply` gives."""
        table, out = self.folder / "rows.parquet", self.folder / "out.parquet"
        self.rows.write_parquet(table)
        calcli.apply(self.artifact, table, out, bad_rows="null")
        return difference(found.sort("place"), pl.read_parquet(out))


@pytest.fixture
def loaded(artifacts: Any, tmp_path: Path) -> Callable[[Engine, str], Loaded]:
    """A case with its rows in an engine."""

    def load(engine: Engine, name: str) -> Loaded:
        rows = engine.holds(CASES[name].rows)
        engine.load(rows)
        return Loaded(engine, artifacts(CASES[name]), rows, tmp_path)

    return load


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_row_is_as_apply_has_it(
    engine: Engine,
    name: str,
    loaded: Callable[[Engine, str], Loaded],
    record_property: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = CASES[name]
    if engine.dialect == "spark" and name not in SPARK:
        pytest.skip("other engines run it")
    if case.joined:
        if not DIALECTS[engine.dialect].can_join:
            pytest.skip("it takes trees as conditions alone")
        with_trees_apart(monkeypatch)
    made = loaded(engine, name)
    most = made.error(engine.run(made.export(shape="query")))
    with suppress(UsageError):  # too long for an expression
        text = made.export(table=None, keep=None)
        most = max(most, made.error(engine.run(f"SELECT {text}, place FROM {engine.table}")))
    record_property(LARGEST, [engine.dialect, case.method, most])
    assert most <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mbct-odds-joined", "boost-3"])
def test_a_query_within_another_gives_the_same(
    engine: Engine, name: str, loaded: Callable[[Engine, str], Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings at the end of a statement would not hold there."""
    if engine.dialect == "spark":
        pytest.skip("other engines run it")
    if DIALECTS[engine.dialect].can_join:
        with_trees_apart(monkeypatch)
    made = loaded(engine, name)
    found = engine.run(f"SELECT * FROM ({made.export(shape='query')}\n) AS outer_query")
    assert made.error(found) <= 1e-9


@pytest.fixture(scope="module")
def emulator() -> Iterator[Engine]:
    with started("snowflake") as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("name", SPARK)
def test_an_emulator_of_snowflake_gives_the_same(
    emulator: Engine, name: str, loaded: Callable[[Engine, str], Loaded]
) -> None:
    made = loaded(emulator, name)
    assert made.error(emulator.run(made.export(shape="query"))) <= 1e-9


def test_the_engine_is_as_new_as_the_dialect_says(engine: Engine) -> None:
    ask = {"sqlite": "SELECT sqlite_version()", "postgres": "SHOW server_version"}.get(
        engine.dialect, "SELECT version()"
    )
    found = re.search(r"\d+(\.\d+)*", str(engine.run(ask).item()))
    said = DIALECTS[engine.dialect].engine.split()[-1]
    assert found is not None
    assert [int(part) for part in found[0].split(".")] >= [int(part) for part in said.split(".")]


def test_a_check_finds_nothing(engine: Engine, artifacts: Any) -> None:
    artifact = artifacts(CASES["heterogeneous-forest"])
    assert engine.run(export(ExportRequest(artifact, dialect=engine.dialect, check=20))).is_empty()


def test_a_view_holds_what_the_query_gives(engine: Engine, loaded: Callable[[Engine, str], Loaded]) -> None:
    made = loaded(engine, "mbct-odds")
    engine.execute(made.export(shape="view"))
    view = quoted("calibrated", DIALECTS[engine.dialect])
    found = engine.run(f"SELECT * FROM {view}")
    engine.execute(f"DROP VIEW {view}")
    assert made.error(found) <= 1e-9


def _with_tables(engine: Engine, made: list[str], query: str) -> pl.DataFrame:
    """The rows of a query that reads tables which other statements make."""
    try:
        for statement in made:
            engine.execute(statement)
        return engine.run(query)
    finally:
        for one in ("nodes", "branches", "leaves", "lists"):
            engine.execute(f"DROP TABLE IF EXISTS {quoted(f'calibrated_{one}', DIALECTS[engine.dialect])}")


@pytest.mark.parametrize(
    "name", ["mbct-many-joined", "mbct-linear", pytest.param("mbct-classes", marks=pytest.mark.slow)]
)
def test_tables_beside_the_query_give_the_same(
    engine: Engine, name: str, loaded: Callable[[Engine, str], Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.dialect == "spark" and name != "mbct-many-joined":
        pytest.skip("other engines run it")
    with_trees_apart(monkeypatch)
    monkeypatch.setattr(sql, "MOST_INSERTED", 50)
    made = loaded(engine, name)
    *tables, query = made.export(shape="tables").split(";\n")
    assert len(tables) > 6
    assert "VALUES" not in query or DIALECTS[engine.dialect].can_join  # those of texts stay within
    assert made.error(_with_tables(engine, tables, query)) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["boost-2", "boost-3", "pool"])
def test_what_would_be_too_long_as_one_query_is_kept_in_tables(
    engine: Engine, name: str, loaded: Callable[[Engine, str], Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.dialect == "spark" and name != "boost-2":
        pytest.skip("other engines run it")
    made, dialect = loaded(engine, name), DIALECTS[engine.dialect]
    assert "CREATE TABLE" not in made.export()
    monkeypatch.setitem(DIALECTS, engine.dialect, replace(dialect, most_bytes=1_000))
    *tables, query = made.export().split(";\n")
    where = f"FROM {quoted('calibrated_lists', dialect)}", f"JOIN {quoted('calibrated_leaves', dialect)}"
    assert where[not dialect.look_up] in query
    assert made.error(_with_tables(engine, tables, query)) <= 1e-9


@pytest.mark.slow
def test_a_statement_of_thousands_of_steps_runs_as_it_is(engine: Engine, tmp_path: Path) -> None:
    """It is longer, and has more elements, than ClickHouse takes unless it is told to."""
    if engine.dialect == "spark":
        pytest.skip("other engines run it")
    fitted = scores(20_000, 0).with_columns(prob=(pl.int_range(pl.len()) + 0.5) / 20_000)
    calcli.fit(fitted, method="histogram", params={"bins": "8000"}, output=tmp_path / "kept", holdout="none")
    rows = engine.holds(with_bad_rows(pl.concat([fitted.sample(500, seed=0), scores(500, 1)])))
    engine.load(rows)
    made = Loaded(engine, tmp_path / "kept", rows, tmp_path)
    text = made.export()
    assert len(text) > 262_144
    *settings, query = text.split(";\n")
    for one in settings:
        engine.execute(one)
    assert made.error(engine.run(query)) <= 1e-9


@pytest.mark.parametrize("name", ["mbct-small", "identity-4"])
def test_a_function_gives_what_the_expression_gives(
    engine: Engine, name: str, loaded: Callable[[Engine, str], Loaded]
) -> None:
    dialect, made = DIALECTS[engine.dialect], loaded(engine, name)
    asked = {"shape": "function", "table": None, "keep": None}
    if not dialect.function:
        with pytest.raises(UsageError, match="has no functions"):
            made.export(**asked)
        return
    for statement in made.export(**asked).split(";\n"):
        engine.execute(statement)
    outputs = calibrated_terms(calcli.load(made.artifact), "calibrated", "prob")
    given = ", ".join(quoted(one, dialect) for one, _ in sorted(inputs(outputs.values())))
    calls = [f"{quoted(one, dialect)}({given}) AS {quoted(one, dialect)}" for one in outputs]
    assert made.error(engine.run(f"SELECT place, {', '.join(calls)} FROM {engine.table}")) <= 1e-9
