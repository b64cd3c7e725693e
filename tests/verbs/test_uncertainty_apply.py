"""Applying and decomposing: which columns, what is in them, that a stream gives what the whole gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import ArtifactError, DataError, UsageError
from calcli.models.ensemble import load_ensemble
from tests.support.ensembles import ensemble, table
from tests.support.shell import ROOT

TASKS = ("binary", "multiclass", "regression")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ensembles")
    for task in TASKS:
        ensemble(task, folder / task)
        ensemble(task, folder / f"{task}-virtual", ensemble="virtual", members=4)
    return folder


def applied(ensemble_dir: Path, frame: pl.DataFrame, out: Path, **more) -> pl.DataFrame:
    calcli.apply_ensemble(ensemble_dir, frame, out, **more)
    return pl.read_parquet(out)


PARTS = ["uncertainty_total", "uncertainty_data", "uncertainty_knowledge"]
MEANS = {
    "binary": ["uncertainty_mean"],
    "multiclass": [f"uncertainty_mean_{name}" for name in ("cat", "dog", "elk")],
    "regression": ["uncertainty_mean"],
}
MORE = {"binary": ["epkl", "rmi"], "multiclass": ["epkl", "rmi"], "regression": ["epkl"]}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["", "-virtual"])
def test_the_columns_are_those_of_the_contract(task: str, kind: str, kept: Path, tmp_path: Path) -> None:
    rows = table(task, seed=3).drop("label")
    found = applied(kept / f"{task}{kind}", rows, tmp_path / "out.parquet", extra=True)
    model = [name.replace("mean", "model") for name in MEANS[task]] if kind else []
    added = [*MEANS[task], *PARTS, *model, *(f"uncertainty_{name}" for name in MORE[task])]
    assert found.columns == [*rows.columns, *added]
    assert found.select(rows.columns).equals(rows)
    assert set(found.select(added).dtypes) == {pl.Float64}
    assert (found["uncertainty_total"] == found["uncertainty_data"] + found["uncertainty_knowledge"]).all()
    assert found.select(pl.min_horizontal(PARTS).min()).item() >= 0
    if task == "multiclass":
        np.testing.assert_allclose(found.select(pl.sum_horizontal(MEANS[task])).to_series(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_the_model_of_a_virtual_ensemble_is_its_last_member(task: str, kept: Path, tmp_path: Path) -> None:
    """And not their mean: CatBoost's own prediction is both the oracle and what must not be lost."""
    from calcli.learners.catboost import pool
    from calcli.tables.load import load
    from calcli.tables.source import open_source

    rows, path = table(task, seed=4), kept / f"{task}-virtual"
    found = applied(path, rows, tmp_path / "out.parquet")
    model = load_ensemble(path)
    with open_source(rows) as source:
        data = pool(load(source, model.binding, features=True, label=False).batch.features)
    kind = {"binary": "Probability", "multiclass": "Probability", "regression": "RawFormulaVal"}[task]
    theirs = model.ensemble.models[0].predict(data, prediction_type=kind)
    ours = found.select([name.replace("mean", "model") for name in MEANS[task]]).to_numpy()
    expected = {"binary": theirs[:, 1:], "multiclass": theirs, "regression": theirs[:, :1]}[task]
    np.testing.assert_allclose(ours, expected, rtol=1e-9)
    assert not np.allclose(found.select(MEANS[task]).to_numpy(), ours)


def test_members_are_averaged(kept: Path, tmp_path: Path) -> None:
    rows = table("regression", seed=5)
    found, model = applied(kept / "regression", rows, tmp_path / "out.parquet"), load_ensemble(kept / "regression")
    said = model.predict(rows)
    np.testing.assert_array_equal(found["uncertainty_mean"], said.mean)
    np.testing.assert_array_equal(found["uncertainty_knowledge"], said.knowledge)


@pytest.mark.parametrize("task", TASKS)
def test_a_stream_in_pieces_is_the_whole(task: str, kept: Path, tmp_path: Path) -> None:
    """Rows of one piece have other levels than those of another; each is predicted as if alone."""
    rows = table(task, seed=6)
    whole = applied(kept / task, rows, tmp_path / "whole.parquet")
    for place in range(0, len(rows), 97):
        piece = applied(kept / task, rows.slice(place, 97), tmp_path / "piece.parquet")
        for name in (*MEANS[task], *PARTS):
            np.testing.assert_allclose(piece[name], whole[name].slice(place, 97), rtol=1e-12, atol=1e-15)


def test_text_passes_through_as_it_was(kept: Path, tmp_path: Path) -> None:
    rows = table("binary", 50, seed=7)
    rows.with_columns(code=pl.lit("007")).write_csv(tmp_path / "rows.csv")
    calcli.apply_ensemble(kept / "binary", tmp_path / "rows.csv", tmp_path / "out.csv", keep=("code",))
    text = (tmp_path / "out.csv").read_text().splitlines()
    assert text[0] == ",".join(["code", *MEANS["binary"], *PARTS])
    assert all(line.startswith("007,") for line in text[1:])
    expected = load_ensemble(kept / "binary").predict(rows)
    found = pl.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(found["uncertainty_mean"], expected.mean, rtol=1e-12)


