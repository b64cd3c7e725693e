"""The metrics of an ensemble and of its single model: how well each predicts, and how well uncertainty finds errors.

Rejection curves, the loss as the most uncertain rows are rejected, are drawn too.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.diagrams.curves import Curve, Point
from calcli.diagrams.image import FORMATS, image_format_of, render
from calcli.files import as_text
from calcli.metrics.base import Definition, Measured, Scored
from calcli.metrics.bootstrap import Bootstrap, drawing
from calcli.metrics.paired import Paired, paired_difference
from calcli.metrics.ranking import accuracy_rows, ood_auc, rejection_curve, rejection_ratio
from calcli.models.ensemble import EnsembleModel
from calcli.numeric.seeded import stream
from calcli.reports.measuring import Measurements
from calcli.reports.schema import Report, ScoreSource, Seconds
from calcli.tables.sink import write_bytes
from calcli.uncertainty.decomposition import Decomposed, Members, decompose
from calcli.uncertainty.ensemble import log_loss_rows

SHARES = np.linspace(0.0, 1.0, 101)
"""The shares of rejected rows at which the curves of a report have points."""

SINGLE = ".single"
"""The suffix of the name of an ensemble's single model."""

_ONE_MODEL = "one model alone cannot tell knowledge from data uncertainty"

_NLL = {
    False: Definition("lower", approximation="probabilities are held inside [1e-12, 1 - 1e-12]"),
    True: Definition("lower", approximation="a mixture of the members' normal distributions"),
}


@dataclass(frozen=True)
class EnsembleMetrics:
    """An ensemble or a single model on the rows."""

    name: str
    source: ScoreSource
    seconds: Seconds
    uncertainty: Decomposed
    losses: Mapping[str, FloatArray]
    """The loss of each row, by the name of the metric: ``nll``, and ``error`` or the squared error as ``rmse``."""

    metrics: Mapping[str, Measured]
    single: bool
    beyond: Decomposed | None
    """The uncertainty of rows from out of the domain."""

    def resampled(self, weight: FloatArray, outside: IntArray) -> Iterator[tuple[str, float]]:
        """The metrics with these weights of the rows, and with these rows from out of the domain."""
        for metric, losses in self.losses.items():
            loss = float(np.average(losses, weights=weight))
            yield metric, math.sqrt(loss) if metric == "rmse" else loss
        error = self.losses["rmse" if "rmse" in self.losses else "error"]
        for by in ("total",) if self.single else ("total", "knowledge"):
            order = getattr(self.uncertainty, by)
            found = {f"prr_{by}": rejection_ratio(order, error, weight)}
            if self.beyond is not None:
                found[f"ood_auc_{by}"] = ood_auc(order, getattr(self.beyond, by)[outside], weight)
            yield from ((metric, value.value) for metric, value in found.items() if value.value is not None)

    def curves(self, weight: FloatArray | None) -> Iterator[Curve]:
        """The rejection curves: by each uncertainty, and by the loss itself."""
        loss = self.losses["rmse" if "rmse" in self.losses else "error"]
        orders = {"total": self.uncertainty.total}
        if not self.single:
            orders["knowledge"] = self.uncertainty.knowledge
        for by, order in (orders | {"oracle": loss}).items():
            curve = rejection_curve(order, loss, weight, shares=SHARES)
            points = tuple(Point(one.at, one.error, one.n) for one in curve if one.error is not None)
            yield Curve(self.name, None, "rejection", points, points[0].y, points[0].n, by=by)


def compare_ensemble(
    name: str, model: EnsembleModel, rows: Batch, outside: Mapping[str, Column] | None
) -> list[EnsembleMetrics]:
    """The ensemble, and the single model that one would have without it; `outside` are rows out of the domain."""
    started = time.perf_counter()
    members = model.ensemble.members({name: rows.features[name] for name in model.features})
    seconds = Seconds(apply=time.perf_counter() - started)
    foreign = None if outside is None else model.ensemble.members(outside)
    single = model.ensemble.single
    path = None if model.path is None else as_text(model.path)
    source = ScoreSource("ensemble", path=path, method=model.manifest.method, sha256=model.sha256)
    one, beyond = members.only(single), None if foreign is None else foreign.only(single)
    return [
        _measured(name, source, seconds, members, foreign, rows, single=False),
        _measured(f"{name}{SINGLE}", source, Seconds(), one, beyond, rows, single=True),
    ]


