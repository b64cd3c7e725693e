"""The trees of mbct on a cluster are those of one machine that holds the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.batch import NO_SIDE_INPUTS, Batch
from calcli.methods.mbct.boosting import LINKS, fit_trees
from calcli.methods.mbct.buffers import Buffers
from calcli.methods.mbct.coding import Coder
from calcli.methods.mbct.forest import Forest
from calcli.methods.mbct.level_passes import Growth
from calcli.methods.mbct.mbct import Start, rows_of, weighted_rows
from calcli.methods.scaling.linear import Platt
from calcli.models.calibrator import CalibratorModel
from calcli.models.held_out import Holdout, KeyedFolds
from calcli.spark import sample, trees
from calcli.spark.session import KEY, KEYS, with_keys
from calcli.state import unprefixed
from calcli.tables.load import load
from calcli.tables.source import open_source
from tests.support.samples import visits

pytest.importorskip("pyspark", reason="needs the extra spark")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

ROWS = 9000


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of few rows, few sums at a time, and blocks that are made anew after two trees."""
    monkeypatch.setattr(sample, "MOST_ROWS", 3000)
    monkeypatch.setattr(trees, "MOST_SUMS", 10_000)
    monkeypatch.setattr(trees, "RENEWED", 2)


def table_of(frame: pl.DataFrame, place: Path) -> str:
    place.mkdir()
    for number, part in enumerate(frame.iter_slices(3000)):
        part.write_parquet(place / f"{number}.parquet")
    return str(place)


def payloads(model: CalibratorModel) -> list[str]:
    return [each.sha256 for each in model.manifest.payloads]


def test_the_artifact_is_that_of_one_machine_to_the_last_byte(session: Any, few: None, tmp_path: Path) -> None:
    """Where borders and start do not come from the rows."""
    rng = np.random.default_rng(3)
    shop = rng.choice(["north", "south", "east", "west"], ROWS, p=[0.4, 0.3, 0.2, 0.1])
    frame = visits(ROWS).drop("hours", "age", "city").with_columns(pl.Series("shop", shop))
    table = table_of(frame, tmp_path / "table")
    params = {"trees": 3, "link": "linear", "tau": 30, "depth": 2, "start": "raw", "score_binning": "width"}
    asked: dict[str, Any] = {"method": "mbct", "params": params, "holdout": "none"}
    found = calcli.fit(table, **asked, output=tmp_path / "there", engine="spark")
    there, said = found.model, [one.message for one in found.report.warnings if one.code == "planned"]
    here = calcli.fit(frame, **asked, output=tmp_path / "here").model
    assert len(here.calibrator.state.array("tree/sizes")) > 2
    assert payloads(there) == payloads(here)
    assert there.manifest.fit["rows"] == ROWS
    assert there.manifest.fit["planned"] == {"rows": 3000, "of": ROWS, "by": "label"}
    sampled = "a sample of 3,000 of 9,000 rows, drawn at random by 'label'"
    assert said == [f"fitted on all rows, with settings and borders of bins from {sampled}"]


@pytest.mark.parametrize("loss", ["nll", "mvce"])
def test_trees_grow_on_all_rows_that_are_not_held_out(session: Any, few: None, tmp_path: Path, loss: str) -> None:
    """As they grow on one machine from the same borders and the same start."""
    rng = np.random.default_rng(5)
    frame = visits(ROWS).with_columns(w=pl.Series(rng.integers(0, 3, ROWS) + 0.5), row=pl.int_range(ROWS))
    table = table_of(frame, tmp_path / "table")
    flags = calcli.Flags(weight="w", ignore=("row",))
    params = {"trees": 3, "link": "odds", "lambda": 10, "split_loss": loss}
    asked: dict[str, Any] = {"method": "mbct", "params": params, "flags": flags, "holdout": "0.25"}
    found = calcli.fit(table, **asked, output=tmp_path / "there", engine="spark")
    # The rows that were not held out.
    keyed = with_keys(session.read.parquet(table), ["label", "w"], 0)
    key = pl.DataFrame(keyed.select("row", KEY).toArrow()).sort("row")[KEY].to_numpy()
    fold = KeyedFolds(Holdout("share", share=0.25), KEYS).of(key)
    with open_source(frame.filter(fold != 0)) as source:
        batch = load(source, found.binding, features=True).batch
    assert found.model is not None
    state = found.model.calibrator.state
    assert_grown(state, batch)
    # Its start is that of Platt scaling, and what is measured are the others.
    start = Platt().fit(batch, NO_SIDE_INPUTS, {}, 0)
    assert state.number("a") == pytest.approx(start.number("a"), rel=1e-9)
    assert state.number("b") == pytest.approx(start.number("b"), rel=1e-9)
    others = frame.filter(fold == 0)
    others = others.with_columns(mbct=found.model.predict(others))
    report = calcli.evaluate(others, scores=("mbct",), metrics="nll", flags=flags)
    assert found.report is not None
    assert found.report.value("mbct", "nll") == pytest.approx(report.value("mbct", "nll"), rel=1e-9)
    assert found.model.manifest.fit["holdout"]["rows"] == len(others)


def assert_grown(state: Any, batch: Batch) -> None:
    """That these are the trees of one machine on these rows."""
    coder = Coder.from_arrays(unprefixed("feature", state.arrays))
    rows = rows_of(weighted_rows(batch), Start(state.number("a"), state.number("b")), coder)
    settings = {name: state.params[name] for name in ("split_loss", "depth", "min_rows", "shrinkage", "rate")}
    growth = Growth(LINKS[state.params["link"]], *settings.values())
    expected = fit_trees(Buffers(rows, coder.offsets, growth, 0), growth, int(state.number("trees")))
    arrays = Forest.of(expected, growth.link, growth.rate).to_arrays()
    assert len(expected) == 3
    for name, array in unprefixed("tree", state.arrays).items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)
