"""The curves of several scores, or of scores within groups of rows, from chunks of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calcli.batch import Batch, FloatArray
from calcli.diagrams.curve_sums import CurveBuilder
from calcli.evaluation.clusters import Clustering
from calcli.evaluation.compared_scores import ComparedScore, scale_checks
from calcli.metrics.base import Scored
from calcli.reports.measuring import class_weights
from calcli.tables.binding_types import Binding
from calcli.tables.scores import Scale


@dataclass(slots=True)
class Tracing:
    """Takes in chunks of rows.

    Attributes
    ----------
    parts
        What forms the groups, column by column; without any, the curves are of all rows.
    builder
        Of the scores, or of the scores within each group of each column.
    share
        The weight of each class so far.
    """

    scores: Sequence[ComparedScore]
    parts: Sequence[Clustering]
    builder: CurveBuilder
    share: FloatArray

    @property
    def bindings(self) -> list[Binding]:
        """Of the scores, and then of the groups."""
        return [*(score.binding for score in self.scores), *(part.binding for part in self.parts)]

    @property
    def scale_checks(self) -> list[Scale | None]:
        """For each binding a check of its scale, where there is one."""
        return [*scale_checks(self.scores), *[None] * len(self.parts)]

    def add(self, batches: Sequence[Batch]) -> None:
        """More rows: a batch for each binding."""
        label, weight = batches[0].labels, batches[0].weight
        self.share = self.share + class_weights(label, weight, len(self.share))
        of_scores, of_parts = batches[: len(self.scores)], batches[len(self.scores) :]
        pairs = zip(self.scores, of_scores, strict=True)
        scored = [Scored(label, score.predict(batch), weight) for score, batch in pairs]
        groups = [
            place == group
            for part, batch in zip(self.parts, of_parts, strict=True)
            for place in [part.place(batch)]
            for group in range(part.count)
        ]
        self.builder.add([one.take(rows) for rows in groups for one in scored] if self.parts else scored)
