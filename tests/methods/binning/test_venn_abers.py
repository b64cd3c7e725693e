"""Venn-Abers predictors beside their definition: isotonic regression anew for every row and both labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from calcli.batch import Batch
from calcli.methods import calibrator
from calcli.methods.binning.isotonic import VennAbers
from calcli.numeric.links import against_rest
from tests.support.cases import ordinary
from tests.support.methods import fitted


def by_definition(batch: Batch, score: float) -> tuple[float, float]:
    """The isotonic value at a score when the row joins with label 0, and with label 1."""
    found = []
    for label in (0, 1):
        z, y, w = np.append(batch.score, score), np.append(batch.labels, label), np.append(batch.weights, 1.0)
        distinct, place = np.unique(z, return_inverse=True)
        total, positive = np.bincount(place, w), np.bincount(place, w * y)
        kept = total > 0
        levels = isotonic_regression(positive[kept] / total[kept], weights=total[kept]).x
        found.append(float(levels[np.searchsorted(distinct[kept], score)]))
    return found[0], found[1]


def rows(seed: int) -> Batch:
    """Few rows, with and without ties and weights, of every steepness."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 45))
    z = rng.normal(size=count) if seed % 2 else rng.integers(0, rng.integers(1, 50), count).astype(float)
    label = (rng.random(count) < 1 / (1 + np.exp(-(z - z.mean()) * rng.normal(0, 2)))).astype(np.int64)
    weight = (None, rng.integers(0, 4, count) + (np.arange(count) == 0.0), rng.random(count) + 0.01)[seed % 3]
    return Batch(z, label, weight)


@pytest.mark.parametrize("seed", range(60))
def test_both_values_are_their_definition(seed: int) -> None:
    batch = rows(seed)
    at = np.unique(np.concatenate([batch.score, batch.score - 0.25, batch.score + 0.25, [-1e3, 1e3]]))
    state = VennAbers().fit(batch, calibrator.NO_SIDE_INPUTS, {}, 0)
    p0, p1 = VennAbers().interval(state, Batch(at))
    expected = np.array([by_definition(batch, score) for score in at])
    np.testing.assert_allclose(np.column_stack([p0, p1]), expected, atol=1e-10)
    merged = VennAbers().predict(state, Batch(at), calibrator.NO_SIDE_INPUTS)
    np.testing.assert_allclose(merged, expected[:, 1] / (1 - expected[:, 0] + expected[:, 1]), atol=1e-10)


def test_more_classes_are_one_against_the_rest() -> None:
    batch, at = ordinary(60, 3, seed=2), ordinary(15, 3, seed=3)
    model = fitted("venn-abers", batch)
    pairs = np.empty((15, 3, 2))
    for index in range(3):
        part = Batch(against_rest(batch.score)[:, index], (batch.labels == index).astype(np.int64))
        pairs[:, index] = [by_definition(part, score) for score in against_rest(at.score)[:, index]]
    p0, p1 = VennAbers().interval(model.state, at)
    np.testing.assert_allclose(np.stack([p0, p1], axis=2), pairs, atol=1e-10)
    merged = pairs[..., 1] / (1 - pairs[..., 0] + pairs[..., 1])
    np.testing.assert_allclose(model.predict(at), merged / merged.sum(axis=1, keepdims=True), atol=1e-10)


def test_the_interval_holds_the_merged_probability_and_narrows() -> None:
    widths = []
    for count in (100, 10_000):
        batch = ordinary(count)
        state = fitted("venn-abers", batch).state
        p0, p1 = VennAbers().interval(state, batch)
        merged = VennAbers().predict(state, batch, calibrator.NO_SIDE_INPUTS)
        assert (p0 <= merged).all()
        assert (merged <= p1).all()
        widths.append(float((p1 - p0).mean()))
    assert widths[1] < widths[0] / 5


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("digits", [2, 9])
def test_the_venn_abers_package_agrees(digits: int) -> None:
    pytest.importorskip("venn_abers")
    from venn_abers import VennAbers as Peer

    def table(batch: Batch) -> np.ndarray:
        prob = np.round(1 / (1 + np.exp(-batch.score)), digits)
        return np.column_stack([1 - prob, prob])

    train, test = table(ordinary(1500, seed=1)), table(ordinary(800, seed=2))
    train, test = np.clip(train, 1e-6, 1 - 1e-6), np.clip(test, 1e-6, 1 - 1e-6)
    peer = Peer()
    peer.fit(train, ordinary(1500, seed=1).labels)
    expected, pair = peer.predict_proba(test)
    batch = Batch(np.log(train[:, 1] / (1 - train[:, 1])), ordinary(1500, seed=1).labels)
    at = Batch(np.log(test[:, 1] / (1 - test[:, 1])))
    state = fitted("venn-abers", batch).state
    np.testing.assert_allclose(np.column_stack(VennAbers().interval(state, at)), pair, atol=1e-6)
    np.testing.assert_allclose(VennAbers().predict(state, at, calibrator.NO_SIDE_INPUTS), expected[:, 1], atol=1e-6)
