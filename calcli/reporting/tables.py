"""The numbers of a report, and its tables: the same cells on a screen, on a page and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from calcli.metrics import catalog
from calcli.metrics.clustered import NO_CLUSTERS
from calcli.reporting import facts
from calcli.reporting.facts import FLOOR, JsonObject, Pair
from calcli.reporting.typesetting import NOTHING, RowKind, Table, decimals, interval, number, p_value, signed
from calcli.reports.schema import RAW, Difference, MetricValue, ScoreRow, ScoreSource

if TYPE_CHECKING:
    from calcli.artifacts.manifest import Manifest
    from calcli.decisions.measure import Number
    from calcli.diagrams.curves import Curve
    from calcli.reports.schema import Report

LEVEL = 0.05
"""Groups whose p-value, adjusted for the number of groups, is below this level are off beyond chance."""

GROUP_TERMS: tuple[Pair, Pair] = (
    ("detectable", "smallest mean error (prediction minus label) that would be detected with 80 % power"),
    (
        "p-value",
        "test of the mean error, adjusted for the number of groups, columns and scores; too few: so few rows that no "
        "labels would be significant, so the group is not tested",
    ),
)
"""The meaning of the last two columns of the tables by group."""

IDENTITY = "identity"
"""The method that changes nothing."""

_LEADERBOARD_TERMS = (
    (
        "gain",
        "decrease of the log-loss from that of no calibration, with a 95 % interval; that of the chosen method allows "
        "for the choice",
    ),
    ("behind", "increase of the log-loss from that of the chosen method, with a 95 % interval"),
    (
        "best",
        "the probability that the method is the best of these; * marks the 95 % confidence set of the best method",
    ),
)
_MOST_NAMED = 6
"""At most so many of the methods that are as good as the chosen one are named."""

_TENTHS = tuple(place / 10 for place in range(10))
"""The points of a rejection curve that its table shows; the JSON has them all."""

_REJECTION = {
    "rate": ("rejected", "Error rate of the remaining rows by share rejected, least certain first"),
    "threshold": (
        "threshold",
        "Error rate of the rows with an uncertainty up to a threshold, from 0 (certain) to 1",
    ),
}
"""The first column and the title of the table for each kind of rejection."""


class Findings(NamedTuple):
    """The measurements of a report or of a manifest."""

    scores: tuple[ScoreRow, ...]
    """The raw one first."""

    definitions: Mapping[str, JsonObject]
    """The definition of each metric as a JSON object, in the order in which metrics are shown."""

    differences: Mapping[tuple[str, str], Difference]
    """The differences from the raw score, by score and metric."""

    place: str = ""
    """The measured rows, as the end of a sentence."""

    curve: Curve | None = None
    """The reliability of the raw score, with its diagnosis, where there is one."""

    base: str = "no calibration"
    """The kind of the raw score: probabilities without calibration, or the base rate where it only ranks."""

    groups: Mapping[str, tuple[int, int]] = MappingProxyType({})
    """By column: the number of groups in which the raw score is off beyond chance, and the number of all groups."""

    @classmethod
    def of_report(cls, report: Report) -> Findings:
        groups: dict[str, tuple[int, int]] = {}
        for entry in report.groups:
            if entry["score"] == RAW:
                off, count = groups.get(str(entry["by"]), (0, 0))
                groups[str(entry["by"])] = off + beyond_chance(entry), count + 1
        return cls(
            tuple(score for score in report.scores if score.status == "ok"),
            {name: asdict(definition) for name, definition in report.definitions.items()},
            {(one.score, one.metric): one for one in report.differences if one.versus == RAW},
            " on held-out rows" if report.command in {"fit", "refit"} else "",
            next((one for one in report.curves if (one.score, one.kind) == (RAW, "reliability")), None),
            report.base,
            groups,
        )

    @classmethod
    def of_manifest(cls, manifest: Manifest) -> Findings:
        """The numbers of a fit; without floors where the manifest was written before it had them."""
        fit = cast("JsonObject", manifest.fit)
        definitions = cast("dict[str, JsonObject]", manifest.definitions)
        scores = []
        for side, name in (("before", RAW), ("after", manifest.method)):
            if fit.get(side):
                floors = fit.get("floors", {}).get(side, {})
                metrics = {metric: MetricValue(value, floor=floors.get(metric)) for metric, value in fit[side].items()}
                scores.append(ScoreRow(name, ScoreSource("artifact"), metrics))
        differences = {
            (manifest.method, metric): Difference(manifest.method, RAW, metric, one["value"], one["lo"], one["hi"])
            for metric, one in fit.get("difference", {}).items()
        }
        order = [*catalog.names(), *definitions]  # JSON objects come back in the order of the alphabet
        known = sorted((name for name in definitions if scores and name in scores[0].metrics), key=order.index)
        return cls(tuple(scores), {name: definitions[name] for name in known}, differences, " on held-out rows")

    @property
    def raw(self) -> ScoreRow:
        return self.scores[0]

    @property
    def calibrated(self) -> tuple[ScoreRow, ...]:
        return self.scores[1:]

    @property
    def digits(self) -> int:
        """The decimals of all numbers, so that the decimal points are aligned."""
        return _decimals_of(self.scores)

    def terms(self) -> list[Pair]:
        """The definitions of the metrics in short, and of the floor if there is one."""
        floors = [one.floor for score in self.scores for one in score.metrics.values() if one.floor is not None]
        return [*facts.definitions(self.definitions), *([FLOOR] if floors else [])]

    def numbers(self, metric: str, part: Literal["value", "floor", "p"] = "value") -> list[float | None]:
        """A metric of each score: its value, the noise floor or the p-value."""
        return [part_of(score, metric, part) for score in self.scores]


def part_of(score: ScoreRow, metric: str, part: str = "value") -> float | None:
    """The value of a metric of a score, or another number of it; None where the score has none."""
    return getattr(score.metrics.get(metric), part, None)


def _decimals_of(scores: Iterable[ScoreRow]) -> int:
    return decimals(one.value for score in scores for one in score.metrics.values())


def missing(scores: Sequence[ScoreRow]) -> list[str]:
    """Why values are missing, each reason once; the definition of the metric says that there are no clusters."""
    whose: dict[tuple[str, str], list[str]] = {}
    for score in scores:
        for metric, value in score.metrics.items():
            if value.reason not in {None, NO_CLUSTERS}:
                whose.setdefault((metric, str(value.reason)), []).append(score.name)
    return [
        (metric if len(names) == len(scores) > 1 else f"{metric} of {', '.join(names)}") + f": {reason}"
        for (metric, reason), names in whose.items()
    ]


def by_metric(found: Findings, extra: int = 2) -> Table:
    """A table with a metric a line and a score a column; the change of a single calibrated score and its interval take
    up to `extra` more columns.
    """
    single = found.calibrated[0] if len(found.calibrated) == 1 else None
    extra = extra if single is not None else 0
    digits = found.digits
    rows: list[list[str]] = []
    kinds: dict[int, RowKind] = {}
    for metric, definition in found.definitions.items():
        values = found.numbers(metric)
        if not any(value is not None for value in values):
            kinds[len(rows)] = "empty"
        change = [] if single is None else difference_cells(found.differences.get((single.name, metric)), digits)
        cells = [number(value, digits) for value in values]
        rows.append([metric, definition["direction"], *cells, *change[:extra]])
        for part in ("floor", "p"):
            known = found.numbers(metric, part)
            if any(value is not None for value in known):
                kinds[len(rows)] = "under"
                rows.append([part, "", *("" if one is None else number(one, digits) for one in known), *[""] * extra])
    header = ["", "better", *(score.name for score in found.scores), *("change", "95 % interval")[:extra]]
    return Table("", header, rows, 2, kinds)


def by_score(found: Findings) -> list[list[str]]:
    """The columns of a table with a score a line: a metric, which way is better (or "floor"), the numbers."""
    digits = found.digits
    columns: list[list[str]] = []
    for metric, definition in found.definitions.items():
        columns.append([metric, definition["direction"], *(number(value, digits) for value in found.numbers(metric))])
        floors = found.numbers(metric, "floor")
        if any(floor is not None for floor in floors):
            columns.append([metric, "floor", *(number(floor, digits) for floor in floors)])
    return columns


def versus(report: Report) -> Iterator[Table]:
    """The differences of the calibrated scores from another score than the raw one, a table for each such score."""
    first = report.scores[0].name if report.scores else None
    gaps = [one for one in report.differences if first not in {one.versus, one.score}]
    return of_differences(gaps, Findings.of_report(report).digits)


def of_differences(differences: Iterable[Difference], digits: int) -> Iterator[Table]:
    """A table of differences for each score that they are from."""
    gaps = [one for one in differences if one.value is not None]
    for name in dict.fromkeys(one.versus for one in gaps):
        chosen = [one for one in gaps if one.versus == name]
        rows = [[one.score, one.metric, *difference_cells(one, digits)] for one in chosen]
        yield Table(f"difference from {name}", ["", "", "change", "95 % interval"], rows, 2)


def difference_cells(difference: Difference | Number | None, digits: int) -> list[str]:
    """A difference and its interval; two empty cells where there is none."""
    if difference is None or difference.value is None:
        return ["", ""]
    return [signed(difference.value, digits), interval(difference.lo, difference.hi, digits)]


def beyond_chance(entry: Any) -> bool:
    """Whether the p-value of a group or of a change, which is adjusted for all of them, is small."""
    return entry["p_adjusted"] is not None and entry["p_adjusted"] < LEVEL


def by_group(report: Report) -> Iterator[Table]:
    """A table for each column and score, with a line for each group."""
    entries: Sequence[Any] = report.groups
    tests = ["detectable", "p-value"] if report.command != "fit" else []
    for by, score in dict.fromkeys((entry["by"], entry["score"]) for entry in entries):
        chosen = [entry for entry in entries if (entry["by"], entry["score"]) == (by, score)]
        metrics = list(chosen[0]["metrics"])
        digits = decimals(entry["metrics"][name]["value"] for entry in chosen for name in metrics)
        rows = [
            [
                "null" if entry["group"] is None else str(entry["group"]),
                f"{entry['rows']:,}",
                *(number(entry["metrics"][name]["value"], digits) for name in metrics),
                number(entry["detectable"], digits),
                p_value(entry["p_adjusted"], NOTHING if entry["p"] is None else "too few"),
            ][: 2 + len(metrics) + len(tests)]
            for entry in chosen
        ]
        off: dict[int, RowKind] = {place: "off" for place, entry in enumerate(chosen) if beyond_chance(entry)}
        yield Table(f"{score} by {by}", ["", "rows", *metrics, *tests], rows, 1, off)


def since(report: Report) -> tuple[Table, list[str]] | None:
    """The numbers of all rows beside those of the baseline, under its name, and why some cannot be compared."""
    if report.baseline is None:
        return None
    changes = [one for one in report.changes if one.by is None]
    digits = decimals(value for one in changes for value in (one.old, one.new))
    rows = [
        [
            one.score,
            one.metric,
            number(one.old, digits),
            number(one.new, digits),
            NOTHING if one.change is None else signed(one.change, digits),
        ]
        for one in changes
    ]
    reasons = list(dict.fromkeys(one.reason for one in changes if one.reason))
    return Table(str(report.baseline["path"]), ["", "", "before", "now", "change"], rows, 2), reasons


def ranked(report: Report) -> list[ScoreRow]:
    """The scores that have numbers, by the first metric."""
    metric, definition = next(iter(report.definitions.items()))

    def place(row: ScoreRow) -> float:
        value = row.metrics[metric].value
        if value is None:
            return float("inf")
        return -value if definition.direction == "higher" else value

    return sorted((row for row in report.scores if row.status == "ok"), key=place)


def certainty(report: Report) -> str:
    """The certainty of the choice, and the methods that are as good; empty if the report has no such numbers."""
    chosen = next((row for row in report.scores if row.name == report.chosen), None)
    if chosen is None or chosen.best is None:
        return ""
    others = [row.name for row in ranked(report) if row.as_good and row is not chosen]
    more = len(others) - _MOST_NAMED
    named = f"{', '.join(others[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''}"
    as_good = f"not significantly worse: {named}" if others else "all other methods are significantly worse"
    name = "No calibration" if chosen.name == IDENTITY else chosen.name
    return f"{name} is the best with a probability of {percent(chosen.best)}; {as_good}"


def percent(share: float) -> str:
    """A share in whole percent, but never 0 or 100 where it is neither."""
    if 0.0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1.0 else f"{share:.0%}".replace("%", " %")


def leaderboard(report: Report, metrics: Iterable[str], *, behind: bool = True) -> Table:
    """The methods that have numbers, the best first: these metrics, the gain, the distance `behind` the chosen method,
    how likely the method is the best, and the seconds of its fit.
    """
    metrics, rows = list(metrics), ranked(report)
    digits = _decimals_of(rows)
    gains = _gaps(report, IDENTITY, digits, -1)
    later = {} if report.chosen in {None, IDENTITY} or not behind else _gaps(report, str(report.chosen), digits, 1)
    known = any(row.best is not None for row in rows)
    cells = [
        [
            f"{row.name} *" if row.as_good else row.name,
            *(number(row.metrics[name].value, digits) for name in metrics),
            *gains.get(row.name, ("", "")),
            *(later.get(row.name, ("", "")) if later else ()),
            *(["" if row.best is None else percent(row.best)] if known else []),
            "" if row.seconds.fit is None else f"{row.seconds.fit:.2f} s",
        ]
        for row in rows
    ]
    header = ["", *metrics, "gain", "95 % interval"]
    header += [*(["behind", "95 % interval"] if later else []), *(["best"] if known else []), "fit"]
    chosen: dict[int, RowKind] = {place: "chosen" for place, row in enumerate(rows) if row.name == report.chosen}
    return Table("", header, cells, 1, chosen)


def leaderboard_terms(report: Report, shown: Table) -> list[Pair]:
    """The meaning of the columns of a leaderboard, and the floors of its metrics for the chosen method."""
    metrics = [name for name in report.definitions if name in shown.header]
    pairs = facts.definitions({name: asdict(report.definitions[name]) for name in metrics})
    chosen = next((row for row in report.scores if row.name == report.chosen), None)
    known = [(name, None if chosen is None else part_of(chosen, name, "floor")) for name in metrics]
    floors = {name: floor for name, floor in known if floor is not None}
    if floors:
        digits = decimals(floors.values())
        named = ", ".join(f"{name} {number(floor, digits)}" for name, floor in floors.items())
        pairs.append((FLOOR[0], f"{FLOOR[1]}; of {report.chosen} {named}"))
    return [*pairs, *(term for term in _LEADERBOARD_TERMS if term[0] in shown.header)]


def _gaps(report: Report, versus: str, digits: int, sign: int) -> dict[str, tuple[str, str]]:
    """The difference of each score's log-loss from that of another score, and its interval, both times `sign`."""
    gaps = {}
    for each in report.differences:
        if (each.versus, each.metric) == (versus, "nll") and each.value is not None:
            lo, hi = (None, None) if each.lo is None or each.hi is None else sorted((sign * each.lo, sign * each.hi))
            gaps[each.score] = (signed(sign * each.value, digits), interval(lo, hi, digits))
    return gaps


def without_numbers(report: Report) -> list[Pair]:
    """The methods that have no numbers, and why."""
    return [(score.name, f"{score.status}: {score.reason}") for score in report.scores if score.status != "ok"]


def rejection(report: Report) -> Iterator[Table]:
    """The errors of the rows that remain by the share rejected, and by the threshold, a column for each score."""
    points = [cast("JsonObject", point) for point in report.rejection]
    for by, (first, title) in _REJECTION.items():
        chosen = [point for point in points if point["by"] == by and point["x"] in _TENTHS]
        if not chosen:
            continue
        scores = list(dict.fromkeys(str(point["score"]) for point in chosen))
        rows = []
        for x in dict.fromkeys(point["x"] for point in chosen):
            errors = {point["score"]: point["y"] for point in chosen if point["x"] == x}
            place = percent(x) if by == "rate" else f"{x:.1f}"
            rows.append([place, *(number(errors[score], 4) for score in scores)])
        yield Table(title, [first, *scores], rows, 0)
