"""RECAL from tables: edge lists, the columns that applying needs, and rows that are predicted together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import DataError, UsageError
from calcli.models.requests import FitRequest
from calcli.models.side_inputs import SideFiles
from calcli.verbs.apply import ApplyRequest
from calcli.verbs.apply import apply as run_apply
from calcli.verbs.compared_scores import EvaluateRequest
from calcli.verbs.decide import DecideRequest, decide
from calcli.verbs.diagram import DiagramRequest, diagram
from calcli.verbs.evaluate import evaluate
from calcli.verbs.fit import fit as run_fit
from tests.support.graphs import HOUSE, nearest, streets, villages
from tests.support.listener import Recorder

QUICK = {"margin": "0", "epochs": "5"}
TOLD = {"relation": "edges", **QUICK}


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pl.DataFrame:
    """Tables of houses to fit on and to apply to, and the streets between all of them."""
    monkeypatch.chdir(tmp_path)
    train, new = villages(400, 0), villages(300, 1, 1000)
    train.write_parquet("train.parquet")
    new.write_parquet("new.parquet")
    streets(pl.concat([train, new]), 0).write_parquet("streets.parquet")
    return new


def fit(**more: object) -> calcli.Model:
    given = {"method": "recal", "holdout": "none", "output": "kept", **more}
    model = calcli.fit("train.parquet", **given).model
    assert model is not None
    return model


def by_edges(**more: object) -> calcli.Model:
    return fit(sides=SideFiles(edges="streets.parquet"), flags=HOUSE, params=TOLD, **more)


@pytest.mark.slow
def test_edges_are_kept_and_predict_again(town: pl.DataFrame) -> None:
    model = by_edges(holdout="0.3")
    expected = model.predict(town)
    Path("streets.parquet").unlink()
    again = calcli.load("kept")
    np.testing.assert_array_equal(again.predict(town), expected)
    (side,) = again.manifest.sides
    assert (side["role"], side["name"]) == ("edges", "streets.parquet")
    assert again.manifest.contains_rows
    calcli.refit("kept", "new.parquet")  # the same streets, without naming them


def test_features_are_neither_needed_nor_read_with_edges(town: pl.DataFrame) -> None:
    by_edges()
    bare = town.select("house", "logit")
    np.testing.assert_array_equal(calcli.load("kept").predict(bare), calcli.load("kept").predict(town))
    with pytest.raises(DataError, match="node_id: no column 'house'"):
        calcli.load("kept").predict(town.select("logit"))
    pl.read_parquet("train.parquet").select("house", "label", "logit").write_parquet("train.parquet")
    by_edges()


def test_ids_in_text_are_the_same_ids(town: pl.DataFrame) -> None:
    by_edges()
    town.select("house", "logit").write_csv("new.csv")
    calcli.apply("kept", "new.csv", "out.csv")
    np.testing.assert_allclose(pl.read_csv("out.csv")["calibrated"], calcli.load("kept").predict(town), rtol=1e-12)


def test_new_rows_can_bring_their_edges(town: pl.DataFrame) -> None:
    """Streets to houses that were built after the fit."""
    known = pl.read_parquet("train.parquet")
    everything = pl.read_parquet("streets.parquet")
    everything.filter(pl.col("src") < 1000, pl.col("dst") < 1000).write_parquet("old.parquet")
    whole, expected = by_edges(), by_edges().predict(town)
    fit(sides=SideFiles(edges="old.parquet"), flags=HOUSE, params=TOLD, output="old")
    alone, tied = calcli.load("old"), calcli.load("old", edges="streets.parquet")
    np.testing.assert_array_equal(alone.predict(known), whole.predict(known))
    assert np.abs(alone.predict(town) - expected).max() > 1e-3
    np.testing.assert_array_equal(tied.predict(town), expected)
    calcli.apply("old", town, "out.parquet", edges="streets.parquet")
    np.testing.assert_array_equal(pl.read_parquet("out.parquet")["calibrated"], expected)


def test_edges_that_are_left_out_are_counted(town: pl.DataFrame) -> None:
    """Beside counts by joins."""
    listener, train = Recorder(), pl.read_parquet("train.parquet")["house"]
    sides, flags = SideFiles(edges="streets.parquet"), HOUSE
    run_fit(
        FitRequest(
            "train.parquet", method="recal", output="kept", params=TOLD, sides=sides, flags=flags, holdout="none"
        ),
        listener,
    )
    edges = pl.read_parquet("streets.parquet")
    src, dst = (pl.col(end).is_in(train.implode()) for end in ("src", "dst"))
    left = edges.height - edges.filter(src & dst).height
    assert f"{left:,} of {edges.height:,} edges are left out: an end of theirs is none" in " ".join(listener.notes)
    listener = Recorder()
    run_apply(ApplyRequest("kept", "new.parquet", "out.parquet"), listener)
    tied = edges.filter((src & (pl.col("dst") >= 1000) & (pl.col("dst") < 1300)) | (dst & (pl.col("src") >= 1000)))
    alone = set(town["house"]) - set(tied["src"]) - set(tied["dst"])
    assert listener.notes == [
        f"{tied.height:,} of {edges.height:,} edges tie these rows to calibration rows, the others are left out; "
        f"{len(alone):,} of 300 rows have none"
    ]


def test_unlinked_rows_are_told_wherever_an_artifact_is_applied(town: pl.DataFrame) -> None:
    """In the words of `apply`, which are held against joins above; new edges give what `apply` gives with them."""
    everything = pl.read_parquet("streets.parquet")
    everything.filter(pl.col("src") < 1000, pl.col("dst") < 1000).write_parquet("old.parquet")
    fit(sides=SideFiles(edges="old.parquet"), flags=HOUSE, params=TOLD, output="old")
    for edges in (None, "streets.parquet"):
        told = [Recorder() for _ in range(4)]
        run_apply(ApplyRequest("old", "new.parquet", "out.parquet", edges=edges), told[0])
        evaluated = evaluate(EvaluateRequest("new.parquet", ("old",), edges=edges), told[1])
        drawn = diagram(DiagramRequest("new.parquet", ("old",), edges=edges), told[2])
        costs = {"cost_fp": 1.0, "cost_fn": 5.0, "output": "policy"}
        decided = decide(DecideRequest("new.parquet", artifact="old", edges=edges, **costs), told[3])
        (said,) = told[0].notes
        assert [f"old: {said}" in told[1].notes, f"old: {said}" in told[2].notes, said in told[3].notes] == [True] * 3
        prob = pl.read_parquet("out.parquet")["calibrated"].to_numpy()
        labels = town["label"].to_numpy() == 1
        nll = -np.log(np.where(labels, prob, 1.0 - prob)).mean()
        assert evaluated.value("old", "nll") == pytest.approx(nll, rel=1e-12)
        (curve,) = [curve for curve in drawn.curves if curve.score == "old"]
        total = sum(point.n * point.x for point in curve.points)
        assert total == pytest.approx(prob.sum(), rel=1e-9)
        (cost,) = [one.numbers["cost"].value for one in decided.choice.options if one.name == "bayes"]
        yes = prob >= 1 / 6
        assert cost == pytest.approx(((yes & ~labels) + 5.0 * (~yes & labels)).mean(), rel=1e-12)
    np.testing.assert_array_equal(calcli.load("policy").predict(town), calcli.load("old").predict(town))


def test_edges_that_nothing_uses_are_refused(town: pl.DataFrame) -> None:
    fit(method="platt", output="platt")
    for request, run in (
        (DiagramRequest("new.parquet", ("platt",), edges="streets.parquet"), diagram),
        (DecideRequest("new.parquet", artifact="platt", edges="streets.parquet", cost_fp=1.0, cost_fn=1.0), decide),
        (DecideRequest("new.parquet", edges="streets.parquet", cost_fp=1.0, cost_fn=1.0), decide),
        (DecideRequest("new.parquet", edges="streets.parquet", intervals=0.9, prediction="logit"), decide),
    ):
        with pytest.raises(UsageError, match="--edges"):
            run(request)


def test_what_edges_need_is_asked_for(town: pl.DataFrame) -> None:
    with pytest.raises(UsageError, match="needs the column with the ids of the rows; add node_id='COLUMN'"):
        fit(sides=SideFiles(edges="streets.parquet"))
    with pytest.raises(UsageError, match=r"needs an edge list; try: sides=SideFiles\(edges='FILE'\), node_id='COLUMN'"):
        fit(params={"relation": "edges"})
    with pytest.raises(UsageError, match=r"SideFiles\(edges=\) is not used here; methods that use it: recal"):
        fit(method="platt", sides=SideFiles(edges="streets.parquet"), flags=HOUSE)
    fit(params={"relation": "column:village", **QUICK})
    with pytest.raises(UsageError, match="kept was not fitted with edges="):
        calcli.apply("kept", "new.parquet", "out.parquet", edges="streets.parquet")


def test_a_table_without_features_or_edges_is_refused(town: pl.DataFrame) -> None:
    pl.read_parquet("train.parquet").select("label", "logit").write_parquet("train.parquet")
    with pytest.raises(DataError, match="recal needs features"):
        fit()


def test_applying_needs_the_columns_of_the_relation_alone(town: pl.DataFrame) -> None:
    by_relation = {"column:village": ["village"], "knn:east,north": ["east", "north"], "column:east": ["east"]}
    for relation, columns in by_relation.items():
        model = fit(params={"relation": relation, **QUICK})
        assert [feature.name for feature in model.binding.features] == columns
        few = town.select("logit", *columns)
        np.testing.assert_array_equal(calcli.load("kept").predict(few), model.predict(town))
        with pytest.raises(DataError, match=f"no column {columns[0]!r}, a feature of the artifact"):
            calcli.load("kept").predict(town.select("logit"))


def test_a_refit_looks_at_all_features_again(town: pl.DataFrame) -> None:
    model = fit(params={"relation": "auto", **QUICK}, holdout="0.3")
    assert len(model.binding.features) == 1
    assert set(calcli.load("kept").fitted_binding.to_json()["features"]) == {"village", "east", "north"}
    calcli.refit("kept", "new.parquet")
    with pytest.raises(DataError, match="no column"):
        calcli.refit("kept", town.select("logit", "label", model.binding.features[0].name))


def test_offline_all_rows_of_a_table_are_one_graph(town: pl.DataFrame) -> None:
    """In whatever pieces the file comes; a bad row is nobody's neighbour."""
    told = {"relation": "knn:east,north", "apply": "offline", **QUICK}
    model = fit(params=told)
    rows = town.with_columns(logit=pl.when(pl.col("house") % 7 == 0).then(None).otherwise(pl.col("logit")))
    rows.write_parquet("new.parquet", row_group_size=40)
    good = rows["logit"].is_not_null()
    expected = model.predict(rows.filter(good))
    assert np.abs(expected - model.predict(town)[good.to_numpy()]).max() > 1e-6
    calcli.apply("kept", "new.parquet", "out.parquet", bad_rows="null")
    found = pl.read_parquet("out.parquet")["calibrated"]
    assert found.is_null().to_list() == (~good).to_list()
    np.testing.assert_array_equal(found.drop_nulls(), expected)
    with pytest.raises(DataError, match="43 bad rows of 300"):
        calcli.apply("kept", "new.parquet", "out.parquet")
    with pytest.raises(UsageError, match="predicts all rows of a table at once"):
        calcli.apply("kept", "new.parquet", "out", engine="spark")


