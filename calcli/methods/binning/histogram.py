"""Step functions over bins of the score: histogram binning, averages of histograms, and Platt scaling with bins."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, ScoresMethod, Sums, number
from calcli.methods.scaling.linear import Platt
from calcli.numeric import bins
from calcli.numeric.links import sigmoid, softmax
from calcli.numeric.pooled import Running, average, by_score, supported
from calcli.state import SCORES, SUPPORTED, Numbers, Rules, State, nest, nested_rules, unit, unnest

PRIOR = 2.0
"""N', the weight of BBQ's prior, shared out among the bins (section 3 of the paper)."""

_CUTS = Numbers(("n",), 0.0, 1.0, "strictly")
"""Inner edges between probabilities."""


class Histogram(ScoresMethod):
    """Histogram binning: the label rate of the bin that the probability falls into (Zadrozny & Elkan 2001).

    Bins are right-closed. An empty bin gives its middle. Rates are held within what the rows of their bin support
    (`calcli.numeric.pooled`), unless outputs shall be exact.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        prob, weight = sigmoid(batch.score), batch.weights
        edges = _edges(params, lambda count: bins.mass_edges(prob, count, batch.weight))
        return _rates(edges, prob, weight, weight * batch.labels)

    def finish(self, sums: Sums, params: Params) -> State:
        pooled = sums.scores["all"]
        prob = sigmoid(pooled.score)
        edges = _edges(params, lambda count: bins.pooled_edges(prob, pooled.rows, pooled.weight, count))
        return _rates(edges, prob, pooled.weight, pooled.positive)

    def holds(self, classes: int) -> Rules:
        rates = {"rate": unit("n"), SUPPORTED: unit("n", optional=True)}
        return {"edges": Numbers(("n+1",), 0.0, 1.0, "strictly"), **rates}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        edges, rate = state.array("edges"), state.supported("rate")
        return rate[bins.assign(sigmoid(batch.score), edges)]

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        inner = state.array("edges")[1:-1]
        return (terms.steps(terms.sigmoid(score[0]), inner, state.supported("rate"), "left"),)


def _edges(params: Params, mass_edges: Callable[[int], FloatArray]) -> FloatArray:
    """Edges from 0 to 1 without repetition; many equal scores make edges of equal mass coincide."""
    count = int(number(params, "bins"))
    edges = bins.width_edges(count) if params["binning"] == "width" else mass_edges(count)
    return bins.edges_just_above(np.unique(np.concatenate([[0.0], edges[1:-1], [1.0]])))


def _rates(edges: FloatArray, prob: FloatArray, weight: FloatArray, weight_positive: FloatArray) -> State:
    place = bins.assign(prob, edges)
    total = np.bincount(place, weight, minlength=len(edges) - 1).astype(np.float64)
    positive = np.bincount(place, weight_positive, minlength=len(edges) - 1)
    middle = (edges[:-1] + edges[1:]) / 2
    rate = np.divide(positive, total, out=middle, where=total > 0)
    held = supported(rate, total, average(float(positive.sum()), float(total.sum())))
    return State(arrays={"edges": edges, "rate": rate, SUPPORTED: np.where(total > 0, held, rate)})


