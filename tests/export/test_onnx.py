"""A calibrator as an ONNX model gives what `apply` gives, to the last digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import UsageError
from calcli.methods import catalog
from calcli.verbs.export import ExportRequest, export_onnx
from tests.support.export import applied
from tests.support.samples import breeds, clicks, unseen, visits

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the library's own

METHODS = [row.name for row in catalog.specs() if row.closed_form and not row.needs_features]


def assert_same(table: pl.DataFrame) -> None:
    expected = applied("kept", table).select(pl.col("^calibrated.*$").cast(pl.Float64).fill_null(float("nan")))
    session = onnxruntime.InferenceSession(export_onnx(ExportRequest("kept")), providers=["CPUExecutionProvider"])
    given: dict[str, Any] = {}
    for one in session.get_inputs():
        if one.type == "tensor(string)":
            given[one.name] = np.array(table[one.name].fill_null("").to_list(), dtype=object)
        else:
            given[one.name] = table[one.name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    names = [one.name for one in session.get_outputs()]
    assert names == expected.columns
    found = np.column_stack(session.run(names, given))
    np.testing.assert_allclose(found, expected.to_numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [2, 4])
def test_each_method(here: Path, method: str, classes: int) -> None:
    frame = clicks(600).select("label", "logit") if classes == 2 else breeds(400)
    calcli.fit(frame, method=method, output="kept", holdout="none")
    assert_same(unseen([name for name in frame.columns if name != "label"], rows=150))


FEATURED = {
    "mbct": {"trees": "2", "depth": "3", "min_rows": "20"},
    "heterogeneous": {"partition": "tree", "tau": "5"},
    "boost": {"rounds": "20"},
    "ccl": {"embedding": "features", "clusters": "9", "temperature": "1", "tau": "9"},
}


@pytest.mark.parametrize("method", FEATURED)
@pytest.mark.parametrize("classes", [2, 3])
def test_features_too(here: Path, method: str, classes: int) -> None:
    """Missing values, levels that were never seen, infinite numbers."""
    calcli.fit(visits(1500, classes), method=method, params=FEATURED[method], output="kept", holdout="none")
    odd = pl.int_range(pl.len()) % 11
    table = visits(300, classes, seed=1).drop("label")
    assert_same(
        table.with_columns(
            city=pl.when(odd == 0).then(pl.lit("Nowhere")).otherwise("city"),
            hours=pl.when(odd == 1).then(float("inf")).when(odd == 2).then(float("-inf")).otherwise("hours"),
        )
    )


def test_an_empty_text_is_no_level(here: Path) -> None:
    table = visits(1500).with_columns(pl.col("city").replace("Riga", ""))
    calcli.fit(table, method="heterogeneous", params={"partition": "tree", "tau": "5"}, output="kept", holdout="none")
    with pytest.raises(UsageError, match="'city' has an empty text as a level"):
        export_onnx(ExportRequest("kept"))
