"""`--drift`: has the calibration moved since the fit? It can be tested every night without more false alarms.

The mean residuals of held-out rows at the fit, and their errors, are in the manifest. The residuals of each observation
bet against being no larger than that (see `numeric.e_process`). Rows of one night share what happened on it; how much,
is learned from the nights so far. Those, and the wealth of the bets, are kept in a state file, the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from calcli import files
from calcli.artifacts import strictjson
from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray, IntArray, LabelArray
from calcli.errors import FileSystemError, UsageError
from calcli.evaluation.compared_scores import NamedScores
from calcli.evaluation.request import EvaluateRequest
from calcli.evaluation.score_buffer import BufferedScores
from calcli.fitting.model import Model
from calcli.numeric.e_process import (
    BETS,
    DIRECTIONS,
    STAKES,
    EProcess,
    Night,
    NightSums,
    between_nights,
    directions,
    log_expected,
    payoffs_of,
    strengths,
)
from calcli.places import Url, folder, stores
from calcli.reports.drift_baseline import DriftBaseline, each_class
from calcli.state import Json
from calcli.tables.source import Source

SCHEMA = "calcli.drift/2"
_FORMER = "calcli.drift/1"
"""The schema of states without what is learned of nights: they begin anew."""

ALPHA = 0.05
"""The probability of ever finding drift in calibration that does not move."""

LEARNED = 10
"""From so many nights on, those before tell how much nights differ."""

EARLY = 4
"""From so many on, they may tell that it is less than assumed; more might be the jump that is looked for."""

ASSUMED = 0.2
"""Until then, the standard deviation of what rows of a night share, on the log-odds."""

_WORDS = {
    "level": ("the predictions are too low", "the predictions are too high"),
    "slope": ("the predictions are too close together", "the predictions are too far apart"),
    "bend": (
        "the outer predictions are too low, or those in the middle too high",
        "the outer predictions are too high, or those in the middle too low",
    ),
}


def drift_baseline_of(model: Model) -> DriftBaseline | None:
    """The residuals at the fit of an artifact; None where no rows were held out."""
    return DriftBaseline.from_json(model.manifest.fit.get("residuals"))


def drift_asked(request: EvaluateRequest, drift: str, named_scores: NamedScores) -> tuple[int, Model, Path | Url]:
    """The place of the artifact of --drift among the scores, which the raw one leads, the artifact, and its log."""
    place = request.all_artifacts.index(drift)
    model = list(named_scores.models.values())[place]
    return 1 + place, model, folder(request.state or f"{model.path}.drift.json")


@dataclass(frozen=True, slots=True)
class Observation:
    """Rows that were tested: when, of which files, and their mean residuals and the variances of these by direction."""

    at: str
    files: tuple[str, ...]
    sha256: tuple[str, ...]
    rows: int
    mean: tuple[float, ...]
    noise: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DriftLog:
    """The content of the state file, for one generation of an artifact."""

    artifact: str
    wealth: EProcess
    observations: tuple[Observation, ...] = ()

    @classmethod
    def read(cls, path: Path | Url, model: Model, classes: int) -> DriftLog:
        """The observations so far; none where the file is not there, or is of another generation."""
        identity = str(model.sha256)
        empty = cls(identity, EProcess.at_first(BETS * (1 if classes == 2 else classes)))
        try:
            content = stores.content(path)
        except FileNotFoundError:
            return empty
        except OSError as error:
            raise FileSystemError(f"cannot read {path}: {error.strerror or error}") from None
        try:
            state = cast("dict[str, Any]", strictjson.loads_object(content))
            if state.get("schema") == _FORMER:
                return empty
            if state.get("schema") != SCHEMA:
                raise UsageError(f"{path} is no state of --drift: its schema is {state.get('schema')!r}")
            if state["artifact"] != identity:
                return empty
            logs, best, since = (state["wealth"][name] for name in ("logs", "best", "since"))
            wealth = EProcess(len(state["nights"]), np.array(logs), np.array(best), np.array(since, dtype=np.int64))
            observations = tuple(
                Observation(
                    night["at"],
                    tuple(night["files"]),
                    tuple(night["sha256"]),
                    night["rows"],
                    tuple(map(float, night["mean"])),
                    tuple(map(float, night["noise"])),
                )
                for night in state["nights"]
            )
            return cls(identity, wealth, observations)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is no state of --drift: {error}", hint="move it away to begin anew") from None

    def write(self, path: Path | Url, version: stores.Version | None = None) -> None:
        """Replace the file at once or not at all; an object only if it is of that version still."""
        wealth = {"logs": self.wealth.logs.tolist(), "best": self.wealth.best.tolist()}
        state = {
            "schema": SCHEMA,
            "artifact": self.artifact,
            "wealth": wealth | {"since": self.wealth.since.tolist()},
            "nights": [asdict(observation) for observation in self.observations],
        }
        content = (json.dumps(as_json(state), allow_nan=False) + "\n").encode()
        if isinstance(path, Path):
            files.replace(path, content)
            files.sync_directory(path.absolute().parent)
            return
        try:
            stores.put(path, content, instead_of=version)
        except stores.ChangedError:
            raise FileSystemError(f"another calcli has replaced {path} meanwhile", hint="run this again") from None

    @property
    def known_files(self) -> frozenset[str]:
        """The hashes of the files that were tested before."""
        return frozenset(sha256 for past in self.observations for sha256 in past.sha256)

    def between_nights(self, now: Sequence[Night]) -> FloatArray:
        """The variance that nights are taken to have beside chance, shape (residuals, directions)."""
        assumed = np.array([(ASSUMED * night.lean) ** 2 for night in now])
        if len(self.observations) < EARLY:
            return assumed
        mean, noise = (np.array([getattr(past, name) for past in self.observations]) for name in ("mean", "noise"))
        learned = between_nights(mean, noise).reshape(len(now), -1)
        return learned if len(self.observations) >= LEARNED else np.minimum(assumed, learned)

    def after(self, payoffs: FloatArray, observation: Observation) -> DriftLog:
        return replace(self, wealth=self.wealth.after(payoffs), observations=(*self.observations, observation))


@dataclass(frozen=True, slots=True)
class DriftVerdict:
    """Whether the calibration has moved.

    Attributes
    ----------
    evidence
        By how much the bets have multiplied their stake; 20 is enough.
    nights
        How many observations there are.
    since, since_at
        The observation, from 1, with which the drift most likely began, and when that was.
    what
        Its direction, in words.
    """

    drifted: bool
    evidence: float
    nights: int
    since: int | None
    since_at: str | None
    what: str | None
    state: str

    def to_json(self) -> dict[str, Json]:
        return as_json({**asdict(self), "threshold": 1.0 / ALPHA})


class NewRows(Protocol):
    """The rows of an observation that were not tested before, wherever they are."""

    @property
    def files(self) -> Sequence[tuple[str, str]]:
        """The files that they are in, and the hash of each."""
        ...

    def nights(self, baseline: DriftBaseline) -> list[NightSums]:
        """The sums over residuals, of each class; of no weight where there are none."""
        ...

    def log_expected(
        self, baseline: DriftBaseline, nights: Sequence[NightSums], strengths: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """What `e_process.log_expected` sums up, of each class, given the sums over all rows."""
        ...


@dataclass(frozen=True, slots=True)
class RowsHere:
    """New rows in arrays."""

    prob: FloatArray
    label: LabelArray
    weight: FloatArray
    files: Sequence[tuple[str, str]] = ()

    def nights(self, baseline: DriftBaseline) -> list[NightSums]:
        return [NightSums.of(z, residual, along, self.weight) for z, residual, along in self._each(baseline)]

    def log_expected(
        self, baseline: DriftBaseline, nights: Sequence[NightSums], strengths: Sequence[FloatArray]
    ) -> list[FloatArray]:
        return [
            log_expected(z, along, self.weight / night.weight, theta)
            for (z, _, along), night, theta in zip(self._each(baseline), nights, strengths, strict=True)
        ]

    def _each(self, baseline: DriftBaseline) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Of each class the log-odds, the residuals, and how far these count in each direction."""
        scales = zip(baseline.centre.tolist(), baseline.spread.tolist(), strict=True)
        for (z, residual), (centre, spread) in zip(each_class(self.prob, self.label), scales, strict=True):
            yield z, residual, directions(z, centre, spread)


