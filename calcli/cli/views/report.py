"""A report on a screen: the verdict, the numbers, the facts, the definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, wrapped
from calcli.cli.views import blocks, scores
from calcli.reporting import decisions, facts, findings, renewal, scarcity, tables
from calcli.reporting import verdict as judge
from calcli.reporting.typesetting import GLUE
from calcli.reporting.verdict import Verdict

if TYPE_CHECKING:
    from calcli.models.requests import FitResult
    from calcli.reports.schema import Report
    from calcli.verbs.refit import PolicyRefit
    from calcli.verbs.refit_calibrator import RefitResult

SHORT = {"better": "better", "worse": "WORSE", "unclear": "NOT shown better", "same": "the same", "unknown": "unknown"}
"""The verdicts in a table of several scores."""


def fitted(result: FitResult, screen: Screen) -> list[str]:
    """The report of `fit`, with how rows were held out."""
    if result.report is None or result.model is None:
        return bound(result.binding.to_json(), [], screen)
    holdout = result.model.manifest.fit["holdout"]
    return evaluated(result.report, screen, [facts.holdout_fact(holdout)] if isinstance(holdout, dict) else [])


def bound(binding: Mapping[str, Any], more: Sequence[facts.Pair], screen: Screen) -> list[str]:
    """Which column would play which part, and the notes on how that was decided."""
    notes = [line for note in binding["notes"] for line in ["", *wrapped(note, screen.prose)]]
    return [*blocks.fact_list([*facts.binding_facts(binding), *more], screen), *notes]


def refitted(result: RefitResult, screen: Screen) -> list[str]:
    """The report of `refit`: whether the artifact is another one now and by which rule, then the numbers."""
    return evaluated(result.report, screen, renewal.changes(result), renewal.opening(result))


def policy_refitted(result: PolicyRefit, screen: Screen) -> list[str]:
    """The report of `refit` of a policy: whether it is another one now, and why."""
    lines = wrapped(renewal.policy_opening(result), screen.prose)
    return [*lines, *policies(result.report, screen), *evaluated(result.report, screen)]


def evaluated(report: Report, screen: Screen, more: Sequence[facts.Pair] = (), opening: str | None = None) -> list[str]:
    """The verdicts, the table with why numbers are missing, the rows and columns, the definitions.

    The `opening` stands in place of the sentence over several verdicts.
    """
    numbers = findings.of_report(report)
    lines = [*scarce(report, screen), *headline(numbers, screen, opening)]
    if numbers.scores:
        lines += ["", *scores.table(numbers, screen)]
    lines += blocks.remarks(findings.missing(numbers.scores), screen)
    for table in tables.versus(report):
        align = "l" * table.words + "r" * (len(table.header) - table.words)
        lines += ["", screen.bold(table.title), *blocks.table([table.header, *table.rows], align, screen)]
    lines += ["", *blocks.fact_list(blocks.measured_facts(report, more), screen), ""]
    definitions = {name: asdict(definition) for name, definition in report.definitions.items()}
    return [*lines, *footnotes(definitions, numbers, screen)]


def scarce(report: Report, screen: Screen) -> list[str]:
    """The warning that a class has few rows."""
    text = scarcity.warning(report)
    return [*map(screen.doubtful, wrapped(text, screen.prose)), ""] if text else []


def headline(numbers: findings.Findings, screen: Screen, opening: str | None = None) -> list[str]:
    """The verdict on each score, with its answer in colour; a table of them where there are several."""
    if not numbers.scores:
        return []
    if numbers.place and not numbers.calibrated:
        return wrapped("Not evaluated: no rows were held out. The numbers are those of the raw score.", screen.prose)
    if len(numbers.calibrated) < 2:
        verdict = judge.verdict(numbers, numbers.calibrated[0]) if numbers.calibrated else judge.alone(numbers)
        answer = _colored(verdict, verdict.answer, screen)
        return [line.replace(verdict.answer, answer) for line in wrapped(verdict.text, screen.prose)]
    verdicts = [judge.verdict(numbers, score) for score in numbers.calibrated]
    rows = [
        (score.name, _colored(verdict, SHORT[verdict.kind], screen), verdict.size.replace(GLUE, " "))
        for score, verdict in zip(numbers.calibrated, verdicts, strict=True)
    ]
    return [*wrapped(opening or judge.best(numbers, verdicts), screen.prose), "", *aligned(rows, "lll")]


def _colored(verdict: Verdict, answer: str, screen: Screen) -> str:
    color = {"better": screen.good, "worse": screen.bad, "unclear": screen.doubtful}.get(verdict.kind, screen.bold)
    return color(answer)


def footnotes(definitions: dict[str, dict[str, object]], numbers: findings.Findings, screen: Screen) -> list[str]:
    """The definitions of the metrics, and of the floor if there is one."""
    pairs = facts.definitions({name: definitions[name] for name in numbers.metrics})
    if any(score.floors for score in numbers.scores):
        pairs.append(facts.FLOOR)
    return blocks.notes(pairs, screen)


def policies(report: Report, screen: Screen) -> list[str]:
    """What each policy is worth, and whether its promise holds."""
    lines: list[str] = []
    for entry in report.decisions:
        lines += ["", *wrapped(decisions.measured(entry), screen.prose)]
    return lines


def drift(report: Report, screen: Screen) -> list[str]:
    """Whether the calibration has moved, and whether a policy keeps its promise, in a sentence each."""
    if report.drift is None:
        return []
    lines: list[str] = []
    if moved := facts.drift(report.drift):
        answer = screen.bad("DRIFT") if report.drift["drifted"] else screen.good("no drift detected")
        lines += ["", *wrapped(f"{answer}: {moved}", screen.prose)]
    if kept := facts.promise_kept(report.drift):
        promise: Any = report.drift["promise"]
        answer = screen.bad("BROKEN") if promise["broken"] else screen.good("kept")
        lines += ["", *wrapped(f"{answer}: {kept}", screen.prose)]
    return lines