def test_the_temperature_is_an_extra_column(town: pl.DataFrame) -> None:
    model = fit(params={"relation": "column:village", **QUICK})
    calcli.apply("kept", "new.parquet", "out.parquet", extra=True)
    out = pl.read_parquet("out.parquet")
    assert out.columns[-1] == "calibrated__temperature"
    expected = town["logit"] / out["calibrated__temperature"]
    np.testing.assert_allclose(out["calibrated__logit"], expected, rtol=1e-9)
    assert model.calibrator.spec.contains_rows


def test_the_rules_say_what_relates_the_rows(town: pl.DataFrame) -> None:
    by_edges()
    relation, training = calcli.inspect("kept", rules=True).to_json()["rules"]
    assert relation["rows"][0]["linked by"] == "the edges of --edges"
    assert relation["rows"][0]["rows"] == 400
    assert training["rows"][0]["rate"] == 0.01


def test_a_long_fit_says_how_far_it_has_come(town: pl.DataFrame) -> None:
    listener = Recorder()
    told = {"relation": "column:village", "epochs": "25"}
    run_fit(FitRequest("train.parquet", method="recal", output="kept", params=told, holdout="none"), listener)
    assert listener.steps[:3] == [(0, f"epoch {epoch} at rate 0.01") for epoch in (0, 10, 20)]