def observe(
    model: Model, state: Path | Url, names: Sequence[str], new_rows: Callable[[frozenset[str]], NewRows | None]
) -> DriftVerdict:
    """Test the rows of an observation together with those before, and write the log.

    Rows of files that were tested before are not counted again.

    Parameters
    ----------
    model
        Whose calibration is tested.
    state
        The file of the log.
    names
        Of the classes.
    new_rows
        Given the hashes of the files that were tested before, the rows of all others; None without any.
    """
    baseline = drift_baseline_of(model)
    if baseline is None:
        raise UsageError(
            f"{model.path} does not know how calibrated it was on held-out rows, so that nothing can have moved since",
            hint="fit it again, with a --holdout other than none",
        )
    with _alone(state) as version:
        log = DriftLog.read(state, model, len(names))
        rows = new_rows(log.known_files)
        if rows is not None and (nights := rows.nights(baseline))[0].weight > 0:
            log = _after(log, baseline, rows, nights)
            log.write(state, version)
    return _verdict(log, state, names)


def rows_of(
    source: Source, rows: BufferedScores, row_numbers: IntArray | None, prob: FloatArray
) -> Callable[[frozenset[str]], NewRows | None]:
    """The new rows of a table in memory: `row_numbers` are those of the rows in it, None if they are all of it."""

    def new_rows(known: frozenset[str]) -> NewRows | None:
        new = source.rows_in(known)
        new = ~(new if row_numbers is None else new[row_numbers])
        if not new.any():
            return None
        weight = np.ones(len(new)) if rows.weight is None else rows.weight
        fresh = [(file.path or "-", file.sha256) for file in source.files() if file.sha256 not in known]
        return RowsHere(prob[new], rows.labels[new], weight[new], fresh)

    return new_rows


