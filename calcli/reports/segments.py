"""The report's `segments`: where a score is wrong, as conditions on features, with figures of fresh rows.

Segments are looked for on one half of the rows, or of their units, and measured on the other half, where they are
groups like any others: the test is that of groups, and all segments are corrected together. A segment is found if its
gap differs from 0, and from the gap of the other rows, but for what the segments before it explain: where a score is
wrong everywhere alike, there is nothing to point at. Where rows are few, each half is the fresh one in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from calcli.artifacts.strictjson import as_json
from calcli.batch import IntArray
from calcli.learners.conditions import Axis, Codes, rows_of
from calcli.learners.segments import Search, Segment
from calcli.metrics.base import Scored
from calcli.metrics.multiple import Detectable, by_group, family
from calcli.metrics.paired import paired_difference, unit_sums
from calcli.numeric.links import log_odds, softplus
from calcli.numeric.seeded import stream
from calcli.reports.groups import TableRows
from calcli.reports.measuring import Candidate, Labelled
from calcli.reports.schema import finite
from calcli.state import Json
from calcli.tables.binding_types import Feature
from calcli.tables.side_tables import sample_features

LEVEL = 0.05

MOST_SEGMENTS = 50

FEW = 20_000
"""Up to so many rows, each half is looked at and measured in turn."""

MOST = 1 << 19
"""Segments are looked for on at most so many rows."""

CELLS = 1 << 25
"""So many values of features are held before they are put into bins."""

SHARE, POWER = 0.1, 0.84
"""A report says how large the gap of a segment with this share of the rows must be, so that it is found with a power of
80 %, the normal quantile of which is `POWER`."""

BESIDE = 1.1
"""A segment that is found lies a little beside the true one, whose gap must be so much larger for it."""

ALIKE = 0.5
"""Segments of both turns are one if they share so much of the rows of the smaller one."""


class Coded(NamedTuple):
    """The features of rows in bins."""

    axes: tuple[Axis, ...]
    codes: Codes
    """A row for each feature."""

    @classmethod
    def of(cls, table: TableRows, features: Sequence[Feature]) -> Coded:
        """The features of the rows of a table, some columns at a time."""
        rows, row_numbers = table.source.rows(), table.row_numbers
        axes: list[Axis] = []
        codes = np.empty((len(features), rows if row_numbers is None else len(row_numbers)), dtype=np.uint8)
        step = max(1, CELLS // max(1, rows))
        for start in range(0, len(features), step):
            columns = sample_features(table.source, features[start : start + step], max(1, rows))
            for name, column in columns.items():
                taken = column if row_numbers is None else column.take(row_numbers)
                codes[len(axes)] = (axis := Axis.of(name, taken)).codes(taken)
                axes.append(axis)
        return cls(tuple(axes), codes)


class _Tried(NamedTuple):
    """A segment that was looked for in one score, and its fresh rows."""

    place: int
    turn: int
    """`place`, `turn`: which score it is, and which half was searched."""

    segment: Segment
    fresh: IntArray
    share: float
    """Its share of the weight of all fresh rows."""

    gain: float
    """By how much the log-loss of all fresh rows falls if its rate is corrected as the other half says."""

    test: Detectable
    p: float | None
    """The greatest of the p-values of all tests."""


class _Seen(NamedTuple):
    """The power to see a segment with a share of `SHARE`."""

    least: float
    """The z of the last segment that was tried: one with less is none of them."""

    error: float
    of_fresh: float
    """`error`, `of_fresh`: the standard errors of its gap on the rows that are searched, and on the fresh ones."""

    def gap(self, quantile: float) -> float:
        """The gap that is found with a power of 80 %, where a z of `quantile` is significant."""
        return BESIDE * max(self.error * (self.least + POWER), self.of_fresh * (quantile + POWER))


class Segments(NamedTuple):
    """The report's `segments`, and its `segment_search`, an entry for each score."""

    found: tuple[dict[str, Json], ...] = ()
    searches: tuple[dict[str, Json], ...] = ()


class Judged(NamedTuple):
    """The class that is judged, where it is not the positive one of two or the predicted one of more."""

    place: int
    name: str


def find_segments(
    candidates: Sequence[Candidate],
    rows: Labelled,
    coded: Coded,
    count: int,
    seed: int,
    of: Judged | None = None,
    *,
    halved: bool = False,
) -> Segments:
    """Up to `count` segments of each score, and how they were looked for. A `halved` row of the table is two."""
    scored = [candidate.scored(rows) for candidate in candidates]
    scores = [(one.top if of is None else one.one_vs_rest(of.place)).with_scaled_weights for one in scored]
    turns = _turns(np.flatnonzero(scores[0].weights > 0), rows.together, seed)
    tried: list[_Tried] = []
    seen: dict[int, _Seen] = {}
    for place, score in enumerate(scores):
        for turn, (searched, fresh) in enumerate(turns):
            search = _search(coded, score.take(searched), searched)
            segments = list(search.segments(count))
            tried += _tries((place, turn), segments, coded, score, fresh)
            least = math.sqrt(max(segments[-1].square, 0.0)) if len(segments) == count else 0.0
            error = search.error(SHARE)
            seen[place] = _Seen(least, error, error * math.sqrt(len(searched) / len(fresh)))
    # Corrected together, p-values and intervals alike.
    size = family([(one.p, one.test.least) for one in tried])
    level, quantile = 1.0 - LEVEL / size, NormalDist().inv_cdf(1.0 - LEVEL / 2.0 / size)
    sure = [(size * one.p, one) for one in tried if one.p is not None and size * one.p <= LEVEL]
    found, searches = [], []
    names = [candidate.name for candidate in candidates]
    for place, name in enumerate(names):
        of_score = sorted((pair for pair in sure if pair[1].place == place), key=lambda pair: (pair[0], pair[1].p))
        chosen = _different(of_score, coded)[:count]
        for p, one in sorted(chosen, key=lambda pair: -pair[1].gain):
            found.append(_entry(one, p, names, scores, coded, level, of) | {"rows": _count(one.fresh, halved)})
        entry = {
            "score": name,
            "class": None if of is None else of.name,
            "rows": sum(_count(fresh, halved) for _, fresh in turns),
            "tried": sum(one.place == place for one in tried),
            "found": len(chosen),
            "share": SHARE,
            "detectable": finite(seen[place].gap(quantile)) if place in seen else None,
        }
        searches.append(as_json(entry))
    return Segments(tuple(found), tuple(searches))


