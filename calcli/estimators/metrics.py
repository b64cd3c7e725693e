"""The metrics of the catalog as functions of arrays, their summary, and the reliability diagram on a matplotlib axis.

They read their rows as `calcli.evaluate` does, so that the numbers are equal.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calcli.batch import Batch, IntArray
from calcli.diagrams import image
from calcli.diagrams.curve_builder import CurveBuilder
from calcli.diagrams.curves import Bands, Binning, Curve
from calcli.errors import DataError
from calcli.estimators.arrays import Rows, check_length, in_order, plain_class, truth_of
from calcli.estimators.value_errors import as_value_errors
from calcli.homes import Brief
from calcli.metrics import catalog
from calcli.metrics.base import Clusters, Options, Scored
from calcli.metrics.catalog import MetricSpec
from calcli.numeric.bins import BINS, BinCount
from calcli.reports.measuring import Resampling, class_names, measure_all, raw_candidate
from calcli.reports.schema import MetricValue
from calcli.tables.binding import bind
from calcli.tables.binding_types import Label
from calcli.tables.labels import class_text
from calcli.tables.load import load
from calcli.tables.scales import check_probabilities
from calcli.tables.score_arrays import scores_of, unmasked
from calcli.tables.source import open_source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WHEREVER = {
    "sample_weight": "How much each row matters beside the others.",
    "labels": "All classes, where rows of some may be missing: in the order of the columns of `prob`.",
}
_BESIDE = {
    "clusters": "The cluster of each row: the bins of this metric.",
    "edges": "Pairs of rows that are linked, shape (n, 2), by their places.",
}
_BINS = {
    "bins": "How many bins; ``auto`` is the cube root of the number of rows.",
    "binning": "Whether bins are of equal ``width`` on [0, 1], or hold equal numbers of rows, ``mass``.",
    "convention": "The library whose bins these are: on which side of an edge a value falls, what becomes of 0 and 1.",
}
_VIEWS = {
    "mvce": "``closed`` is what infinitely many views would give; ``sampled`` shuffles.",
    "views": "How many times rows are shuffled, if they are.",
    "bin_size": "Rows in a bin; None is 1000, or a 32nd of fewer than 32,000 rows.",
    "norm": "The exponent of the mean over views.",
    "seed": "Of what is shuffled.",
}
_OF_FAMILY: Mapping[str, Mapping[str, str]] = {
    "binned": _BINS,
    "shuffled": _VIEWS,
    "clustered": {"clusters": _BESIDE["clusters"]},
    "linked": {"edges": _BESIDE["edges"]},
}
_OF_METRIC: Mapping[str, Mapping[str, str]] = {
    "ada_ece": {name: _BINS[name] for name in ("bins", "convention")},
    "ece_debiased": {"bins": _BINS["bins"]},
    "cumulative_ece": _BINS,
    "ece_sweep": {},
    "net_benefit": {"threshold": "Rows with at least that probability get yes."},
}
"""The parameters of metrics that have fewer than their family."""

_DEFAULTS = {field.name: field.default for field in fields(Options)}


def options_of(spec: MetricSpec) -> Mapping[str, str]:
    """The parameters that a metric does not share with all others, with their descriptions."""
    return _OF_METRIC.get(spec.name, _OF_FAMILY.get(spec.family, {}))


@dataclass(frozen=True, slots=True)
class Read:
    """Rows as the tables room reads them, with the names of their classes."""

    batch: Batch
    classes: tuple[str, ...]

    @classmethod
    def of(cls, y_true: ArrayLike, prob: ArrayLike, sample_weight: ArrayLike | None, labels: ArrayLike | None) -> Read:
        values, truth = scores_of(prob), truth_of(y_true)
        known = _classes(truth, 2 if values.ndim == 1 else values.shape[1], labels)
        if labels is None:
            values = in_order(prob, known)
        check_probabilities(values)
        table, flags, _ = Rows(truth, known, weights=sample_weight, scores=values).table()
        with open_source(table) as source:
            binding = bind(source, flags, features=False)
            return cls(load(source, binding, features=False).batch, class_names(binding))

    def scored(self, clusters: Clusters | None = None, edges: NDArray[np.int64] | None = None) -> Scored:
        return raw_candidate(self.batch).scored(self.batch, clusters, edges)


def _classes(truth: NDArray[Any], count: int, labels: ArrayLike | None) -> NDArray[Any]:
    """The classes in the order of the columns: those given, or those that occur."""
    known = np.unique(truth) if labels is None else np.asarray(labels)
    if labels is None and len(known) < count and count == 2 and np.isin(known, (0, 1)).all():
        known = np.array([0, 1]).astype(truth.dtype)
    if len(known) != count:
        raise DataError(f"there are {len(known)} classes, and probabilities of {count}", hint="name all with labels=")
    if unknown := np.setdiff1d(truth, known).tolist():
        raise DataError(f"a row has the class {unknown[0]!r}, which labels= lacks", hint=f"they are {known.tolist()}")
    return known


def _places(name: str, values: ArrayLike, rows: int) -> tuple[IntArray, int]:
    """The place of each row's value among the distinct ones, and how many these are."""
    check_length(name, len(np.asarray(values)), rows)
    try:
        distinct, place = np.unique(np.asarray(unmasked(values)), return_inverse=True)
    except TypeError as error:
        raise DataError(f"{name} has values that cannot be ordered: some are missing, or of another type") from error
    return place.astype(np.int64), len(distinct)


