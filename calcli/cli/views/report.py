"""A report on a screen: the verdict, the numbers, the facts, the definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, described, wrapped
from calcli.cli.views import scores
from calcli.reporting import facts, findings
from calcli.reporting import verdict as judge
from calcli.reporting.typesetting import GLUE
from calcli.reporting.verdict import Verdict

if TYPE_CHECKING:
    from calcli.fitting.requests import FitResult
    from calcli.reports.schema import Report

SHORT = {"better": "better", "worse": "WORSE", "unclear": "NOT shown better", "same": "the same", "unknown": "unknown"}
"""The answers where they stand under each other."""

_LEFT = 9
"""How wide the names of facts and definitions are, so that both stand in one column."""


def evaluated(report: Report, screen: Screen) -> list[str]:
    """What `evaluate` found."""
    return _laid_out(report, screen, [])


def fitted(result: FitResult, screen: Screen) -> list[str]:
    """What `fit` found, with how rows were held out."""
    if result.report is None or result.model is None:
        return bound(result.binding.to_json(), [], screen)
    holdout = result.model.manifest.fit["holdout"]
    return _laid_out(result.report, screen, [facts.holdout_fact(holdout)] if isinstance(holdout, dict) else [])


def bound(binding: Mapping[str, Any], more: Sequence[facts.Pair], screen: Screen) -> list[str]:
    """Which column would play which part, and the notes on how that was decided."""
    notes = [line for note in binding["notes"] for line in ["", *wrapped(note, screen.prose)]]
    return [*described_facts([*facts.binding_facts(binding), *more], screen), *notes]


def _laid_out(report: Report, screen: Screen, more: Sequence[facts.Pair]) -> list[str]:
    found = findings.of_report(report)
    positive = report.binding["positive"]
    below = [*facts.data_facts(report.data, positive), *more, *facts.binding_facts(report.binding)]
    lines = [*headline(found, screen), "", *scores.table(found, screen)]
    lines += [screen.dim(f"  {line}") for line in _missing(found, screen)]
    lines += ["", *described_facts(below, screen)]
    return [*lines, "", *footnotes({name: asdict(one) for name, one in report.definitions.items()}, found, screen)]


def headline(found: findings.Findings, screen: Screen) -> list[str]:
    """The verdict on each score, with its answer in colour; a table of them where there are several."""
    if not found.scores:
        return []
    if found.place and not found.calibrated:
        return wrapped("Not checked: no rows were held out. These are the numbers of the raw score.", screen.prose)
    if len(found.calibrated) < 2:
        verdict = judge.verdict(found, found.calibrated[0]) if found.calibrated else judge.alone(found)
        return [line.replace(verdict.answer, _paint(verdict, screen)) for line in wrapped(verdict.text, screen.prose)]
    judged = [judge.verdict(found, score) for score in found.calibrated]
    rows = [
        (score.name, _paint(verdict._replace(answer=SHORT[verdict.kind]), screen), verdict.size.replace(GLUE, " "))
        for score, verdict in zip(found.calibrated, judged, strict=True)
    ]
    return [*wrapped(judge.best(found, judged), screen.prose), "", *aligned(rows, "lll")]


def _paint(verdict: Verdict, screen: Screen) -> str:
    paint = {"better": screen.good, "worse": screen.bad, "unclear": screen.doubtful}.get(verdict.kind, screen.bold)
    return paint(verdict.answer)


def _missing(found: findings.Findings, screen: Screen) -> list[str]:
    return [line for reason in findings.missing(found.scores) for line in wrapped(reason, screen.prose - 2)]


def footnotes(definitions: dict[str, dict[str, object]], found: findings.Findings, screen: Screen) -> list[str]:
    """The definitions in a few dim lines."""
    pairs = facts.definitions({name: definitions[name] for name in found.metrics})
    if any(score.floors for score in found.scores):
        pairs.append(facts.FLOOR)
    return [screen.dim(line) for line in described(pairs, screen.prose, least=_LEFT)]


def drift(report: Report, screen: Screen) -> list[str]:
    """Whether the calibration has moved, in a sentence or two."""
    if report.drift is None:
        return []
    answer = screen.bad("DRIFT") if report.drift["drifted"] else screen.good("no drift")
    return ["", *wrapped(f"{answer}: {facts.drift(report.drift)}", screen.prose)]


def described_facts(pairs: Sequence[facts.Pair], screen: Screen) -> list[str]:
    """Facts under each other, their names dim."""
    return described([(screen.dim(name), said) for name, said in pairs], screen.prose, least=_LEFT)
