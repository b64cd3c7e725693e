"""`estimate`: the rate of a label, or the mean of a grade, where few rows have labels and all have scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from calcli.artifacts.strictjson import as_json
from calcli.errors import DataError, unknown_name
from calcli.listener import SILENT, Listener, stage
from calcli.metrics.base import Definition
from calcli.metrics.multiple import POWER
from calcli.metrics.paired import Z975
from calcli.metrics.powered import FEWEST, Powered, Sample, difference, powered
from calcli.models.calibrator import CalibratorModel, load
from calcli.models.held_out import Mask
from calcli.numeric.bins import totals
from calcli.reports.conditions import check_gates
from calcli.reports.gates import parse
from calcli.reports.measuring import Measurements, facts_of, report_on, with_adjusted
from calcli.reports.schema import RAW, DataFacts, MetricValue, Report, ReportWarning, ScoreRow, ScoreSource
from calcli.state import Json
from calcli.tables.passes import ClusterTable, LocalTable
from calcli.tables.source import Source
from calcli.verbs.engine import grouped, needs_all_rows, opened
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.judged_rows import Rows
from calcli.verbs.judged_sums import Judged, System, judged, told_apart
from calcli.verbs.label_plan import plan
from calcli.verbs.promised import ESTIMATE, empty_entry, moved_report, promised_report

DIFFERENCE = "difference"
"""The name of the difference of two systems among the scores of a report."""

DEFINITION = Definition(
    "target",
    approximation="prediction-powered (PPI++) on scores calibrated out of fold; 95 % interval of Wilson with as many "
    "labels as the estimate's variance is worth",
)

LABELS_ALONE = "labels alone"
"""The method of an estimate where the scores say nothing."""


def estimate(request: EstimateRequest, listener: Listener = SILENT) -> Report:
    """The mean label of all rows, from the labels of some and the scores of all."""
    request.check()
    gates = [parse(expression) for expression in request.fail_if]
    model = None if request.artifact is None else load(request.artifact)
    whole = model is not None and model.calibrator.whole_table
    if request.engine != "local" and (whole or request.choose is not None):
        raise needs_all_rows("--choose" if model is None or not whole else str(model.name), "estimate")
    with ExitStack() as stack:
        table = stack.enter_context(opened(request))
        tables: list[LocalTable | ClusterTable] = [table]
        if request.versus is not None and _is_file(request.versus, table.example(request.flags, None, ())):
            tables.append(stack.enter_context(opened(replace(request, data=request.versus))))
            request = replace(request, versus=None)
        else:  # bins of two tables would differ
            request = replace(request, by=grouped(table, request.by, listener))
        with stage(listener, "estimating" if isinstance(table, LocalTable) else "estimating on Spark"):
            read = [System.read(one, request, model) for one in tables]
            for note in read[0].reader.binding.notes:
                listener.note(note)
            report = _report(request, model, read)
    return replace(report, gates=check_gates(gates, report, allow_null=request.allow_null))


def _is_file(versus: str, source: Source) -> bool:
    """Whether `versus` is the table of the other system, and no column of the first."""
    source.find(versus, known=True)
    if versus in source.columns:
        return False
    if not Path(versus).exists():
        raise DataError(
            f"--versus: {unknown_name('column', versus, source.columns)}, and no file of this name",
            hint="name the column of the system, or the table of the other system",
        )
    return True


def _report(request: EstimateRequest, model: CalibratorModel | None, tables: Sequence[System]) -> Report:
    """The report of one system or of two."""
    systems = told_apart(tables)
    first, *others = systems
    binding, rows = first.reader.binding, first.rows

    def report(labelled: Rows, weight: float) -> Report:
        facts = _facts(tables, labelled, weight)
        name = None if model is None else str(model.name)
        return report_on("estimate", request.seed, facts, binding, Measurements({}), artifact=name)

    moved = request.prior_shift is not None
    if rows is not None and not binding.regression and (moved or not (others or rows.labelled.any())):
        bare = report(rows.taken(rows.labelled), float(rows.weights.sum()))
        if model is not None and moved:
            return moved_report(bare, model, rows)
        if model is None or binding.label is None:
            bare = bare if model is None else promised_report(bare, request, model, rows)
            return replace(bare, plan=plan(request, first, None))
    found = judged(systems)
    table = _Table(found)
    table.fill()
    return replace(
        report(found[0].labelled, sum(float(one.samples[0].weights.sum()) for one in found)),
        definitions={table.metric: DEFINITION},
        scores=tuple(table.scores),
        warnings=tuple(_warnings(found)),
        groups=tuple(with_adjusted(table.groups)),
        estimates=tuple(as_json(entry) for entry in table.entries),
        plan=plan(request, first, found[0]),
    )


def _facts(tables: Sequence[System], labelled: Rows, weight: float) -> DataFacts:
    """The report's `data`: of all rows, with the rates of those of the first system that have labels."""
    first = tables[0]
    binding, share = first.reader.binding, labelled.weights
    if not binding.regression:
        share = totals(labelled.value.astype(np.int64), share, len(binding.classes))
    rows, bad, normalised = (sum(numbers) for numbers in zip(*(table.counts for table in tables), strict=True))
    facts = facts_of(first.source, binding, (rows, bad, normalised), share)
    return replace(facts, weight_sum=weight, units=first.units)


def _warnings(found: Sequence[Judged]) -> Iterator[ReportWarning]:
    for one in found:
        sample = one.samples[0]
        if sample.count < FEWEST:
            labels = "labels" if sample.units is None else "units with labels"
            yield ReportWarning(
                "few-labels",
                f"there are {sample.count} {labels}{one.system.named}: with fewer than {FEWEST} the scores are left "
                f"aside, and the interval is {'the exact one' if sample.rate else 'that'} of the labels alone",
            )


