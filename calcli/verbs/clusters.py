"""The clusters that are the bins of CECE: those of an artifact, of a column, or k-means on the features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import Batch, IntArray
from calcli.errors import DataError
from calcli.learners.encoding import Encoding, centroids, nearest, on_grid, step_of
from calcli.metrics.base import Clusters
from calcli.models.calibrator import CalibratorModel
from calcli.reports.groups import MOST_GROUPS, distinct_texts
from calcli.tables.binding_types import Binding, Feature, Flags
from calcli.tables.features import find_features
from calcli.tables.side_tables import sample_features
from calcli.tables.source import Source
from calcli.verbs.compared_scores import ComparedScore

CLUSTER = "cluster"
"""The extra of a method that forms clusters."""

MOST = 40
"""K-means forms at most so many clusters."""

ROWS_EACH = 50
"""K-means forms fewer clusters where they would have fewer rows than this."""

SAMPLE = 100_000
"""K-means is fitted to at most so many rows."""


@dataclass(frozen=True)
class Clustering:
    """A way to assign rows to clusters."""

    binding: Binding
    """The columns that clusters are formed from."""

    place: Callable[[Batch], IntArray]
    """The cluster of each row of this binding, 0 .. `count` - 1."""

    count: int
    source: str
    sha256: str | None = None
    """`source`, `sha256`: the origin of the clusters, as the definition of a metric names it."""

    def clusters(self, place: IntArray) -> Clusters:
        """The clusters of rows that were assigned."""
        return Clusters(place, self.count, self.source, self.sha256)


def clustering(
    source: Source,
    scores: Sequence[ComparedScore],
    models: Mapping[str, CalibratorModel],
    column: str | None,
    flags: Flags,
    seed: int,
    *,
    from_features: bool = True,
) -> Clustering | None:
    """The clusters of the column that is named, else of the first artifact that has some, else of the features.

    None where there are no features either, or none that could place a row, or `from_features` rules them out.
    """
    if column is not None:
        return by_column(source, scores[0].binding, column, "--clusters-from")[1]
    for score in scores:
        model = models.get(score.name)
        if model is not None and CLUSTER in model.calibrator.spec.extras:
            return _of_artifact(score, model)
    return _of_features(source, scores, flags, seed) if from_features else None


def by_column(
    source: Source, binding: Binding, column: str, flag: str, most: int = MOST_GROUPS
) -> tuple[tuple[str, ...], Clustering]:
    """The values of a column as text, and its rows by value; those without one come last."""
    values = distinct_texts(source, source.named(column, flag))
    names = tuple(value for value in values if value is not None)
    if len(names) > most:
        raise DataError(
            f"{flag}: the column {column!r} has more than {most:,} different values", hint="group its values, before"
        )

    def place(batch: Batch) -> IntArray:
        codes = batch.features[column].recode(names, unseen=len(names)).astype(np.int64)
        return np.where(codes < 0, len(names), codes)  # missing values are a cluster

    feature = Feature(column, "category", str(source.schema[column]))
    return names, Clustering(replace(binding, features=(feature,)), place, len(values), f"column {column}")


def free_features(
    source: Source, scores: Sequence[ComparedScore], flags: Flags, held_out_by: str | None = None
) -> tuple[Feature, ...]:
    """The features that the flags name, or else all columns that can be features and are no score."""
    score_columns = {column for score in scores for column in score.binding.score.columns}
    candidates, _ = find_features(source, flags, scores[0].binding, held_out_by)
    return tuple(feature for feature in candidates if feature.name not in score_columns)


def _of_artifact(score: ComparedScore, model: CalibratorModel) -> Clustering:
    def place(batch: Batch) -> IntArray:
        return model.calibrator.extras(batch)[CLUSTER].astype(np.int64)

    count = int(model.calibrator.state.number("clusters"))
    return Clustering(score.binding, place, count, f"artifact {score.name}", model.sha256)


def _of_features(source: Source, scores: Sequence[ComparedScore], flags: Flags, seed: int) -> Clustering | None:
    """Clusters by k-means on the features, which never sees a label or a score."""
    features = free_features(source, scores, flags)
    if not features:
        return None
    binding = replace(scores[0].binding, features=features)
    # The centres, from a sample of the rows. Coordinates are rounded to a grid, on which distances are exact sums.
    weights = [Feature(binding.weight, "number", "")] if binding.weight else []
    rows = sample_features(source, [*features, *weights], SAMPLE)
    weight = np.ones(len(next(iter(rows.values())).values))
    for column in weights:
        weight = np.nan_to_num(rows.pop(column.name).values, posinf=0.0).astype(np.float64)
    if binding.weight_kind != "counts":
        weight = (weight > 0.0).astype(np.float64)
    encoding = Encoding.of(rows, weight)
    points = encoding.coordinates(rows)[weight > 0.0]  # rows that count for nothing form no clusters
    weight = weight[weight > 0.0]
    if not points.size:  # words of which none is frequent, or nothing at all
        return None
    step = step_of(points)
    wanted = max(1, min(MOST, int(weight.sum()) // ROWS_EACH))
    centres = centroids(on_grid(points, step), weight, [wanted], "kmeans", seed)[wanted]

    def place(batch: Batch) -> IntArray:
        return nearest(on_grid(encoding.coordinates(batch.features), step), centres, 1).place[:, 0]

    described = f"{len(features)} feature{'s' if len(features) != 1 else ''}"
    sha256 = hashlib.sha256(np.ascontiguousarray(centres * step).tobytes()).hexdigest()
    return Clustering(binding, place, len(centres), f"k-means on {described}", sha256)
