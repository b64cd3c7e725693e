"""`--drift`: has the calibration moved since the fit? It can be tested every night without more false alarms.

The mean residuals of held-out rows at the fit, and their errors, are in the manifest. The residuals of each observation
bet against being no larger than that (see `numeric.e_process`). Rows of one night share what happened on it; how much,
is learned from the nights so far. Those, and the wealth of the bets, are kept in a state file, the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from calcli import files
from calcli.artifacts import strictjson
from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray, IntArray, LabelArray
from calcli.errors import FileSystemError, UsageError
from calcli.evaluation.score_buffer import BufferedScores
from calcli.fitting.model import Model
from calcli.numeric.e_process import BETS, DIRECTIONS, STAKES, EProcess, Night, between_nights, directions, log_payoffs
from calcli.places import Url, stores
from calcli.reports.drift_baseline import DriftBaseline, each_class
from calcli.state import Json
from calcli.tables.source import FileFact, Source

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


def observe(
    model: Model,
    source: Source,
    rows: BufferedScores,
    row_numbers: IntArray | None,
    prob: FloatArray,
    state: Path | Url,
    names: Sequence[str],
) -> DriftVerdict:
    """Test the rows of an observation together with those before, and write the log.

    Rows of files that were tested before are not counted again.

    Parameters
    ----------
    model
        Whose calibration is tested.
    source, rows, row_numbers
        The table, its rows with labels and weights, and their numbers in the table; None if they are all of it.
    prob
        The model's predictions for the rows.
    state
        The file of the log.
    names
        Of the classes.
    """
    baseline = drift_baseline_of(model)
    if baseline is None:
        raise UsageError(
            f"{model.path} does not know how calibrated it was on held-out rows, so that nothing can have moved since",
            hint="fit it again, with a --holdout other than none",
        )
    with _alone(state) as version:
        log = DriftLog.read(state, model, len(names))
        new = ~source.rows_in(log.known_files)
        new = new if row_numbers is None else new[row_numbers]
        if new.any():
            weight = np.ones(len(new)) if rows.weight is None else rows.weight
            if weight[new].sum() > 0:
                fresh = [file for file in source.files() if file.sha256 not in log.known_files]
                log = _after(log, baseline, prob[new], rows.labels[new], weight[new], fresh)
                log.write(state, version)
    return _verdict(log, state, names)


@contextmanager
def _alone(state: Path | Url) -> Iterator[stores.Version | None]:
    """Keep other writers from the file; of an object, which no one can lock, the version that is there."""
    if isinstance(state, Url):
        yield stores.version(state)
        return
    lock = state.absolute().with_name(f".{state.name}.lock")
    with files.disk_errors(f"cannot write {state}"), files.locked(lock, timeout=60.0, made=[]):
        yield None


def _after(
    log: DriftLog,
    baseline: DriftBaseline,
    prob: FloatArray,
    label: LabelArray,
    weight: FloatArray,
    facts: Sequence[FileFact],
) -> DriftLog:
    """The log after these rows: the residuals of each class, in each direction, against those at the fit."""
    problems = [
        (z, residual, directions(z, centre, spread))
        for (z, residual), centre, spread in zip(
            each_class(prob, label), baseline.centre.tolist(), baseline.spread.tolist(), strict=True
        )
    ]
    nights = [Night.of(*problem, weight) for problem in problems]
    payoffs = [
        log_payoffs(*problem, margin, between, weight)
        for problem, margin, between in zip(problems, baseline.margin, log.between_nights(nights), strict=True)
    ]
    observation = Observation(
        datetime.now(UTC).isoformat(timespec="seconds"),
        tuple(file.path or "-" for file in facts),
        tuple(file.sha256 for file in facts),
        len(label),
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
