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
)
