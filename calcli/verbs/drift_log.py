"""The log of `--drift`, its state file: the nights that an artifact was tested on, and the wealth of its bets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from calcli import files
from calcli.artifacts import strictjson
from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray
from calcli.errors import ArtifactError, FileSystemError
from calcli.locks import sync_directory
from calcli.models.base import Model
from calcli.numeric.e_process import CHANCES, EProcess, Night, between_nights
from calcli.places import Url, stores
from calcli.reports.drift_baseline import DriftBaseline

SCHEMA = "calcli.drift/3"

LEARNED = 28
"""Nothing is bet before so many nights, four weeks, have told how much nights differ."""

OLDER = 0.75
"""From then on it is this share of the nights that tells, the older ones: a change is not to excuse itself."""


def drift_baseline_of(model: Model) -> DriftBaseline | None:
    """The residuals at the fit of an artifact; None where no rows were held out."""
    return DriftBaseline.from_json(model.manifest.fit.get("residuals"))


@dataclass(frozen=True, slots=True)
class Observation:
    """Rows that were tested: when, of which files, and their mean residuals by direction, with variances.

    The mean of a promise is how far its rate is from the target; None where there were no rows.
    """

    at: str
    files: tuple[str, ...]
    sha256: tuple[str, ...]
    rows: int
    mean: tuple[float, ...]
    noise: tuple[float, ...]
    promised_mean: tuple[float | None, ...] = ()
    promised_noise: tuple[float | None, ...] = ()

    @classmethod
    def from_json(cls, night: dict[str, Any]) -> Observation:
        lists = {name: tuple(night[name]) for name in ("promised_mean", "promised_noise")}
        texts = {name: tuple(map(str, night[name])) for name in ("files", "sha256")}
        numbers = {name: tuple(map(float, night[name])) for name in ("mean", "noise")}
        return cls(**night | lists | texts | numbers)


@dataclass(frozen=True, slots=True)
class DriftLog:
    """The content of the state file, for one generation of an artifact."""

    artifact: str
    wealth: EProcess
    observations: tuple[Observation, ...] = ()
    promised: EProcess | None = None
    """`wealth`, `promised`: the bets against the calibration, and against what a policy promises."""

    dropped: int = 0
    """How many nights of another generation, or of another artifact, the file has, which are not counted."""

    @classmethod
    def read(cls, path: Path | Url, model: Model) -> DriftLog:
        """The observations so far; none where the file is not there, or is of another generation."""
        identity = str(model.sha256)
        baseline = drift_baseline_of(model)
        residuals = 0 if baseline is None else len(baseline.centre)
        chances = np.tile(CHANCES / max(residuals, 1), residuals)
        empty = cls(identity, EProcess.at_first(chances))
        try:
            content = stores.content(path)
        except FileNotFoundError:
            return empty
        except OSError as error:
            raise FileSystemError(f"cannot read {path}: {error.strerror or error}") from None
        try:
            state = cast("dict[str, Any]", strictjson.loads_object(content))
            if (schema := str(state.get("schema"))) != SCHEMA:
                newer = "if a newer calcli wrote it, upgrade calcli; if not, move it away to begin anew"
                raise ArtifactError(
                    f"{path} is no state of --drift: its schema is {schema!r}, and should be {SCHEMA!r}",
                    hint=newer if schema.startswith("calcli.drift/") else "name another file with --state",
                )
            nights = len(state["nights"])
            if state["artifact"] != identity:
                return replace(empty, dropped=nights)
            wealth = _process(state["wealth"], nights, chances)
            kept = state.get("promised")
            promised = None if kept is None else _process(kept, nights, evenly(len(kept["logs"])))
            return cls(identity, wealth, tuple(map(Observation.from_json, state["nights"])), promised)
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{path} is no state of --drift: {error}", hint="move it away to begin anew") from None

    def write(self, path: Path | Url, version: stores.Version | None = None) -> None:
        """Replace the file at once or not at all; an object only if it still has that version."""
        state = {
            "schema": SCHEMA,
            "artifact": self.artifact,
            "wealth": _written(self.wealth),
            "promised": None if self.promised is None else _written(self.promised),
            "nights": [asdict(observation) for observation in self.observations],
        }
        content = (json.dumps(as_json(state), allow_nan=False) + "\n").encode()
        if isinstance(path, Path):
            target = files.target_of(path)
            files.replace(target, content)
            sync_directory(target.parent)
            return
        try:
            stores.put(path, content, instead_of=version)
        except stores.ChangedError:
            raise FileSystemError(f"another calcli has replaced {path} meanwhile", hint="run this again") from None

    def between_nights(self, now: Sequence[Night]) -> FloatArray | None:
        """The variance that nights have beside chance, shape (residuals, directions); None where it is not known."""
        found = _between([(past.mean, past.noise) for past in self.observations])
        return None if found is None or not now else found.reshape(len(now), -1)

    def between_promised(self, place: int) -> float | None:
        """The variance that nights have beside chance in a promise, from the nights with rows of it."""
        known = [past for past in self.observations if len(past.promised_mean) > place]
        pairs = [(past.promised_mean[place], past.promised_noise[place]) for past in known]
        found = _between([((mean,), (noise,)) for mean, noise in pairs if mean is not None and noise is not None])
        return None if found is None else float(found[0])


def _between(past: Sequence[tuple[Sequence[float], Sequence[float]]]) -> FloatArray | None:
    """The variance that the older nights tell; None of too few."""
    if len(past) < LEARNED:
        return None
    older = past[: max(LEARNED, math.ceil(OLDER * len(past)))]
    return between_nights(*(np.array(each) for each in zip(*older, strict=True)))


def evenly(bets: int) -> FloatArray:
    """An equal share of the stake for each bet."""
    return np.full(bets, 1.0 / max(bets, 1))


def _process(written: dict[str, Any], nights: int, chances: FloatArray) -> EProcess:
    logs, best = (np.array(written[name], dtype=float) for name in ("logs", "best"))
    since, waited = written["since"], written.get("waited", 0)
    if not logs.shape == best.shape == chances.shape == (len(since),) or not np.isfinite([logs, best]).all():
        raise ValueError(f"it does not have {len(chances)} bets")
    if not all(isinstance(night, int) and 0 <= night < 1 << 31 for night in (*since, waited)):
        raise ValueError("its bets do not begin on a night")
    return EProcess(nights, chances, logs, best, np.array(since, dtype=np.int64), waited)


def _written(process: EProcess) -> dict[str, Any]:
    bets = {name: getattr(process, name).tolist() for name in ("logs", "best", "since")}
    return {**bets, "waited": process.waited}


@contextmanager
def alone_with(state: Path | Url) -> Iterator[stores.Version | None]:
    """Keep other writers from the file; an object, which cannot be locked, yields the version that is there."""
    if isinstance(state, Url):
        yield stores.version(state)
        return
    target = files.target_of(state)
    lock = target.with_name(f".{target.name}.lock")
    with files.disk_errors(f"cannot write {state}"), files.locked(lock, timeout=None, made=[]):
        try:
            yield None
        finally:
            with suppress(OSError):
                lock.unlink()  # while it is held: whoever waits for it makes a new one
