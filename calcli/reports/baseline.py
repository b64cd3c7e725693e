"""`--baseline`: an earlier report with which every number of a new one is compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from calcli.artifacts import strictjson
from calcli.errors import FileSystemError, UsageError
from calcli.files import as_text
from calcli.metrics.base import Definition
from calcli.places import folder, stores
from calcli.reports.schema import SCHEMA, Change, Report
from calcli.state import Json

Place = tuple[str | None, str | None, str]
"""The column and the value of a group (both None for all rows), and the name of a score."""

_TOLERANCE = 0.1
"""Tolerated relative difference of the sizes of shuffled bins: their values by chance differ by half as much."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The numbers of the earlier report."""

    path: str
    sha256: str
    version: str
    classes: tuple[object, ...]
    """In order, the positive one last."""

    definitions: Mapping[str, Mapping[str, Json]]
    """By metric."""

    values: Mapping[Place, Mapping[str, float | None]]
    """By place, then by metric."""

    @classmethod
    def read(cls, path: str | Path) -> Baseline:
        """From the JSON that ``calcli evaluate --format json`` printed."""
        content = _content(path)
        try:
            report = cast("dict[str, Any]", strictjson.loads_object(content))
        except ValueError as error:
            raise _no_report(path, f"it is no JSON: {error}") from error
        if report.get("schema") != SCHEMA:
            raise _no_report(path, f"its schema is {report.get('schema')!r}, not {SCHEMA!r}")
        if report.get("command") != "evaluate":
            raise _no_report(path, f"it is one of {report.get('command')!r}")
        try:
            return cls(
                path=as_text(path),
                sha256=hashlib.sha256(content).hexdigest(),
                version=str(report["version"]),
                classes=_classes(report["binding"]),
                definitions={name: dict(definition) for name, definition in report["definitions"].items()},
                values=dict(_values(report)),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _no_report(path, "it does not hold what a report holds") from error

    def to_json(self) -> dict[str, Json]:
        return {"path": self.path, "sha256": self.sha256, "version": self.version}

    def changes(self, report: Report) -> tuple[Change, ...]:
        """The change of each number of a report."""
        plain = cast("dict[str, Any]", report.to_json())
        classes = _classes(plain["binding"])
        if classes != self.classes:
            raise UsageError(
                f"--baseline {self.path} is of the classes {_listed(self.classes)}, not {_listed(classes)}",
                hint="give one that was measured on the same classes",
            )
        differences = {
            metric: _difference(definition, self.definitions[metric]) if metric in self.definitions else None
            for metric, definition in report.definitions.items()
        }
        return tuple(
            self._change(place, metric, value, differences[metric])
            for place, metrics in _values(plain)
            for metric, value in metrics.items()
        )

    def _change(self, place: Place, metric: str, new: float | None, difference: str | None) -> Change:
        by, group, score = place
        values = self.values.get(place)
        old = None if values is None else values.get(metric)
        change = Change(score, metric, by, group, old, new, change=None)
        if difference is not None:
            return replace(change, comparable=False, reason=f"{metric} is another one in the baseline: {difference}")
        if old is not None and new is not None:
            return replace(change, change=new - old)
        if values is None:
            return replace(change, reason=f"the baseline has no {f'score {score!r}' if by is None else 'such group'}")
        if metric not in values:
            return replace(change, reason=f"the baseline has no {metric}")
        return replace(change, reason=f"it has no value {'here' if new is None else 'in the baseline'}")


def _content(path: str | Path) -> bytes:
    try:
        return stores.content(folder(path))
    except (FileNotFoundError, IsADirectoryError) as error:
        what = "it is a directory" if isinstance(error, IsADirectoryError) else "there is no such file"
        raise UsageError(
            f"--baseline {path}: {what}", hint="write a report: calcli evaluate ... --format json > FILE"
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
    return tuple(classes) if positive is None else tuple(sorted(classes, key=lambda name: name == positive))


def _listed(classes: tuple[object, ...]) -> str:
    return ", ".join(map(str, classes))


def _values(report: Mapping[str, Any]) -> Iterator[tuple[Place, dict[str, float | None]]]:
    """The numbers of a report, of all rows and of each group."""
    for score in report["scores"]:
        yield (None, None, score["name"]), _numbers(score["metrics"])
    for group in report["groups"]:
        yield (group["by"], group["group"], group["score"]), _numbers(group["metrics"])


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    values = {name: metric["value"] for name, metric in metrics.items()}
    return {name: None if value is None else float(value) for name, value in values.items()}


def _difference(here: Definition, there: Mapping[str, Json]) -> str | None:
    """The first difference that makes two definitions different metrics.

    The number of shuffled bins follows from the number of rows, so their size is compared; that of other bins may, and
    is then compared roughly. Sampling and approximation only change the precision.
    """
    shuffled = here.binning == "shuffled"
    for key in ("direction", "binning", "edge", "reduction", "norm", "clusters", "bin_size" if shuffled else "bins"):
        ours, theirs = getattr(here, key), there.get(key)
        roughly = key == "bin_size" or (key == "bins" and here.auto_bins and there.get("auto_bins"))
        if ours == theirs or (roughly and _close(ours, theirs)):
            continue
        if key == "clusters":
            return "its clusters are others"
        return f"{key.replace('_', ' ')} {theirs}, here {ours}"
    return None


def _close(a: object, b: object) -> bool:
    return isinstance(a, int | float) and isinstance(b, int | float) and abs(a - b) <= _TOLERANCE * max(abs(a), abs(b))
