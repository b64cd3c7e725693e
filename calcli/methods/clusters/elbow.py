"""The number of clusters: the elbow of the homogeneity of labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.numeric.sums import totals

COUNTS = tuple(range(5, 101, 5))
ROWS_EACH = 200
"""``clusters=auto`` tries those of `COUNTS` that leave at least `ROWS_EACH` rows for each cluster."""


def tried(rows: int) -> tuple[int, ...]:
    """The numbers of clusters to try for so many rows."""
    return tuple(count for count in COUNTS if count * ROWS_EACH <= rows) or (max(1, rows // ROWS_EACH),)


def elbow(homogeneity: Sequence[float], counts: Sequence[int]) -> int:
    """The number of clusters at which homogeneity is furthest above the straight line from the first to the last.

    Both axes are scaled to [0, 1]; homogeneity is replaced by its running maximum. The smaller number wins ties.
    """
    above = _scaled(np.maximum.accumulate(np.array(homogeneity))) - _scaled(np.array(counts, dtype=np.float64))
    return counts[int(np.argmax(np.round(above, 12)))]


def _scaled(rising: FloatArray) -> FloatArray:
    height = rising[-1] - rising[0]
    return np.asarray((rising - rising[0]) / (height if height > 0 else 1.0), dtype=np.float64)


def homogeneity(label: IntArray, cluster: IntArray, weight: FloatArray) -> float:
    """1 - H(label | cluster) / H(label) (Rosenberg & Hirschberg 2007); 1 where all labels agree."""
    classes, count = int(label.max()) + 1, int(cluster.max()) + 1
    table = totals(cluster * classes + label, weight / weight.sum(), count * classes).reshape(count, classes)
    entropy = _entropy(table.sum(axis=0))
    return 1.0 if entropy <= 0 else 1.0 - (_entropy(table.ravel()) - _entropy(table.sum(axis=1))) / entropy


def _entropy(share: FloatArray) -> float:
    positive = share[share > 0]
    return -float((positive * np.log(positive)).sum())
