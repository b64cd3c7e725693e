"""`--drift`: has the calibration moved since the fit? It can be tested every night without more false alarms.

The mean residuals of held-out rows at the fit, and their errors, are in the manifest. The residuals of each observation
bet against being no larger than that (see `numeric.e_process`). Rows of one night share what happened on it; how much,
is learned from the nights so far. Those, and the wealth of the bets, are kept in a state file, the log.

What a policy promises, such as a precision of at least 0.9, is tested in the same way: the rows that the rate is about
bet against it. Each of the two tests has 5 % of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from operator import methodcaller
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import polars as pl

from calcli.artifacts.strictjson import as_json
from calcli.batch import Batch, FloatArray, LabelArray
from calcli.decisions.measure import Promised
from calcli.errors import UsageError
from calcli.listener import SILENT, Listener
from calcli.metrics.base import Scored
from calcli.models.base import Model
from calcli.models.held_out import Mask
from calcli.numeric.e_process import (
    BETS,
    DIRECTIONS,
    STAKES,
    EProcess,
    Night,
    NightSums,
    directions,
    log_expected,
    log_rate_payoffs,
    payoffs_of,
    rate_night,
    strengths,
)
from calcli.places import Url
from calcli.reports.drift_baseline import DriftBaseline, each_class
from calcli.reports.groups import TableRows
from calcli.state import Json
from calcli.tables.passes import ClusterTable, Pass, Reading
from calcli.verbs.drift_log import LEARNED, DriftLog, Observation, alone_with, drift_baseline_of, evenly
from calcli.verbs.score_passes import ScoredRows

ALPHA = 0.05
"""The probability of ever finding drift in calibration that does not move."""

_WORDS = {
    "level": ("the predictions are too low", "the predictions are too high"),
    "slope": ("the predictions are too close together", "the predictions are too far apart"),
    "bend": (
        "the outer predictions are too low, or those in the middle too high",
        "the outer predictions are too high, or those in the middle too low",
    ),
}


@dataclass(frozen=True, slots=True)
class DriftVerdict:
    """Whether the calibration has moved."""

    drifted: bool
    evidence: float | None
    """By how much the bets have multiplied their stake; 20 is enough. None where there is no calibration to test."""

    nights: int
    """How many observations there are."""

    since: int | None
    since_at: str | None
    """`since`, `since_at`: the observation, from 1, with which the drift most likely began, and when that was."""

    what: str | None
    """Its direction, in words."""

    state: str
    learning: int
    """From how many more nights it is to be learned how much nights differ, before anything is bet."""

    promise: PromiseVerdict | None = None
    """The verdict on what a policy promises; None where nothing is promised."""

    def to_json(self) -> dict[str, Json]:
        return as_json({**asdict(self), "threshold": 1.0 / ALPHA})


@dataclass(frozen=True, slots=True)
class PromiseVerdict:
    """Whether the rows of all nights together refute what a policy promises; `since` is as of `DriftVerdict`."""

    target: str
    broken: bool
    evidence: float
    since: int | None
    since_at: str | None


Promises: TypeAlias = Callable[[Mask], list[Promised]]
"""The promises of a policy about some of the rows; always as many of them."""


def of_no_rows(promises: Promises | None, rows: int) -> Sequence[Promised]:
    """The promises, whatever the rows; `rows` is how many the table has."""
    return () if promises is None else promises(np.zeros(rows, dtype=np.bool_))


@dataclass(frozen=True, slots=True)
class DriftRows:
    """Rows in arrays, whose sums over residuals a test of drift needs."""

    prob: FloatArray
    label: LabelArray
    weight: FloatArray

    def nights(self, baseline: DriftBaseline) -> list[NightSums]:
        """The sums over the residuals of each class; their weight is 0 without rows."""
        return [NightSums.of(z, residual, along, self.weight) for z, residual, along in self._each(baseline)]

    def log_expected(
        self, baseline: DriftBaseline, nights: Sequence[NightSums], strengths: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """The sums of `e_process.log_expected` for each class, given the sums over all rows."""
        return [
            log_expected(z, along, self.weight / night.weight, theta)
            for (z, _, along), night, theta in zip(self._each(baseline), nights, strengths, strict=True)
        ]

    def _each(self, baseline: DriftBaseline) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """For each class the log-odds, the residuals, and the weight of each residual in each direction."""
        scales = zip(baseline.centre.tolist(), baseline.spread.tolist(), strict=True)
        for (z, residual), (centre, spread) in zip(each_class(self.prob, self.label), scales, strict=True):
            yield z, residual, directions(z, centre, spread)


ClassSums: TypeAlias = Callable[[DriftRows], list[Any]]
"""Sums over rows, one for each class; those over parts of the rows are added."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """The rows of an observation that were not tested before, wherever they are."""

    files: Sequence[tuple[str, str]]
    """The files that they are in, and the hash of each."""

    summed: Callable[[ClassSums], list[Any]]
    """Adds up class sums over all of the rows."""

    rows: int = 0
    """How many there are, where they are on this machine."""

    promised: Sequence[Promised] = ()
    """The promises of a policy about them; empty where nothing is promised."""


def new_rows_on_cluster(table: ClusterTable, rows: ScoredRows, place: int, known: frozenset[str]) -> NewRows | None:
    """The rows of files that are not known, under the score at a place; `rows` is how all of them were measured."""
    found = table.without_files(known)
    if found is None:
        return None
    new, files = found
    return NewRows(files, lambda sums: new.run(_DriftPass(rows, place, sums)).total.of_classes)


@dataclass
class _DriftTotal:
    """A sum for each class."""

    of_classes: list[Any]

    def __iadd__(self, other: _DriftTotal) -> Self:
        self.of_classes = [one + more for one, more in zip(self.of_classes, other.of_classes, strict=True)]
        return self


@dataclass(frozen=True)
class _DriftPass(Pass[_DriftTotal]):
    """Adds up class sums of the rows under the score at a place."""

    rows: ScoredRows
    place: int
    sums: ClassSums

    def reading(self) -> Reading:
        bindings = self.rows.bindings
        return Reading(bindings, [None] * len(bindings), judged=False)

    def start(self) -> _DriftTotal:
        nothing = Scored.empty(self.rows.classes)
        return _DriftTotal(self.sums(DriftRows(nothing.prob, nothing.label, np.zeros(0))))

    def add(self, total: _DriftTotal, batches: Sequence[Batch], others: pl.DataFrame) -> _DriftTotal:
        prob = self.rows.scores[self.place].predict(batches[self.place])
        total += _DriftTotal(self.sums(DriftRows(prob, batches[0].labels, batches[0].weights)))
        return total


def observe(
    model: Model,
    state: Path | Url,
    names: Sequence[str],
    new_rows: Callable[[frozenset[str]], NewRows | None],
    promises: Sequence[Promised] = (),
    listener: Listener = SILENT,
) -> DriftVerdict:
    """Test the rows of an observation together with those before, and write the log.

    Rows of files that were tested before are not counted again: `new_rows` gets the hashes of these files, and gives
    the rows of all others, or None. `state` is the file of the log, `names` are those of the classes, `promises` what a
    policy promises of whatever rows.
    """
    baseline = drift_baseline_of(model)
    if baseline is None and not promises:
        raise UsageError(
            f"{model.path} does not know how calibrated it was on held-out rows, so that nothing can have moved since",
            hint="fit it again, with a --holdout other than none"
            if model.manifest.kind != "policy"
            else "fit a calibrator with a --holdout other than none, and choose the policy --with it",
        )
    with alone_with(state) as version:
        log = DriftLog.read(state, model)
        if log.dropped:
            nights = "1 night" if log.dropped == 1 else f"{log.dropped:,} nights"
            listener.note(f"{state} had {nights} of another fit, or of another artifact: the test begins anew")
        rows = new_rows(frozenset(sha256 for past in log.observations for sha256 in past.sha256))
        if rows is not None:
            sums = [] if baseline is None else rows.summed(methodcaller("nights", baseline))
            if not sums or sums[0].weight > 0:
                log = _after(log, baseline, rows, sums)
                log.write(state, version)
    return replace(_verdict(log, state, names), promise=_of_promise(log, promises) if promises else None)


def rows_of(
    table: TableRows,
    prob: FloatArray,
    label: LabelArray,
    weight: FloatArray | None,
    promises: Promises | None = None,
) -> Callable[[frozenset[str]], NewRows | None]:
    """The new rows of a table in memory."""
    source, row_numbers = table.source, table.row_numbers

    def new_rows(known: frozenset[str]) -> NewRows | None:
        new = source.rows_in(known)
        new = ~(new if row_numbers is None else new[row_numbers])
        if not new.any():
            return None
        counts = np.ones(int(new.sum())) if weight is None else weight[new]
        fresh = [(file.path or "-", file.sha256) for file in source.files() if file.sha256 not in known]
        rows = DriftRows(prob[new], label[new], counts)
        return NewRows(fresh, lambda sums: sums(rows), len(counts), () if promises is None else promises(new))

    return new_rows


def _after(log: DriftLog, baseline: DriftBaseline | None, rows: NewRows, sums: Sequence[NightSums]) -> DriftLog:
    """The log after these rows, whose residuals, in each class and direction, are tested against those at the fit."""
    nights = [of_class.night for of_class in sums]
    allowed, payoffs = log.between_nights(nights), [np.empty(0)]
    if baseline is not None and allowed is not None:
        theta = [strengths(night, between) for night, between in zip(nights, allowed, strict=True)]
        expected = rows.summed(methodcaller("log_expected", baseline, sums, theta))
        payoffs = [
            payoffs_of(*of_class) for of_class in zip(nights, baseline.margin, allowed, theta, expected, strict=True)
        ]
    observation = Observation(
        datetime.now(UTC).isoformat(timespec="seconds"),
        tuple(path for path, _ in rows.files),
        tuple(sha256 for _, sha256 in rows.files),
        sums[0].rows if sums else rows.rows,
        tuple(value for night in nights for value in night.mean.tolist()),
        tuple(value for night in nights for value in night.noise.tolist()),
    )
    promised = log.promised
    if promises := rows.promised:
        found = [_rates(log, place, one) for place, one in enumerate(promises)]
        before = promised or EProcess.at_first(evenly(len(STAKES) * len(found)), nights=log.wealth.nights)
        gained = [np.zeros(len(STAKES)) if of_one is None else of_one for _, of_one in found]
        promised = before.idle() if all(one is None for _, one in found) else before.after(np.concatenate(gained))
        known = [night for night, _ in found]
        observation = replace(
            observation,
            promised_mean=tuple(None if night is None else float(night.mean[0]) for night in known),
            promised_noise=tuple(None if night is None else float(night.noise[0]) for night in known),
        )
    wealth = log.wealth.idle() if allowed is None else log.wealth.after(np.concatenate(payoffs))
    return replace(log, wealth=wealth, observations=(*log.observations, observation), promised=promised)


def _rates(log: DriftLog, place: int, promise: Promised) -> tuple[Night | None, FloatArray | None]:
    """How a promise did on one night, and what the bets against it gained; None without rows, and without bets."""
    hit, weight = promise.outcomes()
    if not weight.sum() > 0:
        return None, None
    target, outcome = promise.target, hit.astype(np.float64)
    night, between = rate_night(outcome, weight, target.value), log.between_promised(place)
    if between is None:
        return night, None
    return night, log_rate_payoffs(outcome, weight, target.value, between, at_least=target.relation == ">=")


def _of_promise(log: DriftLog, promises: Sequence[Promised]) -> PromiseVerdict:
    """Whether the promise is broken; of several, the one that the leading bet is about."""
    each = f" in each {promises[0].each}" if len(promises) > 1 else ""
    target = f"{promises[0].target}{each}"
    if log.promised is None:
        return PromiseVerdict(target, False, 1.0, None, None)
    evidence, since, since_at = _found(log, log.promised)
    return PromiseVerdict(target, since is not None, evidence, since, since_at)


def _found(log: DriftLog, bets: EProcess) -> tuple[float, int | None, str | None]:
    """By how much bets have multiplied their stake and, where it is enough, since which observation and when."""
    evidence = float(np.exp(min(bets.evidence, 700.0)))
    if evidence < 1.0 / ALPHA:
        return evidence, None, None
    since = int(bets.since[bets.leader])
    return evidence, since, log.observations[since - 1].at


def _verdict(log: DriftLog, state: Path | Url, names: Sequence[str]) -> DriftVerdict:
    wealth, learning = log.wealth, max(0, LEARNED - log.wealth.nights)
    evidence, since, since_at = _found(log, wealth) if len(wealth.logs) else (None, None, None)
    what = None if since is None else _direction(wealth.leader, names)
    return DriftVerdict(since is not None, evidence, wealth.nights, since, since_at, what, str(state), learning)


def _direction(leader: int, names: Sequence[str]) -> str:
    """The direction in which the leading bet pays, in words."""
    place, bet = divmod(leader, BETS)
    direction, side = divmod(bet // len(STAKES), 2)
    words = _WORDS[DIRECTIONS[direction]][side]
    return words if len(names) == 2 else f"of class {names[place]}, {words}"
