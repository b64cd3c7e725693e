"""Bayesian binning into quantiles: an average over many histograms (Naeini, Cooper & Hauskrecht 2015).

Histograms of every number of bins from n^(1/3)/10 to 10 n^(1/3), at most n/5, are weighted by how well they explain the
labels. With ``score=bayes``, the paper's, bin b of B has a Beta prior of weight 2/B around its middle m_b,
alpha = 2 m_b/B, beta = 2 (1 - m_b)/B; the histogram's weight is its marginal likelihood, and a bin with k positives
among N gives (k + alpha)/(N + 2/B). With ``aic`` and ``bic`` a bin gives its label rate, an empty one its middle, and
the weight is exp(-criterion/2) with one degree of freedom a bin. AIC is the default: on real predictions the paper's
prior settles for too few bins.

Levels are held within what the rows of their bin support (`calcli.numeric.pooled`), unless outputs shall be exact. An
average of step functions is a step function: it is tabulated once, so that applying it is one look-up. With weights
n, N and k are sums of weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calcli import expressions as terms
from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums
from calcli.numeric.bins import edges_just_above, width_edges
from calcli.numeric.links import sigmoid, softmax
from calcli.numeric.pooled import Running, average, by_score, supported
from calcli.state import SUPPORTED, State

PRIOR = 2.0
"""N', the weight of the prior, shared out among the bins (section 3 of the paper)."""


class Histogram(NamedTuple):
    """One binning: its inner edges, the level of each bin, the same held within what the rows of the bin support, and
    the log of its weight.
    """

    cuts: FloatArray
    level: FloatArray
    held: FloatArray
    evidence: float


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    pooled = by_score(sigmoid(batch.score), batch.labels, batch.weight)
    counts = bin_counts(float(pooled.weight.sum()))
    binning, score = str(params["binning"]), str(params["score"])
    rows = Running.of(pooled)
    histograms = [_histogram(rows, count, binning, score) for count in counts]
    share = softmax(np.array([[histogram.evidence for histogram in histograms]]))[0]
    histograms = [histogram for histogram, part in zip(histograms, share, strict=True) if part > 1e-12]
    share = share[share > 1e-12]
    cuts = np.unique(np.concatenate([histogram.cuts for histogram in histograms]))
    inside = np.append(cuts, 2.0)  # a bin holds its upper edge: that stands for the step that ends there
    levels = np.zeros((2, len(inside)))
    for part, histogram in zip(share / share.sum(), histograms, strict=True):
        place = np.searchsorted(histogram.cuts, inside, side="left")
        levels += part * np.stack([histogram.level[place], histogram.held[place]])
    level, held = np.clip(levels, 0.0, 1.0)
    return State(arrays={"cuts": cuts, "level": level, SUPPORTED: held})


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(scores={"all": by_score(batch.score, batch.labels, batch.weight)})


def finish(sums: Sums, params: Params) -> State:
    return fit(sums.scores["all"].batch(), NO_SIDE_INPUTS, params, 0)


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    return state.supported("level")[np.searchsorted(state.array("cuts"), sigmoid(batch.score), side="left")]


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return (terms.steps(terms.sigmoid(score[0]), state.array("cuts"), state.supported("level"), "left"),)


def bin_counts(rows: float) -> range:
    """The candidates for the number of bins."""
    root = np.cbrt(rows)
    low = max(1, int(np.floor(root / 10.0)))
    return range(low, max(low, int(min(np.ceil(rows / 5.0), np.ceil(10.0 * root)))) + 1)


def _histogram(rows: Running, count: int, binning: str, score: str) -> Histogram:
    cuts = edges_just_above(width_edges(count))[1:-1] if binning == "width" else rows.mass_cuts(count)
    negative, positive = rows.binned(cuts)
    edges = np.concatenate([[0.0], cuts, [1.0]])
    middle = (edges[:-1] + edges[1:]) / 2.0
    total = negative + positive
    if score == "bayes":
        level, evidence = _bayes(negative, positive, middle)
    else:
        level = np.divide(positive, total, out=middle, where=total > 0)
        penalty = np.log(rows.weight[-1]) if score == "bic" else 2.0
        evidence = _log_likelihood(positive, negative, level) - penalty * len(level) / 2.0
    held = supported(level, total, average(float(positive.sum()), float(total.sum())))
    return Histogram(cuts, level, np.where(total > 0, held, level), evidence)


def _bayes(negative: FloatArray, positive: FloatArray, middle: FloatArray) -> tuple[FloatArray, float]:
    """Equation 1 of the paper: the levels, and the log of the marginal likelihood."""
    from scipy.special import betaln

    prior = PRIOR / len(middle)
    alpha, beta = prior * middle, prior * (1.0 - middle)
    # A middle that has rounded to 0 or 1 leaves no room for the other label: betaln would be infinite there.
    alpha, beta = np.maximum(alpha, 1e-12 * prior), np.maximum(beta, 1e-12 * prior)
    evidence = float((betaln(positive + alpha, negative + beta) - betaln(alpha, beta)).sum())
    return (positive + alpha) / (positive + negative + alpha + beta), evidence


def _log_likelihood(positive: FloatArray, negative: FloatArray, level: FloatArray) -> float:
    """With 0 ln 0 = 0."""
    of_positive = positive * np.log(np.where(positive > 0, level, 1.0))
    of_negative = negative * np.log(np.where(negative > 0, 1.0 - level, 1.0))
    return float((of_positive + of_negative).sum())
