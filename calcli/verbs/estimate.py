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
from calcli.batch import FloatArray, IntArray
from calcli.errors import DataError, UsageError, unknown_name
from calcli.files import as_text
from calcli.listener import SILENT, Listener, stage
from calcli.metrics.base import Definition
from calcli.metrics.multiple import POWER
from calcli.metrics.paired import Z975
from calcli.metrics.powered import FEWEST, Interval, Powered, Sample, difference, powered
from calcli.models.calibrator import CalibratorModel, load
from calcli.models.moved_rates import moved_rates, off_at_fit
from calcli.numeric.bins import totals
from calcli.reports.conditions import check_gates
from calcli.reports.gates import parse
from calcli.reports.groups import groups
from calcli.reports.measuring import Measurements, class_names, facts_of, report_on, units_fact, with_adjusted
from calcli.reports.schema import RAW, MetricValue, Report, ReportWarning, ScoreRow, ScoreSource, finite
from calcli.state import Json
from calcli.tables.request import open_table
from calcli.tables.source import Source, open_source
from calcli.verbs.engine import groups_here
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.judged_rows import JudgedRows, systems
from calcli.verbs.label_plan import Variances, choose, labelled_before, planned
from calcli.verbs.promised import promise

ESTIMATE, DIFFERENCE = "estimate", "difference"
"""The names of the estimate among the scores of a report, and of the difference of two systems."""

DEFINITION = Definition(
    "target",
    approximation="prediction-powered (PPI++) on scores calibrated out of fold; 95 % interval of Wilson with as many "
    "labels as the estimate's variance is worth",
)

LABELS_ALONE, PROMISED, MOVED = "labels alone", "promised", "prior shift"
"""Methods: where the scores say nothing, and where there are no labels."""

PROMISED_HOW = "expected of the calibrated probabilities, with the chance of labels and of the calibrator's fit"


def estimate(request: EstimateRequest, listener: Listener = SILENT) -> Report:
    """The mean label of all rows, from the labels of some and the scores of all."""
    request.check()
    gates = [parse(expression) for expression in request.fail_if]
    model = None if request.artifact is None else load(request.artifact)
    with ExitStack() as opened:
        source = opened.enter_context(open_table(request))
        second = _second(request, source)
        other = None if second is None else opened.enter_context(second)
        if other is None:  # bins of two tables would differ
            request = replace(request, by=groups_here(source, request.by, listener))
        with stage(listener, "reading"):
            rows = JudgedRows.read(source, request, model)
            more = None if other is None else JudgedRows.read(other, request, model)
        for note in rows.binding.notes:
            listener.note(note)
        with stage(listener, "estimating"):
            report = _report(request, model, *systems(rows, request, more))
    return replace(
        report, gates=tuple(one.to_json() for one in check_gates(gates, report, allow_null=request.allow_null))
    )


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


@dataclass(frozen=True, slots=True)
class System:
    """One system with its samples, a sample for each class."""

    name: str
    rows: JudgedRows
    samples: tuple[Sample, ...]
    item: IntArray | None = None

    def groups(self, by: Sequence[str]) -> Iterator[Group]:
        """All rows, then the groups of each column."""
        yield Group(None, None, None)
        for column in by:
            names, codes = groups(self.rows.loaded, column)
            for code, name in enumerate(names):
                yield Group(column, name, codes == code)

    def scores_mean(self, index: int, inside: NDArray[np.bool_] | None) -> float:
        """The mean of the scores as they are; not a number of scores that only rank."""
        if self.rows.given and self.rows.binding.score.kind == "rank":
            return math.nan
        prob = self.rows.prob if self.rows.prob.ndim == 1 else self.rows.prob[:, index]
        weight = self.rows.loaded.batch.weights
        if inside is not None:
            prob, weight = prob[inside], weight[inside]
        return float(prob @ weight / weight.sum()) if weight.sum() > 0 else math.nan

    def of(self, index: int, inside: NDArray[np.bool_] | None) -> Powered | str:
        """The estimate of a class in some rows, or why there is none."""
        sample = self.samples[index]
        if inside is not None:
            sample = sample.of(inside)
        if not len(sample.labelled):
            return "no row of it has a label"
        if not sample.weights.sum() > 0:
            return "all weights are 0"
        if sample.strata is not None:
            count = int(sample.strata.max()) + 1
            there = totals(sample.strata, None, count) > 0
            if (totals(sample.strata[sample.labelled], None, count)[there] == 0).any():
                return "a stratum of it has no label"
        return powered(sample)


