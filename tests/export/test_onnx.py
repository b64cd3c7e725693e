"""A calibrator as an ONNX model gives what `apply` gives, to the last digits."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
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
from tests.support.samples import breeds, clicks, odd_visits, unseen, visits
from tests.support.shell import HANGS, ROOT, blocks

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the library's own

METHODS = [row.name for row in catalog.specs() if row.closed_form and not row.needs_features]
OF_CLASSES = ("identity", "dirichlet", "isotonic", "spline", "venn-abers")


def assert_same(table: pl.DataFrame, *, float32: bool = False) -> None:
    expected = applied("kept", table).select(pl.col("^calibrated.*$").cast(pl.Float64).fill_null(float("nan")))
    content = export_onnx(ExportRequest("kept", float32=float32))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    given: dict[str, Any] = {}
    for one in session.get_inputs():
        if one.type == "tensor(string)":
            given[one.name] = np.array(table[one.name].fill_null("").to_list(), dtype=object)
        else:
            assert one.type == ("tensor(float)" if float32 else "tensor(double)")
            number = pl.Float32 if float32 else pl.Float64
            given[one.name] = table[one.name].cast(number).fill_null(float("nan")).to_numpy()
    names = [one.name for one in session.get_outputs()]
    assert names == expected.columns
    found = np.column_stack(session.run(names, given))
    assert found.dtype == (np.float32 if float32 else np.float64)
    np.testing.assert_allclose(found, expected.to_numpy(), rtol=0, atol=1e-6 if float32 else 1e-12)


@pytest.mark.parametrize(
    ("classes", "method"),
    [
        *((2, method) for method in METHODS),
        # Their terms are those of the formula, which is tried for each method; here a few stand for the operators.
        *((4, name) if name in OF_CLASSES else pytest.param(4, name, marks=pytest.mark.slow) for name in METHODS),
    ],
)
def test_each_method(here: Path, method: str, classes: int) -> None:
    frame = clicks(200).select("label", "logit") if classes == 2 else breeds(200)
    calcli.fit(frame, method=method, output="kept", holdout="none")
    assert_same(unseen([name for name in frame.columns if name != "label"], rows=150))


FEATURED = {
    "mbct": {"trees": "2", "depth": "3", "min_rows": "20"},
    "heterogeneous": {"partition": "tree", "tau": "5"},
    "effects": {"pairs": "3"},
    "boost": {"rounds": "20"},
    "forest": {"trees": "20", "weight": "0.6"},
    "ccl": {"embedding": "features", "clusters": "9", "temperature": "1", "tau": "9"},
}


@pytest.mark.parametrize(
    ("classes", "method"),
    [
        *((2, method) for method in FEATURED),
        *(
            (3, name) if name in ("mbct", "boost") else pytest.param(3, name, marks=pytest.mark.slow)
            for name in FEATURED
        ),
    ],
)
def test_features_too(here: Path, method: str, classes: int) -> None:
    """Missing values, levels that were never seen, infinite numbers."""
    calcli.fit(visits(800, classes), method=method, params=FEATURED[method], output="kept", holdout="none")
    assert_same(odd_visits(300, classes))


def test_an_empty_text_is_no_level(here: Path) -> None:
    table = visits(1500).with_columns(pl.col("city").replace("Riga", ""))
    calcli.fit(table, method="heterogeneous", params={"partition": "tree", "tau": "5"}, output="kept", holdout="none")
    with pytest.raises(UsageError, match="'city' has an empty text as a level"):
        export_onnx(ExportRequest("kept"))


@pytest.mark.parametrize("method", ["isotonic", "boost", "mbct"])
def test_single_precision(here: Path, method: str) -> None:
    """Rows as float32 has them."""
    calcli.fit(visits(1500), method=method, params=FEATURED.get(method, {}), output="kept", holdout="none")
    table = visits(300, seed=1).drop("label").with_columns(pl.col(pl.Float64).cast(pl.Float32).cast(pl.Float64))
    assert_same(table, float32=True)


def test_a_model_carries_rows_and_what_it_gives_for_them(here: Path) -> None:
    calcli.fit(visits(1500), method="boost", params=FEATURED["boost"], output="kept", holdout="none")
    session = onnxruntime.InferenceSession(export_onnx(ExportRequest("kept")))
    rows = json.loads(session.get_modelmeta().custom_metadata_map["calcli.rows"])
    texts = {one.name for one in session.get_inputs() if one.type == "tensor(string)"}
    table = pl.DataFrame(
        {name: [value or None for value in of] if name in texts else of for name, of in rows["inputs"].items()}
    ).with_columns(pl.col("member").cast(pl.Boolean))
    expected = applied("kept", table)["calibrated"].to_list()
    assert len(expected) == 20
    assert rows["outputs"]["calibrated"] == pytest.approx(expected, abs=1e-12)


def test_the_server_of_the_docs(here: Path) -> None:
    """Its address is printed; single rows and several, with missing values."""
    page = (ROOT / "docs" / "serving.md").read_text()
    Path("serve.py").write_text(blocks(page, "python")[0])
    calcli.fit(visits(1500), method="boost", params=FEATURED["boost"], output="kept", holdout="none")
    Path("kept.onnx").write_bytes(export_onnx(ExportRequest("kept")))
    table = visits(50, seed=1).drop("label")
    with subprocess.Popen([sys.executable, "serve.py", "kept.onnx", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            body = json.dumps(table.fill_nan(None).to_dicts()).encode()
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with direct.open(address, body, timeout=HANGS) as answer:
                found = json.load(answer)
        finally:
            server.terminate()
    expected = applied("kept", table)["calibrated"].to_list()
    assert [one["calibrated"] for one in found] == pytest.approx(expected, abs=1e-12)


def test_the_rows_that_a_file_keeps_are_in_the_order_of_names(here: Path) -> None:
    """Names in a set have another order in each process, and the same calibrator would have other bytes."""
    names = [f"logit_{name}" for name in "abcdefg"]
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(dict(zip(names, rng.normal(size=(7, 300)), strict=True)))
    frame = frame.with_columns(label=pl.Series(rng.choice(list("abcdefg"), 300)))
    calcli.fit(frame, method="temperature", output="kept", holdout="none")
    kept = onnx.load_from_string(export_onnx(ExportRequest("kept", check=3)))
    rows = next(json.loads(prop.value)["inputs"] for prop in kept.metadata_props if prop.key == "calcli.rows")
    assert list(rows) == names
