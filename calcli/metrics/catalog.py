"""The catalog of metrics, as data: what each measures, which direction is better, where its function is."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from calcli.errors import UsageError, unknown_name

if TYPE_CHECKING:  # the catalog is read at start-up: numpy must not be
    from calcli.batch import FloatArray
    from calcli.metrics.additive import Additive
    from calcli.metrics.base import Direction, Measured, Options, Scored
    from calcli.metrics.blocks import Blocks
    from calcli.metrics.clustered import ClusterSums
    from calcli.metrics.reduce import Reduction

    Metric: TypeAlias = Callable[[Scored, Options], Measured]
    RowMetric: TypeAlias = Callable[[Scored], FloatArray]
    BlockMetric: TypeAlias = Callable[[Blocks, Options], float | None]
    Settle: TypeAlias = Callable[[Sequence[Scored], Options], Options]
    ClusterMetric: TypeAlias = Callable[[ClusterSums], float | None]

Family: TypeAlias = Literal[
    "proper", "ranking", "binned", "smoothed", "shuffled", "clustered", "decomposition", "regression", "test", "linked"
]
Kind: TypeAlias = Literal["smooth", "gap", "test"]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """The properties of a metric, known without importing it.

    Attributes
    ----------
    target
        ``module:function``.
    kind
        ``smooth`` metrics get bootstrap intervals. ``gap`` metrics are never zero on finite data: resampling adds its
        noise to theirs, so that neither they nor their differences have an interval, and they are compared with what a
        calibrated score would show. ``test`` statistics and what isotonic regression fits to the rows get neither.
    default
        Whether `evaluate` shows it unasked.
    rows
        ``module:function`` of each row's contribution, for metrics that are means over rows: paired differences need
        it.
    blocks
        ``module:function`` of the metric from rows pooled by their probability, for other metrics: the bootstrap needs
        it.
    clusters
        ``module:function`` of the metric from sums over clusters, for metrics whose bins are clusters.
    reduction
        The binary problems that `blocks` is computed on, and how their numbers are combined.
    ordinal
        Whether only the order of the scores counts: `blocks` are then of what they are ranked by.
    sums
        ``module:constant``, an `Additive`, for metrics that can be computed from sums over parts of the rows.
    masses
        The same with bins of equal mass.
    settle
        ``module:function`` from scores of the same rows and options to the options with which the metric is computed
        in the same way for all of these scores.
    """

    name: str
    family: Family
    target: str
    summary: str
    direction: Direction
    kind: Kind
    default: bool = False
    rows: str | None = None
    blocks: str | None = None
    clusters: str | None = None
    reduction: Reduction = "top"
    ordinal: bool = False
    sums: str | None = None
    masses: str | None = None
    settle: str | None = None

    def load(self) -> Metric:
        return cast("Metric", _resolve(self.target))

    def load_rows(self) -> RowMetric | None:
        return cast("RowMetric | None", _resolve(self.rows))

    def load_blocks(self) -> BlockMetric | None:
        return cast("BlockMetric | None", _resolve(self.blocks))

    def load_clusters(self) -> ClusterMetric | None:
        return cast("ClusterMetric | None", _resolve(self.clusters))

    def load_sums(self, options: Options) -> Additive[Any] | None:
        """None also where the edges of equal-mass bins need all rows at once."""
        target = self.sums
        if self.family == "binned" and options.binning == "mass":
            from calcli.metrics.equal_mass import cuts_between_rows

            target = self.masses if cuts_between_rows(options) else None
        return cast("Additive[Any] | None", _resolve(target))

    def load_settle(self) -> Settle | None:
        return cast("Settle | None", _resolve(self.settle))


def _resolve(target: str | None) -> object:
    """The object named by ``module:name``; None for None."""
    if target is None:
        return None
    module, function = target.split(":")
    return getattr(importlib.import_module(module), function)


def _spec(
    name: str,
    family: Family,
    module: str,
    summary: str,
    *,
    direction: Direction = "lower",
    kind: Kind = "gap",
    default: bool = False,
    reduction: Reduction = "top",
    ordinal: bool = False,
    masses: str | None = None,
    **targets: str,
) -> MetricSpec:
    """A metric whose functions and constants are all in one module, but for those of bins of equal mass."""

    def target(function: str, place: str = module) -> str:
        return f"calcli.metrics.{place}:{function}"

    return MetricSpec(
        name,
        family,
        target(name),
        summary,
        direction,
        kind,
        default,
        reduction=reduction,
        ordinal=ordinal,
        masses=None if masses is None else target(masses, "equal_mass"),
        **{part: target(function) for part, function in targets.items()},
    )


# fmt: off
METRICS = (
    _spec("nll", "proper", "proper", "mean log-loss in nats; confident errors cost most",
          kind="smooth", default=True, rows="nll_rows", sums="NLL_SUMS"),
    _spec("brier", "proper", "proper", "mean squared error of the probability",
          kind="smooth", default=True, rows="brier_rows", sums="BRIER_SUMS"),
    _spec("brier_sum", "proper", "proper", "squared error summed over all classes, of two as well",
          kind="smooth", rows="brier_sum_rows", sums="BRIER_SUM_SUMS"),
    _spec("accuracy", "ranking", "ranking", "share of rows whose most probable class is right",
          direction="higher", kind="smooth", rows="accuracy_rows", sums="ACCURACY_SUMS"),
    _spec("auc", "ranking", "ranking", "area under the ROC curve: how often a 1 ranks above a 0",
          direction="higher", kind="smooth", default=True, blocks="auc_of", reduction="macro",
          ordinal=True, sums="AUC_SUMS"),
    _spec("pr_auc", "ranking", "ranking", "average precision",
          direction="higher", kind="smooth", blocks="pr_auc_of", reduction="macro", ordinal=True),
    _spec("prr", "ranking", "detection",
          "gain from rejecting the least certain rows first, in percent of an oracle's",
          direction="higher", kind="smooth", blocks="prr_of", reduction="confidence"),
    _spec("ece", "binned", "binned", "mean gap between prediction and observed rate, in bins",
          default=True, blocks="ece_of", reduction="binned", sums="ECE_SUMS", masses="ECE_MASSES"),
    _spec("rmsce", "binned", "binned", "root mean square gap over the bins",
          blocks="rmsce_of", reduction="binned", sums="RMSCE_SUMS"),
    _spec("mce", "binned", "binned", "largest gap of a bin",
          blocks="mce_of", reduction="binned", sums="MCE_SUMS"),
    _spec("classwise_ece", "binned", "binned", "mean one-vs-rest ECE of all classes",
          blocks="ece_of", reduction="each", sums="CLASSWISE_SUMS", masses="CLASSWISE_MASSES"),
    _spec("ada_ece", "binned", "binned", "root mean square gap over bins of equal mass (CCL)",
          blocks="ada_ece_of", reduction="binned"),
    _spec("ece_sweep", "binned", "sweep", "ECE with the most bins whose observed rates still rise (Roelofs)",
          blocks="sweep_of"),
    _spec("ece_debiased", "binned", "binned", "root mean square gap, corrected for chance (Kumar)",
          blocks="debiased_of"),
    _spec("smooth_ece", "smoothed", "smooth", "kernel-smoothed gap with automatic bandwidth (Blasiok & Nakkiran)",
          blocks="smooth_of"),
    _spec("ecce", "smoothed", "cumulative", "range of the cumulative gap in standard deviations, with a p-value",
          blocks="ecce_of"),
    _spec("mvce", "shuffled", "shuffled", "multi-view calibration error: mean gap in random groups of rows",
          default=True, sums="MVCE_SUMS", settle="settled"),
    _spec("cece", "clustered", "clustered", "clustered calibration error: mean gap in clusters of similar rows",
          default=True, clusters="cece_of", sums="CECE_SUMS"),
    _spec("cece_ada", "clustered", "clustered", "root mean square gap over clusters: CECE as in the paper",
          clusters="cece_ada_of", sums="CECE_ADA_SUMS"),
    _spec("cece_mce", "clustered", "clustered", "largest gap of a cluster",
          clusters="cece_mce_of", sums="CECE_MCE_SUMS"),
    _spec("pud", "regression", "mean_ratio", "mean prediction divided by mean label (MBCT)",
          direction="target", kind="smooth", blocks="pud_of"),
    _spec("slope", "regression", "cox", "slope of logistic recalibration (Cox), 1 if calibrated",
          direction="target", kind="smooth", blocks="slope_of"),
    _spec("intercept", "regression", "cox", "intercept of logistic recalibration with slope 1, 0 if calibrated",
          direction="target", kind="smooth", blocks="intercept_of"),
    _spec("brier_reliability", "decomposition", "corp", "part of the Brier score that isotonic recalibration removes",
          blocks="reliability_of", reduction="sum"),
    _spec("brier_resolution", "decomposition", "corp", "gain of the recalibrated score over the base rate",
          direction="higher", kind="test", blocks="resolution_of", reduction="sum"),
    _spec("brier_uncertainty", "decomposition", "corp", "Brier score of the base rate alone",
          direction="target", kind="smooth", blocks="uncertainty_of", reduction="sum"),
    _spec("hosmer_lemeshow", "test", "significance", "chi-squared over ten groups of equal mass, with a p-value",
          kind="test"),
    _spec("spiegelhalter_z", "test", "significance", "Brier score less its mean if calibrated, in standard deviations",
          direction="target", kind="test"),
    _spec("tv", "linked", "total_variation", "total variation of the confidence over the edges of a graph (RECAL)",
          kind="test"),
)
# fmt: on


def specs() -> tuple[MetricSpec, ...]:
    """All metrics, in the order in which reports show them."""
    return METRICS


def names() -> tuple[str, ...]:
    return tuple(metric.name for metric in METRICS)


def find(name: str) -> MetricSpec:
    """The metric of that name, or a `UsageError` with the nearest name."""
    for metric in METRICS:
        if metric.name == name:
            return metric
    raise UsageError(unknown_name("metric", name, names()), hint="try: calcli metrics")


def choose(wanted: str | Iterable[str], *, clusters: bool = False) -> tuple[MetricSpec, ...]:
    """The metrics meant by ``default``, ``all`` or a list of names (comma-separated as text).

    Where nothing forms `clusters` of the rows, metrics over clusters are meant only by their own names.
    """
    known = [metric for metric in METRICS if clusters or metric.clusters is None]
    parts = wanted.split(",") if isinstance(wanted, str) else list(wanted)
    chosen: dict[str, MetricSpec] = {}
    for name in (part.strip() for part in parts):
        if name == "all":
            chosen |= {metric.name: metric for metric in known}
        elif name == "default":
            chosen |= {metric.name: metric for metric in known if metric.default}
        elif name:
            chosen[name] = find(name)
    if not chosen:
        raise UsageError("no metric was named", hint="try: --metrics default")
    return tuple(chosen.values())


def settled(chosen: Iterable[MetricSpec], scored: Sequence[Scored], options: Options) -> Options:
    """Options with which each metric is computed in the same way for all of these scores of the same rows."""
    options = options.of_rows(scored[0].rows)
    for metric in chosen:
        settle = metric.load_settle()
        options = options if settle is None else settle(scored, options)
    return options


def measure(chosen: Iterable[MetricSpec], scored: Scored, options: Options) -> dict[str, Measured]:
    """Each metric of one score; None with the reason where it is undefined, never NaN or infinite."""
    scored = scored.moderate
    return {metric.name: finite(metric.load()(scored, options)) for metric in chosen}


def finite(measured: Measured) -> Measured:
    """The measurement with None in place of NaN and infinite numbers."""

    def known(value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None

    value, per_class = known(measured.value), measured.per_class
    return replace(
        measured,
        value=value,
        floor=known(measured.floor),
        p=known(measured.p),
        lo=known(measured.lo),
        hi=known(measured.hi),
        null_hi=known(measured.null_hi),
        reason=measured.reason or ("the result is not a finite number" if value is None else None),
        per_class=None if per_class is None else tuple(known(one) for one in per_class),
    )
