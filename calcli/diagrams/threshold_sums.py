"""Decisions by a threshold, over all thresholds: net benefit and Murphy's curve, with the differences of scores.

A row gets yes if its probability is at least the threshold t. Net benefit (Vickers & Elkin 2006) is what decisions are
worth, in true positives a row: 1 for a true positive and -t/(1 - t) for a false one. Murphy's curve (Ehm et al. 2016)
is what mistakes cost: 1 - t for a missed positive and t for a false one; twice its integral is the Brier score.

Two scores differ only in rows that one of them puts below t and the other not; a row is counted where that begins and
where it ends, so that sums over parts of the rows add up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from calcli.batch import FloatArray, spans
from calcli.diagrams.curve_sums import FEWEST, TOGETHER, Band, CurveSums, points_of
from calcli.diagrams.curves import Bands, Curve, Kind
from calcli.metrics.base import Scored
from calcli.metrics.diagnosis import Diagnosis
from calcli.metrics.paired import Z975
from calcli.numeric.bins import totals

EVERYBODY, NOBODY, BASE_RATE = "act on all", "act on none", "base rate"
"""Decisions without a score, and the score that is the same for all rows."""


def thresholds_between(span: Sequence[float] | None) -> FloatArray:
    """The thresholds of a curve: even ones, and what is named between the ends; finer near 0 where nothing is named."""
    if span is not None:
        return np.union1d(np.linspace(span[0], span[-1], 101), span)
    return np.unique(np.concatenate([np.geomspace(1e-5, 0.1, 61), np.linspace(0.1, 0.99, 90)]))


class ThresholdSums(CurveSums):
    """The weight of positive and negative rows by how many thresholds their probability reaches.

    With `versus`, the name of another score, also how far the two disagree at each threshold.
    """

    def __init__(
        self, score: str, of: str | None, bands: Bands, span: Sequence[float] | None, versus: str | None = None
    ) -> None:
        self.thresholds, self.versus, self.whole = thresholds_between(span), versus, span is None
        count = len(self.thresholds) + 1
        super().__init__(score, of, bands, np.zeros((2, count)))
        self.square, self.loss = 0.0, 0.0
        self.apart = np.zeros((2, 2, 4, count))
        """By label, by whether this or the other score says yes, and for 1, w, w^2 and w times the weight of the other
        half of a row with a soft label: what begins less what ends.
        """

    def add(self, rows: Scored, other: Scored | None = None) -> None:
        count = len(self.thresholds) + 1
        for some in spans(len(rows), TOGETHER):
            label = rows.label[some].astype(np.int64)
            weight = np.ones(len(label)) if rows.weight is None else rows.weight[some]
            reached = np.searchsorted(self.thresholds, rows.prob[some], side="right")
            self.sums += totals(label * count + reached, weight, 2 * count).reshape(2, count)
            halves = np.zeros(len(label))
            if rows.squares is not None:
                halves = weight * weight.reshape(-1, 2)[:, ::-1].ravel()
            self.square += float(np.square(weight).sum() + halves.sum())
            self.loss += float(weight @ np.square(rows.prob[some] - label))
            if other is None:
                continue
            theirs = np.searchsorted(self.thresholds, other.prob[some], side="right")
            kind = 2 * label + (reached < theirs)
            for power, each in enumerate((np.sign(weight), weight, weight**2, halves)):
                begun, ended = (
                    totals(kind * count + end(reached, theirs), each, 4 * count) for end in (np.minimum, np.maximum)
                )
                self.apart[:, :, power] += (begun - ended).reshape(2, 2, count)

    def join(self, other: ThresholdSums) -> None:
        super().join(other)
        self.square += other.square
        self.loss += other.loss
        self.apart += other.apart

    @abstractmethod
    def worth(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """At each threshold the worth of a yes for a positive row and for a negative one, and of a positive no."""

    @abstractmethod
    def references(self) -> dict[str, FloatArray]:
        """The curves without a score, by name."""

    def curve(self, diagnosis: Diagnosis | None = None) -> Curve:
        if not self.sums.any():
            return self.curve_of()
        total = self.sums.sum()
        negative, positive = (np.cumsum(each[::-1])[-2::-1] for each in self.sums)
        yes, false, no = self.worth()
        y = (yes * positive + false * negative + no * (self.sums[1].sum() - positive)) / total
        band = Band(None, np.zeros(len(y), dtype=np.bool_))
        error = self.loss / float(total) if self.kind == "murphy" and self.whole else 0.0
        return self.curve_of(
            points_of(self.thresholds, y, negative + positive, band), error, float(total), rate=self._rate
        )

    def others(self) -> list[Curve]:
        """The curves without a score where there is no other one to compare with; else the difference from that."""
        if not self.sums.any():
            return []
        total, rows = float(self.sums.sum()), np.zeros(len(self.thresholds))
        none = Band(None, rows > 0)
        if self.versus is None:
            return [
                Curve(name, self.of, self.kind, points_of(self.thresholds, y, rows, none), total=total, plain=True)
                for name, y in self.references().items()
            ]
        yes, false, no = self.worth()
        worth = np.stack([false, yes - no])
        open_ = np.cumsum(self.apart, axis=3)[..., :-1]  # label, side, power, threshold
        open_ = np.where(open_[:, :, :1] > 0.0, open_, 0.0)  # not what rounding leaves of sums of weights
        less, both = open_[:, 0] - open_[:, 1], open_[:, 0] + open_[:, 1]
        y = (worth * less[:, 1]).sum(axis=0) / total
        # Of the sum of w (gap - y) over each row: that of both halves, where its label is soft.
        squares = (worth**2 * both[:, 2]).sum(axis=0) + worth.prod(axis=0) * both[:, 3].sum(axis=0)
        crossed = 2.0 * (worth * less[:, 2]).sum(axis=0) + worth.sum(axis=0) * less[:, 3].sum(axis=0)
        squares += y**2 * self.square - y * crossed
        width = Z975 * np.sqrt(np.maximum(squares, 0.0)) / total
        off = (np.abs(y) > width) & (both[:, 0].sum(axis=0) >= FEWEST)
        band = Band(None if self.bands == "none" else (y - width, y + width), off)
        points = points_of(self.thresholds, y, both[:, 1].sum(axis=0), band)
        return [Curve(self.score, self.of, self.kind, points, total=total, versus=self.versus)]

    @property
    def _rate(self) -> float:
        return float(self.sums[1].sum() / self.sums.sum())


class Benefit(ThresholdSums):
    """Net benefit."""

    kind: ClassVar[Kind] = "benefit"

    def worth(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        odds = self.thresholds / (1.0 - self.thresholds)
        return np.ones_like(odds), -odds, np.zeros_like(odds)

    def references(self) -> dict[str, FloatArray]:
        _, false, none = self.worth()
        return {EVERYBODY: self._rate + (1.0 - self._rate) * false, NOBODY: none}


class Murphy(ThresholdSums):
    """Murphy's curve."""

    kind: ClassVar[Kind] = "murphy"

    def worth(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return np.zeros_like(self.thresholds), self.thresholds, 1.0 - self.thresholds

    def references(self) -> dict[str, FloatArray]:
        t, rate = self.thresholds, self._rate
        return {BASE_RATE: np.where(rate >= t, t * (1.0 - rate), (1.0 - t) * rate)}
