"""The specs of the scaling methods."""

from calcli.methods.spec import in_family, integer, number

_spec = in_family("scaling", closed_form=True)

_BIAS = number("bias", None, "mu, how strongly the intercepts are held near 0; cross-validated if not given", 0, 1e6)
_OFF_DIAGONAL = number(
    "off_diagonal",
    None,
    "lambda, the penalty on the off-diagonal coefficients; cross-validated if not given",
    0,
    1e6,
)

SPECS = (
    _spec(
        "identity",
        0,
        "",
        "no calibration, the baseline of every comparison",
        auto="yes",
        multiclass="native",
        order="kept",
        keeps_top_class=True,
        sums="yes",
    ),
    _spec(
        "temperature",
        1,
        "Guo et al. 2017",
        "softmax(V / T): one temperature for all classes",
        auto="yes",
        multiclass="native",
        order="kept",
        keeps_top_class=True,
        sums="binary",
    ),
    _spec(
        "platt",
        2,
        "Platt 1999",
        "sigmoid(a z + b) on log-odds, with Platt's smoothed targets",
        auto="binary",
        order="kept or reversed",
        sums="yes",
    ),
    _spec(
        "quadratic",
        3,
        "Berta et al. 2026",
        "sigmoid(a z + b + c z^2), constrained to be monotone",
        auto="binary",
        order="kept",
        sums="yes",
    ),
    _spec(
        "beta",
        4,
        "Kull, Silva Filho & Flach 2017",
        "sigmoid(a ln p - b ln(1 - p) + c) with a, b >= 0",
        auto="binary",
        order="kept",
        sums="yes",
    ),
    _spec(
        "vector",
        5,
        "Guo et al. 2017",
        "softmax(w * V + b): a slope and an intercept for each class",
        multiclass="native",
        params=(_BIAS,),
    ),
    _spec(
        "sms",
        6,
        "Berta et al. 2026",
        "structured matrix scaling: temperature, then a matrix shrunk to the identity",
        auto="multiclass",
        multiclass="native",
    ),
    _spec(
        "dirichlet",
        7,
        "Kull et al. 2019",
        "softmax(W ln P + b), regularised off the diagonal",
        multiclass="native",
        params=(_OFF_DIAGONAL, _BIAS),
    ),
    _spec(
        "matrix",
        7,
        "Guo et al. 2017; Kull et al. 2019",
        "softmax(W V + b), regularised off the diagonal",
        multiclass="native",
        params=(_OFF_DIAGONAL, _BIAS),
    ),
    _spec(
        "spline",
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
                "auto",
                "inf",
            ),
        ),
    ),
)
