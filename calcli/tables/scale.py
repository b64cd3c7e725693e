"""Whether scores have the scale of logits or of probabilities."""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray
from calcli.errors import DataError
from calcli.tables.binding_types import Score
from calcli.tables.nested import logarithm_of

SLACK = 1e-6
"""How far outside [0, 1] a probability may be, because float32 rounds."""

SUM_SLACK = 1e-3
"""How far the probabilities of a row may sum from 1."""

ENOUGH = 20
"""With fewer rows, logits are not suspected to be probabilities."""


class Scale:
    """Finds logits that look like probabilities, and probabilities that look like logits.

    `flags` says whether the error may suggest --logit and --prob.
    """

    def __init__(self, score: Score, *, flags: bool = True) -> None:
        self.score = score
        self.flags = flags
        self.rows = 0
        self.least = np.inf
        self.greatest = -np.inf
        self.outside = 0
        self.sums_to_one = True

    def __add__(self, other: Scale) -> Scale:
        """The scale of the rows of both."""
        both = Scale(self.score, flags=self.flags)
        both.rows, both.outside = self.rows + other.rows, self.outside + other.outside
        both.least, both.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        both.sums_to_one = self.sums_to_one and other.sums_to_one
        return both

    def see(self, values: FloatArray) -> None:
        """Take in the scores of a chunk."""
        rows = values if values.ndim == 2 else values[:, None]
        if not np.isfinite(rows).all():
            rows = rows[np.isfinite(rows).all(axis=1)]
        if not len(rows):
            return
        self.rows += len(rows)
        self.least = min(self.least, float(rows.min()))
        self.greatest = max(self.greatest, float(rows.max()))
        if self.score.kind == "prob":
            self.outside += int(((rows < -SLACK) | (rows > 1.0 + SLACK)).any(axis=1).sum())
        elif values.ndim == 2 and self.sums_to_one:
            self.sums_to_one = bool((np.abs(rows.sum(axis=1) - 1.0) <= SUM_SLACK).all())

    def judge(self) -> None:
        """Refuse logits that all lie in [0, 1], and probabilities many of which do not."""
        first = self.score.columns[0]
        inside = self.least >= 0.0 and self.greatest <= 1.0
        if self.score.kind == "logit" and self.rows >= ENOUGH and inside and self.sums_to_one:
            raise DataError(
                f"{first!r} looks like probabilities, not logits: all {self.rows:,} values lie in [0, 1]",
                hint=f"pass --prob {self._stem(first)}",
            )
        if self.score.kind == "prob" and self.outside > self.rows / 10:
            if (inner := logarithm_of(first)) is not None:
                raise DataError(
                    f"{inner!r} holds no logarithms of probabilities: {self.outside:,} of {self.rows:,} are above 0",
                    hint=f"pass --logit {inner} if they are log-odds" if self.flags else None,
                )
            percent = self.least >= 0.0 and self.greatest <= 100.0
            raise DataError(
                f"{first!r} looks like {'percentages' if percent else 'logits'}, not probabilities: "
                f"{self.outside:,} of {self.rows:,} rows lie outside [0, 1]",
                hint="divide it by 100" if percent else self._instead(first),
            )

    def _instead(self, first: str) -> str:
        return f"pass --logit {self._stem(first)}" if self.flags else "a probability is wanted here"

    def _stem(self, first: str) -> str:
        return first if len(self.score.columns) == 1 else first.rpartition("_")[0]
