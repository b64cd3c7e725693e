"""A report as one page that needs nothing else: for a browser, a telephone, a printer, an archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from calcli.diagrams import page
from calcli.diagrams.curves import BINS
from calcli.reporting import facts, findings, tables
from calcli.reporting import leaderboard as ranking
from calcli.reporting import verdict as judge
from calcli.reporting.findings import Findings
from calcli.reporting.markup import paragraph, section, table, terms, text
from calcli.reporting.typesetting import NOTHING, glued, number
from calcli.reporting.verdict import Verdict

if TYPE_CHECKING:
    from calcli.diagrams.curves import Curve
    from calcli.reports.schema import Report

BESIDE = 4
"""Up to so many scores stand beside each other, a metric a line; more stand under each other."""

DRAWN = 4
"""Of methods that were compared, the identity, the chosen one and the best of the others have pictures."""

OFF = 0.05
"""Groups whose p-value is below it stand out."""


def webpage(report: Report) -> str:
    """The report of `evaluate` or of `compare` as HTML. Nothing in it is fetched from anywhere."""
    found = findings.of_report(report)
    compared = report.command == "compare"
    notes: Any = report.binding["notes"]
    body = [
        _choice(report) if compared else _headline(found),
        _drift(report),
        _gates(report),
        *(paragraph(one.message, "warning") for one in report.warnings if one.code != "choice"),
        section("Numbers", _leaderboard(report) if compared else _numbers(found)),
        _pictures(report),
        _groups(report),
        _changes(report),
        section("What was measured", terms(_measured(report)), *map(paragraph, notes)),
        section("What the scores are", terms(_origins(report))),
        section("What the numbers mean", terms(_definitions(report, found))),
    ]
    about = f"calcli {report.version}, {report.command}, seed {report.seed}"
    return page.document(_title(report), about, "".join(body))


def _title(report: Report) -> str:
    of = f": {facts.names_of_files(report.data.files)}" if report.data.files else ""
    return ("Methods compared" if report.command == "compare" else "Calibration") + of


def _choice(report: Report) -> str:
    """Which method was chosen, and why."""
    return "".join(
        f'<p class="verdict">{escape(one.message)}.</p>\n' for one in report.warnings if one.code == "choice"
    )


def _headline(found: Findings) -> str:
    """The verdict on each score."""
    judged = [judge.verdict(found, score) for score in found.calibrated] or [judge.alone(found)]
    first = paragraph(judge.best(found, judged), "verdict") if len(judged) > 1 else ""
    return first + "".join(_answer(one) for one in judged)


def _answer(verdict: Verdict) -> str:
    said = text(verdict.text)
    if verdict.answer:
        answer = text(glued(verdict.answer))
        said = said.replace(answer, f'<strong class="{verdict.kind}">{escape(verdict.answer)}</strong>', 1)
    return f'<p class="verdict">{said}</p>\n'


def _drift(report: Report) -> str:
    if report.drift is None:
        return ""
    answer, kind = ("Drift", "worse") if report.drift["drifted"] else ("No drift", "better")
    return paragraph(f"{answer}: {facts.drift(report.drift)}.", kind)


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
        said = f"{gate['expr']} is {'not true' if gate['passed'] else 'true'}{f' ({why})' if why else ''}"
        lines.append(f"<li>{answer}: {escape(said)}</li>\n")
    return f'<ul class="gates">\n{"".join(lines)}</ul>\n' if lines else ""


def _numbers(found: Findings) -> str:
    """A metric a line, with the difference if there is one calibrated score; a score a line where there are many."""
    notes = "".join(paragraph(reason, "note") for reason in findings.missing(found.scores))
    return (_by_metric if len(found.scores) <= BESIDE else _by_score)(found) + notes


def _by_metric(found: Findings) -> str:
    alone = found.calibrated[0] if len(found.calibrated) == 1 else None
    digits = found.digits
    rows: list[list[str]] = []
    kinds: dict[int, str] = {}
    for metric in found.metrics:
        row = [metric, found.directions[metric], *(number(one.values.get(metric), digits) for one in found.scores)]
        if alone is not None:
            row += tables.difference_cells(found.differences.get((alone.name, metric)), digits)
        rows.append(row)
        for name, values in found.floors_and_ps(metric):
            kinds[len(rows)] = "under-it"
            cells = ["" if value is None else number(value, digits) for value in values]
            rows.append([name, "", *cells, *([""] * 2 if alone is not None else [])])
    header = ["", "better", *(score.name for score in found.scores)]
    return table([*header, *(["change", "95 % interval"] if alone is not None else [])], rows, words=2, kinds=kinds)


def _by_score(found: Findings) -> str:
    header = ["", *(f"{metric} ({found.directions[metric]})" for metric in found.metrics)]
    digits = found.digits
    rows = [[one.name, *(number(one.values.get(metric), digits) for metric in found.metrics)] for one in found.scores]
    return table(header, rows)


def _leaderboard(report: Report) -> str:
    """A method a line, the best first; then those that have no numbers."""
    header, cells = ranking.lines(report, list(report.definitions))
    kinds = {place: "chosen" for place, row in enumerate(cells) if row[0] == report.chosen}
    without = [f"{row.name} {row.status}: {row.reason}" for row in report.scores if row.status != "ok"]
    return table(header, cells, kinds=kinds) + "".join(paragraph(one, "note") for one in without)


def _pictures(report: Report) -> str:
    curves = _drawn(report)
    if not curves:
        return ""
    figures = page.figures(curves, str(report.binding["label"]), "consistency")
    return f"<h2>What was predicted, and what happened</h2>\n{page.switches(curves)}{figures}"


def _drawn(report: Report) -> list[Curve]:
    if report.command != "compare":
        return list(report.curves)
    ranked = [row.name for row in ranking.ranked(report)]
    names = list(dict.fromkeys([ranking.IDENTITY, *([report.chosen] if report.chosen else []), *ranked]))[:DRAWN]
    return [curve for curve in report.curves if curve.score in names]


def _groups(report: Report) -> str:
    """A table for each column and score; groups that are off beyond chance stand out."""
    parts = []
    for shown, held in tables.by_group(report):
        off = {place: "off" for place, entry in enumerate(held) if (entry["p_adjusted"] or 1.0) < OFF}
        parts.append(table(shown.header, shown.rows, caption=shown.title, kinds=off))
    return section("Groups", *parts, _columns() if parts else "")


def _columns() -> str:
    """The explanation of the last columns and of bold numbers."""
    detectable, (name, meaning) = tables.GROUPS
    return terms((detectable, (name, f"{meaning}; bold where that is less than one time in twenty")))


def _changes(report: Report) -> str:
    found = tables.since(report)
    if found is None:
        return ""
    shown, reasons = found
    return section(
        f"Since {shown.title}",
        table(shown.header, shown.rows, words=2),
        *(paragraph(reason, "note") for reason in reasons),
    )


def _measured(report: Report) -> list[facts.Pair]:
    return [*facts.data_facts(report.data, report.binding["positive"]), *facts.binding_facts(report.binding)]


def _origins(report: Report) -> list[facts.Pair]:
    """The source of each score; of artifacts also the data of their fit."""
    return [(score.name, facts.origin(asdict(score.source))) for score in report.scores if score.status == "ok"]


def _definitions(report: Report, found: Findings) -> list[facts.Pair]:
    defined: Mapping[str, Mapping[str, Any]] = {name: asdict(one) for name, one in report.definitions.items()}
    pairs = facts.definitions(defined)
    if any(score.floors for score in found.scores):
        pairs.append(facts.FLOOR)
    if report.command == "compare":
        pairs.append(ranking.GAIN)
    if report.curves:
        pairs.append(("ECE of the bars", f"the ECE of a picture: over {BINS} bins of equal width"))
    return pairs
