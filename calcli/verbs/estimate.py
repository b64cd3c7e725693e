"""`estimate`: the rate of a label, or the mean of a grade, where few rows have labels and all have scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.artifacts.strictjson import as_json
from calcli.batch import IntArray
from calcli.errors import DataError, unknown_name
from calcli.listener import SILENT, Listener, stage
from calcli.metrics.base import Definition
from calcli.metrics.multiple import POWER
from calcli.metrics.paired import Z975
from calcli.metrics.powered import FEWEST, Powered, Sample, difference, powered
from calcli.models.calibrator import CalibratorModel, load
from calcli.reports.conditions import check_gates
from calcli.reports.gates import parse
from calcli.reports.measuring import Measurements, report_on, with_adjusted
from calcli.reports.schema import RAW, DataFacts, MetricValue, Report, ReportWarning, ScoreRow, ScoreSource, finite
from calcli.state import Json
from calcli.tables.passes import LocalTable
from calcli.tables.source import Source, open_source
from calcli.verbs.engine import grouped, needs_all_rows, opened
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.judged_rows import Judged, JudgedRows, facts_of_systems, score_columns, systems
from calcli.verbs.judged_sums import judged_sums
from calcli.verbs.label_plan import Variances, choose, labelled_before, planned
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
    whole = request.whole_for or (str(model.name) if model is not None and model.calibrator.whole_table else None)
    if whole is not None and request.engine != "local":
        raise needs_all_rows(whole, "estimate")
    with opened(request) as table:
        if request.versus is None:  # bins of two tables would differ
            request = replace(request, by=grouped(table, request.by, listener))
        found = None
        if whole is None:
            with stage(listener, "estimating" if isinstance(table, LocalTable) else "estimating on Spark"):
                found = judged_sums(table, request, model)
        if found is not None:
            for note in found.binding.notes:
                listener.note(note)
            report = _estimated(request, model, {"": found}, found.facts)
        elif isinstance(table, LocalTable):
            report = _of_rows(table.tally.source, request, model, listener)
        else:
            raise DataError(
                "no row has a label, and what scores promise needs all rows at once",
                hint="label some rows, drawn at random; or give a sample of the rows to one machine",
            )
    return replace(report, gates=check_gates(gates, report, allow_null=request.allow_null))


def _of_rows(source: Source, request: EstimateRequest, model: CalibratorModel | None, listener: Listener) -> Report:
    """The report of rows that are read at once."""
    with ExitStack() as opened_too:
        second = _second(request, source)
        other = None if second is None else opened_too.enter_context(second)
        with stage(listener, "reading"):
            rows = JudgedRows.read(source, request, model)
            more = None if other is None else JudgedRows.read(other, request, model)
        for note in rows.binding.notes:
            listener.note(note)
        with stage(listener, "estimating"):
            return _report(request, model, *systems(rows, request, more))


def _second(request: EstimateRequest, source: Source) -> Source | None:
    """The table of the other system, if `versus` is no column of the first."""
    if request.versus is None:
        return None
    source.find(request.versus, known=True)
    if request.versus in source.columns:
        return None
    if not Path(request.versus).exists():
        raise DataError(
            f"--versus: {unknown_name('column', request.versus, source.columns)}, and no file of this name",
            hint="name the column of the system, or the table of the other system",
        )
    return open_source(request.versus, format=request.input_format, delimiter=request.delimiter)


class Group(NamedTuple):
    """Rows that a report shows by themselves."""

    by: str | None
    name: str | None
    inside: NDArray[np.bool_] | None
    """Which rows are in the group; None for all."""

    @property
    def where(self) -> dict[str, str | None] | None:
        """The group as a report names it."""
        return None if self.by is None else {self.by: self.name}


@dataclass(frozen=True, slots=True)
class System:
    """One system with its samples, a sample for each class."""

    name: str
    judged: Judged
    item: IntArray | None = None

    @property
    def samples(self) -> Sequence[Sample]:
        return self.judged.samples

    def groups(self) -> Iterator[Group]:
        """All rows, then the groups of each column."""
        yield Group(None, None, None)
        for column, (names, codes) in self.judged.groups.items():
            for code, name in enumerate(names):
                inside = codes == code
                if inside.any():  # else the group has bad rows only
                    yield Group(column, name, inside)

    def scores_mean(self, index: int, inside: NDArray[np.bool_] | None) -> float:
        """The mean of the scores as they are; not a number of scores that only rank."""
        means, weight = self.judged.means, self.samples[index].weights
        if means is None:
            return math.nan
        mean = means[index]
        if inside is not None:
            mean, weight = mean[inside], weight[inside]
        return float(mean @ weight / weight.sum()) if weight.sum() > 0 else math.nan


def _of_sample(sample: Sample, inside: NDArray[np.bool_] | None) -> Powered | str:
    """The estimate of a class in some rows, or why there is none."""
    if inside is not None:
        sample = sample.of(inside)
    if not len(sample.labelled):
        return "no row of it has a label"
    if not sample.weights.sum() > 0:
        return "all weights are 0"
    if sample.strata is not None and not np.isin(sample.strata, sample.strata[sample.labelled]).all():
        return "a stratum of it has no label"
    return powered(sample)


def _report(
    request: EstimateRequest,
    model: CalibratorModel | None,
    parts: Mapping[str, JudgedRows],
    items: Sequence[IntArray],
) -> Report:
    """The report of rows that are all here, of one system or of two."""
    only, *_ = parts.values()
    if model is not None and request.prior_shift is not None:
        return moved_report(request, model, only)
    if len(parts) == 1 and not len(only.labelled) and only.rate:
        if model is not None:
            return replace(promised_report(request, model, only), plan=_plan(request, only, ()))
        if (request.width, request.choose) != (None, None):
            bare = report_on("estimate", request.seed, only.facts, only.binding, Measurements({}))
            return replace(bare, plan=_plan(request, only, ()))
    for name, rows in parts.items():
        if not len(rows.labelled):
            raise DataError(
                f"no row of {rows.name}{f' of system {name!r}' if name else ''} has a label",
                hint="label some rows, drawn at random (--choose N -o FILE draws them), or add --with ARTIFACT",
            )
    judged = {name: rows.judged(request) for name, rows in parts.items()}
    facts = facts_of_systems([*parts.values()], [one.facts for one in judged.values()])
    report = _estimated(request, model, judged, facts, items)
    return replace(report, plan=_plan(request, only, _known(next(iter(judged.values())))))


def _estimated(
    request: EstimateRequest,
    model: CalibratorModel | None,
    judged: Mapping[str, Judged],
    facts: DataFacts,
    items: Sequence[IntArray] = (),
) -> Report:
    """The report of one system, or of two whose rows have an item each."""
    found = [System(name, one, items[place] if items else None) for place, (name, one) in enumerate(judged.items())]
    first = found[0].judged
    metric = "rate" if first.rate else "mean"
    table = _Table(request, found, metric)
    table.fill()
    measured = Measurements({metric: DEFINITION}, tuple(table.scores))
    return replace(
        report_on("estimate", request.seed, facts, first.binding, measured),
        artifact=None if model is None else str(model.name),
        warnings=tuple(_warnings(found)),
        groups=tuple(with_adjusted(table.groups)),
        estimates=tuple(as_json(entry) for entry in table.entries),
    )


def _known(judged: Judged) -> list[Variances]:
    """The variances of the labels of each class, as far as labels tell."""
    found = ((sample, _of_sample(sample, None)) for sample in judged.samples)
    return [Variances.of(sample, one) for sample, one in found if not isinstance(one, str)]


def _plan(request: EstimateRequest, rows: JudgedRows, known: Sequence[Variances]) -> Mapping[str, Json] | None:
    """The report's `plan`: how many labels more, and the draw of some; None where neither is asked for."""
    if request.width is None and request.choose is None:
        return None
    plan: dict[str, Json] = {"assumes": "labels" if known else "calibrated scores"}
    if not known:
        if not rows.rate:
            raise DataError("no row has a label, and without any nothing is known of a number", hint="label some rows")
        known = [Variances.promised(column) for column in score_columns(rows.prob)]
    if request.width is not None:
        before, weight = labelled_before(rows, request), rows.loaded.batch.weight
        each = [planned(request.width, one, before, weight) for one in known]
        plan |= max(each, key=lambda one: math.inf if one["more"] is None else float(str(one["more"])))
    if request.choose is not None:
        plan |= choose(rows, request, np.sum([one.each for one in known], axis=0))
    return plan


