"""Which columns move the calibrated score away from the raw one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli import errors
from calcli.cli.main import main
from calcli.diagrams.learned import render_contributions
from tests.support.absent import hide
from tests.support.reports import ANSWERS_SCHEMA
from tests.support.samples import breeds, clicks, visits

pytest.importorskip("shap")

QUICK = {
    "mbct": {"link": "odds", "trees": 3, "depth": 2},
    "heterogeneous": {"partition": "tree", "depth": 2, "tau": 5.0},
    "boost": {"rounds": 30},
    "ccl": {"embedding": "features", "clusters": 3},
}


def log_odds(prob: np.ndarray) -> np.ndarray:
    return np.log(prob) - np.log1p(-prob)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explained")
    visits(400).write_parquet(folder / "train.parquet")
    visits(60, seed=1).write_parquet(folder / "new.parquet")
    for method, params in QUICK.items():
        calcli.fit(folder / "train.parquet", method=method, params=params, holdout="none", output=folder / method)
    return folder


@pytest.mark.parametrize("method", QUICK)
def test_the_base_and_what_columns_add_are_the_difference_of_log_odds(place: Path, method: str) -> None:
    rows = visits(10, seed=1)
    found = calcli.explain(place / method, rows)
    raw, calibrated = rows["logit"].to_numpy(), calcli.load(place / method).predict(rows)
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), log_odds(calibrated) - raw, atol=1e-6)
    assert {*found.columns} == {"score", "city", "hours", "age", "member"}
    assert np.abs(found.values).max() > 0.01


def test_a_shift_of_the_prior_is_in_the_base(tmp_path: Path) -> None:
    train, rows = visits(400), visits(60, seed=1)
    for name, shift in (("plain", None), ("shifted", "0.1")):
        settings = {"method": "boost", "params": QUICK["boost"], "holdout": "none", "prior_shift": shift}
        calcli.fit(train, output=tmp_path / name, **settings)
    plain, shifted = (calcli.explain(tmp_path / name, rows) for name in ("plain", "shifted"))
    rate = train["label"].mean()
    np.testing.assert_allclose(shifted.values, plain.values, atol=1e-9)
    assert shifted.base - plain.base == pytest.approx(log_odds(np.array(0.1)) - log_odds(np.array(rate)), abs=1e-6)


def test_with_the_classes_the_other_way_round_every_column_adds_the_opposite(tmp_path: Path) -> None:
    found = {}
    for sign in (1, -1):
        train, rows = (
            frame.with_columns(logit=sign * pl.col("logit"), label=pl.col("label") if sign > 0 else 1 - pl.col("label"))
            for frame in (visits(400), visits(60, seed=1))
        )
        calcli.fit(train, method="boost", params=QUICK["boost"], holdout="none", output=tmp_path / "kept")
        found[sign] = calcli.explain(tmp_path / "kept", rows)
    assert found[1].columns == found[-1].columns
    np.testing.assert_allclose(found[1].values, -found[-1].values, atol=1e-6)


@pytest.mark.parametrize("method", ["boost", pytest.param("mbct", marks=pytest.mark.slow)])
def test_a_row_is_explained_with_its_values(
    place: Path, method: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert (
        main([*["inspect", "--explain", "new.parquet", "--row", "7", "--format", "json", "-o", "row.png"], method]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    ANSWERS_SCHEMA.validate(found)
    row = visits(60, seed=1).row(6, named=True)
    values = {each["column"]: each["value"] for each in found["contributions"]}
    assert values == {"score": row["logit"], **{name: row[name] for name in ("city", "hours", "age", "member")}}
    moved = log_odds(np.array([found["raw"], found["calibrated"]]))
    added = sum(each["mean"] for each in found["contributions"])
    assert found["base"] + added == pytest.approx(moved[1] - moved[0], abs=1e-6)
    assert Path("row.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_is_drawn_and_no_figure_stays_open(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import pyplot

    monkeypatch.chdir(place)
    assert main(["inspect", "mbct", "--explain", "new.parquet", "-o", "table.svg"]) == 0
    out, err = capsys.readouterr()
    assert "calibrated minus raw log-odds of 60 rows" in out
    assert "drawn in table.svg" in err
    assert b"<svg" in Path("table.svg").read_bytes()[:1000]
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("rows", [1, 60])
def test_a_picture_of_the_same_numbers_has_the_same_bytes(rows: int) -> None:
    """And where others draw chance numbers, they draw what they would have drawn."""
    numbers = np.random.default_rng(0).normal(size=(rows, 3))
    before = str(np.random.get_state())
    first, second = (
        render_contributions(["a", "b", "c"], numbers.tolist(), 0.1, numbers, "rows", "svg") for _ in range(2)
    )
    assert first == second
    assert str(np.random.get_state()) == before


def test_what_cannot_be_explained_is_said(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calcli.fit(clicks(200), method="platt", output=tmp_path / "platt")
    calcli.fit(breeds(200), method="sms", output=tmp_path / "sms")
    for artifact, settings, said in (
        (place / "mbct", {"row": 61}, "rows 1 to 60"),
        (place / "mbct", {"row": 0}, "rows 1 to 60"),
        (place / "mbct", {"output": "why.html"}, "suffix"),
        (tmp_path / "platt", {}, "reads no features"),
        (tmp_path / "sms", {}, "two classes"),
    ):
        with pytest.raises(errors.UsageError, match=said):
            calcli.explain(artifact, visits(60, seed=1), **settings)
    with pytest.raises(errors.DataError, match="there is one"):
        calcli.explain(place / "mbct", visits(1))
    hide(monkeypatch, "shap")
    with pytest.raises(errors.MissingExtraError, match="shap"):
        calcli.explain(place / "mbct", "nowhere.parquet", output="why.svg")
    assert calcli.explain(place / "mbct", visits(60, seed=1), row=1).row == 1


def test_a_row_without_an_explanation_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(place / "mbct"), "--row", "3"]) == 2
    assert "--explain" in capsys.readouterr().err
    assert main(["inspect", str(place / "mbct"), "--explain", "new.parquet", "--rules"]) == 2
    assert "--explain and --rules are two answers" in capsys.readouterr().err