class Bbq(ScoresMethod):
    """Bayesian binning into quantiles: an average over many histograms (Naeini, Cooper & Hauskrecht 2015).

    Histograms of every number of bins from n^(1/3)/10 to 10 n^(1/3), at most n/5, are weighted by how well they explain
    the labels. With ``score=bayes``, the paper's, bin b of B has a Beta prior of weight 2/B around its middle m_b,
    alpha = 2 m_b/B, beta = 2 (1 - m_b)/B; the histogram's weight is its marginal likelihood, and a bin with k positives
    among N gives (k + alpha)/(N + 2/B). With ``aic`` and ``bic`` a bin gives its label rate, an empty one its middle,
    and the weight is exp(-criterion/2) with one degree of freedom a bin. AIC is the default: on real predictions the
    paper's prior settles for too few bins.

    Levels are held within what the rows of their bin support (`calcli.numeric.pooled`), unless outputs shall be exact.
    An average of step functions is a step function: it is tabulated once, so that applying it is one look-up. With
    weights n, N and k are sums of weights.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        pooled = by_score(sigmoid(batch.score), batch.labels, batch.weight, size=0.0)
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

    def holds(self, classes: int) -> Rules:
        levels = {"level": unit("n+1"), SUPPORTED: unit("n+1", optional=True)}
        return {"cuts": _CUTS, **levels}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        return state.supported("level")[np.searchsorted(state.array("cuts"), sigmoid(batch.score), side="left")]

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        return (terms.steps(terms.sigmoid(score[0]), state.array("cuts"), state.supported("level"), "left"),)


def bin_counts(rows: float) -> range:
    """The candidates for the number of bins."""
    root = np.cbrt(rows)
    low = max(1, int(np.floor(root / 10.0)))
    return range(low, max(low, int(min(np.ceil(rows / 5.0), np.ceil(10.0 * root)))) + 1)


class _Histogram(NamedTuple):
    """Inner edges, the level of each bin, free and held within what its rows support, and the log of its weight."""

    cuts: FloatArray
    level: FloatArray
    held: FloatArray
    evidence: float


def _histogram(rows: Running, count: int, binning: str, score: str) -> _Histogram:
    cuts = bins.edges_just_above(bins.width_edges(count))[1:-1] if binning == "width" else rows.mass_cuts(count)
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
    return _Histogram(cuts, level, np.where(total > 0, held, level), evidence)


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
    """The log-likelihood of the levels, with 0 ln 0 = 0."""
    of_positive = positive * np.log(np.where(positive > 0, level, 1.0))
    of_negative = negative * np.log(np.where(negative > 0, 1.0 - level, 1.0))
    return float((of_positive + of_negative).sum())


class ScalingBinning(ScoresMethod):
    """Platt scaling, then equal-mass bins of the result, each giving its mean (Kumar, Liang & Ma 2019).

    The mean of a bin is that of the scaled probabilities, not of the labels: its variance does not grow with the number
    of bins, and since the output takes few values its calibration error can be measured, which that of Platt scaling
    cannot.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        scaling = Platt().fit(batch, sides, {}, seed)
        scaled = Platt().predict(scaling, batch, sides)
        pooled = by_score(scaled, batch.labels, batch.weight, size=0.0)
        cuts = Running.of(pooled).mass_cuts(int(number(params, "bins")))
        place = np.searchsorted(cuts, pooled.score, side="left")
        mean = np.bincount(place, pooled.weight * pooled.score) / np.bincount(place, pooled.weight)
        return nest({"platt": scaling, "bins": State(arrays={"cuts": cuts, "mean": mean})})

    def holds(self, classes: int) -> Rules:
        return {
            **nested_rules("platt", Platt().holds(2)),
            **nested_rules("bins", {"cuts": _CUTS, "mean": unit("n+1")}),
        }

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        parts = unnest(state, ["platt", "bins"])
        scaled = Platt().predict(parts["platt"], batch, sides)
        cuts, mean = parts["bins"].array("cuts"), parts["bins"].array("mean")
        return mean[np.searchsorted(cuts, scaled, side="left")]

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        parts = unnest(state, ["platt", "bins"])
        (scaled,) = Platt().formula(parts["platt"], score, features)
        return (terms.steps(scaled, parts["bins"].array("cuts"), parts["bins"].array("mean"), "left"),)


class HistogramPlatt(ScoresMethod):
    """Platt scaling inside each equal-mass bin of the score.

    A bin whose rows cannot carry a fit of their own takes the global one: when either class has less than `rows` of
    weight in it, or when its slope has another sign than the global one.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        pooled = by_score(batch.score, batch.labels, batch.weight)
        cuts = Running.of(pooled).mass_cuts(int(number(params, "bins")))
        place = np.searchsorted(cuts, batch.score, side="left")
        least = number(params, "rows")
        everyone = Platt().fit(batch, sides, {}, seed)
        fits = []
        for index in range(len(cuts) + 1):
            part = batch.take(place == index)
            positive = float(part.weights @ part.labels)
            own = everyone
            if min(positive, float(part.weights.sum()) - positive) >= least:
                own = Platt().fit(part, sides, {}, seed)
            fits.append(own if own.number("a") * everyone.number("a") > 0 else everyone)
        coefficients = {name: np.array([own.number(name) for own in fits]) for name in ("a", "b")}
        return State(arrays={"cuts": cuts, **coefficients})

    def holds(self, classes: int) -> Rules:
        return {"cuts": SCORES, "a": Numbers(("n+1",)), "b": Numbers(("n+1",))}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        place = np.searchsorted(state.array("cuts"), batch.score, side="left")
        return sigmoid(state.array("a")[place] * batch.score + state.array("b")[place])

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        z, slopes, intercepts = score[0], state.array("a"), state.array("b")
        lines = [float(a) * z + float(b) for a, b in zip(slopes, intercepts, strict=True)]
        return (terms.sigmoid(terms.steps(z, state.array("cuts"), lines, "left")),)
