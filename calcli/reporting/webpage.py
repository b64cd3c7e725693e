"""A report as one page that needs nothing else: for a browser, a telephone, a printer, an archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from calcli.diagrams import page
from calcli.reporting import facts, findings, scarcity, tables
from calcli.reporting import leaderboard as ranking
from calcli.reporting import verdict as judge
from calcli.reporting.findings import Findings
from calcli.reporting.markup import paragraph, section, table, terms, text
from calcli.reporting.typesetting import NOTHING, glued
from calcli.reporting.verdict import Verdict

if TYPE_CHECKING:
    from calcli.diagrams.curves import Curve
    from calcli.reports.schema import Report

BESIDE = 4
"""Up to so many scores stand beside each other, a metric a line; more stand under each other."""

DRAWN = 4
"""Of methods that were compared, the identity, the chosen one and the best of the others have pictures."""


def webpage(report: Report) -> str:
    """The report of `evaluate` or of `compare` as HTML. Nothing in it is fetched from anywhere."""
    numbers = findings.of_report(report)
    compared = report.command == "compare"
    notes: Any = report.binding["notes"]
    body = [
        *(paragraph(said, "warning") for said in (scarcity.warning(report),) if said),
        _choice(report) if compared else headline(numbers),
        _drift(report),
        _gates(report),
        *(paragraph(one.message, "warning") for one in report.warnings if one.code != "choice"),
        section("Numbers", _leaderboard(report) if compared else numbers_table(numbers) + _versus(report)),
        _pictures(report),
        _groups(report),
        _changes(report),
        section("Data", terms(_measured(report)), *map(paragraph, notes)),
        section("Scores", terms(_origins(report))),
        section("Definitions", terms(_definitions(report, numbers))),
    ]
    about = f"calcli {report.version}, {report.command}, seed {report.seed}"
    return page.document(_title(report), about, "".join(body))


def _title(report: Report) -> str:
    of = f": {facts.names_of_files(report.data.files)}" if report.data.files else ""
    return ("Comparison of methods" if report.command == "compare" else "Calibration") + of


def _choice(report: Report) -> str:
    """Which method was chosen, why, and how sure that is."""
    said = [*(one.message for one in report.warnings if one.code == "choice"), ranking.certainty(report)]
    return "".join(paragraph(f"{one}.", "verdict") for one in said if one)


def headline(numbers: Findings) -> str:
    """The verdict on each score."""
    judged = [judge.verdict(numbers, score) for score in numbers.calibrated] or [judge.alone(numbers)]
    first = paragraph(judge.best(numbers, judged), "verdict") if len(judged) > 1 else ""
    return first + "".join(_answer(one) for one in judged)


def _answer(verdict: Verdict) -> str:
    sentence = text(verdict.text)
    if verdict.answer:
        answer = text(glued(verdict.answer))
        sentence = sentence.replace(answer, f'<strong class="{verdict.kind}">{escape(verdict.answer)}</strong>', 1)
    return f'<p class="verdict">{sentence}</p>\n'


def _drift(report: Report) -> str:
    if report.drift is None:
        return ""
    answer, kind = ("Drift", "worse") if report.drift["drifted"] else ("No drift detected", "better")
    moved, promise = facts.drift(report.drift), facts.promise_kept(report.drift)
    page = paragraph(f"{answer}: {moved}.", kind) if moved else ""
    broken: Any = report.drift.get("promise")
    return page + (
        paragraph(f"{promise[:1].upper()}{promise[1:]}.", "worse" if broken["broken"] else "better") if promise else ""
    )


def _gates(report: Report) -> str:
    lines = []
    for gate in report.gates:
        answer = '<strong class="better">passed</strong>' if gate["passed"] else '<strong class="worse">FAILED</strong>'
        failed: Any = gate["failed"]
        why = "; ".join(
            f"{one['metric']} of {one['score']}{'' if one['group'] is None else ', ' + str(one['group'])} is "
            + (NOTHING if one["value"] is None else f"{one['value']:.6g}")
            for one in failed
        )
        outcome = f"{gate['expr']} is {'false' if gate['passed'] else 'true'}{f' ({why})' if why else ''}"
        lines.append(f"<li>{answer}: {escape(outcome)}</li>\n")
    return f'<ul class="gates">\n{"".join(lines)}</ul>\n' if lines else ""


def numbers_table(numbers: Findings) -> str:
    """A metric a line, with the difference if there is one calibrated score; a score a line where there are many."""
    notes = "".join(paragraph(reason, "note") for reason in findings.missing(numbers.scores))
    return (_by_metric if len(numbers.scores) <= BESIDE else _by_score)(numbers) + notes


def _by_metric(numbers: Findings) -> str:
    shown = tables.by_metric(numbers)
    return table(shown.header, shown.rows, words=shown.words, kinds=dict.fromkeys(shown.under, "under-it"))


def _versus(report: Report) -> str:
    return "".join(
        table(shown.header, shown.rows, caption=shown.title, words=shown.words) for shown in tables.versus(report)
    )


def _by_score(numbers: Findings) -> str:
    columns = tables.by_score(numbers)
    header = ["", *(f"{metric} ({which})" for metric, which, *_ in columns)]
    rows = zip((one.name for one in numbers.scores), *(values for _, _, *values in columns), strict=True)
    return table(header, rows)


def _leaderboard(report: Report) -> str:
    """A method a line, the best first; then those that have no numbers."""
    header, cells = ranking.lines(report, list(report.definitions))
    kinds = {place: "chosen" for place, row in enumerate(cells) if row[0].removesuffix(" *") == report.chosen}
    without = [f"{row.name} {row.status}: {row.reason}" for row in report.scores if row.status != "ok"]
    return table(header, cells, kinds=kinds) + "".join(paragraph(one, "note") for one in without)


def _pictures(report: Report) -> str:
    curves = _drawn(report)
    if not curves:
        return ""
    figures = page.figures(curves, str(report.binding["label"]), "consistency")
    return f"<h2>Reliability diagrams</h2>\n{page.switches(curves)}{figures}"


def _drawn(report: Report) -> list[Curve]:
    if report.command != "compare":
        return list(report.curves)
    ranked = [row.name for row in ranking.ranked(report)]
    names = list(dict.fromkeys([ranking.IDENTITY, *([report.chosen] if report.chosen else []), *ranked]))[:DRAWN]
    return [curve for curve in report.curves if curve.score in names]


def _groups(report: Report) -> str:
    """A table for each column and score; groups that are off beyond chance stand out."""
    parts = []
    for shown, entries in tables.by_group(report):
        off = {place: "off" for place, entry in enumerate(entries) if tables.is_off(entry)}
        parts.append(table(shown.header, shown.rows, caption=shown.title, kinds=off))
    return section("Groups", *parts, _columns() if parts else "")


def _columns() -> str:
    """The explanation of the last columns and of bold numbers."""
    detectable, (name, meaning) = tables.GROUPS
    return terms((detectable, (name, f"{meaning}; bold below 0.05")))


def _changes(report: Report) -> str:
    changes = tables.since(report)
    if changes is None:
        return ""
    shown, reasons = changes
    return section(
        f"Changes since {shown.title}",
        table(shown.header, shown.rows, words=2),
        *(paragraph(reason, "note") for reason in reasons),
    )


def _measured(report: Report) -> list[facts.Pair]:
    return [*facts.data_facts(report.data, report.binding["positive"]), *facts.binding_facts(report.binding)]


def _origins(report: Report) -> list[facts.Pair]:
    """The source of each score; of artifacts also the data of their fit."""
    return [(score.name, facts.origin(asdict(score.source))) for score in report.scores if score.status == "ok"]


def _definitions(report: Report, numbers: Findings) -> list[facts.Pair]:
    defined: Mapping[str, Mapping[str, Any]] = {name: asdict(one) for name, one in report.definitions.items()}
    pairs = facts.definitions(defined)
    if report.command == "compare":
        pairs += ranking.floors(report, list(report.definitions))
        header, _ = ranking.lines(report, ())
        pairs += [term for term in (ranking.GAIN, ranking.BEHIND, ranking.BEST) if term[0] in header]
    elif any(score.floors for score in numbers.scores):
        pairs.append(facts.FLOOR)
    return pairs
