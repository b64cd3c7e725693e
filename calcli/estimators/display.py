"""`reliability_diagram`: predicted probabilities against observed rates, on a matplotlib axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from calcli.diagrams import image
from calcli.diagrams.curve_sums import CurveBuilder
from calcli.diagrams.curves import Bands, Binning, Curve
from calcli.errors import as_value_errors
from calcli.estimators.metrics import Read
from calcli.numeric.bins import BINS, BinCount

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass
class ReliabilityDisplay:
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
        """Of the probabilities of a classifier, under its name; `options` are those of `reliability_diagram`."""
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
    of: str | None = None,
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
        The class; None is the second of two, and the predicted one of more.
    sample_weight
        How much each row matters beside the others.
    labels
        All classes, where rows of some may be missing: in the order of the columns of `prob`.
    """
    with as_value_errors():
        read = Read.of(y, prob, sample_weight, labels)
        chosen = () if of is None else (of,)
        builder = CurveBuilder([name], read.classes, classes=chosen, bins=bins, binning=binning, bands=bands)
        builder.add([read.scored()])
    return ReliabilityDisplay(builder.curves()[0], bands).plot(ax)
