"""Results on a terminal: the reports of every verb, the leaderboard, policies, ensembles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from calcli.cli.screen import (
    Screen,
    aligned,
    described,
    fact_list,
    notes,
    remarks,
    shown_width,
    table,
    widest_fitting,
    wrapped,
)
from calcli.reporting import decisions, facts, tables, verdict
from calcli.reporting.tables import Findings, Numbers, Table
from calcli.reporting.typesetting import GLUE, NOTHING, settings
from calcli.reporting.verdict import Verdict

if TYPE_CHECKING:
    from calcli.diagrams.curves import Curve
    from calcli.models.requests import FitResult
    from calcli.reports.schema import Report, ScoreRow
    from calcli.verbs.compare import CompareResult
    from calcli.verbs.decide import DecideResult
    from calcli.verbs.refit import PolicyRefit
    from calcli.verbs.refit_calibrator import RefitResult
    from calcli.verbs.uncertainty import EnsembleResult

_SHORT = {"better": "better", "worse": "WORSE", "unclear": "NOT shown better", "same": "the same", "unknown": "unknown"}
"""The verdicts in a list of several scores."""

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
    "ood_auc_total": "how often an out-of-distribution row has a higher total uncertainty than one of these",
    "ood_auc_knowledge": "the same with knowledge uncertainty",
}

_REJECTED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
"""The shares in the table of ensembles' errors by rejection."""


# Reports of calibrators


def fitted(result: FitResult, screen: Screen) -> list[str]:
    """The report of `fit`, with how rows were held out."""
    if result.report is None or result.model is None:
        return bound(result.binding.to_json(), [], screen)
    holdout = result.model.manifest.fit["holdout"]
    return measured(result.report, screen, [facts.holdout_fact(holdout)] if isinstance(holdout, dict) else [])


def bound(binding: Mapping[str, Any], more: Sequence[facts.Pair], screen: Screen) -> list[str]:
    """The roles of the columns, and the notes on how they were found."""
    lines = [line for note in binding["notes"] for line in ["", *wrapped(note, screen.prose)]]
    return [*fact_list([*facts.binding_facts(binding), *more], screen), *lines]


def refitted(result: RefitResult | PolicyRefit, screen: Screen) -> list[str]:
    """The report of `refit`: whether the artifact was replaced and by which rule, then the numbers."""
    from calcli.verbs.refit import PolicyRefit

    if isinstance(result, PolicyRefit):
        lines = wrapped(verdict.policy_refit_opening(result), screen.prose)
        return [*lines, *_policies(result.report, screen), *measured(result.report, screen)]
    return measured(result.report, screen, verdict.refit_facts(result), verdict.refit_opening(result))


def evaluated(report: Report, screen: Screen) -> list[str]:
    """The report of `evaluate`: the numbers, then what was asked for besides."""
    lines = [*measured(report, screen), *groups(report, screen)]
    for each in tables.rejection(report):
        lines += _titled(each, wrapped(each.title, screen.prose), screen)
    return [
        *lines,
        *changes(report, screen),
        *_gates(report, screen),
        *_drift(report, screen),
        *_policies(report, screen),
    ]


def measured(report: Report, screen: Screen, more: Sequence[facts.Pair] = (), opening: str | None = None) -> list[str]:
    """The verdicts, the table with why numbers are missing, the rows and columns, the definitions.

    The `opening` stands in place of the sentence above several verdicts.
    """
    findings = Findings.of_report(report)
    lines = [*_scarcity(report, screen), *headline(findings, screen, opening)]
    if findings.scores:
        lines += ["", *numbers_table(findings, screen)]
    lines += remarks(tables.missing(findings.scores), screen)
    for each in tables.versus(report):
        lines += _titled(each, [each.title], screen)
    return [
        *lines,
        "",
        *fact_list(facts.measured(report.data, report.binding, more), screen),
        "",
        *notes(findings.terms(), screen),
    ]


def _scarcity(report: Report, screen: Screen) -> list[str]:
    """The warning that a class has few rows."""
    text = verdict.scarcity(report)
    return [*map(screen.doubtful, wrapped(text, screen.prose)), ""] if text else []


def headline(findings: Findings, screen: Screen, opening: str | None = None) -> list[str]:
    """The verdict on each score, with its answer in colour; a list of them where there are several."""
    if not findings.scores:
        return []
    if findings.place and not findings.calibrated:
        return wrapped("Not evaluated: no rows were held out. The numbers are those of the raw score.", screen.prose)
    judged = verdict.verdicts(findings)
    if len(judged) == 1:
        answer = judged[0].answer
        colored = _colored(judged[0], answer, screen)
        return [line.replace(answer, colored) for line in wrapped(judged[0].text, screen.prose)]
    rows = [
        (score.name, _colored(each, _SHORT[each.kind], screen), each.size.replace(GLUE, " "))
        for score, each in zip(findings.calibrated, judged, strict=True)
    ]
    return [*wrapped(opening or verdict.best(findings, judged), screen.prose), "", *aligned(rows, "lll")]


