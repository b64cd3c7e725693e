"""The metrics, as data: what each measures, which way is better, where its function is."""

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
    from calcli.metrics.cece import ClusterSums
    from calcli.metrics.reduce import Reduction

    Metric: TypeAlias = Callable[[Scored, Options], Measured]
    RowMetric: TypeAlias = Callable[[Scored], FloatArray]
    BlockMetric: TypeAlias = Callable[[Blocks, Options], float | None]
    Settle: TypeAlias = Callable[[Sequence[Scored], Options], Options]
    ClusterMetric: TypeAlias = Callable[[ClusterSums], float | None]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """What calcli knows of a metric without importing it.

    Attributes
    ----------
    target
        ``module:function``.
    kind
        ``smooth`` metrics get bootstrap intervals. ``gap`` metrics are never zero on finite data: resampling adds its
        noise to theirs, so that they are compared with what a calibrated score would show. ``test`` statistics and
        what isotonic regression fits to the rows get neither.
    default
        Whether `evaluate` shows it unasked.
    rows
        ``module:function`` of what each row adds, for a metric that is a mean over rows: paired differences need it.
    blocks
        ``module:function`` of the metric from rows pooled by their probability, for one that is not: the bootstrap
        needs it.
    clusters
        ``module:function`` of the metric from sums over clusters, for one that has them as bins.
    reduction
        The binary problems that `blocks` is about, and what is made of their numbers.
    sums
        ``module:constant``, an `Additive`, for a metric that can be had of more rows than are held.
    masses
        The same, where its bins are of equal mass.
    settle
        ``module:function`` of scores of the same rows and options, for a metric that would not be computed in the same
        way for all: the options by which it is.
    """

    name: str
    family: Literal[
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
    ]
    target: str
    summary: str
    direction: Direction
    kind: Literal["smooth", "gap", "test"]
    default: bool = False
    rows: str | None = None
    blocks: str | None = None
    clusters: str | None = None
    reduction: Reduction = "top"
    sums: str | None = None
    masses: str | None = None
    settle: str | None = None

    def load(self) -> Metric:
        return cast("Metric", _resolve(self.target))

    def load_rows(self) -> RowMetric | None:
        return None if self.rows is None else cast("RowMetric", _resolve(self.rows))

    def load_blocks(self) -> BlockMetric | None:
        return None if self.blocks is None else cast("BlockMetric", _resolve(self.blocks))

    def load_clusters(self) -> ClusterMetric | None:
        return None if self.clusters is None else cast("ClusterMetric", _resolve(self.clusters))

    def load_sums(self, options: Options) -> Additive[Any] | None:
        """None also where bins are cut for which all rows must be there."""
        target = self.sums
        if self.family == "binned" and options.binning == "mass":
            from calcli.metrics.equal_mass import cuts_between_rows

            target = self.masses if cuts_between_rows(options) else None
        return None if target is None else cast("Additive[Any]", _resolve(target))

    def load_settle(self) -> Settle | None:
        return None if self.settle is None else cast("Settle", _resolve(self.settle))


def _resolve(target: str) -> object:
    module, function = target.split(":")
    return getattr(importlib.import_module(module), function)


