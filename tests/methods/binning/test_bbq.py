"""Bayesian binning into quantiles beside its definition, bin by bin, and beside netcal's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.binning.histogram import Bbq, bin_counts
from tests.support.cases import ordinary

BBQ = catalog.find("bbq")


def predicted(batch: Batch, at: Batch | None = None, **given: str) -> np.ndarray:
    state = Bbq().fit(batch, calibrator.NO_SIDE_INPUTS, BBQ.resolve(given), 0)  # type: ignore[arg-type]
    return Bbq().predict(state.exact, batch if at is None else at, calibrator.NO_SIDE_INPUTS)


def inner_edges(prob: np.ndarray, count: int, binning: str) -> list[float]:
    if binning == "width":
        return [index / count for index in range(1, count)]
    ordered, edges = np.sort(prob), []
    for index in range(1, count):
        tie = 1e-9 if 2 * index > count else -1e-9  # as seen from either end
        below = min(max(int(np.floor(len(prob) * index / count + 0.5 + tie)), 1), len(prob) - 1)
        edges.append((ordered[below - 1] + ordered[below]) / 2)
    return sorted(set(edges))


def by_definition(batch: Batch, binning: str, score: str) -> np.ndarray:
    """Loops over histograms and bins, for rows without ties or weights."""
    prob, label, n = 1 / (1 + np.exp(-batch.score)), batch.labels, len(batch)
    evidence, outputs = [], []
    for count in bin_counts(n):
        edges = [0.0, *inner_edges(prob, count, binning), 1.0]
        output, total = np.empty(n), 0.0
        for low, high in itertools.pairwise(edges):
            inside = (prob > low) & (prob <= high)
            size, positive = int(inside.sum()), int(label[inside].sum())
            middle, bins = (low + high) / 2, len(edges) - 1
            if score == "bayes":
                a, b = 2 / bins * middle, 2 / bins * (1 - middle)
                level = (positive + a) / (size + a + b)
                total += math.lgamma(2 / bins) - math.lgamma(size + 2 / bins)
                total += math.lgamma(positive + a) - math.lgamma(a) + math.lgamma(size - positive + b) - math.lgamma(b)
            else:
                level = positive / size if size else middle
                total += positive * math.log(level) if positive else 0.0
                total += (size - positive) * math.log(1 - level) if size > positive else 0.0
                total -= (math.log(n) if score == "bic" else 2) / 2
            output[inside] = level
        evidence.append(total)
        outputs.append(output)
    share = np.exp(np.array(evidence) - max(evidence))
    return share @ np.array(outputs) / share.sum()


@pytest.mark.parametrize("score", ["bayes", "bic", "aic"])
@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("rows", [60, 400])
def test_it_is_its_definition(rows: int, binning: str, score: str) -> None:
    batch = ordinary(rows)
    np.testing.assert_allclose(
        predicted(batch, binning=binning, score=score), by_definition(batch, binning, score), atol=1e-9
    )


def test_the_numbers_of_bins_are_the_papers() -> None:
    assert bin_counts(1000) == range(1, 101)
    assert bin_counts(8_000_000) == range(20, 2001)
    assert bin_counts(20) == range(1, 5)
    assert bin_counts(1) == range(1, 2)


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("score", ["bayes", "bic", "aic"])
def test_weights_count_as_repetitions(binning: str, score: str) -> None:
    batch = ordinary(300, weighted=True)
    repeated = batch.take(np.repeat(np.arange(300), batch.weights.astype(int)))
    plain = Batch(repeated.score, repeated.label)
    one, other = (predicted(rows, batch, binning=binning, score=score) for rows in (batch, plain))
    np.testing.assert_allclose(other, one, rtol=1e-9)


def test_the_papers_preset() -> None:
    assert BBQ.resolve(preset="paper")["score"] == "bayes"


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("score", ["bic", "aic"])
def test_netcals_histograms_and_scores_agree(score: str) -> None:
    """Its sums are in float32; its cut after the `elbow` of the scores, which the paper does not have, is left out."""
    pytest.importorskip("netcal")
    from netcal.binning import BBQ as Peer
    from netcal.binning import HistogramBinning

    batch = ordinary(900)
    prob = 1 / (1 + np.exp(-batch.score))
    models = [HistogramBinning(bins=count).fit(prob, batch.labels) for count in bin_counts(900)]
    peer = Peer(score_function=score)
    peer.fit(prob, batch.labels)
    share = peer._calc_model_scores(prob, batch.labels, models, score)
    expected = share @ np.array([model.transform(prob) for model in models]) / share.sum()
    np.testing.assert_allclose(predicted(batch, binning="width", score=score), expected, atol=1e-3)
