"""How well scores tell the classes apart: what shuffled labels, or labels that have not come in yet, take away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.metrics.additive import OfProblems
from calcli.metrics.base import Options, Scored
from calcli.metrics.ranking import AUC_SUMS, Cells, auc
from calcli.numeric.links import probabilities
from calcli.state import Json


@dataclass(frozen=True, slots=True)
class LabelCheck:
    """The area under the ROC curve of raw scores, and its standard error for scores that say nothing.

    That error is sqrt((n1 + n0 + 1) / (12 n1 n0)) (Mann & Whitney 1947); with more than two classes the area is the
    mean of each against the rest, and the mean of the errors bounds its own.
    """

    auc: float
    error: float

    @classmethod
    def of(cls, batch: Batch) -> LabelCheck | None:
        """Of these rows; None where all labels are of one class."""
        area = auc(Scored(batch.labels, probabilities(batch.score), batch.weight), Options()).value
        return cls._of(area, np.bincount(batch.labels, minlength=batch.classes).astype(float))

    @classmethod
    def of_sums(cls, sums: OfProblems[Cells], count: FloatArray) -> LabelCheck | None:
        """The same from sums over rows, of which there are `count` of each class."""
        (area,) = AUC_SUMS.finish([sums], Options())
        return cls._of(area.value, count)

    @classmethod
    def _of(cls, area: float | None, count: FloatArray) -> LabelCheck | None:
        rows = count.sum()
        held = count[(count > 0) & (count < rows)]
        if area is None or len(held) == 0:
            return None
        errors = np.sqrt((rows + 1) / (12 * held * (rows - held)))
        return cls(area, float(errors.mean()))

    def beyond_chance(self, errors: float) -> bool:
        """Whether the scores tell more than chance by so many standard errors."""
        return self.auc - 0.5 > errors * self.error

    def to_json(self) -> dict[str, Json]:
        return {"auc": self.auc, "error": self.error}

    @classmethod
    def from_json(cls, found: Json) -> LabelCheck | None:
        """What `to_json` gave; None where there is nothing."""
        if not isinstance(found, dict):
            return None
        area, error = found.get("auc"), found.get("error")
        if isinstance(area, int | float) and isinstance(error, int | float):
            return cls(float(area), float(error))
        return None