def _warnings(found: Sequence[System]) -> Iterator[ReportWarning]:
    for system in found:
        count = system.samples[0].count
        if count < FEWEST:
            of_units = "units with labels" if system.samples[0].units is not None else "labels"
            name = f" of system {system.name!r}" if system.name else ""
            yield ReportWarning(
                "few-labels",
                f"there are {count} {of_units}{name}: with fewer than {FEWEST} the scores are left aside, and the "
                f"interval is {'the exact one' if system.judged.rate else 'that'} of the labels alone",
            )


@dataclass(slots=True)
class _Table:
    """The estimates of all systems, classes and groups, in the forms of a report."""

    request: EstimateRequest
    systems: Sequence[System]
    metric: str
    entries: list[dict[str, object]] = field(default_factory=list)
    scores: list[ScoreRow] = field(default_factory=list)
    groups: list[dict[str, Json]] = field(default_factory=list)

    def fill(self) -> None:
        """Estimate everything."""
        whole: dict[tuple[int, int], Powered] = {}
        for place, system in enumerate(self.systems):
            for index, label in enumerate(system.judged.classes):
                for group in system.groups():
                    self._one(system, place, index, label, group, whole)
        if len(self.systems) == 2:
            self._differences()

    def _one(
        self,
        system: System,
        place: int,
        index: int,
        label: str | None,
        group: Group,
        whole: dict[tuple[int, int], Powered],
    ) -> None:
        """The estimate of one class in one group of one system."""
        found, mean = _of_sample(system.samples[index], group.inside), system.scores_mean(index, group.inside)
        score = self._name(system.name, label, system)
        entry = empty_entry(group.where, label, system.name or None, mean)
        if isinstance(found, str):
            sample = system.samples[index]
            rows = (sample if group.inside is None else sample.of(group.inside)).rows
            self._add({**entry, "rows": rows, "labels": 0, "reason": found}, score, group, None, None)
            return
        if group.inside is None:
            whole[place, index] = found
        method = LABELS_ALONE if found.scale == 0.0 else "ppi++ calibrated" if system.judged.rate else "ppi++"
        entry |= {name: getattr(found, name) for name in ("value", "lo", "hi", "rows", "labels", "worth")}
        entry |= {"labels_only": found.labels_only._asdict(), "method": method}
        apart = (
            None if group.inside is None else _apart(found, whole[place, index], group.inside, system.samples[index])
        )
        self._add(entry, score, group, mean, apart)

    def _name(self, system: str, label: str | None, of: System) -> str:
        """The name of an estimate among the scores of the report."""
        parts = [system] if system else []
        if len(of.judged.classes) > 1:
            parts.append(str(label))
        return " ".join(parts) or ESTIMATE

    def _add(
        self,
        entry: dict[str, object],
        score: str,
        group: Group,
        mean: float | None,
        apart: tuple[float | None, float | None] | None,
    ) -> None:
        """Add an estimate to the entries, and to the scores or groups, of which gates and tables know."""
        self.entries.append(entry)
        numbers = {name: _number(entry[name]) for name in ("value", "lo", "hi", "p")}
        value = MetricValue(**numbers, reason=entry["reason"])  # type: ignore[arg-type]  # the reason is a text
        if group.by is None:
            if score == ESTIMATE and _number(mean) is not None:
                self.scores.append(ScoreRow(RAW, ScoreSource("raw"), {self.metric: MetricValue(_number(mean))}))
            self.scores.append(ScoreRow(score, ScoreSource("method", method="ppi"), {self.metric: value}))
            return
        p, detectable = apart or (None, None)
        metrics = {self.metric: {name: getattr(value, name) for name in MetricValue.__slots__}}
        found = {"by": group.by, "group": group.name, "rows": entry["rows"], "score": score, "metrics": metrics}
        tested = {"detectable": detectable, "p": p, "p_least": None if p is None else 0.0}
        self.groups.append(as_json(found | tested))

    def _differences(self) -> None:
        """The first system less the second, for each class and in each group that both have."""
        one, other = self.systems
        theirs = {(group.by, group.name): group.inside for group in other.groups()}
        for index, label in enumerate(one.judged.classes):
            for group in one.groups():
                if (group.by, group.name) in theirs:
                    self._difference(index, label, group, theirs[group.by, group.name])

    def _difference(self, index: int, label: str | None, group: Group, theirs: NDArray[np.bool_] | None) -> None:
        one, other = self.systems
        pair = _of_sample(one.samples[index], group.inside), _of_sample(other.samples[index], theirs)
        entry = empty_entry(group.where, label, f"{one.name} - {other.name}", None)
        mine, its = pair
        name = DIFFERENCE if len(one.judged.classes) == 1 else f"{DIFFERENCE} {label}"
        if isinstance(mine, str) or isinstance(its, str):
            self._add({**entry, "reason": "one of the systems has none"}, name, group, None, None)
            return
        units = np.concatenate([_taken(one, group.inside), _taken(other, theirs)])
        found = difference(mine, its, units, np.concatenate([mine.influence, -its.influence]))
        better = None if found.p is None else 1.0 - found.p / 2.0
        entry |= {"value": found.value, "lo": found.lo, "hi": found.hi, "p": found.p, "better": better}
        entry |= {"rows": mine.rows + its.rows, "labels": mine.labels + its.labels, "method": "paired"}
        self._add(entry, name, group, None, None)


def _taken(system: System, inside: NDArray[np.bool_] | None) -> IntArray:
    """The unit of each row in a difference: what --resample-by says, or the item."""
    units = system.samples[0].units
    code = system.item if units is None else units
    assert code is not None
    return code if inside is None else code[inside]


def _apart(
    found: Powered, whole: Powered, inside: NDArray[np.bool_], sample: Sample
) -> tuple[float | None, float | None]:
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


def _number(value: object) -> float | None:
    return finite(value) if isinstance(value, float) else None