def _colored(judged: Verdict, answer: str, screen: Screen) -> str:
    color = {"better": screen.good, "worse": screen.bad, "unclear": screen.doubtful}.get(judged.kind, screen.bold)
    return color(answer)


def numbers_table(findings: Findings, screen: Screen) -> list[str]:
    """All numbers: a metric a line, or a score a line where many scores are too wide."""
    # One calibrated score also gets its change and the interval, as far as the screen is wide enough.
    _, lines = widest_fitting((tables.by_metric(findings, extra) for extra in (2, 1, 0)), screen)
    if len(findings.scores) <= 2 or max(map(shown_width, lines)) <= screen.width:
        return lines
    # Metrics that do not fit into the width continue in another block.
    names = ["", "better", *(score.name for score in findings.scores)]
    lines = []
    for block in _blocks(names, tables.by_score(findings), screen.width):
        lines += ["", *_two_headers([names, *block], "l" + "r" * len(block), screen)]
    return lines[1:]


def _blocks(names: Sequence[str], columns: Sequence[list[str]], width: int) -> list[list[list[str]]]:
    """The columns in as many groups as it takes for each to fit beside the names."""
    room = width - 2 - max(map(shown_width, names))
    groups: list[list[list[str]]] = [[]]
    left = room
    for column in columns:
        taken = 2 + max(map(shown_width, column))
        if taken > left and groups[-1]:
            groups.append([])
            left = room
        groups[-1].append(column)
        left -= taken
    return groups


def _two_headers(columns: Iterable[Sequence[str]], align: str, screen: Screen) -> list[str]:
    """Columns whose first two cells are headers."""
    lines = aligned(list(zip(*columns, strict=True)), align)
    return [*map(screen.dim, lines[:2]), *lines[2:]]


def _titled(shown: Table, title: Iterable[str], screen: Screen) -> list[str]:
    return ["", *map(screen.bold, title), *table(shown, screen)]


def groups(report: Report, screen: Screen) -> list[str]:
    """A table for each column and score, without the last metrics where the screen is too narrow for all."""
    lines: list[str] = []
    hidden: dict[str, None] = {}
    for each in tables.by_group(report):
        shown, rows = widest_fitting(_ever_fewer_metrics(each), screen)
        hidden |= dict.fromkeys(name for name in reversed(each.header) if name not in shown.header)
        lines += ["", screen.bold(each.title), *rows]
    if lines:
        more = [("more", f"{', '.join(hidden)}, on a wider screen or with --format")] if hidden else []
        lines += ["", *notes([*tables.GROUP_TERMS, *more], screen)]
    return lines


def _ever_fewer_metrics(shown: Table) -> Iterator[Table]:
    """The table, then without its last metrics, which stand between the count of rows and the last two columns."""
    yield shown
    while (last := len(shown.header) - 3) > 2:
        shown = shown.without(last)
        yield shown


def changes(report: Report, screen: Screen) -> list[str]:
    """The numbers of all rows beside those of the baseline, and why some cannot be compared."""
    found = tables.since(report)
    if found is None:
        return []
    shown, reasons = found
    return [*_titled(shown, [f"changes since {shown.title}"], screen), *remarks(reasons, screen)]


def _gates(report: Report, screen: Screen) -> list[str]:
    """A line for each gate, and for each number that failed it."""
    lines: list[str] = []
    for gate in verdict.gates(report):
        answer = screen.good("passed") if gate.passed else screen.bad("FAILED")
        lines += wrapped(f"{answer}: {gate.text}", screen.prose)
        lines += [f"  {failure}, the limit {limit:g}" for failure, limit in gate.failures]
    return ["", *lines] if lines else []


def _drift(report: Report, screen: Screen) -> list[str]:
    """Whether the calibration has drifted, and whether a policy keeps its promise, in a sentence each."""
    if report.drift is None:
        return []
    lines: list[str] = []
    if moved := facts.drift(report.drift):
        quiet = "no verdict yet" if report.drift.get("learning") else screen.good("no drift detected")
        answer = screen.bad("DRIFT") if report.drift["drifted"] else quiet
        lines += ["", *wrapped(f"{answer}: {moved}", screen.prose)]
    if kept := facts.promise_kept(report.drift):
        promise: Any = report.drift["promise"]
        answer = screen.bad("BROKEN") if promise["broken"] else screen.good("kept")
        lines += ["", *wrapped(f"{answer}: {kept}", screen.prose)]
    return lines


def _policies(report: Report, screen: Screen) -> list[str]:
    """The numbers of each policy, and whether its promise holds."""
    lines: list[str] = []
    for entry in report.decisions:
        lines += ["", *wrapped(decisions.measured(entry), screen.prose)]
    return lines


# Comparisons and policies


