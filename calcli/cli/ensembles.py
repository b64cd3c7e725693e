"""Ensembles and the reports about them as answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from calcli.cli.output import Answer, bound
from calcli.cli.results import in_blocks, numbers_table, of_report
from calcli.cli.screen import Screen, fact_list, notes, table, wrapped
from calcli.reporting import facts
from calcli.reporting.tables import Findings, of_differences
from calcli.reporting.typesetting import NOTHING, settings

if TYPE_CHECKING:
    from calcli.reports.schema import Report, ScoreRow
    from calcli.verbs.uncertainty import EnsembleResult

_ENSEMBLES = {
    "sglb": "models sampled from the posterior (sglb)",
    "sgb": "models on random halves of the rows (sgb)",
    "virtual": "members of one model (virtual)",
}

_ENSEMBLE_METRICS = {
    "nll": "log-loss in nats; for regression, that of the mixture of the members' distributions",
    "error": "how often the most probable class is wrong",
    "rmse": "root mean squared error of the mean",
    "prr_total": "gain from rejecting the rows with the highest total uncertainty first, in percent of an oracle's",
    "prr_knowledge": "the same with knowledge uncertainty",
    "ood_auc_total": "how often an out-of-domain row has a higher total uncertainty than one of these",
    "ood_auc_knowledge": "the same with knowledge uncertainty",
}

_REJECTED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
"""The shares in the table of ensembles' errors by rejection."""


def fitted(result: EnsembleResult) -> Answer:
    """The path of the ensemble, its settings, and the rows that it was trained on; the columns after a dry run."""
    if result.model is None:
        return bound(result.binding, ("ensemble", str(result.path)))
    manifest, seconds = result.model.manifest, result.seconds
    time = f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"
    pairs = [
        ("ensemble", f"{manifest.params['members']} {_ENSEMBLES[manifest.method]}, in {time}"),
        ("set to", settings(manifest.params)),
        facts.fit_data(manifest),
        *facts.binding_facts(manifest.binding),
    ]
    return Answer(partial(fact_list, pairs), beside_path=True, warnings=result.warnings, path=result.path)


def evaluated(report: Report) -> Answer:
    """A sentence for each ensemble, the numbers, the errors by rejection."""

    def lines(screen: Screen) -> list[str]:
        ensembles = [score for score in report.scores if not score.name.endswith(".single")]
        differences = {(difference.score, difference.metric): difference for difference in report.differences}
        others = [one for one in report.differences if one.versus == ensembles[0].name]
        findings = Findings.of_report(report)._replace(differences=differences)
        if len(ensembles) == 1:  # behind its single model, so that its change is shown
            findings = findings._replace(scores=findings.scores[::-1])
        return [
            *(line for ensemble in ensembles for line in wrapped(_sentence(ensemble), screen.prose)),
            *("", *numbers_table(findings, screen)),
            *(
                line
                for each in of_differences(others, Findings.of_report(report).digits)
                for line in ("", screen.bold(each.title), *table(each, screen))
            ),
            *("", *_rejection(report, ensembles, screen)),
            *("", *fact_list(facts.measured(report.data, report.binding), screen)),
            *("", *notes([(name, _ENSEMBLE_METRICS[name]) for name in report.definitions], screen)),
        ]

    return of_report(report, lines)


def _sentence(score: ScoreRow) -> str:
    """How well knowledge uncertainty detects out-of-domain rows; without these, how the total finds errors."""
    values = {name: metric.value for name, metric in score.metrics.items()}
    if values.get("ood_auc_knowledge") is not None:
        knowledge, total = values["ood_auc_knowledge"], values["ood_auc_total"]
        return (
            f"Knowledge uncertainty of {score.name} detects out-of-domain rows with an AUC of {knowledge:.3f}, "
            f"total uncertainty with {total:.3f}."
        )
    if values["prr_total"] is None:
        return f"The gain of {score.name} from rejecting rows is undefined: {score.metrics['prr_total'].reason}."
    return (
        f"Rejecting the rows with the highest total uncertainty first, {score.name} reaches "
        f"{values['prr_total']:.0f} % of the gain of an oracle."
    )


def _rejection(report: Report, ensembles: Sequence[ScoreRow], screen: Screen) -> list[str]:
    """The loss of the remaining rows by share rejected; its root for amounts, as in the table above."""
    amounts = "rmse" in report.definitions

    def shown(loss: float | None) -> str:
        if loss is None:
            return NOTHING
        return f"{math.sqrt(loss):.4g}" if amounts else f"{loss:.4f}"

    names, columns = ["rejected", "", *(f"{share:.0%}".replace("%", " %") for share in _REJECTED)], []
    for score in ensembles:
        for by in ("total", "knowledge", "oracle"):
            drawn = [
                point
                for curve in report.curves
                if (curve.score, curve.by) == (score.name, by)
                for point in curve.points
            ]
            points = {round(100 * point.x): point.y for point in drawn}
            losses = [points.get(round(100 * share)) for share in _REJECTED]
            columns.append([score.name, f"by {by}", *map(shown, losses)])
    title = "RMSE of the remaining rows" if amounts else "error of the remaining rows"
    return [screen.dim(f"  {title}"), *in_blocks(names, columns, "r", screen)]
