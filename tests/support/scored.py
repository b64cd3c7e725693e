"""Labelled probabilities for metrics, and metrics from sums over their parts."""

from __future__ import annotations

import numpy as np

from calcli.metrics.base import Clusters, Options, Scored
from calcli.metrics.gathered import Gathered
from tests.support.shell import ROOT

GOLDEN = ROOT / "tests" / "metrics" / "golden"


def golden(name: str, *, weighted: bool = False) -> Scored:
    """Rows for which peers have computed their metrics."""
    table = np.loadtxt(GOLDEN / f"{name}.csv", delimiter=",", skiprows=1)
    if name == "multi":
        return Scored(table[:, 3].astype(np.int64), table[:, :3])
    return Scored(table[:, 1].astype(np.int64), table[:, 0], table[:, 2] if weighted else None)


def rows_of(n: int, *, seed: int = 0, classes: int = 2, sharpness: float = 1.5, weighted: bool = False) -> Scored:
    """Rows in clusters, with labels that follow the scores."""
    rng = np.random.default_rng(seed)
    weight = rng.gamma(2.0, size=n) if weighted else None
    clusters = Clusters(rng.integers(0, 6, n), 7, "drawn")
    if classes == 2:
        z = rng.normal(-1, 1.2, n)
        label = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.int64)
        return Scored(label, 1 / (1 + np.exp(-sharpness * z)), weight, clusters)
    v = rng.normal(0, 1.5, (n, classes))
    label = (v + rng.gumbel(size=v.shape)).argmax(axis=1)
    prob = np.exp(sharpness * v)
    return Scored(label, prob / prob.sum(axis=1, keepdims=True), weight, clusters)


def gathered(scores: list[Scored], chosen, options: Options, cuts: list[int]) -> Gathered:
    """The sums of metrics over rows that come in pieces."""
    pairs = [(place, 0) for place in range(1, len(scores))]
    found = Gathered(chosen, options, [one.take(slice(0, 0)) for one in scores], pairs)
    for start, stop in zip([0, *cuts], [*cuts, len(scores[0])], strict=True):
        found.add([one.take(slice(start, stop)) for one in scores])
    return found