def _report(
    request: EstimateRequest,
    model: CalibratorModel | None,
    parts: Mapping[str, JudgedRows],
    items: Sequence[IntArray],
) -> Report:
    found = []
    only, *_ = parts.values()
    if model is not None and request.prior_shift is not None:
        return _moved(request, model, only)
    if len(parts) == 1 and not len(only.labelled) and only.rate:
        if model is not None:
            return replace(_promised(request, model, only), plan=_plan(request, only, ()))
        if (request.width, request.choose) != (None, None):
            bare = _base(request, model, [only], Measurements({}, (), (), ()))
            return replace(bare, plan=_plan(request, only, ()))
    for place, (name, rows) in enumerate(parts.items()):
        if not len(rows.labelled):
            raise DataError(
                f"no row of {rows.name}{f' of system {name!r}' if name else ''} has a label",
                hint="label some rows, drawn at random (--choose N -o FILE draws them), or add --with ARTIFACT",
            )
        found.append(System(name, rows, rows.samples(request.seed), items[place] if items else None))
    first = found[0]
    metric = "rate" if first.rows.rate else "mean"
    table = _Table(request, found, metric)
    table.fill()
    measured = Measurements({metric: DEFINITION}, tuple(table.scores), (), ())
    report = _base(request, model, [one.rows for one in found], measured)
    return replace(
        report,
        warnings=tuple(_warnings(found)),
        groups=tuple(with_adjusted(table.groups)),
        estimates=tuple(as_json(entry) for entry in table.entries),
        plan=_plan(request, first.rows, _known(first)),
    )


def _base(
    request: EstimateRequest, model: CalibratorModel | None, parts: Sequence[JudgedRows], measured: Measurements
) -> Report:
    """The report with the facts about the rows."""
    first = parts[0]
    binding, loaded, units = first.binding, first.loaded, first.units
    labelled = loaded.batch.take(first.labelled)
    if binding.regression:
        share = labelled.weights
    elif labelled.label is None:
        share = np.zeros(len(binding.classes))
    else:
        share = totals(labelled.label, labelled.weight, len(binding.classes))
    tables = {id(one.loaded.source): one.loaded.tally for one in parts}.values()
    counts = [sum(getattr(one, key) for one in tables) for key in ("rows", "rows_bad", "normalised")]
    facts = replace(
        facts_of(loaded.source, binding, (counts[0], counts[1], counts[2]), share),
        weight_sum=float(sum(one.loaded.batch.weights.sum() for one in parts)),
        units=units_fact(units),
    )
    artifact = None if model is None else str(model.name)
    return report_on("estimate", request.seed, facts, binding, measured, artifact=artifact)


