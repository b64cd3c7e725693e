"""Pictures of the contributions of features to a prediction, drawn by shap."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.batch import FloatArray
from calcli.diagrams.image import NO_DATE, Format

MOST_COLUMNS = 15
"""The most columns that have a line of their own in a picture of contributions."""


def render_contributions(
    names: Sequence[str], data: Sequence[Sequence[object]], base: float, values: FloatArray, title: str, form: Format
) -> bytes:
    """Contributions by shap, as a file: a waterfall of one row, or a swarm of many rows for each column."""
    import matplotlib as mpl
    import shap
    from matplotlib import pyplot

    shown: Any = np.array([list(row) for row in data], dtype=object)
    before, state = mpl.get_backend(), np.random.get_state()
    pyplot.switch_backend("agg")
    np.random.seed(0)  # shap draws by this one where the points of a swarm lie
    try:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rc("svg", hashsalt="calcli")
            found = shap.Explanation(values, np.full(len(values), base), shown, feature_names=list(names))
            if len(values) == 1:
                shap.plots.waterfall(found[0], max_display=MOST_COLUMNS, show=False)
            else:
                shap.plots.beeswarm(
                    found, max_display=MOST_COLUMNS, show=False, plot_size=(9, 0.45 * min(len(names), MOST_COLUMNS) + 2)
                )
                pyplot.xlabel("what the column adds to the log-odds")
            pyplot.title(title, loc="left", fontsize=11, pad=24 if len(values) == 1 else 6)
            stream = io.BytesIO()
            pyplot.gcf().savefig(stream, format=form, metadata=NO_DATE[form], bbox_inches="tight", dpi=160)
            pyplot.close()
    finally:
        pyplot.switch_backend(before)
        np.random.set_state(state)
    return stream.getvalue()