def compared(result: CompareResult, screen: Screen) -> list[str]:
    """The choice in a sentence, the table of methods, the rows and folds of the comparison."""
    report = result.report
    said = ". ".join(part for part in (result.choice.why, tables.certainty(report)) if part)
    # The intervals tell methods apart, so that other metrics give way to them first.
    names = list(report.definitions)
    counts = [(behind, count) for behind in (True, False) for count in range(len(names), 0, -1)]
    boards = (tables.leaderboard(report, names[:count], behind=behind) for behind, count in counts)
    shown, rows = widest_fitting(boards, screen)
    lines = [*_scarcity(report, screen), *wrapped(f"{said}.", screen.prose), "", *rows]
    if without := tables.without_numbers(report):
        lines += ["", *described(without, screen.prose)]
    terms = tables.leaderboard_terms(report, shown)
    if hidden := [name for name in names if name not in shown.header]:
        terms.append(("more", f"{', '.join(hidden)} are hidden: use a wider screen, or --format csv"))
    return [*lines, "", *fact_list(facts.measured(report.data, report.binding), screen), "", *notes(terms, screen)]


def decided(result: DecideResult, screen: Screen) -> list[str]:
    """The decision and its reason, the other options, the rows."""
    headline = decisions.headline(result.choice)
    lines = [*map(screen.bold, wrapped(headline, screen.prose)), ""] if headline else []
    for each in decisions.tables(result.choice):
        lines += [screen.bold(each.title)] if each.title else []
        lines += [*table(each, screen), ""]
    return [*lines, *fact_list(facts.measured(result.data, result.binding.to_json()), screen)]


# Ensembles


def ensemble_fitted(result: EnsembleResult, screen: Screen) -> list[str]:
    """The ensemble, its settings, and the rows that it was trained on."""
    if result.model is None:
        return []
    manifest = result.model.manifest
    pairs = [
        ("ensemble", f"{manifest.params['members']} {_ENSEMBLES[manifest.method]}, in {_time(result.seconds)}"),
        ("set to", settings(manifest.params)),
        facts.fit_data(manifest),
        *facts.binding_facts(manifest.binding),
    ]
    return fact_list(pairs, screen)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def ensemble_evaluated(report: Report, screen: Screen) -> list[str]:
    """The report of `uncertainty evaluate`: a sentence for each ensemble, the numbers, the errors by rejection."""
    ensembles = [score for score in report.scores if not score.name.endswith(".single")]
    lines = [line for ensemble in ensembles for line in wrapped(_sentence(ensemble), screen.prose)]
    findings = _ensemble_numbers(report, reverse=len(ensembles) == 1)
    lines += ["", *numbers_table(findings, screen), "", *_rejection(report, ensembles, screen)]
    lines += ["", *fact_list(facts.measured(report.data, report.binding), screen), ""]
    return [*lines, *notes([(name, _ENSEMBLE_METRICS[name]) for name in report.definitions], screen)]


def _sentence(score: ScoreRow) -> str:
    """How well knowledge uncertainty detects out-of-distribution rows; without these, how the total finds errors."""
    values = {name: metric.value for name, metric in score.metrics.items()}
    if values.get("ood_auc_knowledge") is not None:
        knowledge, total = values["ood_auc_knowledge"], values["ood_auc_total"]
        return (
            f"Knowledge uncertainty of {score.name} detects out-of-distribution rows with an AUC of {knowledge:.3f}, "
            f"total uncertainty with {total:.3f}."
        )
    if values["prr_total"] is None:
        return f"The gain of {score.name} from rejecting rows is undefined: {score.metrics['prr_total'].reason}."
    return (
        f"Rejecting the rows with the highest total uncertainty first, {score.name} reaches "
        f"{values['prr_total']:.0f} % of the gain of an oracle."
    )


def _ensemble_numbers(report: Report, *, reverse: bool) -> Findings:
    """The numbers of the table; a single ensemble stands behind its single model, so that its change is shown."""
    numbers = [
        Numbers(score.name, {name: metric.value for name, metric in score.metrics.items()}, {}, {}, {})
        for score in report.scores
    ]
    differences = {(difference.score, difference.metric): difference for difference in report.differences}
    definitions = {name: asdict(definition) for name, definition in report.definitions.items()}
    return Findings(tuple(reversed(numbers) if reverse else numbers), definitions, differences)


def _rejection(report: Report, ensembles: Sequence[ScoreRow], screen: Screen) -> list[str]:
    """The loss of the remaining rows by share rejected; its root for amounts, as in the table above."""
    amounts = "rmse" in report.definitions
    columns = [["rejected", "", *(f"{share:.0%}".replace("%", " %") for share in _REJECTED)]]
    for score in ensembles:
        for by in ("total", "knowledge", "oracle"):
            points = _points(report.curves, score.name, by)
            losses = [points.get(round(100 * share)) for share in _REJECTED]
            columns.append([score.name, f"by {by}", *(_loss(value, amounts=amounts) for value in losses)])
    title = "RMSE of the remaining rows" if amounts else "error of the remaining rows"
    return [screen.dim(f"  {title}"), *_two_headers(columns, "r" * len(columns), screen)]


def _points(curves: Sequence[Curve], name: str, by: str) -> dict[int, float]:
    """The loss by percent rejected."""
    chosen = (curve for curve in curves if (curve.score, curve.by) == (name, by))
    return {round(100 * point.x): point.y for curve in chosen for point in curve.points}


def _loss(value: float | None, *, amounts: bool) -> str:
    if value is None:
        return NOTHING
    return f"{math.sqrt(value):.4g}" if amounts else f"{value:.4f}"