def _measured(
    name: str,
    source: ScoreSource,
    seconds: Seconds,
    members: Members,
    foreign: Members | None,
    rows: Batch,
    *,
    single: bool,
) -> EnsembleMetrics:
    parts = decompose(members)
    regression = members.variance is not None
    # How well it predicts.
    nll = log_loss_rows(members, rows)
    metrics = {"nll": Measured(_mean(nll, rows), _NLL[regression])}
    if regression:
        error = np.square(parts.mean - rows.targets)
        metrics["rmse"] = Measured(float(np.sqrt(_mean(error, rows))), Definition("lower", norm=2.0))
    else:
        error = 1.0 - accuracy_rows(Scored(rows.labels, parts.mean))
        metrics["error"] = Measured(_mean(error, rows), Definition("lower", reduction="top label"))
    # How well uncertainty finds its errors, and rows from out of the domain.
    orders = {"total": parts.total, "knowledge": parts.knowledge}
    metrics |= {f"prr_{by}": rejection_ratio(order, error, rows.weight) for by, order in orders.items()}
    beyond = None if foreign is None else decompose(foreign)
    if beyond is not None:
        metrics["ood_auc_total"] = ood_auc(parts.total, beyond.total, rows.weight)
        metrics["ood_auc_knowledge"] = ood_auc(parts.knowledge, beyond.knowledge, rows.weight)
    if single:
        for metric in [metric for metric in metrics if metric.endswith("_knowledge")]:
            metrics[metric] = Measured(None, metrics[metric].definition, reason=_ONE_MODEL)
    losses = {"nll": nll, "rmse" if regression else "error": error}
    return EnsembleMetrics(name, source, seconds, parts, losses, metrics, single, beyond)


def _mean(values: FloatArray, rows: Batch) -> float:
    return float(np.average(values, weights=rows.weight))


def measurements(measured: Sequence[EnsembleMetrics], rows: Batch, replicates: int, seed: int) -> Measurements:
    """The report's numbers, from each ensemble followed by its single model.

    The differences are of each ensemble from its single model, and of the others from the first. Without replicates
    they have intervals where a metric is a mean over rows.
    """

    def paired_of(pair: tuple[int, int], metric: str) -> Paired | None:
        one, other = (measured[place].losses for place in pair)
        return None if metric not in ("nll", "error") else paired_difference(one[metric], other[metric], rows.weight)

    ensembles = range(0, len(measured), 2)
    return Measurements.of(
        [(one.name, one.source, one.seconds) for one in measured],
        [one.metrics for one in measured],
        (),
        tuple(curve for one in measured for curve in one.curves(rows.weight)),
        [*((place, place + 1) for place in ensembles), *((place, 0) for place in ensembles[1:])],
        paired_of,
        _replicated(measured, rows, replicates, seed) if replicates else None,
    )


def _replicated(measured: Sequence[EnsembleMetrics], rows: Batch, replicates: int, seed: int) -> Bootstrap:
    """The metrics of replicates of the rows and of those from out of the domain, the same ones for all ensembles."""
    draw = drawing(Scored(np.zeros(len(rows), np.int64), np.zeros(len(rows)), rows.weight))
    outside = 0 if measured[0].beyond is None else len(measured[0].beyond.data)
    values = {metric: np.full((len(measured), replicates), np.nan) for metric in measured[0].metrics}
    for replicate in range(replicates):
        rng = stream(seed, "bootstrap", replicate)
        weight = draw(rng) * rows.weights
        drawn = rng.integers(0, outside, outside) if outside else np.empty(0, np.int64)
        for place, one in enumerate(measured):
            for metric, value in one.resampled(weight, drawn):
                values[metric][place, replicate] = value
    return Bootstrap(values, {})


def draw(report: Report, output: str | os.PathLike[str]) -> None:
    """Draw all rejection curves of the report in one picture."""
    label = str(report.binding["label"])
    write_bytes(render(list(_shown(report)), label, "none", image_format_of(output, FORMATS)), output)


def _shown(report: Report) -> Iterator[Curve]:
    """Every curve, but one oracle only; errors of amounts are relative to the error before any row is rejected."""
    amounts = "rmse" in report.definitions
    for curve in report.curves:
        name = f"{curve.score} by {curve.by}"
        if curve.by == "oracle":
            if curve.score != report.scores[0].name:
                continue
            name = "an oracle"
        shown = replace(curve, score=name)
        if amounts:
            first = curve.points[0].y or 1.0
            points = tuple(replace(point, y=math.sqrt(point.y / first)) for point in curve.points)
            shown = replace(shown, points=points, error=1.0, loss="relative RMSE")
        yield shown
