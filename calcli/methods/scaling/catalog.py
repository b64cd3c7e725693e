"""The rows of the scaling methods."""

from calcli.methods.row import Row

ROWS = (
    Row(
        name="identity",
        family="scaling",
        target="calcli.methods.scaling.identity",
        summary="no calibration: the row that every comparison has",
        reference="",
        simplicity=0,
        multiclass="native",
        order="kept",
        keeps_top_class=True,
        sums="yes",
    ),
    Row(
        name="temperature",
        family="scaling",
        target="calcli.methods.scaling.temperature",
        summary="softmax(V / T): one number that softens or sharpens",
        reference="Guo et al. 2017",
        simplicity=1,
        multiclass="native",
        order="kept",
        keeps_top_class=True,
        sums="binary",
    ),
    Row(
        name="platt",
        family="scaling",
        target="calcli.methods.scaling.platt",
        summary="sigmoid(a z + b) on log-odds, with Platt's smoothed targets",
        reference="Platt 1999",
        simplicity=2,
        order="kept or reversed",
        sums="yes",
    ),
)
