"""The scale of scores: whether numbers are logits or probabilities, judged by their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.errors import DataError, check_choice, word
from calcli.tables.binding_types import ScaleKind, Score
from calcli.tables.source import call_in

SLACK = 1e-6
"""How far outside [0, 1] a probability may be, because float32 rounds."""

SUM_SLACK = 1e-2
"""How far the probabilities of a row may sum from 1: five classes rounded to three digits miss it by .0025."""

ENOUGH = 20
"""With fewer rows, logits are not suspected to be probabilities."""

SOME = 0.1
"""Up to this share of scores outside [0, 1] may be mistakes among probabilities; with more, the scores are logits."""


def outside(rows: FloatArray) -> NDArray[np.bool_]:
    """Whether a number in each row is no probability."""
    outside: NDArray[np.bool_] = np.logical_or.reduce((rows < -SLACK) | (rows > 1.0 + SLACK), axis=1)
    return outside


def _not_summing_to_one(rows: FloatArray) -> NDArray[np.bool_]:
    with np.errstate(over="ignore"):  # an infinite sum is not 1
        apart: NDArray[np.bool_] = np.abs(rows.sum(axis=1) - 1.0) > SUM_SLACK
    return apart


@dataclass
class Scale:
    """Finds logits that look like probabilities, and probabilities that look like logits."""

    score: Score
    flags: bool = True
    """Whether the error may suggest --logit and --prob."""

    rows: int = 0
    outside: int = 0
    least: float = np.inf
    greatest: float = -np.inf
    sums_to_one: bool = True

    def __add__(self, other: Scale) -> Scale:
        return Scale(
            self.score,
            self.flags,
            self.rows + other.rows,
            self.outside + other.outside,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
            self.sums_to_one and other.sums_to_one,
        )

    def see(self, values: FloatArray) -> None:
        rows = values if values.ndim == 2 else values[:, None]
        if not np.isfinite(rows).all():
            rows = rows[np.isfinite(rows).all(axis=1)]
        if not len(rows):
            return
        self.rows += len(rows)
        self.least = min(self.least, float(rows.min()))
        self.greatest = max(self.greatest, float(rows.max()))
        if self.score.kind == "prob":
            self.outside += int(outside(rows).sum())
        elif values.ndim == 2 and self.sums_to_one:
            self.sums_to_one = not _not_summing_to_one(rows).any()

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
            if (call := call_in(first)) is not None:
                held = "logarithms of probabilities" if call[0] == "exp" else "percentages"
                beyond = "above 0" if call[0] == "exp" else "outside of 0 to 100"
                raise DataError(
                    f"{call[1]!r} holds no {held}: {self.outside:,} of {self.rows:,} are {beyond}",
                    hint=f"pass --logit {word(call[1])} if they are log-odds" if self.flags else None,
                )
            instead = f"pass --logit {self._stem(first)}" if self.flags else "a probability is wanted here"
            percent = self.least >= 0.0 and self.greatest <= 100.0
            if percent:
                stem = self._stem(first)
                instead = f"pass --percent {stem} if it is one" if self.flags else "divide it by 100, if it is one"
                if self.flags and len(self.score.columns) == 1:
                    instead += f", --rank {stem} if it only ranks, as grades do"
            raise DataError(
                f"{first!r} looks like {'percentages' if percent else 'logits'}, not probabilities: "
                f"{self.outside:,} of {self.rows:,} rows lie outside [0, 1]",
                hint=instead,
            )

    def _stem(self, first: str) -> str:
        """The name that a flag takes, as it is typed."""
        return word(first if len(self.score.columns) == 1 else first.rpartition("_")[0])


def kind_of(scores: FloatArray, given: str) -> ScaleKind:
    """The kind of scores in an array: `given`, or else judged by their values; doubtful scores are refused."""
    if given == "prob":
        check_probabilities(scores)
    check_choice("input", given, ("auto", "logit", "prob"))
    if given != "auto":
        return cast("ScaleKind", given)
    rows = scores.reshape(len(scores), -1)
    beyond = outside(rows)
    if not beyond.any():
        if scores.ndim == 2 and _not_summing_to_one(rows).any():
            raise DataError(
                "the scores lie in [0, 1], but not all rows sum to 1",
                hint="say input='logit' if they are logits, or divide each row by its sum",
            )
        return "prob"
    if beyond.mean() <= SOME:
        raise DataError(
            f"{int(beyond.sum()):,} of {len(rows):,} scores lie outside [0, 1]: they may be logits, or mistaken",
            hint="say input='logit', or correct them",
        )
    if rows.min() >= 0.0 and rows.max() <= 100.0:
        raise DataError(
            "the scores lie between 0 and 100: percentages, or logits", hint="divide by 100, or say input='logit'"
        )
    return "logit"


def check_probabilities(scores: FloatArray) -> None:
    """Refuse numbers outside [0, 1], and rows that do not sum to 1."""
    rows = scores.reshape(len(scores), -1)
    beyond = outside(rows)
    if beyond.any():
        raise DataError(
            f"{int(beyond.sum()):,} of {len(rows):,} probabilities lie outside [0, 1], "
            f"first in row {beyond.argmax() + 1}"
        )
    if scores.ndim == 2:
        apart = _not_summing_to_one(rows)
        if apart.any():
            raise DataError(
                f"in {int(apart.sum()):,} rows the probabilities do not sum to 1, first in row {apart.argmax() + 1}"
            )
