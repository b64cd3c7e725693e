"""Whether the raw scores rank the labels: shuffled labels, or labels that have not come in yet, end that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.metrics.base import Options, Scored
from calcli.metrics.forms import OfProblems
from calcli.metrics.ranking import AUC_SUMS, Cells, auc
from calcli.reports.measuring import raw_candidate
from calcli.state import Json


@dataclass(frozen=True, slots=True)
class LabelCheck:
    """The AUC of raw scores, and its standard error under the hypothesis that scores and labels are independent.

    That error is sqrt((n1 + n0 + 1) / (12 n1 n0)) (Mann & Whitney 1947). With more than two classes the AUC is the mean
    of one-vs-rest AUCs, and the mean of their errors bounds its error.
    """

    auc: float
    error: float

    @classmethod
    def of(cls, batch: Batch) -> LabelCheck | None:
        """From rows; None where all labels are of one class."""
        return cls.of_scored(raw_candidate(batch).scored(batch), batch.classes)

    @classmethod
    def of_scored(cls, scored: Scored, classes: int) -> LabelCheck | None:
        """From probabilities beside their labels."""
        area = auc(scored, Options()).value
        return cls._of(area, np.bincount(scored.label, minlength=classes).astype(float))

    @classmethod
    def of_sums(cls, sums: OfProblems[Cells], count: FloatArray) -> LabelCheck | None:
        """From sums over rows; `count` is the number of rows of each class."""
        (area,) = AUC_SUMS.finish([sums], Options())
        return cls._of(area.value, count)

    @classmethod
    def _of(cls, area: float | None, count: FloatArray) -> LabelCheck | None:
        rows = count.sum()
        present = count[(count > 0) & (count < rows)]
        if area is None or len(present) == 0:
            return None
        errors = np.sqrt((rows + 1) / (12 * present * (rows - present)))
        return cls(area, float(errors.mean()))

    def beyond_chance(self, errors: float) -> bool:
        """Whether the AUC is above 0.5 by more than so many standard errors."""
        return self.auc - 0.5 > errors * self.error

    def against_chance(self, errors: float) -> bool:
        """Whether the AUC is below 0.5 by more than so many standard errors."""
        return 0.5 - self.auc > errors * self.error

    def to_json(self) -> dict[str, Json]:
        return {"auc": self.auc, "error": self.error}

    @classmethod
    def from_json(cls, kept: Json) -> LabelCheck | None:
        """The inverse of `to_json`; None for anything else."""
        if not isinstance(kept, dict):
            return None
        area, error = kept.get("auc"), kept.get("error")
        if isinstance(area, int | float) and isinstance(error, int | float):
            return cls(float(area), float(error))
        return None
