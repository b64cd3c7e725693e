"""The multi-view calibration error of MBCT (Huang et al. 2022, equation 10): gaps over bins of shuffled rows.

In a view the rows are shuffled and cut into bins of equal row count; the view's error is the mean over bins of
|mean p - mean y|, bins counting by their weight. MVCE is the root of the mean square (or another norm) over views.

It measures the mean error, over noise of about sqrt(2/pi S^2/c) in bins of c rows, S^2 the variance of p - y. Errors
that cancel, such as symmetric over-confidence, hardly change it. So it is always reported with its floor: the value
for the same probabilities if they were calibrated.

In closed form (`calcli.numeric.losses.shuffled_gap`) it needs a few sums over the rows. It is sampled where the normal
approximation of a bin's mean is poor: few rows of the rarer label in a bin, or a norm other than 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import FloatArray, spans
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.forms import Additive, Metric, OfProblems
from calcli.numeric import losses
from calcli.numeric.seeded import stream
from calcli.state import added

BIN_SIZE = 1000.0
LEAST_BINS = 32
"""Where rows are too few for so many bins of `BIN_SIZE` rows, bins are smaller."""

ENOUGH = 4.0
"""The closed form is right to 3 % where a bin expects at least so many rows of the rarer label."""

SAMPLED_BINS = 20_000
"""Where it is sampled in place of the closed form, as many views as have this many bins: a standard error of 0.5 %."""


@dataclass(frozen=True, slots=True)
class ErrorSums:
    """The sums that the closed form needs, e = p - y. Sums over parts of the rows add up to those over all."""

    rows: float = 0.0
    """How many have a positive weight."""

    error: float = 0.0
    square: float = 0.0
    noise: float = 0.0
    """`error`, `square`, `noise`: sums of w e, w^2 e^2 and w^2 p (1 - p); the last is what w^2 e^2 would be if the
    score were calibrated.
    """

    positive: float = 0.0
    positive_square: float = 0.0
    negative: float = 0.0
    negative_square: float = 0.0
    """`positive`, `positive_square`, `negative`, `negative_square`: sums of w and w^2 where y = 1 and where y = 0."""

    __add__ = added

    @classmethod
    def of(cls, scored: Scored) -> ErrorSums:
        total = cls()
        for part in scored.parts():
            total += cls._of_part(part)
        return total

    @classmethod
    def _of_part(cls, part: Scored) -> ErrorSums:
        error = part.prob - part.label
        noise = part.prob - np.square(part.prob)
        if part.weight is None:
            rows, square = len(part), np.square(error)
            mass = mass_square = np.bincount(part.label, minlength=2)
        else:
            rows, weight_square = int(np.count_nonzero(part.weight)), np.square(part.weight)
            square, noise = weight_square * np.square(error), weight_square * noise
            error = part.weight * error
            mass = np.bincount(part.label, part.weight, minlength=2)
            mass_square = np.bincount(part.label, weight_square, minlength=2)
        return cls(
            rows=float(rows),
            error=float(error.sum()),
            square=float(square.sum()),
            noise=float(noise.sum()),
            positive=float(mass[1]),
            positive_square=float(mass_square[1]),
            negative=float(mass[0]),
            negative_square=float(mass_square[0]),
        )

    @property
    def weight(self) -> float:
        """The sum of w."""
        return self.positive + self.negative

    @property
    def rarer(self) -> float:
        """The number of rows of the rarer label; weighted rows count by Kish's effective number."""
        labels = ((self.positive, self.positive_square), (self.negative, self.negative_square))
        return min(mass**2 / square if square > 0 else 0.0 for mass, square in labels)


def error_columns(scored: Scored, label: FloatArray) -> FloatArray:
    """The contribution of each row to the fields of `ErrorSums` with the labels `label`, shape (fields, n)."""
    prob, weight = scored.prob, scored.weights
    square = np.square(weight)
    columns = (
        (weight > 0).astype(np.float64),
        weight * (prob - label),
        square * np.square(prob - label),
        square * prob * (1.0 - prob),
        weight * label,
        square * label,
        weight * (1.0 - label),
        square * (1.0 - label),
    )
    return np.stack(columns)


def closed_of(sums: ErrorSums, options: Options) -> float:
    """The closed form with the bins that `options` asks for."""
    bins = _bins(sums.rows, options)
    return closed(sums, bins, options.norm if bins > 1 else 1.0)


def _from_sums(errors: ErrorSums, binary: bool, options: Options) -> Measured:
    """MVCE in closed form; None where it must be sampled, and the definition says in how many views."""
    bins = _bins(errors.rows, options)
    views, approximation = _plan(errors, bins, options)
    definition = Definition(
        "lower",
        bins=bins,
        binning="shuffled",
        reduction=_reduction(binary),
        norm=options.norm,
        views=views,
        bin_size=errors.rows / bins,
        approximation=approximation,
    )
    if views is not None:
        return Measured(None, definition, reason="it must be sampled, and for that so many rows are not held")
    norm = options.norm if bins > 1 else 1.0  # all norms agree on one bin
    return Measured(closed(errors, bins, norm), definition, floor=closed_floor(errors, bins, norm))


