"""What policies are worth on the rows that are evaluated."""

from __future__ import annotations

from dataclasses import asdict

from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray, Units
from calcli.decisions.measure import measure
from calcli.decisions.policy import SetRule
from calcli.decisions.rows import Rows
from calcli.engines.decision_columns import codes
from calcli.evaluation.compared_scores import NamedScores
from calcli.evaluation.request import EvaluateRequest
from calcli.evaluation.score_buffer import BufferedScores
from calcli.fitting.policies import asked_of
from calcli.reports.groups import Numbered, numbers, values_of
from calcli.state import Json
from calcli.tables.source import Source

REPLICATES = 1000
"""Of the interval of a cost, where nothing else is asked for."""


def measured_policies(
    request: EvaluateRequest,
    named_scores: NamedScores,
    source: Source,
    rows: BufferedScores,
    loaded: Numbered,
    units: Units | None,
) -> tuple[dict[str, Json], ...]:
    """The report's `decisions`: the numbers of each policy, and the test of its promise."""
    entries = []
    for candidate in rows.candidates:
        policy = None if (model := named_scores.models.get(candidate.name)) is None else model.policy
        if model is None or policy is None:
            continue
        rule, group, beside = policy.rule, None, dict[str, FloatArray]()
        if isinstance(rule, SetRule):
            group = (
                None
                if rule.column is None
                else codes(values_of(source, rule.column, loaded, "the policy"), rule.groups)
            )
        else:
            beside = {name: numbers(source, name, loaded, "the policy") for name in rule.reads}
        scale = asked_of(model).cost
        source.find(scale, known=True)
        paid = None if scale is None or scale not in source.columns else numbers(source, scale, loaded, "--cost")
        found, promise = measure(
            policy,
            Rows(candidate.prob, rows.labels, rows.weight, units, paid, group=group),
            beside,
            replicates=request.bootstrap or REPLICATES,
            seed=request.seed,
        )
        entry = {
            "score": candidate.name,
            "kind": policy.kind,
            "numbers": {name: asdict(number) for name, number in found.items()},
            "promise": None if promise is None else asdict(promise),
        }
        entries.append(as_json(entry))
    return tuple(entries)