Where: TypeAlias = tuple[str, str | None] | None
"""The column of a group, and its value; None for all rows."""


@dataclass(slots=True)
class _Table:
    """The estimates of all systems, classes and groups, in the forms of a report."""

    judged: Sequence[Judged]
    found: dict[tuple[int, int, Where], Powered | str] = field(default_factory=dict)
    """For each system, class and group the estimate, or why there is none."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    scores: list[ScoreRow] = field(default_factory=list)
    groups: list[dict[str, Json]] = field(default_factory=list)

    @property
    def metric(self) -> str:
        return "rate" if self.judged[0].samples[0].rate else "mean"

    def fill(self) -> None:
        """Estimate everything: all rows, the groups of each column, and then the differences of two systems."""
        for place, one in enumerate(self.judged):
            for index, label in enumerate(one.classes):
                self._one(place, index, label, None, None)
                for by, (names, codes) in one.groups.items():
                    for code, name in enumerate(names):
                        inside = codes == code
                        if inside.any():  # else the group has bad rows only, or is the other system's
                            self._one(place, index, label, (by, name), inside)
        for (place, index, where), mine in [*self.found.items()]:
            if place == 0 and (its := self.found.get((1, index, where))) is not None:
                self._difference(self.judged[0].classes[index], where, mine, its)

    def _one(self, place: int, index: int, label: str | None, where: Where, inside: Mask | None) -> None:
        """The estimate of one class in one group of one system."""
        judged, name = self.judged[place], self.judged[place].system.name
        whole = judged.samples[index]
        sample = whole if inside is None else whole.of(inside)
        found = _of_sample(sample)
        self.found[place, index, where] = found
        score = " ".join(filter(None, (name, label if len(judged.classes) > 1 else None))) or ESTIMATE
        entry = empty_entry(where, label, name or None, sample.scores_mean)
        if isinstance(found, str):
            self._add({**entry, "rows": sample.rows, "labels": 0, "reason": found}, score)
            return
        method = LABELS_ALONE if found.scale == 0.0 else "ppi++ calibrated" if sample.rate else "ppi++"
        entry |= {name: getattr(found, name) for name in ("value", "lo", "hi", "rows", "labels", "worth")}
        entry |= {"labels_only": found.labels_only._asdict(), "method": method}
        of_all = self.found[place, index, None]
        if inside is None or isinstance(of_all, str):
            self._add(entry, score)
        else:
            self._add(entry, score, *_apart(found, of_all, inside, whole))

    def _add(self, entry: dict[str, Any], score: str, p: float | None = None, detectable: float | None = None) -> None:
        """Add an estimate to the entries, and to the scores or groups, of which gates and tables know."""
        self.entries.append(entry)
        value = MetricValue(**{name: entry[name] for name in ("value", "lo", "hi", "p", "reason")})
        if entry["group"] is None:
            if score == ESTIMATE and entry["scores_mean"] is not None:
                self.scores.append(ScoreRow(RAW, ScoreSource("raw"), {self.metric: MetricValue(entry["scores_mean"])}))
            self.scores.append(ScoreRow(score, ScoreSource("method", method="ppi"), {self.metric: value}))
            return
        ((by, group),) = entry["group"].items()
        found = {"by": by, "group": group, "rows": entry["rows"], "score": score}
        found |= {"metrics": {self.metric: asdict(value)}, "detectable": detectable}
        self.groups.append(as_json(found | {"p": p, "p_least": None if p is None else 0.0}))

    def _difference(self, label: str | None, where: Where, mine: Powered | str, its: Powered | str) -> None:
        """The first system less the second, for one class in one group that both have."""
        entry = empty_entry(where, label, " - ".join(one.system.name for one in self.judged), None)
        name = DIFFERENCE if len(self.judged[0].classes) == 1 else f"{DIFFERENCE} {label}"
        if isinstance(mine, str) or isinstance(its, str):
            self._add({**entry, "reason": "one of the systems has none"}, name)
            return
        found = difference(mine, its)
        better = None if found.p is None else 1.0 - found.p / 2.0
        counts = {"rows": mine.rows + its.rows, "labels": mine.labels + its.labels}
        self._add({**entry, **found._asdict(), **counts, "better": better, "method": "paired"}, name)


def _of_sample(sample: Sample) -> Powered | str:
    """The estimate of a class, or why there is none."""
    if not len(sample.labelled):
        return "no row of it has a label"
    if sample.strata is not None and not np.isin(sample.strata, sample.strata[sample.labelled]).all():
        return "a stratum of it has no label"
    return powered(sample)


def _apart(found: Powered, whole: Powered, inside: Mask, sample: Sample) -> tuple[float | None, float | None]:
    """The p-value of a group that has the rate of all rows, and the difference that 80 % of tables would show."""
    influence = -whole.influence
    influence[inside] += found.influence
    error = math.sqrt(sample.powers(influence, np.where(inside, found.slope, 0.0) - whole.slope).square)
    if error == 0.0 or found.lo is None or found.hi is None:
        return None, None
    gap = whole.value - found.value
    # Small groups are judged by their interval, whose sides are right where few positives make the error too small.
    side = (found.hi - found.value if gap > 0 else found.value - found.lo) / Z975
    error = max(error, side)
    return math.erfc(abs(gap) / error / math.sqrt(2.0)), POWER * error