class Mvce(Metric):
    """Multi-view calibration error of the positive class, or of the predicted one where there are more than two."""

    def __call__(self, scored: Scored, options: Options) -> Measured:
        if scored.undefined_reason:
            unknown = Definition("lower", reduction=_reduction(scored.binary), norm=options.norm)
            return Measured(None, unknown, reason=scored.undefined_reason)
        # The closed form, or else its definition with the number of views to sample.
        rows = scored.top.with_positive_weight
        measurement = _from_sums(ErrorSums.of(rows), scored.binary, options)
        bins, views = measurement.definition.bins, measurement.definition.views
        if bins is None or views is None:
            return measurement
        value = sampled(rows, bins, views, options.norm, stream(options.seed, "mvce"))
        floor = sampled_floor(rows, bins, views, options.norm, stream(options.seed, "mvce", "floor"))
        return Measured(value, measurement.definition, floor=floor)

    def sums(self, options: Options) -> Additive[OfProblems[ErrorSums]]:
        return self

    def gather(self, scored: Scored, options: Options) -> OfProblems[ErrorSums]:
        return OfProblems(scored.binary, (ErrorSums.of(scored.top.with_positive_weight),))

    def finish(self, scores: Sequence[OfProblems[ErrorSums]], options: Options) -> list[Measured]:
        alike = replace(options, rarer=min(sums.parts[0].rarer for sums in scores))
        return [_from_sums(sums.parts[0], sums.binary, alike) for sums in scores]

    def settled(self, scored: Sequence[Scored], options: Options) -> Options:
        """Options with which, if the MVCE of one of these scores is sampled, that of all is."""
        rare = [
            ErrorSums.of(one.top.with_positive_weight).rarer
            for one in scored
            if not one.binary and one.undefined_reason is None
        ]
        return replace(options, rarer=min(rare)) if rare else options


mvce = Mvce()


def _reduction(binary: bool) -> str:
    return "positive class" if binary else "top label"


def default_bin_size(rows: float) -> float:
    """1000 rows, or fewer where that would leave less than 32 bins; at least one."""
    return max(1.0, min(BIN_SIZE, rows / LEAST_BINS))


def _bins(rows: float, options: Options) -> int:
    return losses.shuffled_bins(rows, options.bin_size or default_bin_size(rows))


def _plan(sums: ErrorSums, bins: int, options: Options) -> tuple[int | None, str | None]:
    """The number of views to sample (None for the closed form), and the text of the definition."""
    if options.mvce == "sampled":
        return options.views, f"sampled: {options.views} shuffles"
    if bins == 1:
        return None, "one bin: the absolute mean error"
    views = min(options.views, -(-SAMPLED_BINS // bins))
    if options.norm not in {1.0, 2.0}:
        return views, f"sampled: {views} shuffles; the closed form is for the norms 1 and 2"
    rarer = sums.rarer if options.rarer is None else options.rarer
    if rarer / bins < ENOUGH:
        return views, f"sampled: {views} shuffles; a bin expects fewer than {ENOUGH:g} rows of the rarer label"
    return None, "closed form: the limit of many shuffles, by the folded normal distribution, right to 3 %"


def closed(sums: ErrorSums, bins: int, norm: float) -> float:
    """MVCE of infinitely many views, from sums."""
    mean, variance = losses.shuffled_moments(sums.rows, sums.weight, sums.error, sums.square)
    return float(losses.shuffled_gap(mean, variance, sums.rows, bins, norm))


def closed_floor(sums: ErrorSums, bins: int, norm: float) -> float:
    """MVCE of infinitely many views if the mean error were 0 and the variance that of a calibrated score."""
    variance = sums.noise * sums.rows / sums.weight**2
    return float(losses.shuffled_gap(0.0, variance, sums.rows, bins, norm))


def sampled(scored: Scored, bins: int, views: int, norm: float, rng: np.random.Generator) -> float:
    """MVCE from `views` shuffles."""
    errors = scored.prob - scored.label
    _weigh(errors, scored)
    return _norm([_view(errors, bins, rng) for _ in range(views)], norm)


def sampled_floor(scored: Scored, bins: int, views: int, norm: float, rng: np.random.Generator) -> float:
    """MVCE from `views` shuffles, each with labels drawn from the probabilities, and with the mean error subtracted."""
    values = []
    for _ in range(views):
        errors = scored.prob.copy()
        for some in spans(len(errors)):
            errors[some] -= rng.random(some.stop - some.start) < scored.prob[some]
        _weigh(errors, scored)
        errors -= errors.mean()
        values.append(_view(errors, bins, rng))
    return _norm(values, norm)


def _weigh(errors: FloatArray, scored: Scored) -> None:
    """Turn errors in place into the contributions of rows to the mean error, w e / sum w."""
    if scored.weight is not None:
        errors *= scored.weight
    errors /= scored.total_weight


def _view(errors: FloatArray, bins: int, rng: np.random.Generator) -> float:
    """The error of one view. `errors` stays shuffled, which the next shuffle does not mind."""
    rng.shuffle(errors)
    starts = np.arange(bins) * len(errors) // bins
    return float(np.abs(np.add.reduceat(errors, starts)).sum())


def _norm(values: list[float], norm: float) -> float:
    return float((np.array(values) ** norm).mean() ** (1.0 / norm))