def test_categories_that_were_never_seen_and_nulls_are_predicted(kept: Path, tmp_path: Path) -> None:
    rows = table("multiclass", 20).with_columns(color=pl.lit("violet"), size=None, flag=None)
    found = applied(kept / "multiclass", rows, tmp_path / "out.parquet")
    assert found.select(pl.all_horizontal(pl.col("^uncertainty_.*$").is_finite().all())).item()


def test_what_cannot_be_applied(kept: Path, tmp_path: Path) -> None:
    rows, out = table("binary", 20), tmp_path / "out.parquet"
    with pytest.raises(DataError, match="no column 'size', a feature of the artifact"):
        calcli.apply_ensemble(kept / "binary", rows.drop("size"), out)
    with pytest.raises(DataError, match="already has a column 'uncertainty_total'"):
        calcli.apply_ensemble(kept / "binary", rows.with_columns(uncertainty_total=1.0), out)
    with pytest.raises(UsageError, match="no column to keep: 'siz'"):
        calcli.apply_ensemble(kept / "binary", rows, out, keep=("siz",))
    rows.with_columns(size=pl.Series(["1.5"] * 19 + ["big"])).write_csv(tmp_path / "bad.csv")
    with pytest.raises(DataError, match="the numeric feature 'size' is 'big' in row 20"):
        calcli.apply_ensemble(kept / "binary", tmp_path / "bad.csv", out)
    calcli.fit(
        pl.DataFrame({"logit": [0.5, -1.0] * 20, "label": [1, 0] * 20}), method="platt", output=tmp_path / "platt"
    )
    with pytest.raises(ArtifactError, match="is a calibrator, not an ensemble"):
        calcli.apply_ensemble(tmp_path / "platt", rows, out)
    assert not out.exists()


class TestDecompose:
    def test_the_sample_members(self, tmp_path: Path) -> None:
        """The numbers are those of sample_data/README.md."""
        sample = ROOT / "sample_data" / "members.parquet"
        done = calcli.decompose(sample, "member", tmp_path / "out.parquet", keep=("x1", "x2"))
        assert done.columns == ("uncertainty_mean", *PARTS)
        found = pl.read_parquet(tmp_path / "out.parquet")
        clouds = [(-1.5, 0.0), (1.5, 1.0)]
        near = pl.any_horizontal((pl.col("x1") - x) ** 2 + (pl.col("x2") - y) ** 2 < 1.5**2 for x, y in clouds)
        sides = found.group_by(near.alias("near")).agg(pl.col("uncertainty_total", "uncertainty_knowledge").mean())
        by = {near: (round(total, 4), round(knowledge, 4)) for near, total, knowledge in sides.iter_rows()}
        assert by == {True: (0.4755, 0.0036), False: (0.4361, 0.0656)}

    @pytest.mark.parametrize("task", TASKS)
    def test_what_an_ensemble_says_by_way_of_a_file(self, task: str, kept: Path, tmp_path: Path) -> None:
        rows = table(task, seed=8)
        whole = applied(kept / task, rows, tmp_path / "whole.parquet", extra=True)
        model = load_ensemble(kept / task)
        from calcli.tables.load import load
        from calcli.tables.source import open_source

        with open_source(rows) as source:
            members = model.ensemble.members(load(source, model.binding, features=True, label=False).batch.features)
        columns, variances = {}, None
        for m in range(3):
            if task == "multiclass":
                columns |= {f"m_{m}_{name}": members.mean[:, m, k] for k, name in enumerate(("cat", "dog", "elk"))}
            else:
                columns[f"m_{m}"] = members.mean[:, m]
            if members.variance is not None:
                columns[f"v_{m}"], variances = members.variance[:, m], "v"
        frame = pl.DataFrame(columns)
        calcli.decompose(frame, "m", tmp_path / "out.parquet", variances=variances, extra=True, keep=())
        found = pl.read_parquet(tmp_path / "out.parquet")
        assert found.columns == [name for name in whole.columns if name.startswith("uncertainty_")]
        for name in found.columns:
            np.testing.assert_allclose(found[name], whole[name], rtol=1e-9, atol=1e-12)

    def test_bad_rows(self, tmp_path: Path) -> None:
        frame = pl.DataFrame({"m_0": [0.5, None, 0.7], "m_1": [0.5, 0.5, 0.9]})
        with pytest.raises(DataError, match=r"1 bad row of 3: a prediction is missing \(first in row 2\)"):
            calcli.decompose(frame, "m", tmp_path / "out.csv")
        assert not (tmp_path / "out.csv").exists()
        done = calcli.decompose(frame, "m", tmp_path / "out.csv", bad_rows="null", keep=())
        assert (done.rows, done.rows_bad) == (3, 1)
        assert (tmp_path / "out.csv").read_text().splitlines()[2] == ",,,"