def _count(rows: IntArray, halved: bool) -> int:
    """The rows of the table that these are."""
    return len(np.unique(rows // 2)) if halved else len(rows)


def _turns(held: IntArray, units: IntArray | None, seed: int) -> list[tuple[IntArray, IntArray]]:
    """The rows that are searched and those that are fresh: no unit is on both sides."""
    place = np.arange(len(held)) if units is None else np.unique(units[held], return_inverse=True)[1]
    count = int(place.max(initial=-1)) + 1
    searched = (stream(seed, "segments").permutation(count) < min(0.5, MOST / max(1, len(held))) * count)[place]
    one, other = held[searched], held[~searched]
    if not len(one) or not len(other):
        return []
    return [(one, other), (other, one)] if len(held) <= FEW else [(one, other)]


def _search(coded: Coded, score: Scored, searched: IntArray) -> Search:
    """The search on some rows, of which sums vary as those of their units do."""
    effect = 1.0
    if score.units is not None:
        gap = score.weights * (score.label - score.prob)
        gap -= score.weights * gap.sum() / score.total_weight
        (sums,) = unit_sums(score.units, gap)
        effect = max(1.0, float(np.square(sums).sum() / max(float(np.square(gap).sum()), 1e-300)))
    label = score.label.astype(np.float64)
    return Search(coded.axes, coded.codes[:, searched], label, score.prob, score.weight, effect)


def _tries(
    at: tuple[int, int], segments: Sequence[Segment], coded: Coded, score: Scored, fresh: IntArray
) -> Iterator[_Tried]:
    """The tests of segments on the fresh rows: of the gap, by its law if the score is right and by that of its
    interval, and of its difference from the gap of the other rows, but for what the segments before it explain.
    """
    rows, codes = score.take(fresh), coded.codes[:, fresh]
    weights, label, total = rows.weights, rows.label.astype(np.float64), rows.total_weight
    off = rows.prob - label
    for segment in segments:
        held = rows_of(codes, segment.conditions)
        part, share = rows.take(held), float(weights @ held) / total
        (test,) = by_group(part, np.zeros(len(part), dtype=np.int64), 1)
        p = None
        if test.p is not None and 0.0 < share < 1.0:
            contrast = off * np.where(held, 1.0 / share, -1.0 / (1.0 - share))
            beyond = paired_difference(contrast, np.zeros(len(contrast)), rows.weight, rows.units)
            step = beyond.value or 0.0
            gap = paired_difference(part.prob, label[held], part.weight, part.units)
            if beyond.p is not None and gap.p is not None:
                p = max(test.p, beyond.p, gap.p) if step * (gap.value or 0.0) > 0.0 else 1.0
            off[held] -= step
        odds = log_odds(part.prob)
        lost = softplus(odds + segment.shift) - softplus(odds) - part.label * segment.shift
        yield _Tried(*at, segment, fresh[held], share, -float(part.weights @ lost) / total, test, p)


def _different(ordered: Sequence[tuple[float, _Tried]], coded: Coded) -> list[tuple[float, _Tried]]:
    """The segments but for those that the other turn has found too; those of one turn were tested beside each other."""
    kept: list[tuple[float, _Tried]] = []
    for p, one in ordered:
        rows = rows_of(coded.codes, one.segment.conditions)
        others = [rows_of(coded.codes, other.segment.conditions) for _, other in kept if other.turn != one.turn]
        if all((rows & other).sum() <= ALIKE * min(rows.sum(), other.sum()) for other in others):
            kept.append((p, one))
    return kept


def _entry(
    one: _Tried,
    p: float,
    names: Sequence[str],
    scores: Sequence[Scored],
    coded: Coded,
    level: float,
    of: Judged | None,
) -> dict[str, Json]:
    """The entry of a segment: of the score in which it was found, and beside it of the others on the same rows."""
    numbers = [_numbers(score.take(one.fresh), level) for score in scores]
    conditions = [
        {"feature": coded.axes[each.axis].name, "text": coded.axes[each.axis].text(each)}
        for each in one.segment.conditions
    ]
    entry = {
        "score": names[one.place],
        "class": None if of is None else of.name,
        "text": one.segment.text(coded.axes),
        "conditions": conditions,
        "rows": len(one.fresh),
        "share": one.share,
        **numbers[one.place],
        "p": one.p,
        "p_adjusted": p,
        "gain": one.gain,
        "others": [
            {"score": name, **found}
            for place, (name, found) in enumerate(zip(names, numbers, strict=True))
            if place != one.place
        ],
    }
    return as_json(entry)


def _numbers(part: Scored, level: float) -> dict[str, float | None]:
    """The predicted and the observed rate, and the gap, predicted less observed, with its interval."""
    label, total = part.label.astype(np.float64), part.total_weight
    gap, lo, hi, _ = paired_difference(part.prob, label, part.weight, part.units, level)
    predicted, observed = (float(part.weights @ column) / total for column in (part.prob, label))
    return {"predicted": predicted, "observed": observed, "gap": gap, "lo": finite(lo), "hi": finite(hi)}
