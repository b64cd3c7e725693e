"""Ensembles on a screen: what was trained, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, described, wrapped
from calcli.cli.views import scores
from calcli.cli.views.report import described_facts
from calcli.reporting import facts
from calcli.reporting.findings import Findings, Numbers
from calcli.reporting.typesetting import NOTHING, spelled

if TYPE_CHECKING:
    from calcli.diagrams.curves import Curve
    from calcli.reports.schema import Report, ScoreRow
    from calcli.verbs.uncertainty_fit import EnsembleResult

KINDS = {
    "sglb": "models sampled from the posterior (sglb)",
    "sgb": "models on random halves of the rows (sgb)",
    "virtual": "members of one model (virtual)",
}

MEANINGS = {
    "nll": "log-loss in nats; of amounts, of the mixture of the members' distributions",
    "error": "how often the most probable class is wrong",
    "rmse": "root mean squared error of the mean",
    "prr_total": "percent of an oracle's gain from rejecting the rows of most total uncertainty first",
    "prr_knowledge": "the same by knowledge uncertainty",
    "ood_auc_total": "how often a row from elsewhere has more total uncertainty than one of these",
    "ood_auc_knowledge": "the same of knowledge uncertainty",
}

REJECTED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
"""The shares in the table of what is left."""

_LEFT = 9


def fitted(result: EnsembleResult, screen: Screen) -> list[str]:
    """What was trained, on what."""
    if result.model is None:
        return []
    manifest = result.model.manifest
    params, fit = manifest.params, cast("dict[str, Any]", manifest.fit)
    files = cast("list[dict[str, Any]]", manifest.data.get("files", []))
    settings = ", ".join(f"{name}={_short(value)}" for name, value in params.items())
    rows = f"{fit['rows']:,} rows"
    pairs = [
        ("ensemble", f"{params['members']} {KINDS[manifest.method]}, in {_time(result.seconds)}"),
        ("set to", settings),
        ("data", f"{rows} of {facts.names_of_files(files)}" if files else rows),
        *facts.binding_facts(manifest.binding),
    ]
    return described_facts(pairs, screen)


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else spelled(value)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def evaluated(report: Report, screen: Screen) -> list[str]:
    """What `uncertainty evaluate` found: a sentence for each ensemble, the numbers, what is left as rows go."""
    ensembles = [row for row in report.scores if not row.name.endswith(".single")]
    found = _findings(report, ensembles)
    lines = [line for row in ensembles for line in wrapped(_sentence(row), screen.prose)]
    lines += ["", *scores.table(found, screen), "", *_rejection(report, ensembles, screen)]
    below = [*facts.data_facts(report.data, report.binding["positive"]), *facts.binding_facts(report.binding)]
    lines += ["", *described_facts(below, screen), ""]
    meanings = [(name, MEANINGS[name]) for name in report.definitions]
    return [*lines, *(screen.dim(line) for line in described(meanings, screen.prose, least=_LEFT))]


def _sentence(row: ScoreRow) -> str:
    """The finding that matters most: what knowledge uncertainty is for, else what total uncertainty is for."""
    values = {name: metric.value for name, metric in row.metrics.items()}
    if values.get("ood_auc_knowledge") is not None:
        knowledge, total = values["ood_auc_knowledge"], values["ood_auc_total"]
        return (
            f"Knowledge uncertainty of {row.name} tells rows from elsewhere with an AUC of {knowledge:.3f}, "
            f"total uncertainty with {total:.3f}."
        )
    if values["prr_total"] is None:
        return f"What {row.name} gains by rejecting rows cannot be said: {row.metrics['prr_total'].reason}."
    return (
        f"Rejecting the rows of most total uncertainty first, {row.name} gains {values['prr_total']:.0f} % "
        "of what an oracle would."
    )


def _findings(report: Report, ensembles: Sequence[ScoreRow]) -> Findings:
    """One ensemble stands behind its single model, with how much it changes; several as they come."""
    rows = list(report.scores)
    differences = {(one.score, one.metric): one for one in report.differences}
    if len(ensembles) == 1:
        rows.reverse()
    numbers = tuple(
        Numbers(row.name, {name: value.value for name, value in row.metrics.items()}, {}, {}, {}) for row in rows
    )
    return Findings(numbers, {name: one.direction for name, one in report.definitions.items()}, differences)


def _rejection(report: Report, ensembles: Sequence[ScoreRow], screen: Screen) -> list[str]:
    """The loss of what is left, by share rejected; of amounts its root, as in the table above."""
    amounts = "rmse" in report.definitions
    columns: list[list[str]] = [["rejected", "", *(f"{share:.0%}".replace("%", " %") for share in REJECTED)]]
    for row in ensembles:
        for by in ("total", "knowledge", "oracle"):
            points = _points(report.curves, row.name, by)
            left = [points.get(round(100 * share)) for share in REJECTED]
            columns.append([row.name, f"by {by}", *(_left(value, amounts=amounts) for value in left)])
    lines = aligned(list(zip(*columns, strict=True)), "r" * len(columns))
    title = "RMSE of the rows that are left" if amounts else "error of the rows that are left"
    return [screen.dim(f"  {title}"), *map(screen.dim, lines[:2]), *lines[2:]]


def _points(curves: Sequence[Curve], name: str, by: str) -> dict[int, float]:
    """The loss by percent rejected."""
    chosen = (curve for curve in curves if (curve.score, curve.by) == (name, by))
    return {round(100 * point.x): point.y for curve in chosen for point in curve.points}


def _left(value: float | None, *, amounts: bool) -> str:
    if value is None:
        return NOTHING
    return f"{math.sqrt(value):.4g}" if amounts else f"{value:.4f}"
