"""The catalog of metrics, as data: what each measures, which direction is better, where its function is.

Libraries differ in the bins of the expected calibration error: they agree on generic probabilities, but not on values on an edge, at 0 and at 1: fifteen rows with such values have
four different errors. A convention decides these; the number of bins stays as requested.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.errors import UsageError, unknown_name
from calcli.metrics.base import Scored
from calcli.metrics.tied import TiedScores
from calcli.numeric import bins

if TYPE_CHECKING:
    from calcli.metrics.base import Direction, Measured, Options, Scored
    from calcli.metrics.forms import Additive, Metric, RowLoss

Family: TypeAlias = Literal[
    "proper", "ranking", "binned", "smoothed", "shuffled", "clustered", "decomposition", "regression", "test", "linked"
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

    def load(self) -> Metric:
        """The metric itself."""
        module, name = self.target.split(":")
        return cast("Metric", getattr(importlib.import_module(module), name))

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
) -> MetricSpec:
    return MetricSpec(name, family, f"calcli.metrics.{module}:{name}", summary, direction, kind, default, row_mean)


# fmt: off
METRICS = (
    _spec("nll", "proper", "proper", "mean log-loss in nats; confident errors cost most",
          kind="smooth", default=True, row_mean=True),
    _spec("brier", "proper", "proper", "mean squared error of the probability",
          kind="smooth", default=True, row_mean=True),
    _spec("brier_sum", "proper", "proper", "squared error summed over all classes, of two as well",
          kind="smooth", row_mean=True),
    _spec("accuracy", "ranking", "ranking", "share of rows whose most probable class is right",
          direction="higher", kind="smooth", row_mean=True),
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
    _spec("mvce", "shuffled", "multi_view", "multi-view calibration error: mean gap in random groups of rows",
          default=True),
    _spec("cece", "clustered", "clustered", "clustered calibration error: mean gap in clusters of similar rows",
          default=True),
    _spec("cece_ada", "clustered", "clustered", "root mean square gap over clusters: CECE as in the paper"),
    _spec("cece_mce", "clustered", "clustered", "largest gap of a cluster"),
    _spec("pud", "regression", "regression", "mean prediction divided by mean label (MBCT)",
          direction="target", kind="smooth"),
    _spec("slope", "regression", "regression", "slope of logistic recalibration (Cox), 1 if calibrated",
          direction="target", kind="smooth"),
    _spec("intercept", "regression", "regression", "intercept of logistic recalibration with slope 1, 0 if calibrated",
          direction="target", kind="smooth"),
    _spec("brier_reliability", "decomposition", "proper",
          "part of the Brier score that isotonic recalibration removes"),
    _spec("brier_resolution", "decomposition", "proper", "gain of the recalibrated score over the base rate",
          direction="higher", kind="test"),
    _spec("brier_uncertainty", "decomposition", "proper", "Brier score of the base rate alone",
          direction="target", kind="smooth"),
    _spec("hosmer_lemeshow", "test", "significance", "chi-squared over ten groups of equal mass, with a p-value",
          kind="test"),
    _spec("spiegelhalter_z", "test", "significance", "Brier score less its mean if calibrated, in standard deviations",
          direction="target", kind="test"),
    _spec("tv", "linked", "clustered", "total variation of the confidence over the edges of a graph (RECAL)",
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
    known = [metric for metric in METRICS if clusters or metric.family != "clustered"]
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


@dataclass(frozen=True, slots=True)
class Convention:
    """The bin of a value on an edge."""

    text: str
    """What the definition says of it."""

    side: Literal["lower", "upper", "truncated"] = "lower"
    """``lower``: a value on an inner edge belongs to the bin below it; ``upper``: above it; ``truncated``: to int(p /
    width), in floating point, which for 0.3 in ten bins is the bin above and for 0.7 the one below.
    """

    least: Literal["kept", "unbinned", "dropped", "own"] = "kept"
    """Values on the first edge are ``kept`` in the first bin, ``unbinned`` (no gap, but they count among the rows),
    ``dropped``, or have a bin of their ``own``.
    """

    last_own: bool = False
    """Whether a value on the last edge has a bin of its own."""

    fewer: int = 0
    """By how much the number of bins is below the one given."""

    between: bool = False
    """Whether edges of equal mass lie halfway between two rows, and not at quantiles."""

    top: bool = False
    """Whether two classes are judged by the predicted one."""

    def count(self, given: int) -> int:
        """The number of bins."""
        return max(1, given - self.fewer)

    def problem(self, scored: Scored) -> Scored:
        """The binary problem that is binned: the positive class, or the predicted one."""
        return scored.confidence if self.top else scored.top

    def mass_edges(self, ties: TiedScores, count: int) -> FloatArray:
        """The edges of bins of equal mass; `ties` must all hold rows."""
        if not self.between:
            return ties.quantiles(count)
        return np.concatenate([[0.0], ties.halfway_cuts(count), [1.0]])

    def locate(self, prob: FloatArray, edges: FloatArray) -> IntArray:
        """The bin of each value: 0 if it has none, else from 1 to one more than there are between the edges."""
        count = len(edges) - 1
        if self.side == "lower":
            place = bins.assign(prob, edges)
        elif self.side == "upper":
            place = np.searchsorted(edges[1:-1], prob, side="right").astype(np.int64)
        else:
            place = (prob / (1.0 / count)).astype(np.int64)
        if self.least != "kept":
            place[prob <= edges[0]] = count if self.least == "own" else -1
        if self.last_own:
            place[prob >= edges[-1]] = count
        place += 1
        return place

    def runs(self, prob: FloatArray, edges: FloatArray) -> tuple[IntArray, IntArray]:
        """The runs of rising values that share a bin: where each starts, and which bin that is."""
        n, count = len(prob), len(edges) - 1
        if self.side == "truncated":
            place = self.locate(prob, edges)
            starts = np.flatnonzero(np.diff(place, prepend=-1))
            return starts, place[starts]
        low = 0 if self.least == "kept" else int(np.searchsorted(prob, edges[0], side="right"))
        high = int(np.searchsorted(prob, edges[-1], side="left")) if self.last_own else n
        inner = np.searchsorted(prob, edges[1:-1], side="right" if self.side == "lower" else "left")
        starts = np.concatenate([[0], np.clip([low, *inner], low, max(low, high)), [high], [n]])
        into = np.array([count + 1 if self.least == "own" else 0, *range(1, count + 1), count + 1])
        some = np.diff(starts) > 0
        return starts[:-1][some], into[some]


_LOWER = "right-closed, 0 in the first bin"
_UPPER = "left-closed, 1 in the last bin"

_ALL = {
    "sklearn": Convention(_LOWER),
    "kumar": Convention(_LOWER + " (kumar; equal mass is cut halfway between rows)", between=True),
    "guo": Convention("right-closed, 0 in no bin (guo)", least="unbinned", top=True),
    "pycalib": Convention(_LOWER + " (pycalib)"),
    "netcal": Convention(_UPPER + " (netcal)", side="upper"),
    "torchmetrics": Convention("left-closed, 1 in a bin of its own (torchmetrics)", side="upper", last_own=True),
    "mcgrad": Convention(_UPPER + " (mcgrad)", side="upper"),
    "probcal": Convention(_UPPER + " (probcal)", side="upper"),
    "relplot": Convention("int(p / width), 1 in a bin of its own (relplot)", side="truncated"),
    "mapie": Convention("right-closed, 0 in a bin of its own, one bin fewer (mapie)", least="own", fewer=1),
    "calzone": Convention("right-closed, rows at the first edge are left out (calzone)", least="dropped"),
    "google": Convention(
        "left-closed, 1 in a bin of its own (uncertainty-metrics)", side="upper", last_own=True, top=True
    ),
}


def convention(name: str) -> Convention:
    """The convention of that name; `Options` has checked that there is one."""
    return _ALL[name]