def _clusters(values: ArrayLike, rows: int) -> Clusters:
    return Clusters(*_places("clusters", values, rows), "given")


def _edges(pairs: ArrayLike, rows: int) -> NDArray[np.int64]:
    edges = np.asarray(pairs, dtype=np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise DataError(f"the edges have the shape {edges.shape}; they are pairs of rows, shape (n, 2)")
    if wrong := edges[(edges < 0) | (edges >= rows)].tolist():
        raise DataError(f"the edges link {wrong[0]}, and there are {rows:,} rows, which are counted from 0")
    return edges


def _function(spec: MetricSpec) -> Callable[..., float]:
    """A metric as a function; `help` shows its own parameters alone."""
    own = options_of(spec)

    def metric(
        y_true: ArrayLike,
        prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        **options: Any,
    ) -> float:
        try:
            signature.bind(y_true, prob, **options)
        except TypeError as error:
            raise TypeError(f"calcli.metrics.{spec.name}: {error}; see help(calcli.metrics.{spec.name})") from None
        with as_value_errors():
            clusters, edges = options.pop("clusters", None), options.pop("edges", None)
            chosen = spec.at(options.pop("threshold")) if "threshold" in options else spec
            read = Read.of(y_true, prob, sample_weight, labels)
            scored = read.scored(
                None if clusters is None else _clusters(clusters, len(read.batch)),
                None if edges is None else _edges(edges, len(read.batch)),
            )
            measured = catalog.measure([chosen], scored, Options(**options).of_rows(scored.rows))[chosen.name]
        if measured.value is None:
            warnings.warn(f"{spec.name} is not defined: {measured.reason}", stacklevel=2)
            return math.nan
        return measured.value

    described = {**_WHEREVER, **own}
    rows = (Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("y_true", "prob"))
    named = (
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if name in _BESIDE else _DEFAULTS.get(name, spec.threshold),
        )
        for name in described
    )
    signature = Signature([*rows, *named], return_annotation=float)
    metric.__name__ = metric.__qualname__ = spec.name
    metric.__module__ = "calcli.metrics"
    metric.__signature__ = signature  # type: ignore[attr-defined]
    better = {"lower": "Lower is better.", "higher": "Higher is better.", "target": "What is best is in between."}
    parameters = "\n".join(f"{name}\n    {text}" for name, text in described.items())
    metric.__doc__ = (
        f"{spec.summary[0].upper()}{spec.summary[1:]}.\n\n{better[spec.direction]} NaN, with a warning, where it is "
        "not defined.\n\nParameters\n----------\ny_true\n    The class of each row.\n"
        "prob\n    The probability of the second class, shape (n,), or of each class in a column, in sorted order.\n"
        f"{parameters}"
    )
    return metric


FUNCTIONS = {spec.name: _function(spec) for spec in catalog.specs()}


def __getattr__(name: str) -> Callable[..., float]:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Summary(dict[str, MetricValue]):
    """Metrics by name; it prints as a table of values and 95 % intervals."""

    def __repr__(self) -> str:
        header = ("metric", "value", "lo", "hi", "floor", "p")
        lines = [
            [name, *("-" if (value := getattr(one, part)) is None else f"{value:.5g}" for part in header[1:])]
            for name, one in self.items()
        ]
        names, *columns = zip(header, *lines, strict=True)
        cells = [[name.ljust(max(map(len, names))) for name in names]]
        cells += [[cell.rjust(max(map(len, column))) for cell in column] for column in columns]
        return "\n".join(map("  ".join, zip(*cells, strict=True)))


