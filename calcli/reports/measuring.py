"""From predictions to a report: metrics, differences, groups, rejection curves, facts about the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from calcli.artifacts.strictjson import as_json
from calcli.batch import Batch, FloatArray, IntArray, LabelArray, SamplingUnits
from calcli.diagrams.curve_builder import CurveBuilder
from calcli.diagrams.curves import Curve, Kind
from calcli.metrics.base import Clusters, Definition, Folds, Measured, Options, Scored
from calcli.metrics.catalog import MetricSpec, measure, settled
from calcli.metrics.multiple import Detectable, adjusted, by_group
from calcli.metrics.paired import FoldFits, Paired, missing, paired, widened
from calcli.metrics.ranking import by_rate, by_threshold
from calcli.numeric.bins import totals
from calcli.numeric.links import odds, probabilities
from calcli.reports.schema import (
    RAW,
    DataFacts,
    Difference,
    MetricValue,
    Report,
    ReportWarning,
    ScoreRow,
    ScoreSource,
    Seconds,
    finite,
)
from calcli.state import Json
from calcli.tables.arrays import index_order
from calcli.tables.binding_types import Binding
from calcli.tables.labels import class_text
from calcli.tables.load import Loaded
from calcli.tables.source import Source
from calcli.version import VERSION

if TYPE_CHECKING:
    from calcli.metrics.bootstrap import Bootstrap


OF_RANKS = ("auc", "pr_auc", "nll", "brier", "brier_sum", "d2_nll", "d2_brier")
ONLY_RANKS = "a number that only ranks has no calibration"


class Labelled(Protocol):
    """Rows whose labels are known."""

    @property
    def labels(self) -> LabelArray: ...
    @property
    def weight(self) -> FloatArray | None: ...
    @property
    def together(self) -> IntArray | None: ...


@dataclass(frozen=True)
class Candidate:
    """A score to be measured: its name, where it comes from, its probabilities, and odds if rows are ranked by them.

    `fits` holds the predictions of all rows by each of several calibrators, where several have predicted the rows. With
    `ranks` the probabilities are the base rate, and only the odds tell rows apart.
    """

    name: str
    source: ScoreSource
    prob: FloatArray
    seconds: Seconds = Seconds()
    odds: FloatArray | None = None
    fits: FoldFits | None = None
    ranks: bool = False

    def scored(
        self,
        rows: Labelled,
        clusters: Clusters | None = None,
        edges: IntArray | None = None,
        folds: Folds | None = None,
    ) -> Scored:
        """The probabilities with the labels of their rows, clusters, pairs of linked rows, and held-out folds."""
        return Scored(rows.labels, self.prob, rows.weight, clusters, edges, self.odds, folds, rows.together)

    def defined(self, measured: Mapping[str, Measured]) -> dict[str, Measured]:
        """The metrics that say something of it; of a number that only ranks its order, and the losses of the rate."""
        if not self.ranks:
            return dict(measured)
        return {
            name: one if name in OF_RANKS else Measured(None, one.definition, reason=ONLY_RANKS)
            for name, one in measured.items()
        }


@dataclass(frozen=True)
class Measurements:
    """The measurements of a report, by the names of its keys."""

    definitions: Mapping[str, Definition]
    scores: tuple[ScoreRow, ...] = ()
    differences: tuple[Difference, ...] = ()
    curves: tuple[Curve, ...] = ()
    groups: tuple[Mapping[str, Json], ...] = ()
    rejection: tuple[Mapping[str, Json], ...] = ()

    @classmethod
    def of(
        cls,
        sources: Sequence[tuple[str, ScoreSource, Seconds]],
        measured: Sequence[Mapping[str, Measured]],
        classes: tuple[str, ...],
        curves: tuple[Curve, ...],
        pairs: Iterable[tuple[int, int]],
        paired_of: Callable[[tuple[int, int], str], Paired | None],
        replicates: Bootstrap | None = None,
        *,
        by_unit: bool = False,
    ) -> Measurements:
        """The numbers of the scores that `sources` names, and the differences of `pairs` of their places.

        Intervals are those of the `replicates`. A difference has that of `paired_of` where nothing was resampled, or
        where rows belong to units.
        """
        if replicates is not None:
            measured = [
                {metric: replicates.complete(place, metric, value) for metric, value in values.items()}
                for place, values in enumerate(measured)
            ]

        def difference(pair: tuple[int, int], metric: str) -> Difference:
            one, other = pair
            mine, theirs = measured[one][metric].value, measured[other][metric].value
            value = None if mine is None or theirs is None else finite(mine - theirs)
            found = paired_of(pair, metric) if value is not None and (by_unit or replicates is None) else None
            if value is not None and found is None and replicates is not None:
                found = Paired(value, *replicates.difference(one, other, metric))
            if found is not None and found.value == 0.0:
                value = 0.0  # rounding of two means is no difference
            ends = () if found is None else (finite(found.lo), finite(found.hi), finite(found.p))
            return Difference(sources[one][0], sources[other][0], metric, value, *ends)

        scores = [
            ScoreRow(name, source, {key: MetricValue.of(one, classes) for key, one in values.items()}, seconds=seconds)
            for (name, source, seconds), values in zip(sources, measured, strict=True)
        ]
        differences = [difference(pair, metric) for pair in pairs for metric in measured[0]]
        definitions = {name: value.definition for name, value in measured[0].items()}
        return cls(definitions, tuple(scores), tuple(differences), curves)


def measure_all(
    candidates: Sequence[Candidate],
    rows: Labelled,
    chosen: Sequence[MetricSpec],
    options: Options,
    classes: tuple[str, ...],
    *,
    against: Sequence[str] = (),
    resampling: Resampling | None = None,
    clusters: Clusters | None = None,
    edges: IntArray | None = None,
    folds: Folds | None = None,
    kinds: Sequence[Kind] = ("reliability",),
    halved: bool = False,
) -> Measurements:
    """Every metric of every score, their differences to the scores `against`, and their curves, on the same rows.

    The default of `against` is the first score. Intervals of differences come from `resampling`; without, and where
    rows belong to units, from normal theory where the metric is a mean over rows. `kinds` are those of the curves.
    Where several calibrators have predicted the rows, `folds` says which: metrics of the order then compare rows of one
    fold, so that they are the same for every calibrator that keeps the order. `halved` rows are two for each of the
    table.
    """
    # A `Scored` caches the order of its rows for all metrics: only one at a time may do so.
    options = settled(chosen, [candidate.scored(rows, clusters) for candidate in candidates], options)
    measured = [
        candidate.defined(measure(chosen, candidate.scored(rows, clusters, edges, folds), options))
        for candidate in candidates
    ]
    scored = [candidate.scored(rows, clusters) for candidate in candidates]
    names = [candidate.name for candidate in candidates]
    curves = CurveBuilder(names, classes, kinds, bins=options.bin_count, judged=not options.in_sample, halved=halved)
    curves.add(scored)
    losses = {metric.name: metric.load_rows() for metric in chosen}

    def paired_of(pair: tuple[int, int], metric: str) -> Paired | None:
        """By normal theory; wider where calibrators of folds, which share rows, have made the predictions."""
        if (per_row := losses[metric]) is None:
            return None
        found = paired(scored[pair[0]], scored[pair[1]], per_row)
        sums = [
            sign * fits.sums(scored[place], folds, per_row)
            for sign, place in zip((1.0, -1.0), pair, strict=True)
            if folds is not None and (fits := candidates[place].fits) is not None
        ]
        return widened(found, missing(np.sum(sums, axis=0))) if sums else found

    return Measurements.of(
        [(candidate.name, candidate.source, candidate.seconds) for candidate in candidates],
        measured,
        classes,
        curves.curves(),
        pairs_against(names, against),
        paired_of,
        None if resampling is None else resampling.replicate(scored, chosen, options),
        by_unit=rows.together is not None,
    )


def pairs_against(names: Sequence[str], against: Sequence[str]) -> list[tuple[int, int]]:
    """The places of the scores of each difference: of every other score from those `against`, or from the first."""
    others = map(list(names).index, dict.fromkeys(against or names[:1]))
    return [(one, other) for other in others for one in range(len(names)) if one != other]


@dataclass(frozen=True, slots=True)
class Resampling:
    """The bootstrap: how many replicates, and the unit of each row in `groups`; None draws single rows."""

    replicates: int
    seed: int
    groups: IntArray | None = None

    def replicate(self, scored: Sequence[Scored], chosen: Sequence[MetricSpec], options: Options) -> Bootstrap:
        from calcli.metrics.bootstrap import bootstrap

        return bootstrap(scored, chosen, options, self.replicates, seed=self.seed, groups=self.groups)


def measure_groups(
    candidates: Sequence[Candidate],
    rows: Labelled,
    chosen: Sequence[MetricSpec],
    options: Options,
    classes: tuple[str, ...],
    by: str,
    groups: tuple[tuple[str | None, ...], IntArray],
    clusters: Clusters | None = None,
    *,
    halved: bool = False,
) -> list[dict[str, Json]]:
    """The report's `groups`: every metric of every score within each group of rows, two of which a `halved` row is."""
    names, codes = groups
    scored = [candidate.scored(rows, clusters) for candidate in candidates]
    measured = []
    for code in range(len(names)):
        subsets = [score.take(codes == code) for score in scored]
        settings = settled(chosen, subsets, options)
        measured.append((len(subsets[0]) // (1 + halved), [measure(chosen, subset, settings) for subset in subsets]))
    tests = [by_group(score, codes, len(names)) for score in scored]
    return group_entries(by, names, [candidate.name for candidate in candidates], measured, tests, classes)


def group_entries(
    by: str,
    names: Sequence[str | None],
    scores: Sequence[str],
    measured: Sequence[tuple[int, Sequence[Mapping[str, Measured]]]],
    tests: Sequence[Sequence[Detectable]],
    classes: tuple[str, ...],
) -> list[dict[str, Json]]:
    """The entries of groups: for each score and group its rows, metrics and test."""
    entries: list[dict[str, Json]] = []
    for index, score in enumerate(scores):
        for name, test, (count, values) in zip(names, tests[index], measured, strict=True):
            metrics = {metric: asdict(MetricValue.of(value, classes)) for metric, value in values[index].items()}
            entry = {"by": by, "group": name, "rows": count, "score": score, "metrics": metrics}
            numbers = {"detectable": test.detectable, "p": test.p, "p_least": test.least}
            entries.append(as_json(entry | {key: finite(value) for key, value in numbers.items()}))
    return entries


def with_adjusted(entries: Sequence[Mapping[str, Json]]) -> tuple[dict[str, Json], ...]:
    """The report's `groups` with p-values that are corrected for all of them: every column and every score."""
    tests = [cast("tuple[float | None, float | None]", (entry["p"], entry["p_least"])) for entry in entries]
    return tuple({**entry, "p_adjusted": p} for entry, p in zip(entries, adjusted(tests), strict=True))


def rejection_curves(candidates: Sequence[Candidate], rows: Labelled) -> tuple[dict[str, Json], ...]:
    """The report's `rejection`: x is the share of rows rejected, or the threshold of the uncertainty, y the error."""
    points: list[dict[str, Json]] = []
    for candidate in candidates:
        scored = candidate.scored(rows)
        if scored.undefined_reason is not None:
            continue
        for by, curve in (("rate", by_rate(scored)), ("threshold", by_threshold(scored))):
            score: dict[str, Json] = {"score": candidate.name, "class": None, "by": by}
            points += [score | {"x": at.at, "y": at.error, "n": at.n, "lo": at.lo, "hi": at.hi} for at in curve]
    return tuple(points)


def raw_candidate(batch: Batch, name: str = RAW, source: ScoreSource | None = None) -> Candidate:
    source, prob = source or ScoreSource("raw"), raw_probabilities(batch)
    return Candidate(name, source, prob, odds=raw_odds(batch), ranks=batch.ranks)


def raw_probabilities(batch: Batch) -> FloatArray:
    """The probabilities of the raw score: those of the table, or of its logits; the base rate where it only ranks."""
    if batch.ranks:
        rate = float(np.average(batch.labels, weights=batch.weight)) if batch.weights.sum() > 0 else 0.5
        return np.full(len(batch), rate)
    if batch.prob is None:
        return probabilities(batch.score)
    return batch.prob if batch.prob.ndim == batch.score.ndim else np.ascontiguousarray(batch.prob[:, 1])


def raw_odds(batch: Batch) -> FloatArray | None:
    """The odds that rank the raw score where logits, or the complement, tell apart what has rounded to 1."""
    if batch.ranks:
        return odds(_signed_log(batch.score))
    one_number = batch.prob is not None and batch.prob.ndim == batch.score.ndim
    return None if one_number else odds(batch.score)


def _signed_log(numbers: FloatArray) -> FloatArray:
    """Numbers on a scale from -600 to 600 in the same order, on which also the smallest ones differ."""
    size = np.abs(numbers)
    return 0.4 * np.copysign(np.log(np.maximum(size, 5e-324)) + 745.2, numbers) * (size > 0.0)


def report_on(
    command: str,
    seed: int,
    data: DataFacts,
    binding: Binding,
    measured: Measurements,
    *,
    artifact: str | None = None,
    chosen: str | None = None,
    warnings: Sequence[ReportWarning] = (),
) -> Report:
    return Report(
        command=command,
        version=VERSION,
        seed=seed,
        data=data,
        binding=binding.to_json(),
        warnings=tuple(warnings),
        artifact=artifact,
        chosen=chosen,
        **vars(measured),
    )


def data_facts(loaded: Loaded) -> DataFacts:
    """The report's `data`."""
    source, binding, counts = loaded.source, loaded.binding, loaded.tally.facts
    if binding.regression:
        return facts_of(source, binding, counts, loaded.batch.weights)
    units = loaded.batch.units
    share = class_weights(loaded.batch.labels, loaded.batch.weight, len(binding.classes))
    return facts_of(source, binding, counts, share, units)


def facts_of(
    source: Source,
    binding: Binding,
    counts: tuple[int, int, int],
    share: FloatArray,
    units: SamplingUnits | None = None,
) -> DataFacts:
    """The report's `data`, from the numbers of all rows, of bad and of normalised ones, and the weight of each class.

    Of amounts, these are weights of any parts of the rows.
    """
    rows, rows_bad, rows_normalised = counts
    return DataFacts(
        files=tuple(file.to_json() for file in source.files()),
        rows=rows,
        rows_bad=rows_bad,
        rows_normalised=rows_normalised,
        weight_sum=float(share.sum()),
        label_rate=label_rate(share, binding),
        units=units_fact(units),
    )


def units_fact(units: SamplingUnits | None) -> dict[str, Json] | None:
    """The report's `data.units`; None where no column names units."""
    if units is None or not units.column:
        return None
    return {"column": units.column, "count": len(np.unique(units.rank)), "in_order": units.in_order}


def class_weights(labels: LabelArray, weight: FloatArray | None, classes: int) -> FloatArray:
    return totals(labels, weight, classes)


def class_names(binding: Binding) -> tuple[str, ...]:
    """The classes as text, in the order of the class index."""
    return tuple(class_text(label) for label in index_order(binding))


def label_rate(share: FloatArray, binding: Binding) -> float | dict[str, float] | None:
    """The share of the positive class, or of each class; None for amounts."""
    if binding.regression:
        return None
    total = float(share.sum())
    if total <= 0:
        return None
    if len(binding.classes) == 2:
        return float(share[1] / total)
    return {name: float(value / total) for name, value in zip(class_names(binding), share, strict=True)}
