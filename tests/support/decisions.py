"""Labelled rows at thresholds, counted one threshold at a time."""

from __future__ import annotations

import numpy as np

from calcli.diagrams.charts import AtThresholds, thresholds_of

CHOSEN = {"from the costs": 1 / 21, "today's": 0.5}
FALSE_ALARM, MISS = 1.0, 20.0


def rows(n: int = 1999, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Labels, with calibrated and with over-confident probabilities."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-2.0, 1.5, n)
    label = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.int64)
    return label, {"platt": 1 / (1 + np.exp(-z)), "raw": 1 / (1 + np.exp(-1.9 * z - 0.5))}


def counted(*, priced: bool = True) -> list[AtThresholds]:
    label, probs = rows()
    thresholds = thresholds_of(probs.values(), CHOSEN.values())
    scores = []
    for name, prob in probs.items():
        yes = prob >= thresholds[:, None]
        kinds = [yes & (label == 1), yes & (label == 0), ~yes & (label == 1), ~yes & (label == 0)]
        tp, fp, fn, tn = (kind.sum(axis=1).astype(float) for kind in kinds)
        cost = (FALSE_ALARM * fp + MISS * fn) / len(label) if priced else None
        scores.append(AtThresholds(name, thresholds, tp, fp, fn, tn, cost))
    return scores