def test_evaluate_measures_the_variation_over_edges(town: pl.DataFrame) -> None:
    """Beside a join, of the good rows alone."""
    model = by_edges()
    rows = town.with_columns(logit=pl.when(pl.col("house") % 7 == 0).then(None).otherwise(pl.col("logit")))
    rows.write_parquet("new.parquet", row_group_size=40)
    report = calcli.evaluate(
        "new.parquet", ("kept",), metrics="tv,nll", edges="streets.parquet", bad_rows="null", flags=HOUSE
    )
    good = rows.filter(pl.col("logit").is_not_null())
    for name, prob in (("raw", 1 / (1 + (-good["logit"]).exp())), ("kept", pl.Series(model.predict(good)))):
        confident = good.select("house", c=pl.max_horizontal(prob, 1 - prob))
        ends = pl.read_parquet("streets.parquet").unique().join(confident, left_on="src", right_on="house")
        ends = ends.join(confident, left_on="dst", right_on="house")
        assert report.value(name, "tv") == pytest.approx((ends["c"] - ends["c_right"]).abs().sum(), rel=1e-9)


def test_evaluate_knows_what_edges_are_for(town: pl.DataFrame) -> None:
    fit(params={"relation": "column:village", **QUICK})
    with pytest.raises(UsageError, match="edges= is used by the metric tv and by artifacts"):
        calcli.evaluate("new.parquet", ("kept",), edges="streets.parquet")
    with pytest.raises(UsageError, match="add node_id='COLUMN'"):
        calcli.evaluate("new.parquet", ("kept",), metrics="tv", edges="streets.parquet")
    fit(method="platt", output="plain")
    assert calcli.evaluate("new.parquet", ("plain",), metrics="tv").value("plain", "tv") is None


