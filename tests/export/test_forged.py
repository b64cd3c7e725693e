"""Artifacts whose numbers are no method's, though their hashes are right: refused, or the same in every language."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

import calcli
from calcli.artifacts import store
from calcli.artifacts.store import Artifact
from calcli.errors import ArtifactError
from calcli.export import onnx, sql
from calcli.export.dialects import DIALECTS
from calcli.export.document import document
from calcli.methods import catalog
from calcli.models import calibrator as calibrators
from calcli.models.base import ColumnOptions, Model
from calcli.state import State
from calcli.tables.arrays import Levels
from calcli.verbs.export import calibrated_terms
from tests.support.samples import breeds, clicks, unseen, visits
from tests.support.shell import ROOT, blocks

pytestmark = pytest.mark.filterwarnings("ignore")  # of numpy, on the way to a refusal

FITS: dict[str, tuple[str, int, dict[str, Any]]] = {
    **{
        f"{row.name}-{classes}": (row.name, classes, {})
        for row in catalog.specs()
        for classes in (2, 4)
        if row.closed_form and not row.needs_features
    },
    "mbct": ("mbct", 0, {"trees": 2, "depth": 2, "min_rows": 20, "link": "linear"}),
    "heterogeneous": ("heterogeneous", 0, {"partition": "tree", "depth": 2, "min_rows": 40, "leaf": "isotonic"}),
    "effects": ("effects", 0, {"pairs": 3}),
    "boost": ("boost", 0, {"rounds": 5}),
    "forest": ("forest", 0, {"trees": 3, "min_rows": 40, "weight": 0.6}),
    "ccl": ("ccl", 0, {"embedding": "features", "clusters": 3, "temperature": 1.0, "tau": 20}),
    "pool": ("pool", 0, {"members": "platt,isotonic,effects", "weights": "0.3,0.3,0.4"}),
}


OTHERS = ("method/1/", "method/2/", "method/3/", "method/mixture/1/", "method/mixture/2/")
"""Of a calibrator for each class or cluster, all but the first: they are the same code."""


def put(value: float, place: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        other = array.copy()
        other.reshape(-1)[place] = value
        return other

    return change


WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "reversed": lambda array: array[::-1].copy(),
    "infinite": put(np.inf, -1),
    "negative": put(-5.0, 0),
    "huge": put(1e308, -1),
    "hugely negative": put(-1e308, 0),
    "large": put(1e40, -1),
    "no number": put(np.nan, 0),
    "short": lambda array: array[1:],
    "as a column": lambda array: array[..., None],
}


def forgeries(state: State) -> Iterator[tuple[str, State]]:
    """The state with one other array, or one other parameter."""
    for name, array in state.arrays.items():
        if np.asarray(array).dtype.kind == "f" and array.size and not name.startswith(OTHERS):
            for way, change in WAYS.items():
                yield f"{name} {way}", State(state.params, {**state.arrays, name: change(array)}, state.blobs)
    for path in paths(state.params):
        if "/".join(path).startswith(OTHERS):
            continue
        for value in (-5, 1e308, 1e40):
            yield f"{'/'.join(path)} {value}", State(instead(state.params, path, value), state.arrays, state.blobs)


def paths(params: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, value in params.items():
        if isinstance(value, dict) and key not in ("settings", "losses"):
            yield from ((key, *rest) for rest in paths(value))
        elif isinstance(value, float | int) and not isinstance(value, bool):
            yield (key,)


def instead(params: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    first, *rest = path
    return {**params, first: instead(params[first], tuple(rest), value) if rest else value}


@pytest.fixture(scope="module")
def interpreter() -> Callable[[Any, Any], Any]:
    """The interpreter of `docs/formula.md`: the outputs of a formula for a row."""
    names: dict[str, Any] = {}
    (program,) = blocks((ROOT / "docs" / "formula.md").read_text(), "python")
    exec(program, names)
    return names["predict"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_all_languages_agree_or_refuse(name: str, here: Path, interpreter: Any) -> None:
    """What `apply` says, and what SQL, JSON and ONNX say, of rows with scores far out and with missing values."""
    method, classes, params = FITS[name]
    frame = {2: lambda: clicks(600).select("label", "logit"), 4: lambda: breeds(400), 0: lambda: visits(600)}[classes]()
    calcli.fit(frame, method=method, params=params, output="whole", holdout="none")
    rows = unseen([one for one in frame.columns if one != "label"], rows=8) if classes else visits(12, seed=1)
    whole, table = store.read("whole"), rows.drop("label", strict=False)
    refused = 0
    with duckdb.connect() as connection:
        connection.register("the table", table.to_arrow())
        for forgery, state in forgeries(whole.state):
            forged = Artifact(whole.path, whole.manifest, {**whole.states, "state": state}, "0" * 64)
            try:
                model = calibrators.opened(forged)
            except ArtifactError:
                refused += 1
            else:
                agree(model, table, connection, interpreter, forgery)
    assert refused or method == "identity"


def agree(
    model: Model, table: pl.DataFrame, connection: duckdb.DuckDBPyConnection, interpreter: Any, forgery: str
) -> None:
    # Clusters mix log-odds, of which `apply` has few digits left where a forged slope takes probabilities next to 1.
    tolerance = 1e-6 if model.method == "ccl" else 1e-9
    computed = model.exported_columns(ColumnOptions()).numbers(table, Levels())
    bad = np.zeros(len(table), dtype=bool) if computed.bad is None else computed.bad
    expected = np.where(bad[:, None], np.nan, np.column_stack(computed.values))
    outputs = calibrated_terms(model, "calibrated", "prob")
    text = sql.query(outputs, DIALECTS["duckdb"], '"the table"', None)
    of_sql = connection.sql(text).pl().select(list(outputs))
    formula = json.loads(json.dumps(document(outputs), allow_nan=False))
    found = {
        "SQL": of_sql,
        "JSON": pl.DataFrame([interpreter(formula, one) for one in table.to_dicts()], infer_schema_length=None),
    }
    for language, of_language in found.items():
        numbers = of_language.select(list(outputs)).to_numpy().astype(float)
        np.testing.assert_allclose(numbers, expected, rtol=0, atol=tolerance, err_msg=f"{forgery} in {language}")
    of_onnx = onnx.run(
        onnx.model(outputs, "", float32=False).SerializeToString(), onnx.columns(table, outputs, float32=False)
    )
    np.testing.assert_allclose(np.column_stack(of_onnx), expected, rtol=0, atol=tolerance, err_msg=f"{forgery} in ONNX")


@pytest.mark.parametrize("rows", [-5, 0])
def test_a_calibrator_of_no_rows(rows: int, here: Path) -> None:
    calcli.fit("train.parquet", method="platt", output="whole", holdout="none")
    whole = store.read("whole")
    state = State({**whole.state.params, "rows": rows}, whole.state.arrays, whole.state.blobs)
    store.write("kept", whole.manifest, {"state": state})
    with pytest.raises(ArtifactError, match=f"of 2 classes and {rows} rows"):
        calcli.load("kept")


REFUSED = [
    *((method, array, way) for method, array in (("isotonic", "score"), ("histogram", "edges"), ("bbq", "cuts"))
      for way in ("reversed", "infinite", "huge", "no number")),
    *(("isotonic", "level", way) for way in ("reversed", "negative", "infinite")),
    *(("spline", "pieces", way) for way in ("infinite", "huge", "no number", "short", "as a column")),
    *(("venn-abers", "p1", way) for way in ("reversed", "negative", "no number")),
    *(("histogram-platt", "a", way) for way in ("infinite", "huge", "short")),
]  # fmt: skip


@pytest.mark.parametrize(("method", "array", "way"), REFUSED)
def test_numbers_that_the_method_does_not_hold(
    method: str, array: str, way: str, here: Path, fit_once: Callable[..., None]
) -> None:
    fit_once("train.parquet", method=method, output="whole", holdout="none")
    whole = store.read("whole")
    arrays = {**whole.state.arrays}
    arrays[f"method/{array}"] = WAYS[way](np.asarray(arrays[f"method/{array}"]))
    store.write("kept", whole.manifest, {"state": State(whole.state.params, arrays, whole.state.blobs)})
    with pytest.raises(ArtifactError, match=f"kept does not hold what a {method} artifact holds"):
        calcli.load("kept")
