"""`--baseline`: a report that was written before, against which every number is held."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from calcli.artifacts import strictjson
from calcli.errors import FileSystemError, UsageError
from calcli.metrics.base import Definition
from calcli.reports.schema import SCHEMA, Change, Report
from calcli.state import Json

Place = tuple[str | None, str | None, str]
"""The column and the value of a group, both None for all rows, and the name of a score."""

_ALIKE = 0.1
"""Shuffled bins whose sizes differ by no more are alike: what they show by chance differs by half as much."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the old report says.

    Attributes
    ----------
    classes
        In order, the positive one last.
    definitions
        By metric.
    values
        By score, of all rows and of each group, and then by metric.
    """

    path: str
    sha256: str
    version: str
    classes: tuple[object, ...]
    definitions: Mapping[str, Mapping[str, Json]]
    values: Mapping[Place, Mapping[str, float | None]]

    @classmethod
    def read(cls, path: str | Path) -> Baseline:
        """From the JSON that ``calcli evaluate --format json`` printed."""
        content = _content(path)
        try:
            found = cast("dict[str, Any]", strictjson.loads_object(content))
        except ValueError as error:
            raise _no_report(path, f"it is no JSON: {error}") from error
        if found.get("schema") != SCHEMA:
            raise _no_report(path, f"its schema is {found.get('schema')!r}, not {SCHEMA!r}")
        if found.get("command") != "evaluate":
            raise _no_report(path, f"it is one of {found.get('command')!r}")
        try:
            return cls(
                path=str(path),
                sha256=hashlib.sha256(content).hexdigest(),
                version=str(found["version"]),
                classes=_classes(found["binding"]),
                definitions={name: dict(one) for name, one in found["definitions"].items()},
                values=dict(_values(found)),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _no_report(path, "it does not hold what a report holds") from error

    def to_json(self) -> dict[str, Json]:
        """The report's `baseline`."""
        return {"path": self.path, "sha256": self.sha256, "version": self.version}

    def changes(self, report: Report) -> tuple[Change, ...]:
        """Each number of a report beside the one of the same name here."""
        plain = cast("dict[str, Any]", report.to_json())
        classes = _classes(plain["binding"])
        if classes != self.classes:
            raise UsageError(
                f"--baseline {self.path} is of the classes {_listed(self.classes)}, not {_listed(classes)}",
                hint="give one that was measured on the same classes",
            )
        different = {name: self._different(name, one) for name, one in report.definitions.items()}
        return tuple(
            self._change(place, metric, value, different[metric])
            for place, metrics in _values(plain)
            for metric, value in metrics.items()
        )

    def _different(self, metric: str, definition: Definition) -> str | None:
        """In what the metric is another one of the same name here, if it is."""
        return _difference(definition, self.definitions[metric]) if metric in self.definitions else None

    def _change(self, place: Place, metric: str, new: float | None, different: str | None) -> Change:
        by, group, score = place
        held = self.values.get(place)
        old = None if held is None else held.get(metric)
        found = Change(score, metric, by, group, old, new, change=None)
        if different is not None:
            return replace(found, comparable=False, reason=f"{metric} is another one in the baseline: {different}")
        if old is not None and new is not None:
            return replace(found, change=new - old)
        if held is None:
            return replace(found, reason=f"the baseline has no {f'score {score!r}' if by is None else 'such group'}")
        if metric not in held:
            return replace(found, reason=f"the baseline has no {metric}")
        return replace(found, reason=f"it has no value {'here' if new is None else 'in the baseline'}")


def _content(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(
            f"--baseline {path}: there is no such file", hint="write one: calcli evaluate ... --format json > FILE"
        ) from error
    except OSError as error:
        raise FileSystemError(f"cannot read {path}: {error.strerror}") from error


def _no_report(path: str | Path, why: str) -> UsageError:
    return UsageError(
        f"--baseline {path} is not a report of evaluate: {why}",
        hint="write one: calcli evaluate ... --format json > FILE",
    )


def _classes(binding: Mapping[str, Any]) -> tuple[object, ...]:
    classes, positive = list(binding["classes"]), binding["positive"]
    return tuple(classes) if positive is None else tuple(sorted(classes, key=lambda one: one == positive))


def _listed(classes: tuple[object, ...]) -> str:
    return ", ".join(map(str, classes))


def _values(report: Mapping[str, Any]) -> Iterator[tuple[Place, dict[str, float | None]]]:
    """The numbers of a report, of all rows and of each group."""
    for score in report["scores"]:
        yield (None, None, score["name"]), _plain(score["metrics"])
    for group in report["groups"]:
        yield (group["by"], group["group"], group["score"]), _plain(group["metrics"])


def _plain(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: None if one["value"] is None else float(one["value"]) for name, one in metrics.items()}


def _difference(here: Definition, there: Mapping[str, Json]) -> str | None:
    """The first thing that makes two definitions different metrics.

    Bins of shuffled rows follow from the number of rows. What is sampled or approximated is the same number, less
    precisely.
    """
    shuffled = here.binning == "shuffled"
    for key in ("direction", "binning", "edge", "reduction", "norm", "clusters", "bin_size" if shuffled else "bins"):
        ours, theirs = getattr(here, key), there.get(key)
        if ours == theirs or (key == "bin_size" and _alike(ours, theirs)):
            continue
        if key == "clusters":
            return "its clusters are others"
        return f"{key.replace('_', ' ')} {theirs}, here {ours}"
    return None


def _alike(one: object, other: object) -> bool:
    return (
        isinstance(one, int | float)
        and isinstance(other, int | float)
        and abs(one - other) <= _ALIKE * max(abs(one), abs(other))
    )