_ROWS = (
    MetricSpec(
        "nll",
        "proper",
        "calcli.metrics.proper:nll",
        "log-loss in nats, p clipped at 1e-12",
        "lower",
        "smooth",
        default=True,
        rows="calcli.metrics.proper:nll_rows",
        sums="calcli.metrics.proper:NLL_SUMS",
    ),
    MetricSpec(
        "brier",
        "proper",
        "calcli.metrics.proper:brier",
        "mean squared error of the probability",
        "lower",
        "smooth",
        default=True,
        rows="calcli.metrics.proper:brier_rows",
        sums="calcli.metrics.proper:BRIER_SUMS",
    ),
    MetricSpec(
        "brier_sum",
        "proper",
        "calcli.metrics.proper:brier_sum",
        "squared error summed over all classes, also of two",
        "lower",
        "smooth",
        rows="calcli.metrics.proper:brier_sum_rows",
        sums="calcli.metrics.proper:BRIER_SUM_SUMS",
    ),
    MetricSpec(
        "accuracy",
        "ranking",
        "calcli.metrics.ranking:accuracy",
        "how often the most probable class is right",
        "higher",
        "smooth",
        rows="calcli.metrics.ranking:accuracy_rows",
        sums="calcli.metrics.ranking:ACCURACY_SUMS",
    ),
    MetricSpec(
        "auc",
        "ranking",
        "calcli.metrics.ranking:auc",
        "area under the ROC curve",
        "higher",
        "smooth",
        default=True,
        blocks="calcli.metrics.ranking:auc_of",
        reduction="macro",
        sums="calcli.metrics.ranking:AUC_SUMS",
    ),
    MetricSpec(
        "pr_auc",
        "ranking",
        "calcli.metrics.ranking:pr_auc",
        "average precision",
        "higher",
        "smooth",
        blocks="calcli.metrics.ranking:pr_auc_of",
        reduction="macro",
    ),
    MetricSpec(
        "prr",
        "ranking",
        "calcli.metrics.detection:prr",
        "share in percent of an oracle's gain from rejecting the least sure rows first",
        "higher",
        "smooth",
        blocks="calcli.metrics.detection:prr_of",
        reduction="confidence",
    ),
    MetricSpec(
        "ece",
        "binned",
        "calcli.metrics.ece:ece",
        "mean gap between prediction and label over bins",
        "lower",
        "gap",
        default=True,
        blocks="calcli.metrics.ece:ece_of",
        reduction="binned",
        sums="calcli.metrics.ece:ECE_SUMS",
        masses="calcli.metrics.equal_mass:ECE_MASSES",
    ),
    MetricSpec(
        "rmsce",
        "binned",
        "calcli.metrics.ece:rmsce",
        "root mean square gap over bins",
        "lower",
        "gap",
        blocks="calcli.metrics.ece:rmsce_of",
        reduction="binned",
        sums="calcli.metrics.ece:RMSCE_SUMS",
    ),
    MetricSpec(
        "mce",
        "binned",
        "calcli.metrics.ece:mce",
        "largest gap of any bin",
        "lower",
        "gap",
        blocks="calcli.metrics.ece:mce_of",
        reduction="binned",
        sums="calcli.metrics.ece:MCE_SUMS",
    ),
    MetricSpec(
        "classwise_ece",
        "binned",
        "calcli.metrics.ece:classwise_ece",
        "mean over classes of the ECE one-vs-rest",
        "lower",
        "gap",
        blocks="calcli.metrics.ece:ece_of",
        reduction="each",
        sums="calcli.metrics.ece:CLASSWISE_SUMS",
        masses="calcli.metrics.equal_mass:CLASSWISE_MASSES",
    ),
    MetricSpec(
        "ada_ece",
        "binned",
        "calcli.metrics.ece:ada_ece",
        "root mean square gap over bins of equal mass (CCL)",
        "lower",
        "gap",
        blocks="calcli.metrics.ece:ada_ece_of",
        reduction="binned",
    ),
    MetricSpec(
        "ece_sweep",
        "binned",
        "calcli.metrics.sweep:ece_sweep",
        "ECE with as many bins as keep the label means rising (Roelofs)",
        "lower",
        "gap",
        blocks="calcli.metrics.sweep:sweep_of",
        reduction="top",
    ),
    MetricSpec(
        "ece_debiased",
        "binned",
        "calcli.metrics.ece:ece_debiased",
        "root of the squared gaps less what chance adds (Kumar)",
        "lower",
        "gap",
        blocks="calcli.metrics.ece:debiased_of",
        reduction="top",
    ),
    MetricSpec(
        "smooth_ece",
        "smoothed",
        "calcli.metrics.smooth:smooth_ece",
        "gap smoothed by a kernel of its own width (Blasiok & Nakkiran)",
        "lower",
        "gap",
        blocks="calcli.metrics.smooth:smooth_of",
        reduction="top",
    ),
    MetricSpec(
        "ecce",
        "smoothed",
        "calcli.metrics.cumulative:ecce",
        "range of the cumulative gap in standard deviations, with its p-value",
        "lower",
        "gap",
        blocks="calcli.metrics.cumulative:ecce_of",
        reduction="top",
    ),
    MetricSpec(
        "mvce",
        "shuffled",
        "calcli.metrics.mvce:mvce",
        "expected gap over bins of shuffled rows (MBCT), with its noise floor",
        "lower",
        "gap",
        default=True,
        sums="calcli.metrics.mvce:MVCE_SUMS",
        settle="calcli.metrics.mvce:settled",
    ),
    MetricSpec(
        "cece",
        "clustered",
        "calcli.metrics.cece:cece",
        "mean gap over clusters of rows (CCL)",
        "lower",
        "gap",
        default=True,
        clusters="calcli.metrics.cece:cece_of",
        sums="calcli.metrics.cece:CECE_SUMS",
    ),
    MetricSpec(
        "cece_ada",
        "clustered",
        "calcli.metrics.cece:cece_ada",
        "root mean square gap over clusters of rows: the paper's CECE",
        "lower",
        "gap",
        clusters="calcli.metrics.cece:cece_ada_of",
        sums="calcli.metrics.cece:CECE_ADA_SUMS",
    ),
    MetricSpec(
        "cece_mce",
        "clustered",
        "calcli.metrics.cece:cece_mce",
        "largest gap of a cluster of rows",
        "lower",
        "gap",
        clusters="calcli.metrics.cece:cece_mce_of",
        sums="calcli.metrics.cece:CECE_MCE_SUMS",
    ),
    MetricSpec(
        "pud",
        "regression",
        "calcli.metrics.pud:pud",
        "mean prediction over mean label (MBCT)",
        "target",
        "smooth",
        blocks="calcli.metrics.pud:pud_of",
        reduction="top",
    ),
    MetricSpec(
        "slope",
        "regression",
        "calcli.metrics.cox:slope",
        "slope of Cox's recalibration, 1 if calibrated",
        "target",
        "smooth",
        blocks="calcli.metrics.cox:slope_of",
        reduction="top",
    ),
    MetricSpec(
        "intercept",
        "regression",
        "calcli.metrics.cox:intercept",
        "intercept with the slope held at 1, 0 if calibrated",
        "target",
        "smooth",
        blocks="calcli.metrics.cox:intercept_of",
        reduction="top",
    ),
    MetricSpec(
        "brier_reliability",
        "decomposition",
        "calcli.metrics.corp:brier_reliability",
        "what isotonic recalibration takes off the Brier score",
        "lower",
        "gap",
        blocks="calcli.metrics.corp:reliability_of",
        reduction="sum",
    ),
    MetricSpec(
        "brier_resolution",
        "decomposition",
        "calcli.metrics.corp:brier_resolution",
        "what the recalibrated score gains on the label rate",
        "higher",
        "test",
        blocks="calcli.metrics.corp:resolution_of",
        reduction="sum",
    ),
    MetricSpec(
        "brier_uncertainty",
        "decomposition",
        "calcli.metrics.corp:brier_uncertainty",
        "Brier score of the label rate alone",
        "target",
        "smooth",
        blocks="calcli.metrics.corp:uncertainty_of",
        reduction="sum",
    ),
    MetricSpec(
        "hosmer_lemeshow",
        "test",
        "calcli.metrics.significance:hosmer_lemeshow",
        "chi-squared over ten groups of equal mass, with its p-value",
        "lower",
        "test",
    ),
    MetricSpec(
        "spiegelhalter_z",
        "test",
        "calcli.metrics.significance:spiegelhalter_z",
        "Brier score less its mean if calibrated, in standard deviations",
        "target",
        "test",
    ),
    MetricSpec(
        "tv",
        "linked",
        "calcli.metrics.total_variation:tv",
        "total variation of the confidence over the edges of a graph (RECAL)",
        "lower",
        "test",
    ),
)


