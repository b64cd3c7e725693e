"""Calibrators that were written by each format load for ever, and predict what they predicted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

import calcli

FROZEN = Path(__file__).parents[1] / "frozen"


def test_a_platt_of_format_1_is_the_sigmoid_that_it_names() -> None:
    state = json.loads(next((FROZEN / "v1-platt").glob("state-*.json")).read_text())
    a, b = state["params"]["method"]["a"], state["params"]["method"]["b"]
    z = np.linspace(-5, 5, 11)
    prob = calcli.load(FROZEN / "v1-platt").predict(pl.DataFrame({"logit": z}))
    np.testing.assert_allclose(prob, 1 / (1 + np.exp(-(a * z + b))), rtol=1e-12)


def test_several_labels_of_format_1_are_a_sigmoid_each() -> None:
    folder = FROZEN / "v1-multi"
    manifest = json.loads((folder / "manifest.json").read_text())
    index = next(payload["name"] for payload in manifest["payloads"] if payload["codec"] == "json")
    kept = json.loads((folder / index).read_text())
    z = np.linspace(-5, 5, 11)
    found = calcli.apply(folder, pl.DataFrame({"score_spam": z, "score_threat": -z})).frame
    assert found is not None
    assert found.columns[2:] == ["calibrated_spam", "calibrated_threat"]
    for place, name in enumerate(kept["params"]["labels"]):
        file = next(file for blob, file in kept["blobs"].items() if blob.startswith(f"{place}/state-"))
        method = json.loads((folder / file).read_text())["params"]["method"]
        odds = method["a"] * found[f"score_{name}"].to_numpy() + method["b"]
        np.testing.assert_allclose(found[f"calibrated_{name}"], 1 / (1 + np.exp(-odds)), rtol=1e-12)


def test_an_isotonic_of_format_1_is_its_steps_mixed_shifted_and_renormalised() -> None:
    folder = FROZEN / "v1-isotonic-3-classes"
    params = json.loads(next(folder.glob("state-*.json")).read_text())["params"]
    with np.load(next(folder.glob("state-*.npz"))) as arrays:
        steps = [(arrays[f"method/{k}/score"], arrays[f"method/{k}/level"]) for k in range(3)]
    v = np.random.default_rng(0).normal(0, 2, (50, 3))
    raised = np.exp(v)
    prob = np.empty((50, 3))
    for k, (score, level) in enumerate(steps):
        others = raised.sum(axis=1) - raised[:, k]
        prob[:, k] = np.interp(v[:, k] - np.log(others), score, level)
    prob /= prob.sum(axis=1, keepdims=True)
    share = 1 / (params["rows"] + 1)
    prob = ((1 - share) * prob + share / 3) * np.array(params["tilt"])
    prob /= prob.sum(axis=1, keepdims=True)
    frame = pl.DataFrame({f"logit_{name}": v[:, place] for place, name in enumerate("abc")})
    np.testing.assert_allclose(calcli.load(folder).predict(frame), prob, rtol=1e-9)
