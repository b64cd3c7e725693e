"""An ensemble beside the model that one would have without it: what each gets wrong, and what it knows of that."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import Batch, Column, FloatArray
from calcli.diagrams.curves import Curve, Point
from calcli.ensembles.load import EnsembleModel
from calcli.metrics.base import Definition, Measured, Scored
from calcli.metrics.detection import ood_auc, rejection_curve, rejection_ratio
from calcli.metrics.paired import paired_difference
from calcli.metrics.ranking import accuracy_rows
from calcli.reports.schema import Difference, MetricValue, ScoreRow, ScoreSource, Seconds, finite
from calcli.uncertainty.decomposition import Decomposed, Members, decompose
from calcli.uncertainty.training import mean_log_loss

SHARES = np.linspace(0.0, 1.0, 101)
"""Where the rejection curves of a report have points."""

SINGLE = ".single"
"""What follows an ensemble's name in the name of the model that one would have without it."""

_ONE_MODEL = "one model alone cannot tell knowledge from data uncertainty"

_NLL = {
    False: Definition("lower", approximation="probabilities are held inside [1e-12, 1 - 1e-12]"),
    True: Definition("lower", approximation="a mixture of the members' normal distributions"),
}


@dataclass(frozen=True)
class EnsembleMetrics:
    """An ensemble or a single model on the rows.

    Attributes
    ----------
    losses
        What each row adds to ``nll`` and to ``error`` or ``rmse``.
    """

    name: str
    source: ScoreSource
    seconds: Seconds
    parts: Decomposed
    losses: Mapping[str, FloatArray]
    metrics: Mapping[str, Measured]
    single: bool

    @property
    def loss(self) -> FloatArray:
        """By which rows are rejected: wrong or not, or the squared error."""
        return self.losses["rmse" if "rmse" in self.losses else "error"]

    def row(self) -> ScoreRow:
        values = {name: MetricValue.of(value, ()) for name, value in self.metrics.items()}
        return ScoreRow(self.name, self.source, values, seconds=self.seconds)

    def curves(self, rows: Batch) -> list[Curve]:
        """What is left of the loss as rows are rejected: by each uncertainty, and by the loss itself."""
        orders = {"total": self.parts.total} | ({} if self.single else {"knowledge": self.parts.knowledge})
        curves: list[Curve] = []
        for by, order in (orders | {"oracle": self.loss}).items():
            curve = rejection_curve(order, self.loss, rows.weight, shares=SHARES)
            points = zip(curve.rejected, curve.loss, curve.accepted, strict=True)
            kept = tuple(Point(x, y, n) for x, y, n in points if y is not None)
            curves.append(Curve(self.name, None, "rejection", kept, kept[0].y, kept[0].n, by=by))
        return curves


def compare_ensemble(
    name: str, model: EnsembleModel, rows: Batch, outside: Mapping[str, Column] | None
) -> list[EnsembleMetrics]:
    """The ensemble, and the model that one would have without it."""
    started = time.perf_counter()
    members = model.ensemble.members({name: rows.features[name] for name in model.features})
    seconds = Seconds(apply=time.perf_counter() - started)
    strange = None if outside is None else model.ensemble.members(outside)
    single = model.ensemble.single
    alone = None if strange is None else strange.only(single)
    source = ScoreSource("ensemble", path=str(model.path), method=model.manifest.method, sha256=model.sha256)
    return [
        _judged(name, source, seconds, members, strange, rows, single=False),
        _judged(f"{name}{SINGLE}", source, Seconds(), members.only(single), alone, rows, single=True),
    ]


def _judged(
    name: str,
    source: ScoreSource,
    seconds: Seconds,
    members: Members,
    strange: Members | None,
    rows: Batch,
    *,
    single: bool,
) -> EnsembleMetrics:
    parts = decompose(members)
    regression = members.variance is not None
    error = np.square(parts.mean - rows.targets) if regression else _errors(parts.mean, rows)
    losses = {"nll": mean_log_loss(members, rows), "rmse" if regression else "error": error}
    metrics = {"nll": Measured(_mean(losses["nll"], rows), _NLL[regression])}
    if regression:
        metrics["rmse"] = Measured(float(np.sqrt(_mean(error, rows))), Definition("lower", norm=2.0))
    else:
        metrics["error"] = Measured(_mean(error, rows), Definition("lower", reduction="top label"))
    orders = {"total": parts.total, "knowledge": parts.knowledge}
    found = {f"prr_{by}": rejection_ratio(order, error, rows.weight) for by, order in orders.items()}
    if strange is not None:
        beyond = decompose(strange)
        found["ood_auc_total"] = ood_auc(parts.total, beyond.total, rows.weight)
        found["ood_auc_knowledge"] = ood_auc(parts.knowledge, beyond.knowledge, rows.weight)
    for metric, value in found.items():
        unknown = single and metric.endswith("_knowledge")
        metrics[metric] = Measured(None, value.definition, reason=_ONE_MODEL) if unknown else value
    return EnsembleMetrics(name, source, seconds, parts, losses, metrics, single)


def _errors(mean: FloatArray, rows: Batch) -> FloatArray:
    return 1.0 - accuracy_rows(Scored(rows.labels, mean))


def _mean(values: FloatArray, rows: Batch) -> float:
    return float(np.average(values, weights=rows.weight))


def definitions(judged: Sequence[EnsembleMetrics]) -> dict[str, Definition]:
    """Of the metrics, by name."""
    return {name: value.definition for name, value in judged[0].metrics.items()}


def differences(judged: Sequence[EnsembleMetrics], rows: Batch) -> list[Difference]:
    """Each ensemble against its single model, with intervals by normal theory where a metric is a mean over rows."""
    found: list[Difference] = []
    for one, alone in zip(judged[::2], judged[1::2], strict=True):
        for metric, value in one.metrics.items():
            here, there = value.value, alone.metrics[metric].value
            if here is None or there is None:
                continue
            ends: tuple[float | None, ...] = (None, None, None)
            if metric in ("nll", "error"):
                _, *ends_found = paired_difference(one.losses[metric], alone.losses[metric], rows.weight)
                ends = tuple(map(finite, ends_found))
            found.append(Difference(one.name, alone.name, metric, here - there, *ends))
    return found
