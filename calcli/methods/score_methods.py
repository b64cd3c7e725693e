"""The specs of the methods that need nothing but the score: scaling and binning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calcli.methods.spec import Family, MethodSpec, choice, integer, number


def _in_family(family: Family) -> Callable[..., MethodSpec]:
    """A constructor of the specs of a family, all of which have a formula; targets are relative to its package."""

    def spec(name: str, target: str, simplicity: int, reference: str, summary: str, **fields: Any) -> MethodSpec:
        target = f"calcli.methods.{family}.{target}"
        return MethodSpec(name, family, target, summary, reference, simplicity, closed_form=True, **fields)

    return spec


_scaling = _in_family("scaling")
_binning = _in_family("binning")

_BIAS = number("bias", None, "mu, how strongly the intercepts are held near 0; cross-validated if not given", 0, 1e6)
_OFF_DIAGONAL = number(
    "off_diagonal", None, "lambda, the penalty on the off-diagonal coefficients; cross-validated if not given", 0, 1e6
)

SCALING = (
    _scaling(
        "identity",
        "linear:Identity",
        0,
        "",
        "no calibration, the baseline of every comparison",
        auto="yes",
        multiclass="native",
        order="kept",
        keeps_top_class=True,
        sums="yes",
    ),
    _scaling(
        "temperature",
        "linear:Temperature",
        1,
        "Guo et al. 2017",
        "softmax(V / T): one temperature for all classes",
        auto="yes",
        multiclass="native",
        order="kept",
        keeps_top_class=True,
        sums="binary",
    ),
    _scaling(
        "platt",
        "linear:Platt",
        2,
        "Platt 1999",
        "sigmoid(a z + b) on log-odds, with Platt's smoothed targets",
        auto="binary",
        order="kept or reversed",
        sums="yes",
    ),
    _scaling(
        "quadratic",
        "curved:Quadratic",
        3,
        "Berta et al. 2026",
        "sigmoid(a z + b + c z^2), constrained to be monotone",
        auto="binary",
        order="kept",
        sums="yes",
    ),
    _scaling(
        "beta",
        "curved:Beta",
        4,
        "Kull, Silva Filho & Flach 2017",
        "sigmoid(a ln p - b ln(1 - p) + c) with a, b >= 0",
        auto="binary",
        order="kept",
        sums="yes",
    ),
    _scaling(
        "vector",
        "matrix:Vector",
        5,
        "Guo et al. 2017",
        "softmax(w * V + b): a slope and an intercept for each class",
        multiclass="native",
        params=(_BIAS,),
    ),
    _scaling(
        "sms",
        "matrix:Sms",
        6,
        "Berta et al. 2026",
        "structured matrix scaling: temperature, then a matrix shrunk to the identity",
        auto="multiclass",
        multiclass="native",
    ),
    _scaling(
        "svs",
        "matrix:Svs",
        6,
        "Berta et al. 2026",
        "structured vector scaling: temperature, then a slope and an intercept for each class, shrunk to none",
        multiclass="native",
    ),
    _scaling(
        "dirichlet",
        "matrix:Dirichlet",
        7,
        "Kull et al. 2019",
        "softmax(W ln P + b), regularised off the diagonal",
        multiclass="native",
        params=(_OFF_DIAGONAL, _BIAS),
    ),
    _scaling(
        "matrix",
        "matrix:Matrix",
        7,
        "Guo et al. 2017; Kull et al. 2019",
        "softmax(W V + b), regularised off the diagonal",
        multiclass="native",
        params=(_OFF_DIAGONAL, _BIAS),
    ),
    _scaling(
        "spline",
        "spline:Spline",
        7,
        "Lucena 2018",
        "sigmoid of a smoothing spline of the log-odds, with cross-validated smoothness",
        auto="binary",
        order="kept or reversed",
        sums="yes",
        params=(
            integer("knots", 8, "number of knots, at quantiles of the scores", 3, 50),
            number(
                "penalty",
                "auto",
                "of the roughness; auto is cross-validated, inf is Platt scaling; raised until the curve is monotone",
                0,
                1e9,
                "inf",
            ),
        ),
    ),
)

BINNING = (
    _binning(
        "isotonic",
        "isotonic:Isotonic",
        8,
        "Zadrozny & Elkan 2002",
        "isotonic regression (PAV), interpolated between its steps",
        order="kept",
        reaches_ends=True,
        sums="scores",
    ),
    _binning(
        "histogram",
        "histogram:Histogram",
        9,
        "Zadrozny & Elkan 2001",
        "the observed rate of the score's bin",
        reaches_ends=True,
        params=(
            integer("bins", 15, "number of bins", 1, 100_000),
            choice("binning", "mass", "equal-mass or equal-width bins", "mass", "width"),
        ),
        sums="scores",
    ),
    _binning(
        "isotonic-centered",
        "isotonic:IsotonicCentered",
        9,
        "Oron & Flournoy 2017",
        "isotonic regression without flat steps, strictly increasing between block centres",
        auto="binary",
        order="kept",
        sums="scores",
    ),
    _binning(
        "venn-abers",
        "isotonic:VennAbers",
        12,
        "Vovk, Petej & Fedorova 2015",
        "isotonic regression with the row added under each label: an interval and its merged probability",
        interval=True,
        order="kept",
        sums="scores",
    ),
    _binning(
        "scaling-binning",
        "histogram:ScalingBinning",
        10,
        "Kumar, Liang & Ma 2019",
        "Platt scaling, then the mean of the equal-mass bin that the result falls into",
        order="kept or reversed",
        params=(integer("bins", 30, "number of bins", 1, 100_000),),
        sums="scores",
    ),
    _binning(
        "histogram-platt",
        "histogram:HistogramPlatt",
        11,
        "",
        "Platt scaling inside each equal-mass bin",
        params=(
            integer("bins", 3, "number of bins", 1, 10_000),
            number("rows", 20.0, "the least weight of either class for a bin's own fit", 1, 1e9),
        ),
        sums="scores",
    ),
    _binning(
        "bbq",
        "histogram:Bbq",
        13,
        "Naeini, Cooper & Hauskrecht 2015",
        "Bayesian average over histograms with different numbers of bins",
        reaches_ends=True,
        params=(
            choice("binning", "mass", "equal-mass or equal-width bins", "mass", "width"),
            choice("score", "aic", "how histograms are weighted", "aic", "bic", "bayes"),
        ),
        presets={"paper": {"score": "bayes"}},
        sums="scores",
    ),
)

SCORE_ONLY = tuple(spec.name for spec in (*SCALING, *BINNING))
"""Names of the methods that can calibrate a cell or a cluster."""
