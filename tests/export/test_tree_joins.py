"""Boosted trees in another language: the same for values that are missing, were never seen or lie on a cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.export import sql
from calcli.verbs.export import ExportRequest, export
from tests.support.export import applied, assert_same, in_duckdb

DEEP = {"trees": "3", "depth": "3", "min_rows": "8"}
QUERY = {"shape": "query", "table": '"the table"'}


def shops(rows: int, classes: int, seed: int = 0, *, unseen: bool = False) -> pl.DataFrame:
    """Scores that err by shop, hour, size and member; `unseen` has other shops too, and scores that are none."""
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, 44 if unseen else 40, rows)
    hour, size, member = rng.integers(0, 24, rows), rng.normal(size=rows).round(1), rng.random(rows) < 0.3
    frame = pl.DataFrame(
        {
            "row": np.arange(rows),
            "shop": [f"it's {one}" for one in shop],
            "hour": pl.Series(hour, dtype=pl.Int16),
            "size": np.where(rng.random(rows) < 0.05, np.nan, size),
            "member": member,
        }
    ).with_columns(pl.when(pl.int_range(pl.len()) % 13 > 0).then(pl.col("shop", "hour", "size", "member")))
    wrong = np.sin(shop) + 0.8 * (hour > 12) + size * member
    if classes == 2:
        score = rng.normal(size=rows)
        prob = (1 / (1 + np.exp(-score))).round(2)  # many lie on a cut between bins of equal width
        label = (rng.random(rows) < 1 / (1 + np.exp(-score - wrong))).astype(np.int8)
        frame = frame.with_columns(prob=prob, label=label)
    else:
        logits = rng.normal(size=(rows, classes))
        moved = logits + wrong[:, None] * np.arange(classes) / 2 + rng.gumbel(size=logits.shape)
        frame = frame.with_columns(
            *(pl.Series(f"logit_{at}", logits[:, at]) for at in range(classes)), label=moved.argmax(axis=1)
        )
    if not unseen:
        return frame
    score_names = [name for name in frame.columns if name.startswith(("prob", "logit"))]
    hard = pl.when(pl.int_range(pl.len()) % 50 > 0).then(pl.col(score_names)).otherwise(float("nan"))
    return frame.drop("label").with_columns(hard)


def sorted_in_duckdb(table: pl.DataFrame, request: ExportRequest) -> pl.DataFrame:
    return in_duckdb(table, request).sort("row")


@pytest.mark.parametrize(
    ("branches", "unlisted"), [(99**9, 99**9), (0, 99**9), (0, 0)], ids=["cases", "joins", "lists"]
)
@pytest.mark.parametrize("link", ["odds", "linear"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.slow
def test_a_query_predicts_the_same(
    here: Path, monkeypatch: pytest.MonkeyPatch, classes: int, link: str, branches: int, unlisted: int
) -> None:
    monkeypatch.setattr(sql, "MOST_BRANCHES", branches)
    monkeypatch.setattr(sql, "MOST_UNLISTED", unlisted)
    calcli.fit(shops(3000, classes), method="mbct", params={"link": link, **DEEP}, output="kept", holdout="none")
    table = shops(1200, classes, seed=1, unseen=True)
    assert_same(sorted_in_duckdb(table, ExportRequest("kept", **QUERY)), applied("kept", table))


@pytest.mark.parametrize("params", [DEEP | {"link": "odds", "trees": "1", "depth": "2"}, {"trees": "0"}])
def test_an_expression_and_the_formula_predict_the_same(
    here: Path, params: dict[str, str], interpreter: Callable[..., Any]
) -> None:
    calcli.fit(shops(1500, 2), method="mbct", params=params, output="kept", holdout="none")
    table = shops(200, 2, seed=1, unseen=True)
    expected = applied("kept", table)
    assert_same(in_duckdb(table, ExportRequest("kept", shape="expression")), expected)
    formula = json.loads(export(ExportRequest("kept", to="json")))
    roles = {"prob": "number", "shop": "category", "hour": "number", "size": "number", "member": "boolean"}
    assert {one["name"]: one["role"] for one in formula["inputs"]}.items() <= roles.items()
    found = pl.DataFrame([interpreter(formula, one) for one in table.to_dicts()], infer_schema_length=None)
    assert_same(found, expected)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_probabilities_on_a_cut_fall_on_its_same_side(here: Path, binning: str) -> None:
    params = {"score_binning": binning, "score_bins": "100", "start": "raw", "link": "linear", **DEEP}
    calcli.fit(shops(4000, 2), method="mbct", params=params | {"min_rows": "20"}, output="kept", holdout="none")
    table = shops(400, 2, seed=1).drop("label", "prob").join(pl.DataFrame({"prob": np.arange(101) / 100}), how="cross")
    table = table.with_columns(row=pl.int_range(pl.len()))
    assert_same(sorted_in_duckdb(table, ExportRequest("kept", **QUERY)), applied("kept", table))


@pytest.mark.slow
def test_another_dialect_gets_its_own_tables(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlglot

    monkeypatch.setattr(sql, "MOST_BRANCHES", 0)
    calcli.fit(shops(2000, 2), method="mbct", params=DEEP, output="kept", holdout="none")
    for dialect in ("postgres", "spark", "bigquery", "snowflake", "mysql", "redshift", "clickhouse", "trino", "sqlite"):
        request = ExportRequest("kept", dialect=dialect, shape="query", table="scores", keep=("row",))
        parsed = sqlglot.parse_one(export(request), read=dialect)
        assert [column.alias_or_name for column in parsed.selects] == ["row", "calibrated"]
        assert bool(list(parsed.find_all(sqlglot.exp.Join))) == (dialect != "sqlite")
