"""`--drift`: has the calibration moved since the fit? It can be tested every night without more false alarms.

The mean residuals of held-out rows at the fit, and their errors, are in the manifest. The residuals of each observation
bet against being no larger than that (see `numeric.e_process`); the wealth of the bets is kept in a state file, the
log, between observations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from calcli import files
from calcli.artifacts import strictjson
from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray, LabelArray
from calcli.errors import FileSystemError, UsageError
from calcli.fitting.model import Model
from calcli.numeric.e_process import BETS, DIRECTIONS, STAKES, EProcess, directions, log_payoffs
from calcli.reports.drift_baseline import DriftBaseline, each_class
from calcli.state import Json

SCHEMA = "calcli.drift/1"

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


def drift_baseline_of(model: Model) -> DriftBaseline | None:
    """The residuals at the fit of an artifact; None where no rows were held out."""
    return DriftBaseline.from_json(model.manifest.fit.get("residuals"))


def _zero_baseline(prob: FloatArray) -> DriftBaseline:
    """Residuals of zero with no error, where none are known; directions are measured on the scores observed."""
    baseline = DriftBaseline.of(prob, np.zeros(len(prob), dtype=np.int64), None)
    return replace(baseline, mean=np.zeros_like(baseline.mean), error=np.zeros_like(baseline.error))


@dataclass(frozen=True, slots=True)
class Observation:
    """Rows that were tested: when, and of which files."""

    at: str
    files: tuple[str, ...]
    sha256: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class DriftLog:
    """The content of the state file, for one generation of an artifact."""

    artifact: str
    wealth: EProcess
    observations: tuple[Observation, ...] = ()

    @classmethod
    def read(cls, path: Path, model: Model, classes: int) -> DriftLog:
        """The observations so far; none where the file is not there, or is of another generation."""
        identity = str(model.sha256)
        empty = cls(identity, EProcess.at_first(BETS * (1 if classes == 2 else classes)))
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return empty
        except OSError as error:
            raise FileSystemError(f"cannot read {path}: {error.strerror or error}") from None
        try:
            state = cast("dict[str, Any]", strictjson.loads_object(content))
            if state.get("schema") != SCHEMA:
                raise UsageError(f"{path} is no state of --drift: its schema is {state.get('schema')!r}")
            if state["artifact"] != identity:
                return empty
            logs, best, since = (state["wealth"][name] for name in ("logs", "best", "since"))
            wealth = EProcess(len(state["nights"]), np.array(logs), np.array(best), np.array(since, dtype=np.int64))
            observations = tuple(
                Observation(night["at"], tuple(night["files"]), tuple(night["sha256"]), night["rows"])
                for night in state["nights"]
            )
            return cls(identity, wealth, observations)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is no state of --drift: {error}", hint="move it away to begin anew") from None

    def write(self, path: Path) -> None:
        """Replace the file at once or not at all."""
        wealth = {"logs": self.wealth.logs.tolist(), "best": self.wealth.best.tolist()}
        state = {
            "schema": SCHEMA,
            "artifact": self.artifact,
            "wealth": wealth | {"since": self.wealth.since.tolist()},
            "nights": [asdict(observation) for observation in self.observations],
        }
        files.replace(path, (json.dumps(as_json(state), allow_nan=False) + "\n").encode())
        files.sync_directory(path.absolute().parent)

    def knows(self, sha256: Sequence[str]) -> bool:
        """Whether these very files were tested before."""
        return bool(sha256) and any(past.sha256 == tuple(sha256) for past in self.observations)

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
    prob: FloatArray,
    label: LabelArray,
    weight: FloatArray | None,
    facts: Sequence[Mapping[str, Json]],
    state: Path,
    names: Sequence[str],
) -> DriftVerdict:
    """Test the rows of an observation together with those before, and write the log.

    The same files are not counted twice.

    Parameters
    ----------
    model
        Whose calibration is tested.
    prob, label, weight
        Its predictions for the rows, and their labels and weights.
    facts
        The report's files.
    state
        The file of the log.
    names
        Of the classes.
    """
    lock = state.absolute().with_name(f".{state.name}.lock")
    with files.disk_errors(f"cannot write {state}"), files.locked(lock, timeout=60.0, made=[]):
        log = DriftLog.read(state, model, len(names))
        hashes = tuple(str(fact["sha256"]) for fact in facts)
        if not log.knows(hashes):
            # The residuals of each class, in each direction, against those at the fit.
            baseline = drift_baseline_of(model) or _zero_baseline(prob)
            payoffs = np.concatenate(
                [
                    log_payoffs(residual, directions(z, centre, spread), margin, weight)
                    for (z, residual), centre, spread, margin in zip(
                        each_class(prob, label), baseline.centre, baseline.spread, baseline.margin, strict=True
                    )
                ]
            )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            paths = tuple(str(fact["path"] or "-") for fact in facts)
            log = log.after(payoffs, Observation(now, paths, hashes, len(label)))
            log.write(state)
    return _verdict(log, state, names)


def _verdict(log: DriftLog, state: Path, names: Sequence[str]) -> DriftVerdict:
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
