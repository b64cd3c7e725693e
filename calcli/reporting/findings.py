"""The numbers of a report or of a manifest, in the one shape that tables and verdicts are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from calcli.metrics import catalog
from calcli.reporting.typesetting import decimals

if TYPE_CHECKING:
    from calcli.artifacts.manifest import Manifest
    from calcli.diagrams.curves import Curve
    from calcli.reports.schema import Difference, Report

LEVEL = 0.05
"""At which the p-value of a group, adjusted for the number of groups, is beyond chance."""


class Numbers(NamedTuple):
    """One score, by metric: the values, and where known, the noise floor, the p-value, and why a value is missing."""

    name: str
    values: Mapping[str, float | None]
    floors: Mapping[str, float]
    ps: Mapping[str, float]
    reasons: Mapping[str, str]


class Findings(NamedTuple):
    """The measurements of a report or of a manifest.

    Attributes
    ----------
    scores
        The raw one first.
    directions
        ``lower``, ``higher`` or ``target``, by metric, in the order in which they are shown.
    differences
        From the raw score, by score and metric.
    place
        On which rows, as the end of a sentence.
    curve
        The reliability of the raw score, with its diagnosis, where there is one.
    groups
        In how many groups of each column the raw score is off beyond chance, and of how many.
    """

    scores: tuple[Numbers, ...]
    directions: Mapping[str, str]
    differences: Mapping[tuple[str, str], Difference]
    place: str = ""
    curve: Curve | None = None
    groups: Mapping[str, tuple[int, int]] = MappingProxyType({})

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.directions)

    @property
    def raw(self) -> Numbers:
        return self.scores[0]

    @property
    def calibrated(self) -> tuple[Numbers, ...]:
        return self.scores[1:]

    @property
    def digits(self) -> int:
        """Decimals of the whole table, so that the decimal points are aligned."""
        return decimals([value for score in self.scores for value in score.values.values() if value is not None])

    def floors_and_ps(self, metric: str) -> list[tuple[str, list[float | None]]]:
        """The noise floors and the p-values of a metric, one for each score; each only where a score has one."""
        lines = [
            ("floor", [score.floors.get(metric) for score in self.scores]),
            ("p", [score.ps.get(metric) for score in self.scores]),
        ]
        return [(name, values) for name, values in lines if any(value is not None for value in values)]


def of_report(report: Report) -> Findings:
    """The numbers of a report."""
    from calcli.reports.schema import RAW  # not at the top: `apply` shows no report and must start fast

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
    differences = {(one.score, one.metric): one for one in report.differences if one.versus == RAW}
    directions = {name: definition.direction for name, definition in report.definitions.items()}
    return Findings(
        scores,
        directions,
        differences,
        " on held-out rows" if report.command in {"fit", "refit"} else "",
        next((one for one in report.curves if (one.score, one.kind) == (RAW, "reliability")), None),
        _groups_off(report),
    )


def _groups_off(report: Report) -> dict[str, tuple[int, int]]:
    """In how many groups the raw score is off beyond chance, and of how many, by column."""
    from calcli.reports.schema import RAW

    off: dict[str, tuple[int, int]] = {}
    for entry in report.groups:
        if entry["score"] == RAW:
            p, (some, count) = entry["p_adjusted"], off.get(str(entry["by"]), (0, 0))
            off[str(entry["by"])] = some + (isinstance(p, float) and p <= LEVEL), count + 1
    return off


def of_manifest(manifest: Manifest) -> Findings:
    """The numbers of a fit, as its manifest has them; floors only if it was written with them."""
    from calcli.reports.schema import RAW, Difference

    fit = cast("dict[str, Any]", manifest.fit)
    definitions = cast("dict[str, dict[str, Any]]", manifest.definitions)
    floors = cast("dict[str, dict[str, float]]", fit.get("floors", {}))
    sides = (("before", RAW), ("after", manifest.method))
    scores = tuple(Numbers(name, fit[side], floors.get(side, {}), {}, {}) for side, name in sides if fit.get(side))
    differences = {
        (manifest.method, metric): Difference(manifest.method, RAW, metric, one["value"], one["lo"], one["hi"])
        for metric, one in fit.get("difference", {}).items()
    }
    measured = scores[0].values if scores else {}
    order = [*catalog.names(), *definitions]  # JSON objects come back in the order of the alphabet
    known = sorted((name for name in definitions if name in measured), key=order.index)
    directions = {name: definitions[name]["direction"] for name in known}
    return Findings(scores, directions, differences, " on held-out rows")


def missing(scores: Sequence[Numbers]) -> list[str]:
    """Why values are missing, each reason once; that there are no clusters is said where the metric is explained."""
    from calcli.metrics.clustered import NO_CLUSTERS

    whose: dict[tuple[str, str], list[str]] = {}
    for score in scores:
        for metric, reason in score.reasons.items():
            if reason != NO_CLUSTERS:
                whose.setdefault((metric, reason), []).append(score.name)
    return [
        (metric if len(names) == len(scores) > 1 else f"{metric} of {', '.join(names)}") + f": {reason}"
        for (metric, reason), names in whose.items()
    ]
