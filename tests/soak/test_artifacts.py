"""Artifacts that somebody wrote to do harm, hashes and all: they predict probabilities, or are refused in one line."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
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
from calcli.methods.row import Row
from calcli.state import State
from tests.soak.making import CASES, damaged, nothing_but
from tests.verbs.conftest import clicks

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, on the way to a refusal

JUNK = (0, 1, -1, -5, 3.7, 10**9, 1e308, -1e308, 1e-320, True, None, "x", "paper", [], [1, 2], {}, {"a": 1})
FEW = max(2, CASES // 20)
"""Each of these writes and reads an artifact."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list) and value:
        for place in range(len(value)):
            yield from leaves(value[place], (*path, place))
    elif path:
        yield path


def other_params(params: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """One value is another, or missing."""
    found = copy.deepcopy(params)
    paths = list(leaves(found))
    if paths:
        *above, last = chance.choice(paths)
        place = found
        for key in above:
            place = place[key]
        if isinstance(place, dict) and chance.random() < 0.2:
            del place[last]
        else:
            place[last] = chance.choice(JUNK)
    return found


def other_arrays(arrays: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """One array is shorter, longer, of another shape or type, missing, or holds a number that is none."""
    found = {name: np.array(array) for name, array in arrays.items()}
    name = chance.choice(sorted(found))
    array = found[name]
    match chance.randrange(6):
        case 0:
            del found[name]
        case 1:
            found[name] = array[: len(array) // 2] if array.ndim else array
        case 2:
            found[name] = np.zeros((3,) * chance.randrange(4))
        case 3 if array.dtype.kind == "f" and array.size:
            array.reshape(-1)[chance.randrange(array.size)] = chance.choice((np.nan, np.inf, -np.inf, 1e308, -1e308, 0))
        case 4:
            found[name] = array.astype(np.float64)
        case _:
            found[name] = np.concatenate([array, array]) if array.ndim else array
    return found


def other(state: State, chance: random.Random) -> State:
    params, arrays, blobs = dict(state.params), dict(state.arrays), dict(state.blobs)
    kind = chance.choice(["params", *(["arrays"] if arrays else []), *(["blobs"] if blobs else [])])
    if kind == "params":
        params = other_params(params, chance)
    elif kind == "arrays":
        arrays = other_arrays(arrays, chance)
    else:
        name = chance.choice(sorted(blobs))
        blobs[name] = damaged(blobs[name], chance)
    return State(params, arrays, blobs)


def table(classes: int) -> pl.DataFrame:
    if classes == 2:
        return clicks(400)
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (400, classes))
    label = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return pl.DataFrame({"label": label, **{f"logit_{name}": logits[:, name] for name in range(classes)}})


SCORE_ONLY = [row for row in catalog.rows() if not row.needs_features]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("row", SCORE_ONLY, ids=lambda row: row.name)
def test_other_numbers(row: Row, classes: int, tmp_path: Path) -> None:
    rows = table(classes)
    calcli.fit(rows, method=row.name, output=tmp_path / "whole", holdout="none")
    whole = store.read(tmp_path / "whole")
    for case in range(FEW):
        chance = random.Random(f"{row.name} {classes} {case}")
        try:
            store.write(tmp_path / "other", whole.manifest, {"state": other(whole.state, chance)})
        except (CalcliError, ValueError, TypeError):
            continue  # calcli itself would not have written it
        with nothing_but(tmp_path):
            try:
                prob = calcli.load(tmp_path / "other").predict(rows)
            except CalcliError:
                continue
        assert np.isfinite(prob).all(), f"case {case}"
        assert ((prob >= 0) & (prob <= 1)).all(), f"case {case}"


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