def _promised(request: EstimateRequest, model: CalibratorModel, rows: JudgedRows) -> Report:
    """The report of rows without any label: what the scores of an artifact promise."""
    if request.by:
        raise UsageError("--by needs rows with labels", hint="leave it out, or give the rows of one group")
    weight, place = rows.loaded.batch.weight, None if model.path is None else as_text(model.path)
    found = promise(model, rows.prob, rows.loaded, weight, request.seed)
    names = class_names(rows.binding)
    said = {f"rate {k}": f"rate_{name}" for k, name in enumerate(names)} if len(names) > 2 else {}
    numbers = {said.get(name, name): number for name, number in found.numbers.items()}
    at = None if found.decided is None else f"of the decisions {found.decided}"
    definitions = {
        name: Definition("target", approximation=at if name in ("precision", "recall") else PROMISED_HOW)
        for name in numbers
    }
    metrics = {name: MetricValue(number.value, number.lo, number.hi) for name, number in numbers.items()}
    source = ScoreSource("artifact", path=place, method=model.method, sha256=model.sha256, fitted=model.fitted)
    measured = Measurements(definitions, (ScoreRow(PROMISED, source, metrics),), (), ())
    entries = [_rate_entry(name, numbers, names, len(rows.prob)) for name in numbers if name.startswith("rate")]
    doubt = ReportWarning(
        "promised",
        "these numbers are promises: they hold if the calibration of the fit still holds, which nothing here shows; "
        f"calcli evaluate LABELLED --drift {place or 'ARTIFACT'} tests it on rows with labels",
    )
    report = _base(request, model, [rows], measured)
    return replace(report, warnings=(doubt, *_off(model)), estimates=tuple(as_json(entry) for entry in entries))


def _moved(request: EstimateRequest, model: CalibratorModel, rows: JudgedRows) -> Report:
    """The report of rows whose class rates have moved since the fit of an artifact."""
    found = moved_rates(model, rows.prob, rows.loaded.batch.weight)
    names, scores, entries = class_names(rows.binding), [], []
    source = ScoreSource("artifact", path=None if model.path is None else as_text(model.path), method=model.method)
    for index, name in enumerate(names):
        if len(names) == 2 and index == 0:
            continue
        number = Interval(*(float(part[index]) for part in found.rates))
        mean = float(rows.prob.mean() if rows.prob.ndim == 1 else rows.prob[:, index].mean())
        entry = empty_entry(Group(None, None, None), name, None, mean)
        entry |= {**number._asdict(), "rows": len(rows.prob), "labels": 0, "p": found.p, "method": MOVED}
        entries.append(as_json(entry))
        value = MetricValue(number.value, number.lo, number.hi, p=found.p)
        scores.append(ScoreRow(ESTIMATE if len(names) == 2 else name, source, {"rate": value}))
    how = "EM of Saerens et al. (2002) if only the class rates have moved since the fit, which p is a test of"
    measured = Measurements({"rate": Definition("target", approximation=how)}, tuple(scores), (), ())
    report = _base(request, model, [rows], measured)
    doubts = list(_off(model))
    if found.contradicted:
        said = (
            f"the scores contradict that only the class rates have moved since the fit (p = {found.p:.2g}): label some "
            "rows instead"
        )
        doubts.append(ReportWarning("prior-shift-contradicted", said))
    return replace(report, estimates=tuple(entries), warnings=tuple(doubts))


def _off(model: CalibratorModel) -> Iterator[ReportWarning]:
    """The warning that an artifact was not calibrated even at its fit."""
    if said := off_at_fit(model):
        yield ReportWarning("off-at-fit", said)


def _rate_entry(name: str, numbers: Mapping[str, Interval], names: Sequence[str], rows: int) -> dict[str, object]:
    """A promised rate as an entry of the report's `estimates`."""
    label = name.removeprefix("rate_") if name != "rate" else names[-1]
    entry = empty_entry(Group(None, None, None), label, None, numbers[name].value)
    return {**entry, **numbers[name]._asdict(), "rows": rows, "labels": 0, "method": PROMISED}


def _known(system: System) -> list[Variances]:
    """The variances of the labels of each class, as far as labels tell."""
    found = ((sample, system.of(index, None)) for index, sample in enumerate(system.samples))
    return [Variances.of(sample, one) for sample, one in found if not isinstance(one, str)]


