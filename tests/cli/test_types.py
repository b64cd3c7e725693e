"""Types that polars has not, or cannot compute with: a result or one line, and never a panic on stderr."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

import calcli
from tests.support.shell import Run
from tests.support.tables import get_arrow, put_arrow

ROWS = 60
PROB = np.round(np.random.default_rng(0).uniform(0.1, 0.9, ROWS), 3)
TEXTS = [Decimal(str(value)) for value in PROB]
MOMENT = [dt.datetime(2024, 1, 1)] * ROWS


def far(dtype: pa.DataType, ends: tuple[int, int]) -> pa.Array:
    width = pa.int32() if dtype == pa.date32() else pa.int64()
    return pa.array(ends * (ROWS // 2), width).view(dtype)


TYPES = {
    **{f"decimal{one.bit_width}": pa.array(TEXTS, one) for one in (pa.decimal32(5, 3), pa.decimal64(9, 3))},
    "decimal256": pa.array(TEXTS, pa.decimal256(20, 3)),
    "wide": pa.array(TEXTS, pa.decimal256(60, 3)),
    "decimals in lists": pa.array([[value] for value in TEXTS], pa.list_(pa.decimal32(5, 3))),
    "decimal levels": pa.array(TEXTS, pa.decimal256(20, 3)).dictionary_encode(),
    "half an hour": pa.array(MOMENT, pa.timestamp("us", tz="+05:30")),
    "two hours": pa.array(MOMENT, pa.timestamp("us", tz="+02:00")),
    "no zone": pa.array(MOMENT, pa.timestamp("us", tz="Nowhere/Land")),
    "zones inside": pa.array([{"a": each} for each in MOMENT], pa.struct([("a", pa.timestamp("s", tz="-03:30"))])),
    "twice": pa.StructArray.from_arrays([pa.array(range(ROWS))] * 2, names=["a", "a"]),
    "far days": far(pa.date32(), (2**31 - 1, -(2**31))),
    "far moments": far(pa.timestamp("us"), (2**63 - 1, -(2**63) + 1)),
    "far milliseconds": far(pa.timestamp("ms"), (2**60, -(2**60))),
    "list": pa.array([[1, 2]] * ROWS),
    "map": pa.array([[("k", 1)]] * ROWS, pa.map_(pa.string(), pa.int64())),
    "bytes in a map": pa.array([[("k", b"\xff")]] * ROWS, pa.map_(pa.string(), pa.binary())),
    "struct": pa.array([{"a": 1}] * ROWS),
    "bytes": pa.array([b"\xff"] * ROWS),
    "duration": pa.array([1] * ROWS, pa.duration("us")),
    "json": pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(["{}"] * ROWS)),
    "opaque": pa.ExtensionArray.from_storage(pa.opaque(pa.binary(), "a", "b"), pa.array([b"x"] * ROWS)),
}
COMMANDS = (
    ("evaluate", "IN", "--metrics", "nll"),
    ("evaluate", "IN", "--metrics", "nll", "--by", "x"),
    ("evaluate", "IN", "--metrics", "nll", "--bootstrap", "3", "--resample-by", "x"),
    ("evaluate", "IN", "--metrics", "cece", "--clusters-from", "x"),
    ("evaluate", "IN", "--metrics", "nll", "--prob", "x"),
    ("evaluate", "IN", "--metrics", "nll", "--weight", "x"),
    ("evaluate", "IN", "--metrics", "nll", "--label", "x"),
    ("compare", "IN", "--methods", "identity", "--order-by", "x"),
    ("fit", "IN", "-q", "-m", "recal", "-o", "kept", "--edges", "EDGES", "--node-id", "x"),
    *(("apply", "artifact", "IN", "-o", f"out.{kind}") for kind in ("parquet", "arrow", "csv", "ndjson", "json")),
)


@pytest.fixture(scope="module")
def plain_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    pl.DataFrame({"label": np.arange(ROWS) % 2, "prob": PROB}).write_parquet(folder / "plain.parquet")
    calcli.fit(folder / "plain.parquet", method="platt", output=folder / "artifact", holdout="none")
    return folder


@pytest.fixture
def fitted(plain_rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a table and a calibrator of it."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(plain_rows, tmp_path, dirs_exist_ok=True)


def put_table(path: Path, columns: dict[str, pa.Array]) -> bool:
    """Whether pyarrow could write it."""
    table = pa.table(columns)
    try:
        if path.suffix == ".arrows":
            with pyarrow.ipc.new_stream(str(path), table.schema) as writer:
                writer.write_table(table)
        else:
            put_arrow(path, table)
    except pa.ArrowException:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows"])
@pytest.mark.parametrize("name", TYPES)
def test_a_result_or_one_line(fitted: Path, run: Run, name: str, suffix: str) -> None:
    table, edges = fitted / f"in.{suffix}", fitted / f"edges.{suffix}"
    if not put_table(table, {"label": pa.array(np.arange(ROWS) % 2), "prob": pa.array(PROB), "x": TYPES[name]}):
        pytest.skip("pyarrow does not write it")
    put_table(edges, {"src": TYPES[name], "dst": TYPES[name]})
    for words in COMMANDS:
        code, _, err = run(*({"IN": table.name, "EDGES": edges.name}.get(word, word) for word in words))
        assert code in (0, 3, 6), (words, err)
        assert code == 0 or (err.count("\n"), "unwrap" in err) == (1, False), (words, err)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows"])
@pytest.mark.parametrize("name", ["decimal32", "decimal64", "decimal256"])
def test_decimals_are_numbers(fitted: Path, run: Run, name: str, suffix: str) -> None:
    columns = {"label": pa.array(np.arange(ROWS) % 2), "x": TYPES[name]}
    put_table(fitted / f"in.{suffix}", columns)
    code, out, err = run("evaluate", f"in.{suffix}", "--prob", "x", "--format", "json")
    if (name, suffix) == ("decimal256", "arrow"):
        assert (code, "decimal256(20, 3), which calcli cannot pass through" in err) == (3, True)
        return
    plain = json.loads(run("evaluate", "plain.parquet", "--format", "json")[1])
    assert json.loads(out)["scores"][0]["metrics"] == plain["scores"][0]["metrics"]
    assert run("apply", "artifact", f"in.{suffix}", "--prob", "x", "-o", "out.arrow")[0] == 0
    written = get_arrow(fitted / "out.arrow")
    assert written.column("x").cast(columns["x"].type).to_pylist() == TEXTS
