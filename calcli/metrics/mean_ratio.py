"""The partition underestimated degree, PUD (Huang et al. 2022, MBCT, definition 4 and equation 6)."""

from __future__ import annotations

from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks
from calcli.metrics.reduce import measured, reduction_text


def pud(scored: Scored, options: Options) -> Measured:
    """Mean prediction over mean label: below 1 the rows are underestimated, above 1 overestimated."""
    definition = Definition("target", reduction=reduction_text(scored, "top", options))
    return measured(scored, options, _value, "top", definition, "no row is positive")


def _value(scored: Scored, options: Options) -> float | None:
    label = scored.mean_of(lambda part: part.label.astype(float))
    return scored.mean_of(lambda part: part.prob) / label if label > 0 else None


def pud_of(blocks: Blocks, options: Options) -> float | None:
    positive = float(blocks.positive.sum())
    return float((blocks.weight * blocks.prob).sum()) / positive if positive > 0 else None
