"""The catalog of metrics, as data: what each measures, which direction is better, where its function is."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from calcli.errors import UsageError, unknown_name

if TYPE_CHECKING:  # the catalog is read at start-up: numpy must not be
    from calcli.metrics.base import Direction, Measured, Options, Scored
    from calcli.metrics.forms import Additive, Metric, RowLoss

Family: TypeAlias = Literal[
    "proper",
    "ranking",
    "binned",
    "smoothed",
    "shuffled",
    "clustered",
    "decomposition",
    "regression",
    "test",
    "linked",
    "decision",
    "ordered",
]
Kind: TypeAlias = Literal["smooth", "gap", "test"]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """The properties of a metric, known without importing it."""

    name: str
    family: Family
    target: str
    """``module:function``."""

    summary: str
    direction: Direction
    kind: Kind
    """``smooth`` metrics get bootstrap intervals. ``gap`` metrics are never zero on finite data: resampling adds its
    noise to theirs, so that neither they nor their differences have an interval, and they are compared with what a
    calibrated score would show. ``test`` statistics and what isotonic regression fits to the rows get neither.
    """

    default: bool = False
    """Whether `evaluate` shows it unasked."""

    row_mean: bool = False
    """Whether it is a mean over rows, so that paired differences have an interval of their own."""

    threshold: float | None = None
    """The threshold at which rows are decided, of a metric that has one; its name may end with another, ``:0.1``."""

    def load(self) -> Metric:
        """The metric itself."""
        module, name = self.target.split(":")
        metric: Any = getattr(importlib.import_module(module), name)
        return cast("Metric", metric if self.threshold is None else metric.at(self.threshold))

    def at(self, threshold: float | str) -> MetricSpec:
        """The metric at another threshold, also given as text."""
        if self.threshold is None:
            raise UsageError(f"{self.name} has no threshold", hint=f"leave ':{threshold}' out")
        try:
            value = float(threshold)
        except ValueError:
            value = math.nan
        if not 0.0 < value < 1.0:
            raise UsageError(f"{self.name}:{threshold}: a threshold is a number between 0 and 1")
        return replace(self, name=f"{self.name.partition(':')[0]}:{value:g}", threshold=value)

    def load_rows(self) -> RowLoss | None:
        """The loss of each row, before weighting, of a metric that is a mean over rows."""
        return self.load().rows if self.row_mean else None

    def load_sums(self, options: Options) -> Additive[Any] | None:
        """The sums that determine the metric; None where it needs all rows at once."""
        return self.load().sums(options)


def _spec(
    name: str,
    family: Family,
    module: str,
    summary: str,
    *,
    direction: Direction = "lower",
    kind: Kind = "gap",
    default: bool = False,
    row_mean: bool = False,
    threshold: float | None = None,
) -> MetricSpec:
    target = f"calcli.metrics.{module}:{name}"
    return MetricSpec(name, family, target, summary, direction, kind, default, row_mean, threshold)


# fmt: off
METRICS = (
    _spec("nll", "proper", "proper", "mean log-loss in nats; confident errors cost most",
          kind="smooth", default=True, row_mean=True),
    _spec("brier", "proper", "proper", "mean squared error of the probability",
          kind="smooth", default=True, row_mean=True),
    _spec("brier_sum", "proper", "proper", "squared error summed over all classes, of two as well",
          kind="smooth", row_mean=True),
    _spec("d2_nll", "proper", "proper", "share of the base rate's log-loss that the score saves",
          direction="higher", kind="smooth"),
    _spec("d2_brier", "proper", "proper", "share of the base rate's Brier score that the score saves",
          direction="higher", kind="smooth"),
    _spec("accuracy", "ranking", "ranking", "share of rows whose most probable class is right",
          direction="higher", kind="smooth", row_mean=True),
    _spec("net_benefit", "decision", "clinical",
          "true positives less false ones at the odds of the threshold, a row; net_benefit:0.1 is at 0.1",
          direction="higher", kind="smooth", row_mean=True, threshold=0.5),
    _spec("auc", "ranking", "ranking", "area under the ROC curve: how often a 1 ranks above a 0",
          direction="higher", kind="smooth", default=True),
    _spec("pr_auc", "ranking", "ranking", "average precision",
          direction="higher", kind="smooth"),
    _spec("prr", "ranking", "ranking",
          "gain from rejecting the least certain rows first, in percent of an oracle's",
          direction="higher", kind="smooth"),
    _spec("ece", "binned", "binned", "mean gap between prediction and observed rate, in bins",
          default=True),
    _spec("rmsce", "binned", "binned", "root mean square gap over the bins"),
    _spec("mce", "binned", "binned", "largest gap of a bin"),
    _spec("classwise_ece", "binned", "binned", "mean one-vs-rest ECE of all classes"),
    _spec("ada_ece", "binned", "binned", "root mean square gap over bins of equal mass (CCL)"),
    _spec("ece_sweep", "binned", "adaptive", "ECE with the most bins whose observed rates still rise (Roelofs)"),
    _spec("ece_debiased", "binned", "binned", "root mean square gap, corrected for chance (Kumar)"),
    _spec("smooth_ece", "smoothed", "adaptive", "kernel-smoothed gap with automatic bandwidth (Blasiok & Nakkiran)"),
    _spec("ecce", "smoothed", "adaptive", "range of the cumulative gap in standard deviations, with a p-value"),
    _spec("cutoff_error", "smoothed", "adaptive",
          "largest error over any interval of scores, as a share of all rows; says which"),
    _spec("ici", "smoothed", "clinical", "integrated calibration index: mean gap of a lowess curve"),
    _spec("e50", "smoothed", "clinical", "median gap of the lowess curve"),
    _spec("e90", "smoothed", "clinical", "gap of the lowess curve that 90 % of the rows stay below"),
    _spec("mvce", "shuffled", "multi_view", "multi-view calibration error: mean gap in random groups of rows",
          default=True),
    _spec("cece", "clustered", "clustered", "clustered calibration error: mean gap in clusters of similar rows",
          default=True),
    _spec("cece_ada", "clustered", "clustered", "root mean square gap over clusters: CECE as in the paper"),
    _spec("cece_mce", "clustered", "clustered", "largest gap of a cluster"),
    _spec("pud", "regression", "regression", "mean prediction divided by mean label (MBCT), 1 if calibrated",
          direction="target", kind="smooth"),
    _spec("o_e", "regression", "regression",
          "observed over expected: mean label divided by mean prediction, 1 if calibrated",
          direction="target", kind="smooth"),
    _spec("slope", "regression", "regression", "slope of logistic recalibration (Cox), 1 if calibrated",
          direction="target", kind="smooth"),
    _spec("intercept", "regression", "regression", "calibration in the large: intercept with slope 1, 0 if calibrated",
          direction="target", kind="smooth"),
    _spec("brier_reliability", "decomposition", "proper",
          "part of the Brier score that isotonic recalibration removes"),
    _spec("brier_resolution", "decomposition", "proper", "gain of the recalibrated score over the base rate",
          direction="higher", kind="test"),
    _spec("brier_uncertainty", "decomposition", "proper", "Brier score of the base rate alone",
          direction="target", kind="smooth"),
    _spec("nll_reliability", "decomposition", "proper", "part of the log-loss that isotonic recalibration removes"),
    _spec("nll_resolution", "decomposition", "proper", "gain of the recalibrated score in log-loss over the base rate",
          direction="higher", kind="test"),
    _spec("nll_uncertainty", "decomposition", "proper", "log-loss of the base rate alone",
          direction="target", kind="smooth"),
    _spec("hosmer_lemeshow", "test", "diagnosis", "chi-squared over ten groups of equal mass, with a p-value",
          kind="test"),
    _spec("spiegelhalter_z", "test", "diagnosis", "Brier score less its mean if calibrated, in standard deviations",
          direction="target", kind="test"),
    _spec("rps", "ordered", "proper", "squared error of the cumulative probabilities of classes in order",
          kind="smooth", row_mean=True),
    _spec("cumulative_ece", "ordered", "binned", "mean ECE of the cumulative probabilities of classes in order"),
    _spec("tv", "linked", "clustered", "total variation of the confidence over the edges of a graph (RECAL)",
          kind="test"),
)
# fmt: on

SETS = {"clinical": ("auc", "brier", "o_e", "intercept", "slope", "ici", "e50", "e90")}
"""Metrics that are reported together, by the name of the set."""


def specs() -> tuple[MetricSpec, ...]:
    """All metrics, in the order in which reports show them."""
    return METRICS


def names() -> tuple[str, ...]:
    return tuple(metric.name for metric in METRICS)


def known(name: str) -> bool:
    """Whether there is a metric of that name."""
    return name.partition(":")[0] in names()


def find(name: str) -> MetricSpec:
    """The metric of that name, or a `UsageError` with the nearest name."""
    plain, marked, threshold = name.partition(":")
    for metric in METRICS:
        if metric.name == plain and not marked:
            return metric
        if metric.name == plain:
            return metric.at(threshold)
    raise UsageError(unknown_name("metric", name, names()), hint="try: calcli metrics")


def choose(*wanted: str | Iterable[str], clusters: bool = False, ordered: bool = False) -> tuple[MetricSpec, ...]:
    """The metrics meant by ``default``, ``all``, a set or a list of names (comma-separated as text).

    Where nothing forms `clusters` of the rows, metrics over clusters are meant only by their own names. Metrics of the
    order of classes are meant where classes are `ordered`, else only by their own names.
    """
    more = ["ordered"] * (not ordered) + ["clustered"] * (not clusters)
    known = [metric for metric in METRICS if metric.family not in more]
    parts = [part for one in wanted for part in (one.split(",") if isinstance(one, str) else one)]
    chosen: dict[str, MetricSpec] = {}
    for name in (part.strip() for part in parts):
        if name == "all":
            chosen |= {metric.name: metric for metric in known}
        elif name == "default":
            chosen |= {metric.name: metric for metric in known if metric.default}
        elif name in SETS:
            chosen |= {metric.name: metric for metric in METRICS if metric.name in SETS[name]}
        elif name:
            metric = find(name)
            chosen[metric.name] = metric
    if not chosen:
        raise UsageError("no metric was named", hint="try: --metrics default")
    if ordered:
        chosen |= {metric.name: metric for metric in METRICS if metric.family == "ordered"}
    return tuple(chosen.values())


def settled(chosen: Iterable[MetricSpec], scored: Sequence[Scored], options: Options) -> Options:
    """Options with which each metric is computed in the same way for all of these scores of the same rows."""
    options = options.of_rows(scored[0].rows)
    for metric in chosen:
        options = metric.load().settled(scored, options)
    return options


def measure(chosen: Iterable[MetricSpec], scored: Scored, options: Options) -> dict[str, Measured]:
    """Each metric of one score; None with the reason where it is undefined, never NaN or infinite."""
    scored = scored.with_scaled_weights
    return {metric.name: finite(metric.load()(scored, options)) for metric in chosen}


def finite(measured: Measured) -> Measured:
    """The measurement with None in place of NaN and infinite numbers."""

    def known(value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None

    numbers: dict[str, Any] = {
        name: known(getattr(measured, name)) for name in ("value", "lo", "hi", "null_hi", "floor", "p")
    }
    return replace(
        measured,
        reason=measured.reason or ("the result is not a finite number" if numbers["value"] is None else None),
        per_class=None if measured.per_class is None else tuple(map(known, measured.per_class)),
        **numbers,
    )
