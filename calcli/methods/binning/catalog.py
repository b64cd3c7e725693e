"""The rows of the binning methods."""

from calcli.methods.row import Param, Row

ROWS = (
    Row(
        name="isotonic",
        family="binning",
        target="calcli.methods.binning.isotonic",
        summary="the best non-decreasing step function of the score (PAV), interpolated",
        reference="Zadrozny & Elkan 2002",
        simplicity=8,
        order="kept",
        reaches_ends=True,
    ),
    Row(
        name="histogram",
        family="binning",
        target="calcli.methods.binning.histogram",
        summary="the label rate of the bin that the score falls into",
        reference="Zadrozny & Elkan 2001",
        simplicity=9,
        reaches_ends=True,
        params=(
            Param("bins", "int", 15, "number of bins", low=1, high=100_000),
            Param("binning", "choice", "mass", "equal-mass or equal-width bins", choices=("mass", "width")),
        ),
    ),
    Row(
        name="isotonic-centered",
        family="binning",
        target="calcli.methods.binning.isotonic_centered",
        summary="isotonic without flat steps: it rises strictly between the middles of the blocks",
        reference="Oron & Flournoy 2017",
        simplicity=9,
        auto="binary",
        order="kept",
    ),
    Row(
        name="venn-abers",
        family="binning",
        target="calcli.methods.binning.venn_abers",
        summary="isotonic with each label added: two probabilities and their merger",
        reference="Vovk, Petej & Fedorova 2015",
        simplicity=12,
        order="kept",
    ),
    Row(
        name="scaling-binning",
        family="binning",
        target="calcli.methods.binning.scaling_binning",
        summary="Platt scaling, then the mean of the equal-mass bin that the result falls into",
        reference="Kumar, Liang & Ma 2019",
        simplicity=10,
        order="kept or reversed",
        params=(Param("bins", "int", 30, "number of bins", low=1, high=100_000),),
    ),
    Row(
        name="histogram-platt",
        family="binning",
        target="calcli.methods.binning.histogram_platt",
        summary="Platt scaling inside each equal-mass bin",
        reference="",
        simplicity=11,
        params=(
            Param("bins", "int", 3, "number of bins", low=1, high=10_000),
            Param("rows", "float", 20.0, "the least weight of either class for a bin's own fit", low=1, high=1e9),
        ),
    ),
    Row(
        name="bbq",
        family="binning",
        target="calcli.methods.binning.bbq",
        summary="an average over histograms of all sensible numbers of bins",
        reference="Naeini, Cooper & Hauskrecht 2015",
        simplicity=13,
        reaches_ends=True,
        params=(
            Param("binning", "choice", "mass", "equal-mass or equal-width bins", choices=("mass", "width")),
            Param("score", "choice", "aic", "how histograms are weighted", choices=("aic", "bic", "bayes")),
        ),
        presets={"paper": {"score": "bayes"}},
    ),
)
