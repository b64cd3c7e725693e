"""The value of policies on the rows that are evaluated, and the tests of their promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np

from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray, SamplingUnits
from calcli.decisions.measure import Number, Promise
from calcli.decisions.policy import SetRule
from calcli.errors import UsageError
from calcli.listener import Listener, stage
from calcli.models.base import JudgedRows, Model
from calcli.models.calibrator import CalibratorModel
from calcli.models.judged import judged
from calcli.places import folder
from calcli.reports.groups import TableRows, in_units
from calcli.reports.measuring import Measurements, data_facts, report_on
from calcli.reports.schema import Report
from calcli.state import Json
from calcli.tables.load import load
from calcli.tables.request import open_table
from calcli.verbs.compared_scores import EvaluateRequest, NamedScores
from calcli.verbs.drift import Promises, observe, of_no_rows, rows_of
from calcli.verbs.score_passes import BufferedScores

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
        model = named_scores.models.get(candidate.name)
        if model is not None and model.policy is not None:
            found = judged(model.policy, model.binding, table, candidate.prob, rows.labels, rows.weight, units)
            entries.append(_measured(request, candidate.name, found))
    return tuple(entries)


def _measured(request: EvaluateRequest, name: str, rows: JudgedRows) -> dict[str, Json]:
    return decision_entry(
        name, rows.kind, *rows.measured(replicates=request.bootstrap or REPLICATES, seed=request.seed)
    )


def promises_of(
    model: CalibratorModel, prob: FloatArray, rows: BufferedScores, table: TableRows, units: SamplingUnits | None
) -> Promises | None:
    """The promises of a model's policy about some of the rows; None where it promises nothing."""
    policy = model.policy
    if policy is None or not (isinstance(policy.rule, SetRule) or policy.target is not None):
        return None
    return _promises(judged(policy, model.binding, table, prob, rows.labels, rows.weight, units))


def _promises(rows: JudgedRows) -> Promises:
    return lambda new: rows.taken(new).promised()


def evaluate_decisions(request: EvaluateRequest, models: Mapping[str, Model], listener: Listener) -> Report:
    """The numbers of artifacts that decide about something else than scores, and the tests of their promises."""
    if request.engine != "local":
        raise UsageError("--engine spark measures scores, and not intervals", hint="evaluate a sample of the rows")
    for flag, given in (
        ("--fail-if", request.fail_if),
        ("--baseline", request.baseline),
        ("--audit", request.audit),
        ("--find-segments", request.find_segments),
    ):
        if given:
            raise UsageError(
                f"{flag} is about metrics of scores, and intervals have none",
                hint="leave it out: whether they keep their promise is tested by --drift",
            )
    first, *_ = models.values()
    features = tuple(dict.fromkeys(feature for model in models.values() for feature in model.binding.features))
    with open_table(request) as source:
        binding = replace(first, binding=replace(first.binding, features=features)).bind(source, request.flags)
        with stage(listener, "reading"):
            loaded = load(source, binding, features=True, bad_rows=request.bad_rows)
            loaded = in_units(loaded, request.resample_by, None)
        found = {name: model.judged(loaded) for name, model in models.items()}
        entries, drift = [_measured(request, name, rows) for name, rows in found.items()], None
        if request.drift is not None:
            name, model = list(models.items())[request.all_artifacts.index(request.drift)]
            state, promises = folder(request.state or f"{model.path}.drift.json"), _promises(found[name])
            none = np.zeros(len(loaded.batch))  # there is neither a probability nor a class
            new_rows = rows_of(loaded, none, none.astype(np.int64), None, promises)
            drift = observe(model, state, (), new_rows, of_no_rows(promises, len(none)), listener).to_json()
        facts = data_facts(loaded)
    report = report_on("evaluate", request.seed, facts, binding, Measurements({}))
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
