"""The curves of several scores, of several kinds and classes, from chunks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self, get_args

from calcli.diagrams.curve_sums import ALL, TOP, Bars, CurveSums, KeptRows, Rejection, problem
from calcli.diagrams.curves import Bands, Binning, Curve, Kind, in_group
from calcli.diagrams.distinct import Corp, Smooth
from calcli.diagrams.threshold_sums import Benefit, Murphy, ThresholdSums
from calcli.errors import UsageError, check_choice, unknown_name
from calcli.metrics.base import Scored
from calcli.metrics.diagnosis import diagnose
from calcli.metrics.joint_test import GapSums
from calcli.numeric.bins import BINS, BinCount, check_bins, width_edges


def curve_sums(
    score: str,
    of: str | None,
    kind: Kind = "reliability",
    *,
    bins: BinCount = BINS,
    binning: Binning = "width",
    bands: Bands = "consistency",
    span: Sequence[float] | None = None,
    versus: str | None = None,
) -> CurveSums:
    """The accumulator of a curve on the problem `of`; for ``rejection`` that is always the predicted class."""
    if kind in {"benefit", "murphy"}:
        return (Benefit if kind == "benefit" else Murphy)(score, of, bands, span, versus)
    if kind in {"corp", "smooth"}:
        return (Corp if kind == "corp" else Smooth)(score, of, bands)
    if kind == "rejection":
        return Rejection.empty(score, of, bands)
    if binning == "mass" or bins == "auto":
        return KeptRows(score, of, bands, bins, binning)
    return Bars(score, of, bands, width_edges(bins))


class CurveBuilder:
    """Sums up rows for the curves of several scores, of these kinds.

    `names` are the classes in the order of their index, and `classes` those that are drawn, ``top`` or ``all``: without
    any the positive class of two, ``top`` of more. Of each of the `groups` of rows each score has a curve of its own:
    rows are then added under the scores of the first group, of the second one, and so on. `span` has the least and the
    greatest threshold of net benefit and Murphy's curve, and between them those that must have a point; None for all.
    Curves that are not `judged`, on rows that the scores were fitted on, have no diagnosis. `halved` rows are halves of
    rows with soft labels, for bands that count whole rows.
    """

    def __init__(
        self,
        scores: Sequence[str],
        names: Sequence[str],
        kinds: Sequence[Kind] = ("reliability",),
        classes: Sequence[str] = (),
        *,
        groups: Sequence[str] = ("",),
        bins: BinCount = BINS,
        binning: Binning = "width",
        bands: Bands = "consistency",
        span: Sequence[float] | None = None,
        judged: bool = True,
        halved: bool = False,
    ) -> None:
        check_bins(bins)
        check_choice("binning", binning, get_args(Binning))
        check_choice("bands", bands, get_args(Bands))
        places = _chosen(classes, names)
        self._halved = halved
        self._groups = [group for group in groups for _ in scores]
        self._beside = len(scores)
        named = [in_group(name, group) for group in groups for name in scores]
        self._sums = [
            (
                score,
                of,
                curve_sums(
                    name,
                    None if of is None else names[of],
                    kind,
                    bins=bins,
                    binning=binning,
                    bands=bands,
                    span=span,
                    versus=scores[0] if score > self._first(score) else None,
                ),
            )
            for kind in kinds
            for of in ([None] if kind == "rejection" else places)
            for score, name in enumerate(named)
        ]
        self._gaps = {(score, of): GapSums.empty() for score, of, _ in self._sums if judged}

    def _first(self, score: int) -> int:
        """The place of the first score of the same group."""
        return score - score % self._beside

    def add(self, scored: Sequence[Scored]) -> None:
        """More rows, under each score."""
        scored = [one.halved for one in scored] if self._halved else scored
        problems: dict[tuple[int, int | None], Scored] = {}
        for score, of, sums in self._sums:
            if (score, of) not in problems:
                problems[score, of] = problem(scored[score], of)
                if (score, of) in self._gaps:
                    self._gaps[score, of] += GapSums.of(problems[score, of])
            if isinstance(sums, ThresholdSums):
                first = self._first(score)
                sums.add(problems[score, of], problems[first, of] if score > first else None)
            else:
                sums.add(problems[score, of])

    def __iadd__(self, other: CurveBuilder) -> Self:
        """Add the sums of other rows of the same scores."""
        for (_, _, sums), (_, _, others) in zip(self._sums, other._sums, strict=True):
            sums.join(others)
        for key, gaps in other._gaps.items():
            self._gaps[key] += gaps
        return self

    def curves(self) -> tuple[Curve, ...]:
        """The curves of all rows so far: by kind, by class, by score."""
        found = {key: diagnose(gaps) for key, gaps in self._gaps.items()}
        curves = []
        for score, of, sums in self._sums:
            more = sums.others() if isinstance(sums, ThresholdSums) else []
            group = self._groups[score]
            curves += [replace(curve, group=group) for curve in (sums.curve(found.get((score, of))), *more)]
        return tuple(curves)


def _chosen(classes: Sequence[str], names: Sequence[str]) -> list[int | None]:
    """The indices of the requested classes, each once; None for the predicted class."""
    if not classes:
        return [1] if len(names) == 2 else [None]
    indices: list[int | None] = []
    for text in classes:
        if text in names:
            indices.append(names.index(text))
        elif text == ALL:
            indices += range(len(names))
        elif text == TOP:
            indices.append(None)
        else:
            raise UsageError(f"--class: {unknown_name('class', text, [*names, TOP, ALL])}")
    return list(dict.fromkeys(indices))
