"""`--drift`: has the calibration moved since the fit? Asked every night, without more false alarms for it.

What the calibrated probabilities were off by on the rows that were held out at the fit, and how well that is known, is
in the manifest. Every night's residuals bet against being no further off than that (see `numeric.betting`); what the
bets hold is kept in a state file between the nights.
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
"""The probability that calibration which never moves is ever said to have moved."""

_WORDS = {
    "level": ("the predictions are too low", "the predictions are too high"),
    "slope": ("the predictions are too close together", "the predictions are too far apart"),
    "bend": (
        "the outer predictions are too low, or those in the middle too high",
        "the outer predictions are too high, or those in the middle too low",
    ),
}


def drift_baseline_of(model: Model) -> DriftBaseline | None:
    """What an artifact says of its fit; None where no rows were held out."""
    return DriftBaseline.from_json(model.manifest.fit.get("residuals"))


def _unknown(prob: FloatArray) -> DriftBaseline:
    """Where nothing is known of the fit, nothing is forgiven; directions are measured on tonight's scores."""
    found = DriftBaseline.of(prob, np.zeros(len(prob), dtype=np.int64), None)
    return replace(found, mean=np.zeros_like(found.mean), error=np.zeros_like(found.error))


@dataclass(frozen=True, slots=True)
class Observation:
    """One look: when, and at which files."""

    at: str
    files: tuple[str, ...]
    sha256: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class DriftLog:
    """What the state file keeps, for one generation of an artifact."""

    artifact: str
    wealth: EProcess
    nights: tuple[Observation, ...] = ()

    @classmethod
    def read(cls, path: Path, model: Model, classes: int) -> DriftLog:
        """The nights so far; none where the file is not there, or is of another generation."""
        identity = str(model.sha256)
        first = cls(identity, EProcess.at_first(BETS * (1 if classes == 2 else classes)))
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return first
        except OSError as error:
            raise FileSystemError(f"cannot read {path}: {error.strerror or error}") from None
        try:
            found = cast("dict[str, Any]", strictjson.loads_object(content))
            if found.get("schema") != SCHEMA:
                raise UsageError(f"{path} is no state of --drift: its schema is {found.get('schema')!r}")
            if found["artifact"] != identity:
                return first
            logs, best, since = (found["wealth"][name] for name in ("logs", "best", "since"))
            wealth = EProcess(len(found["nights"]), np.array(logs), np.array(best), np.array(since, dtype=np.int64))
            nights = tuple(
                Observation(one["at"], tuple(one["files"]), tuple(one["sha256"]), one["rows"])
                for one in found["nights"]
            )
            return cls(identity, wealth, nights)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is no state of --drift: {error}", hint="move it away to begin anew") from None

    def write(self, path: Path) -> None:
        """Put it in place at once or not at all."""
        wealth = {"logs": self.wealth.logs.tolist(), "best": self.wealth.best.tolist()}
        found = {
            "schema": SCHEMA,
            "artifact": self.artifact,
            "wealth": wealth | {"since": self.wealth.since.tolist()},
            "nights": [asdict(night) for night in self.nights],
        }
        files.replace(path, (json.dumps(as_json(found), allow_nan=False) + "\n").encode())
        files.sync_directory(path.absolute().parent)

    def knows(self, sha256: Sequence[str]) -> bool:
        """Whether these very files were looked at before."""
        return bool(sha256) and any(night.sha256 == tuple(sha256) for night in self.nights)

    def after(self, payoffs: FloatArray, night: Observation) -> DriftLog:
        return replace(self, wealth=self.wealth.after(payoffs), nights=(*self.nights, night))


@dataclass(frozen=True, slots=True)
class DriftVerdict:
    """Whether the calibration has moved.

    Attributes
    ----------
    evidence
        How many times the bets have multiplied what they had; 20 is enough.
    since
        The night on which it most likely began, from 1, and when that was looked at.
    what
        In which direction, in words.
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
    """What tonight's rows add to the nights before, and what they say together.

    Parameters
    ----------
    model
        Whose calibration is asked about.
    prob, label, weight
        What it says of tonight's rows.
    facts
        The report's files.
    state
        The state file: read, and written anew.
    names
        Of the classes.
    """
    lock = state.absolute().with_name(f".{state.name}.lock")
    with files.disk_errors(f"cannot write {state}"), files.locked(lock, timeout=60.0, made=[]):
        diary = DriftLog.read(state, model, len(names))
        hashes = tuple(str(fact["sha256"]) for fact in facts)
        if not diary.knows(hashes):
            before = drift_baseline_of(model) or _unknown(prob)
            payoffs = np.concatenate(
                [
                    log_payoffs(residual, directions(z, centre, spread), margin, weight)
                    for (z, residual), centre, spread, margin in zip(
                        each_class(prob, label), before.centre, before.spread, before.margin, strict=True
                    )
                ]
            )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            paths = tuple(str(fact["path"] or "-") for fact in facts)
            diary = diary.after(payoffs, Observation(now, paths, hashes, len(label)))
            diary.write(state)
    return _verdict(diary, state, names)


def _verdict(diary: DriftLog, state: Path, names: Sequence[str]) -> DriftVerdict:
    wealth = diary.wealth
    evidence = float(np.exp(min(wealth.evidence, 700.0)))
    if evidence < 1.0 / ALPHA:
        return DriftVerdict(False, evidence, wealth.nights, None, None, None, str(state))
    since = int(wealth.since[wealth.leader])
    return DriftVerdict(
        True, evidence, wealth.nights, since, diary.nights[since - 1].at, _what(wealth.leader, names), str(state)
    )


def _what(leader: int, names: Sequence[str]) -> str:
    """The direction in which the leading bet pays."""
    place, bet = divmod(leader, BETS)
    direction, side = divmod(bet // len(STAKES), 2)
    words = _WORDS[DIRECTIONS[direction]][side]
    return words if len(names) == 2 else f"of class {names[place]}, {words}"
