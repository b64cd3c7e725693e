"""The clusters that CECE has for bins: those of an artifact, of a column, or formed from the features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import Batch, IntArray
from calcli.errors import DataError, unknown_name
from calcli.evaluation.compared_scores import ComparedScore
from calcli.fitting.model import Model
from calcli.learners.clustering import centroids
from calcli.learners.encoding import Encoding
from calcli.learners.points import nearest, on_grid, step_of
from calcli.metrics.base import Clusters
from calcli.reports.groups import MOST_GROUPS, distinct_texts
from calcli.tables.auxiliary import sample_features
from calcli.tables.binding import Binding, Flags
from calcli.tables.binding_types import Feature
from calcli.tables.features import find_features
from calcli.tables.source import Source

CLUSTER = "cluster"
"""The extra of a method that forms clusters."""

MOST = 40
ROWS_EACH = 50
"""So many clusters are formed from features, fewer where that leaves less than `ROWS_EACH` rows to each."""

SAMPLE = 100_000
"""From so many rows at most."""


@dataclass(frozen=True)
class Clustering:
    """Where clusters come from.

    Attributes
    ----------
    binding
        The columns that tell.
    place
        The cluster of each row of this binding, 0 .. `count` - 1.
    source, sha256
        What the definition of a metric says of them.
    """

    binding: Binding
    place: Callable[[Batch], IntArray]
    count: int
    source: str
    sha256: str | None = None

    def clusters(self, place: IntArray) -> Clusters:
        """Of rows that were placed."""
        return Clusters(place, self.count, self.source, self.sha256)


def clustering(
    source: Source,
    entrants: Sequence[ComparedScore],
    models: Mapping[str, Model],
    column: str | None,
    flags: Flags,
    seed: int,
) -> Clustering | None:
    """The clusters of the column that was asked for, else of the first artifact that has some, else of the features.

    None where there are no features either.
    """
    if column is not None:
        return _of_column(source, entrants[0].binding, column)
    return clustering_of_artifacts(entrants, models) or _of_features(source, entrants, flags, seed)


def clustering_of_artifacts(entrants: Sequence[ComparedScore], models: Mapping[str, Model]) -> Clustering | None:
    """The clusters of the first artifact that has some."""
    for entrant in entrants:
        model = models.get(entrant.name)
        if model is not None and CLUSTER in model.calibrator.spec.extras:
            return _of_artifact(entrant, model)
    return None


def _of_column(source: Source, binding: Binding, column: str) -> Clustering:
    if column not in source.columns:
        raise DataError(f"--clusters-from: {unknown_name('column', column, source.columns)}")
    names = distinct_texts(source, column)
    if len(names) > MOST_GROUPS:
        raise DataError(
            f"--clusters-from: the column {column!r} has more than {MOST_GROUPS:,} different values",
            hint="cut it into fewer, before",
        )

    def place(batch: Batch) -> IntArray:
        codes = batch.features[column].recode(names, unseen=len(names)).astype(np.int64)
        return np.where(codes < 0, len(names), codes)  # what is missing has a cluster of its own

    told = replace(binding, features=(Feature(column, "category", str(source.schema[column])),))
    return Clustering(told, place, len(names) + 1, f"column {column}")


def _of_artifact(entrant: ComparedScore, model: Model) -> Clustering:
    def place(batch: Batch) -> IntArray:
        return model.calibrator.extras(batch)[CLUSTER].astype(np.int64)

    count = int(model.calibrator.state.number("clusters"))
    return Clustering(entrant.binding, place, count, f"artifact {entrant.name}", model.sha256)


def _of_features(source: Source, entrants: Sequence[ComparedScore], flags: Flags, seed: int) -> Clustering | None:
    """K-means on the plain features; it never sees a label or a score."""
    scores = {column for one in entrants for column in one.binding.score.columns}
    found, _ = find_features(source, flags, entrants[0].binding)
    features = tuple(feature for feature in found if feature.name not in scores)
    if not features:
        return None
    binding = replace(entrants[0].binding, features=features)
    rows = sample_features(source, features, SAMPLE)
    count = len(next(iter(rows.values())).values)
    weight = np.ones(count)
    encoding = Encoding.of(rows, weight)
    points = encoding.coordinates(rows)
    step = step_of(points)
    wanted = max(1, min(MOST, count // ROWS_EACH))
    centres = centroids(on_grid(points, step), weight, [wanted], "kmeans", seed)[wanted]

    def place(batch: Batch) -> IntArray:
        return nearest(on_grid(encoding.coordinates(batch.features), step), centres, 1).place[:, 0]

    named = f"{len(features)} feature{'s' if len(features) != 1 else ''}"
    sha256 = hashlib.sha256(np.ascontiguousarray(centres * step).tobytes()).hexdigest()
    return Clustering(binding, place, len(centres), f"k-means on {named}", sha256)
