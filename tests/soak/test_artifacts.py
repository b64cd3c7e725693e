"""Artifacts that somebody wrote to do harm, hashes and all: they predict probabilities, or are refused in one line."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.artifacts import store
from calcli.errors import ArtifactError, CalcliError
from calcli.methods import catalog
from calcli.models.side_inputs import SideFiles
from tests.support import ensembles
from tests.support.damage import CASES, damaged, nothing_but
from tests.support.forging import harm
from tests.support.graphs import HOUSE, streets, villages

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # of numpy, on the way to a refusal
]

SCORE_ONLY = [row for row in catalog.specs() if not row.needs_features]
FEATURES = [row for row in catalog.specs() if row.needs_features and row.name != "recal"]

KINDS: dict[str, tuple[str, int, dict[str, Any]]] = {
    **{f"{row.name}-{classes}": (row.name, classes, {}) for row in SCORE_ONLY for classes in (2, 4)},
    "mbct-odds": ("mbct", 2, {"trees": 3, "depth": 3, "min_rows": 20, "lambda": 1, "rate": 0.5}),
    "mbct-linear": ("mbct", 2, {"trees": 2, "depth": 2, "link": "linear", "start": "raw"}),
    "heterogeneous-tree": ("heterogeneous", 2, {"partition": "tree", "depth": 3, "min_rows": 20, "tau": 10}),
    "heterogeneous-forest": ("heterogeneous", 4, {"trees": 3, "depth": 3, "min_rows": 20, "tau": 10}),
    "heterogeneous-isotonic": ("heterogeneous", 2, {"leaf": "isotonic", "trees": 2, "depth": 2, "tau": 10}),
    "effects": ("effects", 2, {"pairs": 3}),
    "effects-classes": ("effects", 4, {"pairs": 3}),
    "forest": ("forest", 2, {"trees": 3, "weight": 0.6}),
    "forest-classes": ("forest", 4, {"trees": 3, "weight": 0.6}),
    "heterogeneous-boosted": ("heterogeneous", 2, {"partition": "boosted", "trees": 3, "min_rows": 20, "tau": 10}),
    "boost-2": ("boost", 2, {"rounds": 12, "depth": 3}),
    "boost-4": ("boost", 4, {"rounds": 6, "depth": 2}),
    "ccl-shap": ("ccl", 2, {"clusters": 4}),
    "ccl-leaves": ("ccl", 2, {"clusters": 4, "embedding": "leaves", "temperature": 0.5, "tau": 10}),
    "ccl-features": ("ccl", 4, {"clusters": 4, "embedding": "features", "temperature": 0.5, "tau": 10}),
}
"""Name to method, number of classes and parameters: so fitted that there is something to forge."""

FAMILIES = {
    "scores-2": [f"{row.name}-2" for row in SCORE_ONLY],
    "scores-4": [f"{row.name}-4" for row in SCORE_ONLY],
    **{row.name: [name for name, kind in KINDS.items() if kind[0] == row.name] for row in FEATURES},
}


def table(classes: int, rows: int = 400) -> pl.DataFrame:
    """Scores, and features of each kind that tell what the scores do not."""
    rng = np.random.default_rng(0)
    number, place = rng.normal(size=rows), rng.choice(["a", "b", "c", ""], rows)
    truth = rng.normal(0, 1.5, (rows, classes))
    unseen = np.outer(3.0 * np.sign(number) + 3.0 * (place == "a"), np.arange(classes) == 0)
    label = (truth + unseen + rng.gumbel(size=truth.shape)).argmax(axis=1)
    score = (
        {"logit": truth[:, 1] - truth[:, 0]} if classes == 2 else {f"logit_{k}": truth[:, k] for k in range(classes)}
    )
    holed = pl.Series(np.where(rng.random(rows) < 0.1, np.nan, number)).fill_nan(None)
    own = {
        "number": holed,
        "place": pl.Series(place).replace("", None),
        "flag": rng.random(rows) < 0.5,
        "other": rng.normal(size=rows),
    }
    return pl.DataFrame({"label": label, **{name: 2 * one for name, one in score.items()}, **own})


@pytest.mark.parametrize("family", FAMILIES)
def test_other_numbers(family: str, tmp_path: Path) -> None:
    for name in FAMILIES[family]:
        method, classes, params = KINDS[name]
        rows = table(classes)
        calcli.fit(rows, method=method, params=params, output=tmp_path / name / "whole", holdout="none")
        rows[:40].write_parquet(tmp_path / name / "rows.parquet")
    assert harm([tmp_path / name for name in FAMILIES[family]], CASES) == []


def test_other_labels(tmp_path: Path) -> None:
    rows = table(2).rename({"label": "label_a", "logit": "score_a"})
    rows = rows.with_columns(label_b=1 - pl.col("label_a"), score_b=-0.5 * pl.col("score_a"))
    for method in ("platt", "isotonic", "effects"):
        output = tmp_path / method / "whole"
        calcli.fit(rows, method=method, multi=("label_*", "score_*"), output=output, holdout="none")
        rows[:40].write_parquet(tmp_path / method / "rows.parquet")
    assert harm([*tmp_path.iterdir()], CASES) == []


RELATIONS = {
    "value": {"relation": "column:village"},
    "against": {"relation": "column:village", "propagation": "laplacian"},
    "nearest": {"relation": "knn:east,north"},
    "edges": {"relation": "edges"},
    "offline": {"relation": "column:village", "apply": "offline"},
}


def test_other_graphs(tmp_path: Path) -> None:
    rows = villages(400, 0)
    for name, params in RELATIONS.items():
        calcli.fit(
            rows,
            method="recal",
            params={"epochs": 30, "margin": 0, "rate": 0.01, "lambda": 0} | params,
            sides=SideFiles(edges=streets(rows, 0)) if name == "edges" else SideFiles(),
            flags=HOUSE,
            output=tmp_path / name / "whole",
            holdout="none",
        )
        villages(40, 1).write_parquet(tmp_path / name / "rows.parquet")
    assert harm([tmp_path / name for name in RELATIONS], CASES) == []


@pytest.mark.parametrize("kind", ["sglb", "virtual"])
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_other_ensembles(kind: str, task: str, tmp_path: Path) -> None:
    ensembles.ensemble(task, tmp_path / kind / "whole", ensemble=kind)
    ensembles.table(task, 40).write_parquet(tmp_path / kind / "rows.parquet")
    assert harm([tmp_path / kind], CASES) == []


def test_other_manifests(tmp_path: Path) -> None:
    """Any bytes in the place of a manifest's, and any values in the place of its values."""
    calcli.fit(table(2), method="platt", output=tmp_path / "a", holdout="none")
    path = tmp_path / "a" / "manifest.json"
    whole = path.read_bytes()
    refused = 0
    for case in range(CASES):
        path.write_bytes(damaged(whole, random.Random(case)))
        with nothing_but(tmp_path):
            try:
                assert np.isfinite(calcli.load(tmp_path / "a").predict(table(2))).all()
            except CalcliError:
                refused += 1
    assert refused


def test_another_method_or_a_newer_format(tmp_path: Path) -> None:
    rows = table(2)
    calcli.fit(rows, method="isotonic", output=tmp_path / "a", holdout="none")
    whole = store.read(tmp_path / "a")
    for name in [*catalog.names(), "nonsense", ""]:
        if name in {"isotonic", "isotonic-centered"}:  # they keep the same numbers
            continue
        try:
            store.write(tmp_path / "b", replace(whole.manifest, method=name), {"state": whole.state})
            prob = calcli.load(tmp_path / "b").predict(rows)
        except (CalcliError, ValueError):
            continue
        assert np.isfinite(prob).all(), name
    text = (tmp_path / "a" / "manifest.json").read_text()
    (tmp_path / "a" / "manifest.json").write_text(text.replace("calcli.artifact/1", "calcli.artifact/2"))
    with pytest.raises(ArtifactError, match="is of format 2, and this calcli reads formats up to 1"):
        calcli.load(tmp_path / "a")