def _plan(request: EstimateRequest, rows: JudgedRows, known: Sequence[Variances]) -> Mapping[str, Json] | None:
    """The report's `plan`: how many labels more, and the draw of some; None where neither is asked for."""
    if request.width is None and request.choose is None:
        return None
    plan: dict[str, Json] = {"assumes": "labels" if known else "calibrated scores"}
    if not known:
        if not rows.rate:
            raise DataError("no row has a label, and without any nothing is known of a number", hint="label some rows")
        columns = [rows.prob] if rows.prob.ndim == 1 else list(rows.prob.T)
        known = [Variances.promised(column) for column in columns]
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
                f"interval is {'the exact one' if system.rows.rate else 'that'} of the labels alone",
            )


def empty_entry(group: Group, label: str | None, system: str | None, mean: float | None) -> dict[str, object]:
    """An entry of the report's `estimates` without numbers."""
    names = ("value", "lo", "hi", "rows", "labels", "labels_only", "scores_mean", "worth", "method", "p", "better")
    entry: dict[str, object] = dict.fromkeys((*names, "reason"))
    where = None if group.by is None else {group.by: group.name}
    return {"group": where, "class": label, "system": system, **entry, "scores_mean": _number(mean)}


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
            for index, label in enumerate(system.rows.classes):
                for group in system.groups(self.request.by):
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
        found, mean = system.of(index, group.inside), system.scores_mean(index, group.inside)
        score = self._name(system.name, label, system)
        entry = empty_entry(group, label, system.name or None, mean)
        if isinstance(found, str):
            rows = len(system.rows.prob) if group.inside is None else int(group.inside.sum())
            self._add({**entry, "rows": rows, "labels": 0, "reason": found}, score, group, None, None)
            return
        if group.inside is None:
            whole[place, index] = found
        method = LABELS_ALONE if found.scale == 0.0 else "ppi++ calibrated" if system.rows.rate else "ppi++"
        entry |= {name: getattr(found, name) for name in ("value", "lo", "hi", "rows", "labels", "worth")}
        entry |= {"labels_only": found.labels_only._asdict(), "method": method}
        apart = (
            None if group.inside is None else _apart(found, whole[place, index], group.inside, system.samples[index])
        )
        self._add(entry, score, group, mean, apart)

    def _name(self, system: str, label: str | None, of: System) -> str:
        """The name of an estimate among the scores of the report."""
        parts = [system] if system else []
        if len(of.rows.classes) > 1:
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
        theirs = {(group.by, group.name): group.inside for group in other.groups(self.request.by)}
        for index, label in enumerate(one.rows.classes):
            for group in one.groups(self.request.by):
                if (group.by, group.name) in theirs:
                    self._difference(index, label, group, theirs[group.by, group.name])

    def _difference(self, index: int, label: str | None, group: Group, theirs: NDArray[np.bool_] | None) -> None:
        one, other = self.systems
        pair = one.of(index, group.inside), other.of(index, theirs)
        entry = empty_entry(group, label, f"{one.name} - {other.name}", None)
        mine, its = pair
        name = DIFFERENCE if len(one.rows.classes) == 1 else f"{DIFFERENCE} {label}"
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
    units = system.rows.units
    code = system.item if units is None else units.rank
    assert code is not None
    return code if inside is None else code[inside]


def _apart(
    found: Powered, whole: Powered, inside: NDArray[np.bool_], sample: Sample
) -> tuple[float | None, float | None]:
    """The p-value of a group that has the rate of all rows, and the difference that 80 % of tables would show."""
    influence = -whole.influence
    influence[inside] += found.influence
    sums: FloatArray = (
        influence if sample.units is None else totals(sample.units, influence, int(sample.units.max()) + 1)
    )
    error = math.sqrt(float(sums @ sums))
    if error == 0.0 or found.lo is None or found.hi is None:
        return None, None
    gap = whole.value - found.value
    # Small groups are judged by their interval, whose sides are right where few positives make the error too small.
    side = (found.hi - found.value if gap > 0 else found.value - found.lo) / Z975
    error = max(error, side)
    return math.erfc(abs(gap) / error / math.sqrt(2.0)), POWER * error


def _number(value: object) -> float | None:
    return finite(value) if isinstance(value, float) else None
