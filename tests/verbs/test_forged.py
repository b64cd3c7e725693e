"""Artifacts whose numbers lead nowhere, hashes and all: refused in one line, before anything follows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.artifacts import store
from calcli.errors import ArtifactError
from calcli.models.side_inputs import SideFiles
from calcli.state import State
from calcli.verbs.export import ExportRequest, export
from tests.support import ensembles
from tests.support.graphs import HOUSE, streets, villages


def rows() -> pl.DataFrame:
    """Scores, and features that tell what the scores do not."""
    rng = np.random.default_rng(0)
    place, age = rng.choice(["a", "b", "c"], 400), rng.normal(40, 10, 400)
    logit = rng.normal(0, 2, 400)
    label = rng.random(400) < 1 / (1 + np.exp(-logit - 3 * (place == "a") - 3 * (age > 40)))
    return pl.DataFrame({"label": label.astype(int), "logit": logit, "place": place, "age": age})


TREES = {"trees": 2, "depth": 2, "min_rows": 20}
FITS: dict[str, dict[str, Any]] = {
    "mbct": {**TREES, "link": "linear", "start": "raw", "tau": 1, "rate": 1},
    "heterogeneous": {**TREES, "tau": 10},
    "boost": {"rounds": 5},
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of each kind."""
    folder = tmp_path_factory.mktemp("kept")
    for method, params in FITS.items():
        calcli.fit(rows(), method=method, params=params, output=folder / method, holdout="none")
    told = {"epochs": 2, "margin": 0, "rate": 0.01, "lambda": 0}
    for relation, more in (("knn:east,north", {}), ("edges", {"sides": SideFiles(edges=streets(villages(400, 0), 0))})):
        params = {**told, "relation": relation}
        output = folder / relation[:5]
        calcli.fit(villages(400, 0), method="recal", params=params, flags=HOUSE, output=output, holdout="none", **more)
    ensembles.ensemble("binary", folder / "virtual", ensemble="virtual")
    return folder


def forge(kept: Path, name: str, change: Callable[[dict[str, Any]], object], role: str = "state") -> Path:
    """The artifact with other arrays or, under the name ``params``, parameters."""
    whole = store.read(kept / name)
    state = whole.states[role]
    nested = "method/" if role == "state" and whole.manifest.kind == "calibrator" else ""
    parts: dict[str, Any] = {key.removeprefix(nested): np.array(array) for key, array in state.arrays.items()}
    parts["params"] = dict(state.params)
    change(parts)
    params = parts.pop("params")
    arrays = {nested + key: array for key, array in parts.items()}
    states: Mapping[str, State] = {**whole.states, role: State(params, arrays, state.blobs)}
    store.write(kept / f"other-{name}", whole.manifest, states)
    return kept / f"other-{name}"


def put(name: str, value: Any, place: int = 0) -> Callable[[dict[str, Any]], object]:
    def change(parts: dict[str, Any]) -> None:
        parts[name].reshape(-1)[place] = value

    return change


FORGERIES: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "a circle": ("mbct", put("tree/first", 0)),
    "cuts in a table": ("mbct", lambda parts: parts.update({"feature/cut": parts["feature/cut"].reshape(-1, 1)})),
    "a node beyond its tree": ("mbct", put("tree/first", 10**6)),
    "more branches than nodes": ("mbct", put("tree/branches", 10**9)),
    "a feature beyond the last": ("mbct", put("tree/feature", 99)),
    "trees of no nodes": ("mbct", put("tree/sizes", 0)),
    "patterns of another type": ("mbct", lambda parts: parts.update({"tree/pattern": parts["tree/code"]})),
    "a node that is its own child": ("heterogeneous", put("trees/left", -1)),
    "endless depth": ("heterogeneous", put("trees/depth", 2**40)),
    "a feature that no tree has": ("heterogeneous", put("trees/feature", 99)),
    "fewer shares than cells": ("heterogeneous", lambda parts: parts.update({"cells/share": parts["cells/share"][:1]})),
    "lists that claim to be long": ("knn:e", put("start", 10**12, -1)),
    "neighbours that do not exist": ("knn:e", put("ends", 10**12)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_numbers_that_lead_nowhere_are_refused(name: str, kept: Path) -> None:
    artifact, change = FORGERIES[name]
    calcli.load(kept / artifact)
    with pytest.raises(ArtifactError) as caught:
        calcli.load(forge(kept, artifact, change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("end", [10**12, -2])
def test_edges_between_nodes_that_are_not_there(end: int, kept: Path) -> None:
    with pytest.raises(ArtifactError, match="unknown nodes"):
        calcli.load(forge(kept, "edges", put("pairs", end), role="edges"))


@pytest.mark.parametrize("count", [0, -1, 10**6])
def test_an_ensemble_of_members_that_it_has_not(count: int, kept: Path) -> None:
    def change(parts: dict[str, Any]) -> None:
        parts["params"]["ensemble"] = {**parts["params"]["ensemble"], "count": count}

    calcli.load_ensemble(kept / "virtual")
    with pytest.raises(ArtifactError, match=f"it has {count} members"):
        calcli.load_ensemble(forge(kept, "virtual", change))


def test_a_category_that_is_said_to_be_a_number(kept: Path) -> None:
    """Compiled loops would take numbers for codes."""
    whole = store.read(kept / "mbct")
    roles = [{**kind, "role": "number"} for kind in whole.manifest.binding["feature_types"]]  # type: ignore[union-attr]
    manifest = replace(whole.manifest, binding={**whole.manifest.binding, "feature_types": roles})
    store.write(kept / "other-mbct", manifest, whole.states)
    with pytest.raises(ArtifactError, match="coded as something else"):
        calcli.load(kept / "other-mbct")


@pytest.mark.parametrize(
    ("key", "value"), [("label_type", "x"), ("classes", [0, 0]), ("classes", [[0], 1]), ("positive", 7), ("weight", 3)]
)
def test_a_binding_that_is_none(key: str, value: Any, kept: Path) -> None:
    whole = store.read(kept / "boost")
    manifest = replace(whole.manifest, binding={**whole.manifest.binding, key: value})
    store.write(kept / "other-boost", manifest, whole.states)
    with pytest.raises(ArtifactError, match="the binding"):
        calcli.load(kept / "other-boost")


def test_what_only_some_rows_or_words_meet_is_refused_when_they_do(kept: Path) -> None:
    """The probe of `load` does not see every number; nor do those that only explain."""
    with pytest.raises(ArtifactError, match="does not hold what one of boost holds: KeyError 'importances'"):
        calcli.inspect(forge(kept, "boost", lambda parts: parts.pop("importances")), rules=True)

    def change(parts: dict[str, Any]) -> None:
        shares = parts["cells/share"]
        shares[:] = np.nan

    artifact = forge(kept, "heterogeneous", change)
    for use in (lambda: calcli.load(artifact), lambda: export(ExportRequest(artifact))):
        with pytest.raises(ArtifactError):
            use()
