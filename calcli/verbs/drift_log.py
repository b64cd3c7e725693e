"""The log of `--drift`, its state file: the nights that an artifact was tested on, and the wealth of its bets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from calcli import files
from calcli.artifacts import strictjson
from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray
from calcli.errors import FileSystemError, UsageError
from calcli.models.base import Model
from calcli.numeric.e_process import EProcess, Night, between_nights
from calcli.places import Url, stores

SCHEMA = "calcli.drift/3"
_FORMER = ("calcli.drift/1", "calcli.drift/2")
"""The schemas of states with other bets: they begin anew."""

LEARNED = 10
"""After so many nights, the past ones alone tell how much nights differ."""

EARLY = 4
"""After so many nights, they may tell that nights differ less than assumed; more could be the drift itself."""

ASSUMED = 0.2
"""Until then, the standard deviation of what rows of a night share, on the log-odds."""


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


@dataclass(frozen=True, slots=True)
class DriftLog:
    """The content of the state file, for one generation of an artifact.

    Attributes
    ----------
    wealth, promised
        Of the bets against the calibration, and against what a policy promises.
    """

    artifact: str
    wealth: EProcess
    observations: tuple[Observation, ...] = ()
    promised: EProcess | None = None

    @classmethod
    def read(cls, path: Path | Url, model: Model, chances: FloatArray) -> DriftLog:
        """The observations so far; none where the file is not there, or is of another generation."""
        identity = str(model.sha256)
        empty = cls(identity, EProcess.at_first(chances))
        try:
            content = stores.content(path)
        except FileNotFoundError:
            return empty
        except OSError as error:
            raise FileSystemError(f"cannot read {path}: {error.strerror or error}") from None
        try:
            state = cast("dict[str, Any]", strictjson.loads_object(content))
            if state.get("schema") in _FORMER:
                return empty
            if state.get("schema") != SCHEMA:
                raise UsageError(f"{path} is no state of --drift: its schema is {state.get('schema')!r}")
            if state["artifact"] != identity:
                return empty
            nights = len(state["nights"])
            wealth = _process(state["wealth"], nights, chances)
            kept = state.get("promised")
            promised = None if kept is None else _process(kept, nights, evenly(len(kept["logs"])))
            observations = tuple(
                Observation(
                    night["at"],
                    tuple(night["files"]),
                    tuple(night["sha256"]),
                    night["rows"],
                    tuple(map(float, night["mean"])),
                    tuple(map(float, night["noise"])),
                    tuple(night.get("promised_mean", ())),
                    tuple(night.get("promised_noise", ())),
                )
                for night in state["nights"]
            )
            return cls(identity, wealth, observations, promised)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is no state of --drift: {error}", hint="move it away to begin anew") from None

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
        past = [(past.mean, past.noise) for past in self.observations]
        return _between(past, now) if now else np.empty((0, 0))

    def between_promised(self, place: int, now: Night) -> float:
        """The variance that nights are taken to have beside chance in a promise, from the nights with rows of it."""
        known = [past for past in self.observations if len(past.promised_mean) > place]
        pairs = [(past.promised_mean[place], past.promised_noise[place]) for past in known]
        past = [((mean,), (noise,)) for mean, noise in pairs if mean is not None and noise is not None]
        return float(_between(past, [now])[0, 0])


def _between(past: Sequence[tuple[Sequence[float], Sequence[float]]], now: Sequence[Night]) -> FloatArray:
    """The variance that is assumed in the first nights, then the one that the nights so far tell."""
    assumed = np.array([(ASSUMED * night.lean) ** 2 for night in now])
    if len(past) < EARLY:
        return assumed
    mean, noise = (np.array(each) for each in zip(*past, strict=True))
    learned = between_nights(mean, noise).reshape(len(now), -1)
    return learned if len(past) >= LEARNED else np.minimum(assumed, learned)


def evenly(bets: int) -> FloatArray:
    """An equal share of the stake for each bet."""
    return np.full(bets, 1.0 / max(bets, 1))


def _process(written: dict[str, Any], nights: int, chances: FloatArray) -> EProcess:
    logs, best, since = (written[name] for name in ("logs", "best", "since"))
    return EProcess(nights, chances, np.array(logs, float), np.array(best, float), np.array(since, dtype=np.int64))


def _written(process: EProcess) -> dict[str, Any]:
    return {name: getattr(process, name).tolist() for name in ("logs", "best", "since")}


@contextmanager
def alone_with(state: Path | Url) -> Iterator[stores.Version | None]:
    """Keep other writers from the file; an object, which cannot be locked, yields the version that is there."""
    if isinstance(state, Url):
        yield stores.version(state)
        return
    files.target_of(state)
    lock = state.absolute().with_name(f".{state.name}.lock")
    with files.disk_errors(f"cannot write {state}"), files.locked(lock, timeout=None, made=[]):
        try:
            yield None
        finally:
            with suppress(OSError):
                lock.unlink()  # while it is held: whoever waits for it makes a new one