def rows() -> tuple[MetricSpec, ...]:
    """All metrics, in the order in which reports show them."""
    return _ROWS


def names() -> tuple[str, ...]:
    return tuple(row.name for row in _ROWS)


def find(name: str) -> MetricSpec:
    """The row of a metric, or a `UsageError` with the nearest name."""
    for row in _ROWS:
        if row.name == name:
            return row
    raise UsageError(unknown_name("metric", name, names()), hint="try: calcli metrics")


def choose(wanted: str | Iterable[str], *, clusters: bool = False) -> tuple[MetricSpec, ...]:
    """The rows meant by ``default``, ``all`` or a list of names (comma-separated as text).

    Where nothing forms `clusters` of the rows, metrics over clusters are meant only by their own names.
    """
    rows = [row for row in _ROWS if clusters or row.clusters is None]
    given = wanted.split(",") if isinstance(wanted, str) else list(wanted)
    chosen: dict[str, MetricSpec] = {}
    for name in (part.strip() for part in given):
        if name == "all":
            chosen |= {row.name: row for row in rows}
        elif name == "default":
            chosen |= {row.name: row for row in rows if row.default}
        elif name:
            chosen[name] = find(name)
    if not chosen:
        raise UsageError("no metric was named", hint="try: --metrics default")
    return tuple(chosen.values())


def settled(chosen: Iterable[MetricSpec], scored: Sequence[Scored], options: Options) -> Options:
    """Options by which each metric is computed in the same way for all of these scores of the same rows."""
    for row in chosen:
        settle = row.load_settle()
        options = options if settle is None else settle(scored, options)
    return options


def measure(chosen: Iterable[MetricSpec], scored: Scored, options: Options) -> dict[str, Measured]:
    """Each metric's number for one score, or None with the reason; never NaN or infinite."""
    scored = scored.moderate
    return {row.name: finite(row.load()(scored, options)) for row in chosen}


def finite(measured: Measured) -> Measured:
    """What was measured, with None in place of numbers that are none."""

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
        reason=measured.reason or ("the result is not a finite number" if value is None else None),
        per_class=None if per_class is None else tuple(known(one) for one in per_class),
    )
