"""The numbers of a report or of a manifest, in the one shape that tables and verdicts are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from calcli.metrics import catalog

if TYPE_CHECKING:
    from calcli.artifacts.manifest import Manifest
    from calcli.reports.schema import Report

RAW = "raw"


class Numbers(NamedTuple):
    """One score, by metric: the values, and where they are known, what a calibrated score would show, how probable
    the value is for one, and why there is no value.
    """

    name: str
    values: Mapping[str, float | None]
    floors: Mapping[str, float]
    ps: Mapping[str, float]
    reasons: Mapping[str, str]


class Change(NamedTuple):
    """How much a metric differs from that of the raw score, with a 95 % interval where there is one."""

    value: float | None
    lo: float | None = None
    hi: float | None = None


class Findings(NamedTuple):
    """What was measured.

    Attributes
    ----------
    scores
        The raw one first.
    directions
        ``lower``, ``higher`` or ``target``, by metric, in the order in which they are shown.
    changes
        By score and metric.
    place
        On which rows, to go into a sentence.
    """

    scores: tuple[Numbers, ...]
    directions: Mapping[str, str]
    changes: Mapping[tuple[str, str], Change]
    place: str = ""

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.directions)

    @property
    def raw(self) -> Numbers:
        return self.scores[0]

    @property
    def calibrated(self) -> tuple[Numbers, ...]:
        return self.scores[1:]


def of_report(report: Report) -> Findings:
    """What a report says."""
    scores = tuple(
        Numbers(
            score.name,
            {name: value.value for name, value in score.metrics.items()},
            {name: value.floor for name, value in score.metrics.items() if value.floor is not None},
            {name: value.p for name, value in score.metrics.items() if value.p is not None},
            {name: value.reason for name, value in score.metrics.items() if value.reason is not None},
        )
        for score in report.scores
        if score.status == "ok"
    )
    changes = {
        (one.score, one.metric): Change(one.value, one.lo, one.hi) for one in report.differences if one.versus == RAW
    }
    directions = {name: definition.direction for name, definition in report.definitions.items()}
    return Findings(scores, directions, changes, " on held-out rows" if report.command in {"fit", "refit"} else "")


def of_manifest(manifest: Manifest) -> Findings:
    """What an artifact remembers of its fit; floors only if it was written with them."""
    fit = cast("dict[str, Any]", manifest.fit)
    definitions = cast("dict[str, dict[str, Any]]", manifest.definitions)
    floors = cast("dict[str, dict[str, float]]", fit.get("floors", {}))
    sides = (("before", RAW), ("after", manifest.method))
    scores = tuple(Numbers(name, fit[side], floors.get(side, {}), {}, {}) for side, name in sides if fit.get(side))
    changes = {
        (manifest.method, metric): Change(one["value"], one["lo"], one["hi"])
        for metric, one in fit.get("difference", {}).items()
    }
    measured = scores[0].values if scores else {}
    order = [*catalog.names(), *definitions]  # JSON objects come back in the order of the alphabet
    known = sorted((name for name in definitions if name in measured), key=order.index)
    directions = {name: definitions[name]["direction"] for name in known}
    return Findings(scores, directions, changes, " on held-out rows")


def missing(scores: Sequence[Numbers]) -> list[str]:
    """Why there is no number, where there is none."""
    return [f"{metric} of {score.name}: {reason}" for score in scores for metric, reason in score.reasons.items()]
