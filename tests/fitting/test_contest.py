"""The choice among methods by their held-out predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calcli.batch import Batch
from calcli.fitting.contest import EVIDENCE, Contest
from calcli.metrics import catalog as metrics
from calcli.numeric.folds import folds


def contest(count: int, slope: float, seed: int = 0) -> Contest:
    """Calibrated predictions beside log-odds that are `slope` times too large, which are the raw score."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(-1, 1.2, count)
    label = (rng.random(count) < 1 / (1 + np.exp(-truth))).astype(np.int64)
    prob = {"identity": 1 / (1 + np.exp(-slope * truth)), "temperature": 1 / (1 + np.exp(-truth))}
    return Contest(prob, Batch(truth, label), folds(count, 5, rng), metrics.find("nll"), 5)


def test_what_is_shown_to_be_better_is_chosen() -> None:
    chosen = contest(2000, 2.0).choose()
    assert (chosen.name, chosen.best, dict(chosen.weights)) == ("temperature", "temperature", {"temperature": 1.0})
    assert "temperature is the simplest method" in chosen.why


def test_what_is_not_shown_to_be_better_is_not() -> None:
    chosen = contest(200, 1.15).choose()
    assert chosen.name == "identity"
    assert "no method" in chosen.why


def test_the_evidence_is_a_ratio_of_likelihoods() -> None:
    """Ten rows that the other method gives 0.9 in place of 0.5 are evidence of 10 ln 1.8 nats."""
    needed = math.ceil(EVIDENCE / math.log(1.8))
    for count, expected in ((needed - 1, "identity"), (needed, "platt")):
        rows = Batch(np.zeros(count), np.ones(count, dtype=np.int64))
        prob = {"identity": np.full(count, 0.5), "platt": np.full(count, 0.9)}
        found = Contest(prob, rows, np.arange(count) % 2, metrics.find("nll"), 5).choose()
        assert found.name == expected


def test_two_that_err_in_different_places_are_mixed() -> None:
    """Each knows half of the rows and says 0.5 of the others; together they know all."""
    rng = np.random.default_rng(3)
    truth, side = rng.normal(0, 2, 4000), rng.random(4000) < 0.5
    label = (rng.random(4000) < 1 / (1 + np.exp(-truth))).astype(np.int64)
    known = 1 / (1 + np.exp(-truth))
    prob = {
        "identity": np.full(4000, 0.5),
        "platt": np.where(side, known, 0.5),
        "beta": np.where(side, 0.5, known),
    }
    chosen = Contest(prob, Batch(truth, label), folds(4000, 5, rng), metrics.find("nll"), 5).choose()
    assert chosen.name == "pool"
    assert set(chosen.weights) == {"platt", "beta"}
    assert sum(chosen.weights.values()) == pytest.approx(1.0)
