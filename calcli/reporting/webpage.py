"""A report as one page that needs nothing else: for a browser, a telephone, a printer, an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from calcli.diagrams import page
from calcli.diagrams.curves import BINS
from calcli.reporting import facts, findings, ranking
from calcli.reporting import verdict as judge
from calcli.reporting.findings import Findings
from calcli.reporting.markup import paragraph, section, table, terms, text
from calcli.reporting.typesetting import NOTHING, decimals, glued, interval, number, signed
from calcli.reporting.verdict import Verdict

if TYPE_CHECKING:
    from calcli.diagrams.curves import Curve
    from calcli.verbs.report import Report

BESIDE = 4
"""Up to so many scores stand beside each other, a metric a line; more stand under each other."""

DRAWN = 4
"""Of methods that were compared, the identity, the chosen one and the best of the others have pictures."""

FLOOR = ("floor", "what a calibrated score would show on these rows")

GROUPS = (
    ("detectable", "the least mean error (prediction less label) that so many rows would show in 4 of 5 cases"),
    (
        "p-value",
        "how often a calibrated score would be off by as much on average, adjusted for the number of groups; "
        "bold where that is less than one time in twenty",
    ),
)


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
    found = report.drift
    if found is None:
        return ""
    nights = f"{found['nights']} night{'s' if found['nights'] != 1 else ''}"
    evidence = f"evidence {found['evidence']:.3g} after {nights}; {found['threshold']:.0f} is enough"
    if not found["drifted"]:
        return paragraph(f"No drift: the calibration is what it was at the fit ({evidence}).", "better")
    when = f"most likely since night {found['since']}, {str(found['since_at'])[:10]}"
    return paragraph(f"Drift: {found['what']}, {when} ({evidence}).", "worse")


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
    """A metric a line, beside a single score its difference; a score a line where they are many."""
    digits = decimals([value for score in found.scores for value in score.values.values() if value is not None])
    reasons = [(metric, one.name, reason) for one in found.scores for metric, reason in one.reasons.items()]
    notes = "".join(paragraph(f"{metric} of {name}: {reason}", "note") for metric, name, reason in reasons)
    return (_by_metric if len(found.scores) <= BESIDE else _by_score)(found, digits) + notes


def _by_metric(found: Findings, digits: int) -> str:
    alone = found.calibrated[0] if len(found.calibrated) == 1 else None
    rows: list[list[str]] = []
    kinds: dict[int, str] = {}
    for metric in found.metrics:
        row = [metric, found.directions[metric], *(number(one.values.get(metric), digits) for one in found.scores)]
        change = found.changes.get((alone.name, metric)) if alone is not None else None
        if alone is not None:
            known = change is not None and change.value is not None
            row += [signed(change.value, digits), interval(change.lo, change.hi, digits)] if known else ["", ""]  # type: ignore[union-attr, arg-type]
        rows.append(row)
        for name, values in (("floor", [one.floors for one in found.scores]), ("p", [one.ps for one in found.scores])):
            if any(metric in each for each in values):
                kinds[len(rows)] = "under-it"
                more = [number(each.get(metric), digits) if metric in each else "" for each in values]
                rows.append([name, "", *more, *([""] * 2 if alone is not None else [])])
    header = ["", "better", *(score.name for score in found.scores)]
    return table([*header, *(["change", "95 % interval"] if alone is not None else [])], rows, words=2, kinds=kinds)


def _by_score(found: Findings, digits: int) -> str:
    header = ["", *(f"{metric} ({found.directions[metric]})" for metric in found.metrics)]
    rows = [[one.name, *(number(one.values.get(metric), digits) for metric in found.metrics)] for one in found.scores]
    return table(header, rows)


def _leaderboard(report: Report) -> str:
    """A method a line, the best first; then those that have no numbers."""
    rows = ranking.ranked(report)
    digits = decimals([value.value for row in rows for value in row.metrics.values() if value.value is not None])
    gains = ranking.gains(report, digits)
    cells = [
        [
            row.name,
            *(number(row.metrics[name].value, digits) for name in report.definitions),
            *gains.get(row.name, ("", "")),
            ranking.seconds(row),
        ]
        for row in rows
    ]
    kinds = {place: "chosen" for place, row in enumerate(rows) if row.name == report.chosen}
    header = ["", *report.definitions, "gain", "95 % interval", "fit"]
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
    entries: Sequence[Any] = report.groups
    parts = []
    for by, score in dict.fromkeys((entry["by"], entry["score"]) for entry in entries):
        held = [entry for entry in entries if (entry["by"], entry["score"]) == (by, score)]
        metrics = list(held[0]["metrics"])
        values = [entry["metrics"][name]["value"] for entry in held for name in metrics]
        digits = decimals([value for value in values if value is not None])
        rows = [
            [
                "null" if entry["group"] is None else str(entry["group"]),
                f"{entry['rows']:,}",
                *(number(entry["metrics"][name]["value"], digits) for name in metrics),
                number(entry["detectable"], digits),
                number(entry["p_adjusted"], 4),
            ]
            for entry in held
        ]
        off = {place: "off" for place, entry in enumerate(held) if (entry["p_adjusted"] or 1.0) < 0.05}
        header = ["", "rows", *metrics, "detectable", "p-value"]
        parts.append(table(header, rows, caption=f"{score} by {by}", kinds=off))
    return section("Groups", *parts, terms(GROUPS) if parts else "")


def _changes(report: Report) -> str:
    if report.baseline is None:
        return ""
    changes = [one for one in report.changes if one.by is None]
    digits = decimals([value for one in changes for value in (one.old, one.new) if value is not None])
    rows = [
        [
            one.score,
            one.metric,
            number(one.old, digits),
            number(one.new, digits),
            NOTHING if one.change is None else signed(one.change, digits),
        ]
        for one in changes
    ]
    reasons = dict.fromkeys(one.reason for one in changes if one.reason)
    shown = table(["", "", "before", "now", "change"], rows, words=2)
    return section(f"Since {report.baseline['path']}", shown, *(paragraph(reason, "note") for reason in reasons))


def _measured(report: Report) -> list[facts.Pair]:
    return [*facts.data_facts(report.data, report.binding["positive"]), *facts.binding_facts(report.binding)]


def _origins(report: Report) -> list[facts.Pair]:
    """Where each score comes from; of artifacts also what they were fitted on."""
    return [(score.name, facts.origin(asdict(score.source))) for score in report.scores if score.status == "ok"]


def _definitions(report: Report, found: Findings) -> list[facts.Pair]:
    defined: Mapping[str, Mapping[str, Any]] = {name: asdict(one) for name, one in report.definitions.items()}
    pairs = facts.definitions(defined)
    if any(score.floors for score in found.scores):
        pairs.append(FLOOR)
    if report.command == "compare":
        pairs.append(ranking.GAIN)
    if report.curves:
        pairs.append(("ECE of the bars", f"the ECE of a picture: over {BINS} bins of equal width"))
    return pairs
