"""What the calibrators of a cross-validation owe to the rows of each other's folds.

The mean of held-out losses looks like a mean over independent rows, but the rows of one fold have fitted the
calibrators by which the others are judged, and the other way round. In sums S of the scores of the folds, with the
inverse A of the information, what a row of fold k loses by what fold l did to its calibrator adds up to S_k A S_l, and
fold l has the same from fold k. The variance over rows counts each of the two by itself: half the variance of their sum
is missing. It matters where the gain is small: of calibrated scores it is all of the variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Folds, Scored
from calcli.numeric.sums import totals

LEAST, MOST = 3, 20
"""Of two folds the other calibrators of a row are one, which shows no variance; many folds take much time."""


@dataclass(frozen=True, slots=True)
class FoldFits:
    """What the calibrator of each fold says of rows of all folds.

    Attributes
    ----------
    prob
        By fold, of each `step`-th held-out row.
    """

    prob: tuple[FloatArray, ...]
    step: int = 1

    def sums(self, scored: Scored, folds: Folds, rows: Callable[[Scored], FloatArray]) -> FloatArray:
        """What the rows of each fold (down) add to the mean of `rows` by the calibrator of each fold (across)."""
        count, every = folds.count, slice(None, None, self.step)
        some, place = scored.take(every), folds.place[every]
        weight = np.ones(len(some)) if some.weight is None else some.weight
        sums = np.stack([totals(place, weight * rows(replace(some, prob=prob)), count) for prob in self.prob], axis=1)
        return sums * (self.step / scored.total_weight) if scored.total_weight > 0 else np.zeros_like(sums)


def missing(sums: FloatArray) -> float:
    """The variance of a mean that a sum over independent rows, or units, leaves out: that of all S_k A S_l, k != l.

    What is left of the sums without the effects of fold and calibrator is c_k A c_l, with c_k = S_k less the mean of S:
    a calibrator has seen all folds but one, so that what it does on them is no S_k A S_l by itself. Of normal S, the
    squares of c_k A c_l about their mean add up to less than those of S_k A S_l, by the factor below. Only what is the
    same in k and l counts, because it is their covariance that is missing.
    """
    count = len(sums)
    left = sums - sums.mean(axis=0) - sums.mean(axis=1, keepdims=True) + sums.mean()
    both = ((left + left.T) / 2.0)[~np.eye(count, dtype=np.bool_)]
    rest = count - 1
    factor = count**2 * rest / ((rest - 1) * (rest**2 + rest + 2))
    return factor * float(np.square(both - both.mean()).sum())
