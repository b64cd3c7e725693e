"""ECE with as many bins of equal mass as keep the bins' label means from falling (Roelofs et al. 2020)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks, cumulated
from calcli.metrics.forms import of_ties

MOST = 5000
"""The sweep ends here; only near-perfect separation of many rows gets so far."""


def bins_of(blocks: Blocks) -> int:
    """The number of bins at which the sweep ends: one less than the first at which a label mean falls."""
    blocks = blocks.held
    for count in range(2, min(round(blocks.count), MOST + 1)):
        cuts = blocks.cuts(count)
        weight, positive = (blocks.between(cuts, below) for below in blocks.below[1:])
        some = weight > 0
        means = positive[some] / weight[some]
        if (np.diff(means) < -1e-12).any():  # equal means differ by rounding
            return count - 1
    return max(1, min(round(blocks.count) - 1, MOST))


def sweep_of(ties: Blocks, options: Options, norm: float = 1.0) -> float:
    """The `norm`-mean of the gaps over the bins at which the sweep ends."""
    ties = ties.held
    cuts = ties.cuts(bins_of(ties))
    weight = ties.between(cuts, ties.below[1])
    gap = ties.between(cuts, cumulated(ties.positive - ties.weight * ties.prob))
    some = weight > 0
    weight, gap = weight[some], gap[some]
    return float(((weight * np.abs(gap / weight) ** norm).sum() / weight.sum()) ** (1.0 / norm))


def _ended(measured: Measured, scored: Scored, options: Options) -> Measured:
    return replace(measured, reason=f"the sweep ended at {bins_of(scored.top.blocks):,} bins")


_DEFINITION = Definition(
    "lower",
    binning="mass",
    edge="the i-th sorted row of n, from 0, is in bin floor(i bins/n)",
    norm=1.0,
    approximation=f"as many bins as keep the label means rising, at most {MOST}",
)

ece_sweep = of_ties("top", _DEFINITION, complete=_ended)(sweep_of)
"""The ECE at the largest number of bins up to which the label means of the bins have never fallen.

Rows that share a prediction share their labels evenly, so that their order does not matter.
"""