def test_evaluate_gives_new_edges_to_the_artifacts_that_have_some(town: pl.DataFrame) -> None:
    pl.read_parquet("streets.parquet").head(40).write_parquet("few.parquet")
    by_edges()
    fit(method="platt", output="plain")
    found = calcli.evaluate("new.parquet", ("kept", "plain"), edges="few.parquet")
    tied = calcli.load("kept", edges="few.parquet").predict(town)
    expected = -np.log(np.where(town["label"] == 1, tied, 1 - tied)).mean()
    assert found.value("kept", "nll") == pytest.approx(expected, rel=1e-9)


def test_evaluate_shows_rows_that_are_one_graph_all_at_once(town: pl.DataFrame) -> None:
    model = fit(params={"relation": "knn:east,north", "apply": "offline", **QUICK})
    fit(method="platt", output="plain")
    town.write_parquet("new.parquet", row_group_size=40)
    report = calcli.evaluate("new.parquet", ("kept", "plain"))
    prob = model.predict(town)
    expected = -np.log(np.where(town["label"] == 1, prob, 1 - prob)).mean()
    assert report.value("kept", "nll") == pytest.approx(expected, rel=1e-9)


def test_more_rows_than_are_held_cannot_be_one_graph(town: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calcli.verbs.score_passes.HELD", 100)
    fit(params={"relation": "column:village", "apply": "offline", **QUICK})
    with pytest.raises(UsageError, match="kept needs all rows at once, and more than 100 are not held"):
        calcli.evaluate("new.parquet", ("kept",))


def test_edges_from_a_frame_are_kept_as_those_from_a_file_are(town: pl.DataFrame) -> None:
    expected = by_edges(output="file").predict(town)
    fit(sides=SideFiles(edges=pl.read_parquet("streets.parquet")), flags=HOUSE, params=TOLD, output="frame")
    np.testing.assert_array_equal(calcli.load("frame").predict(town), expected)


@pytest.mark.parametrize("relation", ["column:village", "knn:east,north", "edges"])
def test_total_variation_is_of_the_rows_that_an_artifact_links(town: pl.DataFrame, relation: str) -> None:
    """Beside a loop over all pairs, with a bad row among the new ones; edges may be named or are those of the fit."""
    if relation == "edges":
        by_edges()
    else:
        fit(params={"relation": relation, "k": "3", "epochs": "1"})
    town = town.head(120)
    town.with_columns(logit=pl.when(pl.col("house") == 1007).then(None).otherwise("logit")).write_parquet("new.parquet")
    request = EvaluateRequest("new.parquet", ("kept",), metrics="nll,tv", bad_rows="null")
    listener = Recorder()
    report = evaluate(request, listener)
    assert "tv is of rows that are linked as kept links them" in listener.notes
    rows = town.filter(pl.col("house") != 1007)
    village, place = rows["village"].to_list(), rows.select("east", "north").to_numpy()
    near = [set(nearest(place, point, 3, None, row)) for row, point in enumerate(place)]
    ids, edges = rows["house"].to_list(), set(pl.read_parquet("streets.parquet").rows())
    linked = {
        "column:village": lambda i, j: village[i] == village[j],
        "knn:east,north": lambda i, j: j in near[i] or i in near[j],
        "edges": lambda i, j: (ids[i], ids[j]) in edges or (ids[j], ids[i]) in edges,
    }[relation]
    for name, prob in (
        ("raw", 1 / (1 + np.exp(-rows["logit"].to_numpy()))),
        ("kept", calcli.load("kept").predict(rows)),
    ):
        sure = np.maximum(prob, 1 - prob)
        pairs = ((i, j) for i in range(len(sure)) for j in range(i) if linked(i, j))
        assert report.value(name, "tv") == pytest.approx(sum(abs(sure[i] - sure[j]) for i, j in pairs), rel=1e-9)
