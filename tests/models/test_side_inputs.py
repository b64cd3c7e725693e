"""Features, side inputs, extras and rules, by a method made for it: what is done for any method that has them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.batch import Batch, SideInputs
from calcli.errors import DataError, UsageError
from calcli.methods import catalog
from calcli.methods.base import Section
from calcli.methods.spec import MethodSpec
from calcli.models.side_inputs import SideFiles
from calcli.numeric.links import sigmoid
from calcli.state import State, pack_texts, unpack_texts
from tests.support.samples import clicks


class Shifted(ModuleType):
    """sigmoid(z + the mean of the feature x in the partition data + the length of the model's file)."""

    @staticmethod
    def fit(batch: Batch, sides: SideInputs, params: object, seed: int) -> State:
        partition = sides.batches.get("partition-data", batch)
        return State({"shift": float(partition.features["x"].values.mean()), "rows": len(partition)})

    @staticmethod
    def predict(state: State, batch: Batch, sides: SideInputs) -> np.ndarray:
        return sigmoid(batch.score + state.number("shift") + len(sides.blobs.get("model", b"")))

    @staticmethod
    def extras(state: State, batch: Batch, sides: SideInputs) -> Mapping[str, np.ndarray]:
        return {"x": batch.features["x"].values}

    @staticmethod
    def explain(state: State) -> tuple[Section, ...]:
        return (Section("Shifts", ("name", "shift"), (("x", state.params["shift"]),), "One for all."),)


ROW = MethodSpec(
    name="shifted",
    family="trees",
    target="tests.shifted",
    summary="",
    reference="",
    simplicity=99,
    needs_features=True,
    sides=("model", "partition-data"),
    keeps=("model",),
    extras=("x",),
    explains=True,
)


@pytest.fixture(autouse=True)
def shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tests.shifted", Shifted("shifted"))
    monkeypatch.setattr(catalog, "_SPECS", (*catalog.specs(), ROW))


@pytest.fixture
def table(here: Path) -> pl.DataFrame:
    frame = clicks().select("label", "logit", x=pl.int_range(pl.len()) % 7 / 4)
    frame.write_parquet("featured.parquet")
    return frame


def test_texts_survive_as_arrays() -> None:
    for texts in ([], [""], ["a", "", "Zürich", "\ud800", "日本"]):
        assert unpack_texts(pack_texts(texts)) == tuple(texts)


def test_a_table_without_features_is_refused_by_name(here: Path) -> None:
    clicks().select("label", "logit").write_parquet("bare.parquet")
    with pytest.raises(DataError, match="shifted needs features"):
        calcli.fit("bare.parquet", method="shifted")


def test_the_model_is_kept_and_predicts_again(table: pl.DataFrame, tmp_path: Path) -> None:
    Path("m.bin").write_bytes(b"12")
    calcli.fit("featured.parquet", method="shifted", sides=SideFiles(model="m.bin"), output="kept")
    Path("m.bin").unlink()
    expected = sigmoid(table["logit"].to_numpy() + table["x"].mean() + 2)
    np.testing.assert_allclose(calcli.load("kept").predict(table), expected, rtol=1e-12)
    calcli.refit("kept", "featured.parquet")
    (side,) = calcli.load("kept").manifest.sides
    assert (side["role"], side["name"]) == ("model", "m.bin")
    assert str(side["payload"]).startswith("model-")
    np.testing.assert_allclose(calcli.load("kept").predict(table), expected, rtol=1e-12)


def test_partition_data_needs_no_score_and_must_be_named_again(table: pl.DataFrame) -> None:
    table.select(pl.col("x") + 1, "label").write_parquet("train.parquet")
    beside = SideFiles(partition_data="train.parquet")
    model = calcli.fit("featured.parquet", method="shifted", sides=beside, output="kept").model
    assert model is not None
    assert model.calibrator.state.params["rows"] == table.height
    assert model.calibrator.state.number("shift") == pytest.approx(table["x"].mean() + 1)
    with pytest.raises(UsageError, match=r"\(partition_data=\) \(train.parquet\), which it does not contain"):
        calcli.refit("kept", "featured.parquet")
    calcli.refit("kept", "featured.parquet", sides=beside)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"x": [1.0], "lable": [1]}), "no label 'label'; did you mean 'lable'"),
        (pl.DataFrame({"xx": [1.0], "label": [1]}), "no column 'x'"),
        (pl.DataFrame({"x": [1.0, 2.0], "label": [1, None]}), "no label in row 2"),
        (pl.DataFrame({"x": [1.0], "label": [7]}), "the label 7 in row 1 is not one of the classes"),
        (pl.DataFrame({"x": [], "label": []}, {"x": pl.Float64, "label": pl.Int64}), "has no rows"),
    ],
)
def test_bad_partition_data_is_named(table: pl.DataFrame, frame: pl.DataFrame, message: str) -> None:
    frame.write_parquet("train.parquet")
    with pytest.raises(DataError, match=message):
        calcli.fit("featured.parquet", method="shifted", sides=SideFiles(partition_data="train.parquet"))


def test_a_side_that_nothing_uses_is_refused(table: pl.DataFrame) -> None:
    with pytest.raises(UsageError, match=r"SideFiles\(model=\) is not used here; methods that use it: .*shifted"):
        calcli.fit("featured.parquet", method="platt", sides=SideFiles(model="m.bin"))


def test_extras_stand_after_the_logits(table: pl.DataFrame) -> None:
    calcli.fit("featured.parquet", method="shifted", output="kept")
    calcli.apply("kept", "featured.parquet", "out.parquet", extra=True)
    out = pl.read_parquet("out.parquet")
    assert out.columns[-3:] == ["calibrated", "calibrated__logit", "calibrated__x"]
    np.testing.assert_array_equal(out["calibrated__x"].to_numpy(), table["x"].to_numpy())


def test_rules_are_shown_and_given_as_json(table: pl.DataFrame) -> None:
    calcli.fit("featured.parquet", method="shifted", output="kept")
    found = calcli.inspect("kept", rules=True).to_json()["rules"]
    assert found == [
        {"title": "Shifts", "note": "One for all.", "rows": [{"name": "x", "shift": pytest.approx(table["x"].mean())}]}
    ]


def test_a_method_without_rules_says_so(here: Path) -> None:
    calcli.fit("train.parquet", method="platt", output="plain")
    with pytest.raises(UsageError, match=r"platt has no rules.*methods that have some: .*shifted"):
        calcli.inspect("plain", rules=True)