@contextmanager
def _alone(state: Path | Url) -> Iterator[stores.Version | None]:
    """Keep other writers from the file; of an object, which no one can lock, the version that is there."""
    if isinstance(state, Url):
        yield stores.version(state)
        return
    lock = state.absolute().with_name(f".{state.name}.lock")
    with files.disk_errors(f"cannot write {state}"), files.locked(lock, timeout=60.0, made=[]):
        yield None


def _after(log: DriftLog, baseline: DriftBaseline, rows: NewRows, sums: Sequence[NightSums]) -> DriftLog:
    """The log after these rows: the residuals of each class, in each direction, against those at the fit."""
    nights = [of_class.night for of_class in sums]
    allowed = log.between_nights(nights)
    theta = [strengths(night, between) for night, between in zip(nights, allowed, strict=True)]
    payoffs = [
        payoffs_of(*of_class)
        for of_class in zip(
            nights, baseline.margin, allowed, theta, rows.log_expected(baseline, sums, theta), strict=True
        )
    ]
    observation = Observation(
        datetime.now(UTC).isoformat(timespec="seconds"),
        tuple(path for path, _ in rows.files),
        tuple(sha256 for _, sha256 in rows.files),
        sums[0].rows,
        tuple(np.concatenate([night.mean for night in nights]).tolist()),
        tuple(np.concatenate([night.noise for night in nights]).tolist()),
    )
    return log.after(np.concatenate(payoffs), observation)


def _verdict(log: DriftLog, state: Path | Url, names: Sequence[str]) -> DriftVerdict:
    wealth = log.wealth
    evidence = float(np.exp(min(wealth.evidence, 700.0)))
    if evidence < 1.0 / ALPHA:
        return DriftVerdict(False, evidence, wealth.nights, None, None, None, str(state))
    since = int(wealth.since[wealth.leader])
    since_at = log.observations[since - 1].at
    return DriftVerdict(True, evidence, wealth.nights, since, since_at, _direction(wealth.leader, names), str(state))


def _direction(leader: int, names: Sequence[str]) -> str:
    """The direction in which the leading bet pays, in words."""
    place, bet = divmod(leader, BETS)
    direction, side = divmod(bet // len(STAKES), 2)
    words = _WORDS[DIRECTIONS[direction]][side]
    return words if len(names) == 2 else f"of class {names[place]}, {words}"