def summary(
    y_true: ArrayLike,
    prob: ArrayLike,
    *,
    metrics: str | Sequence[str] = "default",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    bootstrap: int = 1000,
    options: Options | None = None,
    random_state: int = 0,
) -> Summary:
    """Several metrics, with 95 % intervals where they have any, and for gaps what a calibrated score would show.

    Parameters
    ----------
    y_true
        The class of each row.
    prob
        The probability of the second class, shape (n,), or of each class in a column, in sorted order.
    metrics
        ``default``, ``all``, or names separated by commas.
    sample_weight
        How much each row matters beside the others.
    labels
        All classes, where rows of some may be missing: in the order of the columns of `prob`.
    clusters
        The cluster of each row, for CECE.
    groups
        Which rows are drawn together.
    bootstrap
        How many times rows are drawn anew; 0 for no intervals.
    options
        How metrics are computed, as `calcli.Options`.
    random_state
        The seed of the draws.
    """
    with as_value_errors():
        chosen = catalog.choose(metrics, clusters=clusters is not None)
        read = Read.of(y_true, prob, sample_weight, labels)
        units = None if groups is None else _places("groups", groups, len(read.batch))[0]
        measured = measure_all(
            [raw_candidate(read.batch)],
            read.batch,
            chosen,
            options or Options(seed=random_state),
            read.classes,
            resampling=Resampling(bootstrap, random_state, units) if bootstrap else None,
            clusters=None if clusters is None else _clusters(clusters, len(read.batch)),
        )
    return Summary(measured.scores[0].metrics)


@dataclass(repr=False)
class ReliabilityDisplay(Brief):
    """A reliability diagram.

    Attributes
    ----------
    curve
        The bins: what was predicted and what happened in each, the band of a calibrated score, and whether all gaps
        together are beyond chance (``curve.diagnosis``).
    bands
        Whether the bands are those of a calibrated score, ``consistency``, or of rows drawn anew, ``bootstrap``.
    ax_, figure_
        Where it was drawn.
    """

    curve: Curve
    bands: Bands = "consistency"
    ax_: Axes | None = None
    figure_: Figure | None = None

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw it, on new axes where none are given."""
        self.ax_ = image.draw(self.curve, "label", self.bands, ax)
        self.figure_ = self.ax_.get_figure()  # type: ignore[assignment]
        return self

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, ax: Axes | None = None, **options: Any) -> Self:
        """Draw the probabilities of a classifier, under its name; `options` are those of `reliability_diagram`."""
        named = {"name": type(estimator).__name__, "labels": estimator.classes_, **options}
        drawn = reliability_diagram(y, estimator.predict_proba(X), ax, **named)
        return cls(drawn.curve, drawn.bands, drawn.ax_, drawn.figure_)


def reliability_diagram(
    y: ArrayLike,
    prob: ArrayLike,
    ax: Axes | None = None,
    *,
    name: str = "score",
    bins: BinCount = BINS,
    binning: Binning = "width",
    bands: Bands = "consistency",
    of: Label | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> ReliabilityDisplay:
    """Draw what was predicted against what happened.

    Parameters
    ----------
    y
        The class of each row.
    prob
        The probability of the second class, shape (n,), or of each class in a column, in sorted order.
    ax
        Axes to draw on; None makes new ones.
    name
        The name of the score, for the title.
    bins, binning
        How many bins, and whether of equal ``width`` or ``mass``; ``auto`` is the cube root of the number of rows.
    bands
        ``consistency`` is what a calibrated score would show, ``bootstrap`` what rows drawn anew show, or ``none``.
    of
        The class, as `y` has it; None is the second of two, and the predicted one of more, as is ``top``.
    sample_weight
        How much each row matters beside the others.
    labels
        All classes, where rows of some may be missing: in the order of the columns of `prob`.
    """
    with as_value_errors():
        read = Read.of(y, prob, sample_weight, labels)
        chosen = () if of is None else (class_text(plain_class(of)),)
        builder = CurveBuilder([name], read.classes, classes=chosen, bins=bins, binning=binning, bands=bands)
        builder.add([read.scored()])
    return ReliabilityDisplay(builder.curves()[0], bands).plot(ax)
