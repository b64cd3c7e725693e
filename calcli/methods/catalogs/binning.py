"""The specs of the binning methods."""

from calcli.methods.spec import choice, in_family, integer, number

_spec = in_family("binning", closed_form=True)

SPECS = (
    _spec(
        "isotonic",
        8,
        "Zadrozny & Elkan 2002",
        "isotonic regression (PAV), interpolated between its steps",
        order="kept",
        reaches_ends=True,
        sums="scores",
    ),
    _spec(
        "histogram",
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
    _spec(
        "isotonic-centered",
        9,
        "Oron & Flournoy 2017",
        "isotonic regression without flat steps, strictly increasing between block centres",
        auto="binary",
        order="kept",
        sums="scores",
    ),
    _spec(
        "venn-abers",
        12,
        "Vovk, Petej & Fedorova 2015",
        "isotonic regression with the row added under each label: an interval and its merged probability",
        interval=True,
        order="kept",
        sums="scores",
    ),
    _spec(
        "scaling-binning",
        10,
        "Kumar, Liang & Ma 2019",
        "Platt scaling, then the mean of the equal-mass bin that the result falls into",
        order="kept or reversed",
        params=(integer("bins", 30, "number of bins", 1, 100_000),),
        sums="scores",
    ),
    _spec(
        "histogram-platt",
        11,
        "",
        "Platt scaling inside each equal-mass bin",
        params=(
            integer("bins", 3, "number of bins", 1, 10_000),
            number("rows", 20.0, "the least weight of either class for a bin's own fit", 1, 1e9),
        ),
        sums="scores",
    ),
    _spec(
        "bbq",
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
