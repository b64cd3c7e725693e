"""The partition underestimated degree, PUD (Huang et al. 2022, MBCT, definition 4 and equation 6)."""

from __future__ import annotations

from calcli.metrics.base import Definition, Options, Scored
from calcli.metrics.blocks import Blocks
from calcli.metrics.forms import of_ties


def _of_rows(scored: Scored, options: Options) -> float | None:
    label = scored.mean_of(lambda part: part.label.astype(float))
    return scored.mean_of(lambda part: part.prob) / label if label > 0 else None


@of_ties("top", Definition("target"), "no row is positive", of_rows=_of_rows)
def pud(ties: Blocks, options: Options) -> float | None:
    """Mean prediction over mean label: below 1 the rows are underestimated, above 1 overestimated."""
    positive = float(ties.positive.sum())
    return float((ties.weight * ties.prob).sum()) / positive if positive > 0 else None
