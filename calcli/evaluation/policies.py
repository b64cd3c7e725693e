"""The value of policies on the rows that are evaluated, and the tests of their promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np

from calcli.artifacts.store import Artifact
from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray, SamplingUnits
from calcli.decisions.intervals import Amounts, measure_intervals
from calcli.decisions.measure import Number, Promise, Promised, Rows, measure, promised
from calcli.decisions.policy import IntervalRule, SetRule
from calcli.errors import UsageError
from calcli.evaluation.drift import Promises, observe, of_no_rows, rows_of
from calcli.evaluation.request import EvaluateRequest, NamedScores
from calcli.evaluation.score_passes import BufferedScores
from calcli.listener import Listener, stage
from calcli.models.calibrator import CalibratorModel
from calcli.models.held_out import Mask
from calcli.models.intervals import IntervalModel, measured_amounts
from calcli.models.policy import measured_rows
from calcli.places import folder
from calcli.reports.groups import TableRows, in_units
from calcli.reports.measuring import Measurements, class_names, data_facts, report_on
from calcli.reports.schema import Report
from calcli.state import Json
from calcli.tables.binding import bind_unscored
from calcli.tables.load import load
from calcli.tables.request import open_table

REPLICATES = 1000
"""Bootstrap replicates for the interval of a cost, where the request gives no number."""


def measured_policies(
    request: EvaluateRequest,
    named_scores: NamedScores,
    rows: BufferedScores,
    table: TableRows,
    units: SamplingUnits | None,
) -> tuple[dict[str, Json], ...]:
    """The report's `decisions`: the numbers of each policy, and the test of its promise."""
    entries = []
    for candidate in rows.candidates:
        policy = None if (model := named_scores.models.get(candidate.name)) is None else model.policy
        if model is None or policy is None:
            continue
        group, beside = measured_rows(table, policy.rule)
        found, promise = measure(
            policy,
            Rows(candidate.prob, rows.labels, rows.weight, units, group=group, classes=class_names(model.binding)),
            beside,
            replicates=request.bootstrap or REPLICATES,
            seed=request.seed,
        )
        entries.append(decision_entry(candidate.name, policy.kind, found, promise))
    return tuple(entries)


def promises_of(
    model: CalibratorModel, prob: FloatArray, rows: BufferedScores, table: TableRows, units: SamplingUnits | None
) -> Promises | None:
    """The promises of a model's policy about some of the rows; None where it promises nothing."""
    policy = model.policy
    if policy is None or not (isinstance(policy.rule, SetRule) or policy.target is not None):
        return None
    group, beside = measured_rows(table, policy.rule)
    known = Rows(prob, rows.labels, rows.weight, units, group=group, classes=class_names(model.binding))
    return lambda new: promised(policy, known.taken(new), {name: values[new] for name, values in beside.items()})


def interval_models(request: EvaluateRequest, artifacts: Mapping[str, Artifact]) -> dict[str, IntervalModel] | None:
    """The policies of intervals by name, if the artifacts are such; they are evaluated without others."""
    amounts = [artifact.manifest.task == "regression" for artifact in artifacts.values()]
    if not any(amounts):
        return None
    if not all(amounts) or request.scores:
        raise UsageError("intervals of amounts are not compared with scores", hint="evaluate them on their own")
    models = {name: IntervalModel.read(artifact) for name, artifact in artifacts.items()}
    for model in models.values():
        model.probe()
    return models


def evaluate_intervals(request: EvaluateRequest, models: Mapping[str, IntervalModel], listener: Listener) -> Report:
    """The coverage and the width of intervals, and the tests of their promises."""
    if request.engine != "local":
        raise UsageError("--engine spark measures scores, and not intervals", hint="evaluate a sample of the rows")
    first = next(iter(models.values())).binding
    features = tuple(dict.fromkeys(feature for model in models.values() for feature in model.binding.features))
    with open_table(request) as source:
        binding = bind_unscored(source, request.flags, known=replace(first, features=features))
        with stage(listener, "reading"):
            loaded = load(source, binding, features=True, bad_rows=request.bad_rows)
            loaded = in_units(loaded, request.resample_by, None)
        entries, drift = [], None
        for place, (name, model) in enumerate(models.items()):
            rows = measured_amounts(loaded, model.rule)
            numbers, promise = measure_intervals(model.rule, rows)
            entries.append(decision_entry(name, model.rule.kind, numbers, promise.tested()))
            if request.drift is not None and place == request.all_artifacts.index(request.drift):
                state = folder(request.state or f"{model.path}.drift.json")

                def promises(new: Mask, rule: IntervalRule = model.rule, rows: Amounts = rows) -> list[Promised]:
                    return [measure_intervals(rule, rows.taken(new))[1]]

                none = np.zeros(len(loaded.batch))  # there is neither a probability nor a class
                new_rows = rows_of(loaded, none, none.astype(np.int64), None, promises)
                drift = observe(model, state, (), new_rows, of_no_rows(promises, len(none))).to_json()
        facts = data_facts(loaded)
    report = report_on("evaluate", request.seed, facts, binding, Measurements({}, (), (), ()))
    return replace(report, decisions=tuple(entries), drift=drift)


def decision_entry(name: str, kind: str, numbers: Mapping[str, Number], promise: Promise | None) -> dict[str, Json]:
    """An entry of the report's `decisions`."""
    return as_json(
        {
            "score": name,
            "kind": kind,
            "numbers": {name: asdict(number) for name, number in numbers.items()},
            "promise": None if promise is None else asdict(promise),
        }
    )
