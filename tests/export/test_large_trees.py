"""Steps of many cuts and large trees in another language: found in lists, joined as tables, or written as cases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
import sqlglot

import calcli
from calcli import expressions as terms
from calcli.export import dialects, sql
from calcli.export.large_trees import MOST_CUTS, by_lists, by_look_ups
from calcli.export.subexpressions import tree_paths
from calcli.expressions import Input, Number, Side, Steps, Switch, Term
from calcli.verbs.export import ExportRequest, export
from tests.support.export import applied, assert_same, in_duckdb

DEEP = {"trees": "3", "depth": "3", "min_rows": "8"}
QUERY = {"shape": "query", "table": '"the table"'}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("count", [MOST_CUTS + 1, 511, 512, 1_000])
def test_the_value_is_that_of_a_search(count: int, side: Side) -> None:
    """On cuts, beside them, and beyond all of them; the same value stands in places that follow each other."""
    rng = np.random.default_rng(count)
    cuts, values = np.sort(rng.normal(size=count)), np.repeat(rng.normal(size=count // 2 + 1), 2)[: count + 1]
    x = np.concatenate([cuts, np.nextafter(cuts, -9.0), np.nextafter(cuts, 9.0), [-1e300, 1e300]])
    term = terms.steps(Input("x"), cuts, values, side) * 2.0 + terms.steps(Input("x"), cuts[:5], values[:6], side)
    rows = pl.DataFrame({"x": x})
    text = sql.query({"y": term}, dialects.find("duckdb"), "rows", [])
    assert text.count("CASE") < count  # a comparison for each cut in every digit, in place of one for each cut
    found = duckdb.sql(text).pl()["y"].to_numpy()
    place = np.searchsorted(cuts, x, side), np.searchsorted(cuts[:5], x, side)
    np.testing.assert_allclose(found, values[place[0]] * 2.0 + values[place[1]], rtol=1e-15)
    assert len(rows) == len(found)


def test_nothing_else_is_made_anew() -> None:
    x = Input("x")
    few = terms.steps(x, np.arange(5.0), np.arange(6.0), "left")
    of_terms = terms.steps(x, np.arange(99.0), [x + float(one) for one in range(100)], "left")
    outputs: dict[str, Term] = {"few": terms.exp(few) + terms.choose(x > few, few, None), "terms": of_terms}
    assert by_look_ups(outputs) == outputs
    many = terms.steps(x, np.arange(99.0), np.arange(100.0), "left")
    found = by_look_ups({"few": outputs["few"], "many": terms.choose(many > few, few, many)})
    assert found["few"] is outputs["few"]
    assert isinstance(many, Steps)
    assert not any(isinstance(one, Steps) and len(one.cuts) > 5 for one in sql.bottom_up(found.values()))


def a_tree(rng: np.random.Generator, asked: dict[str, Term], depth: int) -> Term:
    """Some branches end early, and some keys have none."""
    if depth == 0 or rng.random() < 0.2:
        return Number(float(rng.normal()))
    name = rng.choice(sorted(asked))
    keys = tuple(sorted(rng.choice(6, rng.integers(1, 5), replace=False).tolist()))
    texts = tuple(f"it's {key}" for key in keys)
    *values, rest = (a_tree(rng, asked, depth - 1) for _ in (*keys, 0))
    return Switch(asked[name], texts if name == "text" else keys, tuple(values), rest)


def walked(tree: Term, row: dict[str, float | str], asked: dict[str, Term]) -> float:
    """The number of the leaf of a row, by the definition of a switch."""
    while isinstance(tree, Switch):
        name = next(name for name, term in asked.items() if term is tree.x)
        below = dict(zip(tree.keys, tree.values, strict=True))
        tree = below.get(row[name], tree.otherwise)  # type: ignore[call-overload]
    assert isinstance(tree, Number)
    return tree.value


@pytest.mark.parametrize("seed", range(4))
def test_the_leaf_is_that_of_the_branches_that_a_row_takes(seed: int) -> None:
    """Trees of any shape in one sum, and in what another tree asks for; codes beyond all keys."""
    rng = np.random.default_rng(seed)
    asked: dict[str, Term] = {"a": Input("a"), "b": Input("b"), "text": Input("text", "category")}
    trees = [Switch(asked["a"], (1, 4), (a_tree(rng, asked, 3), Number(9.0)), a_tree(rng, asked, 3)) for _ in range(5)]
    inner = Switch(asked["b"], (2, 3), (a_tree(rng, {"a": asked["a"]}, 1), Number(1.0)), Number(0.0))
    outer_x = terms.choose(inner > 0.0, 1.0, 0.0) + 1.0
    outer = Switch(outer_x, (0, 2), (Number(5.0), a_tree(rng, asked, 2)), trees[0])
    outputs: dict[str, Term] = {"sum": terms.total(trees), "outer": outer}
    found = by_lists(outputs, 0)
    assert not tree_paths(found.values(), 6)  # but for texts as codes
    numbers = rng.integers(0, 9, (200, 3))
    rows = pl.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "text": [f"it's {one}" for one in numbers[:, 2]]})
    expected = []
    for row in rows.to_dicts():
        place = 2 if walked(inner, row, asked) > 0 else 1
        last = {0: 5.0, 2: walked(outer.values[1], row, asked)}.get(place, walked(trees[0], row, asked))
        expected.append((sum(walked(tree, row, asked) for tree in trees), last))
    query = sql.query(found, dialects.find("duckdb"), "rows", [])
    np.testing.assert_allclose(duckdb.sql(query).pl().to_numpy(), expected, rtol=1e-14)


def test_a_tree_of_few_of_many_codes_stays_a_tree() -> None:
    """Its lists would have a thousand entries for each of its nodes."""
    x, y = Input("x"), Input("y")
    below = [Switch(y, (999 - one,), (Number(1.0),), Number(float(one))) for one in range(99)]
    tree = Switch(x, tuple(range(98)), tuple(below[1:]), below[0])
    assert by_lists({"sparse": tree}, 0)["sparse"] is tree
    rows = pl.DataFrame({"x": [0, 5, 98, 500], "y": [998, 1, 999, 999]})
    assert len(rows) == 4
    found = duckdb.sql(sql.query({"sparse": tree}, dialects.find("duckdb"), "rows", [])).pl()["sparse"].to_list()
    assert sorted(found) == [1.0, 1.0, 1.0, 6.0]  # of x 0 the node is that of 998, of 98 and 500 that of 999


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
    assert_same(in_duckdb(table, ExportRequest("kept", **QUERY)).sort("row"), applied("kept", table))


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
    assert_same(interpreter("kept", table), expected)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_probabilities_on_a_cut_fall_on_its_same_side(here: Path, binning: str) -> None:
    params = {"score_binning": binning, "score_bins": "100", "start": "raw", "link": "linear", **DEEP}
    calcli.fit(shops(4000, 2), method="mbct", params=params | {"min_rows": "20"}, output="kept", holdout="none")
    table = shops(400, 2, seed=1).drop("label", "prob").join(pl.DataFrame({"prob": np.arange(101) / 100}), how="cross")
    table = table.with_columns(row=pl.int_range(pl.len()))
    assert_same(in_duckdb(table, ExportRequest("kept", **QUERY)).sort("row"), applied("kept", table))


@pytest.mark.slow
def test_another_dialect_gets_its_own_tables(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "MOST_BRANCHES", 0)
    calcli.fit(shops(2000, 2), method="mbct", params=DEEP, output="kept", holdout="none")
    for dialect in ("postgres", "spark", "bigquery", "snowflake", "mysql", "redshift", "clickhouse", "trino", "sqlite"):
        request = ExportRequest("kept", dialect=dialect, shape="query", table="scores", keep=("row",))
        parsed = sqlglot.parse_one(export(request), read=dialect)
        assert [column.alias_or_name for column in parsed.selects] == ["row", "calibrated"]
        assert bool(list(parsed.find_all(sqlglot.exp.Join))) == (dialect != "sqlite")
