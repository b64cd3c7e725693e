"""Reports and policies as pages that need nothing else: for a browser, a telephone, a printer, an archive. A notebook
shows the page in a frame whose style is its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from typing import Any, cast

from calcli.artifacts.manifest import Manifest
from calcli.diagrams import page, svg
from calcli.diagrams.charts import curve_charts
from calcli.diagrams.curves import Curve
from calcli.models.calibrator import CalibratorModel
from calcli.reporting import decisions, estimates, facts, labels, segments, tables, verdict
from calcli.reporting.tables import Findings
from calcli.reporting.typesetting import GLUE, Table, glued, number
from calcli.reporting.verdict import Verdict
from calcli.reports.schema import Report

_BESIDE = 4
"""Up to so many scores are columns of the table of numbers; more scores are its lines."""

_DRAWN = 4
"""A comparison has so many pictures: the identity, the chosen method and the best of the others."""

_ROWS = {"under": "under-it", "off": "off", "chosen": "chosen"}
"""The class in the page's style of each kind of row that stands out."""

# The parts of a page


def text(sentence: str) -> str:
    """A sentence as HTML, with spaces at which no line ends."""
    return escape(sentence).replace(GLUE, "&nbsp;")


def paragraph(sentence: str, kind: str = "") -> str:
    return f"<p{_class(kind)}>{text(sentence)}</p>\n"


def section(title: str, *parts: str) -> str:
    """Some parts under a title; empty where all parts are."""
    body = "".join(parts)
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}</section>\n" if body else ""


def table(shown: Table, *, caption: str = "") -> str:
    """A table, whose classes of cells and rows mark words, and the rows that stand out."""
    head = "".join(_cell("th", cell, place < shown.words) for place, cell in enumerate(shown.header))
    body = "".join(
        f"<tr{_class(_ROWS.get(shown.kinds.get(place, ''), ''))}>"
        + "".join(_cell("td" if column else "th", cell, column < shown.words) for column, cell in enumerate(row))
        + "</tr>\n"
        for place, row in enumerate(shown.rows)
    )
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    rest = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>"
    return f'<div class="table">\n<table>{title}{rest}</table></div>\n'


def terms(pairs: Iterable[tuple[str, str]]) -> str:
    entries = "".join(f"<dt>{text(term)}</dt><dd>{text(meaning)}</dd>\n" for term, meaning in pairs)
    return f"<dl>\n{entries}</dl>\n" if entries else ""


def _cell(tag: str, cell: str, word: bool) -> str:
    return f"<{tag}{_class('word' if word else '')}>{text(cell)}</{tag}>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


# The page of a report


def webpage(report: Report) -> str:
    """The report of `evaluate`, `compare` or `estimate` as HTML. Nothing in it is fetched from anywhere."""
    title, body = ("Estimate", _of_estimates(report)) if report.command == "estimate" else _of_scores(report)
    files = f": {facts.names_of_files(report.data.files)}" if report.data.files else ""
    about = f"calcli {report.version}, {report.command}, seed {report.seed}"
    return page.document(f"{title}{files}", about, "".join(body))


def _of_scores(report: Report) -> tuple[str, list[str]]:
    """The title and the parts of the page of `evaluate` or `compare`."""
    findings = Findings.of_report(report)
    if report.command == "compare":
        said = [*(one.message for one in report.warnings if one.code == "choice"), tables.certainty(report)]
        title, opening = "Comparison of methods", "".join(paragraph(f"{one}.", "verdict") for one in said if one)
        board = tables.leaderboard(report, report.definitions)
        without = (paragraph(f"{name} {reason}", "note") for name, reason in tables.without_numbers(report))
        numbers, definitions = [table(board), *without], tables.leaderboard_terms(report, board)
    elif not findings.scores:
        title, opening = "Calibration", "".join(paragraph(one, "verdict") for one in labels.headline(report))
        of_labels = labels.table(report)
        numbers = [] if of_labels is None else [table(of_labels, caption=of_labels.title)]
        definitions = findings.terms()
    else:
        advice = verdict.advice(report)
        title, opening = "Calibration", headline(findings) + (paragraph(advice, "verdict") if advice else "")
        numbers = [numbers_table(findings), *(table(each, caption=each.title) for each in tables.versus(report))]
        definitions = findings.terms()
    scarce = verdict.scarcity(report)
    notes: Any = report.binding["notes"]
    origins = [(score.name, facts.origin(asdict(score.source))) for score in report.scores if score.status == "ok"]
    body = [
        paragraph(scarce, "warning") if scarce else "",
        opening,
        paragraph(_ON_LOSS, "note") if "log-loss" in opening else "",
        _drift(report),
        _gates(report),
        *(paragraph(one.message, "warning") for one in report.warnings if one.code != "choice"),
        *(_parts_of_choice(report, numbers) if report.command == "compare" else _parts_of_review(report, numbers)),
        _changes(report),
        section("Data", terms(facts.measured(report.data, report.binding)), *map(paragraph, notes)),
        section("Scores", terms(origins)),
        section("Definitions", terms(definitions)),
    ]
    return title, body


def _of_estimates(report: Report) -> list[str]:
    """The parts of the page of estimates: sentences, one picture, tables."""
    metric = next(iter(report.definitions), "rate")
    return [
        *(paragraph(sentence, "verdict") for sentence in estimates.headline(report)),
        _gates(report),
        *(paragraph(one.message, "warning") for one in report.warnings),
        page.intervals(estimates.picture(report), metric),
        section("Numbers", *(table(each, caption=each.title) for each in estimates.tables(report))),
        section("Data", terms(estimates.data(report))),
        section("Definitions", terms(estimates.terms(report))),
    ]


def headline(findings: Findings) -> str:
    judged = verdict.verdicts(findings)
    first = paragraph(verdict.best(findings, judged), "verdict") if len(judged) > 1 else ""
    return first + "".join(map(_sentence, judged))


def _sentence(judged: Verdict) -> str:
    """The sentence of a verdict, in which the answer stands out."""
    sentence = text(judged.text)
    if judged.answer:
        strong = f'<strong class="{judged.kind}">{escape(judged.answer)}</strong>'
        sentence = sentence.replace(text(glued(judged.answer)), strong, 1)
    return f'<p class="verdict">{sentence}</p>\n'


def _drift(report: Report) -> str:
    found = ""
    for what, answer, bad, said in facts.drift(report.drift):
        sentence = f"{said[:1].upper()}{said[1:]}." if what == "promise" else f"{answer.capitalize()}: {said}."
        found += paragraph(sentence, {True: "worse", False: "better", None: ""}[bad])
    return found


def _gates(report: Report) -> str:
    lines = []
    for gate in verdict.gates(report):
        answer = '<strong class="better">passed</strong>' if gate.passed else '<strong class="worse">FAILED</strong>'
        why = "; ".join(failure for failure, _ in gate.failures)
        lines.append(f"<li>{answer}: {escape(f'{gate.text} ({why})' if why else gate.text)}</li>\n")
    return f'<ul class="gates">\n{"".join(lines)}</ul>\n' if lines else ""


def numbers_table(findings: Findings) -> str:
    """A table with a metric a line, or with a score a line where there are many, and why numbers are missing."""
    if len(findings.scores) <= _BESIDE:
        shown = tables.by_metric(findings)
    else:
        columns = [(f"{metric} ({which})", values) for metric, which, *values in tables.by_score(findings)]
        shown = Table.of_columns([("", [score.name for score in findings.scores]), *columns])
    return table(shown) + "".join(paragraph(reason, "note") for reason in tables.missing(findings.scores))


def _parts_of_choice(report: Report, numbers: Sequence[str]) -> list[str]:
    """The numbers of a comparison, and the curves of the best methods."""
    first = [tables.IDENTITY, *([report.chosen] if report.chosen else [])]
    names = list(dict.fromkeys([*first, *(row.name for row in tables.ranked(report))]))[:_DRAWN]
    curves = [curve for curve in report.curves if curve.score in names]
    return [section("Numbers", *numbers), _pictures("Reliability diagrams", report, curves)]


def _parts_of_review(report: Report, numbers: Sequence[str]) -> list[str]:
    """The answers to the questions of a reviewer, in the order in which they are asked."""
    alone = [curve for curve in report.curves if not curve.by_threshold]
    curves = sorted(alone, key=lambda curve: curve.kind != "corp")
    return [
        _pictures("Is it calibrated?", report, curves, paragraph(_ON_CALIBRATION, "note")),
        section("Where is it wrong?", where_wrong(report), _groups(report)),
        _matters(report),
        _recalibration(report),
        _seen(report),
        section("Numbers", *numbers),
    ]


_ON_LOSS = "The log-loss is high where a score gave a low probability to what came true: lower is better."
_ON_CALIBRATION = (
    f"Of the rows for which a calibrated score says {glued('20 %')}, about {glued('20 %')} come true. Its curve lies "
    "on the diagonal, or as near to it as chance allows."
)
_ON_SEGMENTS = (
    "A segment is a part of the rows. Predicted is what the score says in it on average, observed the share that came "
    "true, and the gap is how much too high (+) or too low (-) the score is there."
)
_ON_BENEFIT = (
    "Suppose that you act on each row whose probability reaches a threshold. The net benefit counts the rows on which "
    "you are right to act, less a price for those on which you are wrong. The lower the threshold, the lower is that "
    "price. The higher line decides better."
)


def _pictures(title: str, report: Report, curves: Sequence[Curve], opening: str = "") -> str:
    """Pictures of curves, with the switches of the page, under a title."""
    if not curves:
        return ""
    figures = page.figures(curves, str(report.binding["label"]), "consistency")
    return f"<h2>{escape(title)}</h2>\n{opening}{page.switches(curves)}{figures}"


def _matters(report: Report) -> str:
    """The worth of decisions by each score, and the costs of the policies of artifacts."""
    curves = [curve for curve in report.curves if curve.kind == "benefit"]
    policies: Any = report.decisions
    said = [paragraph(f"{one[:1].upper()}{one[1:]}") for one in map(decisions.measured, policies)]
    drawn = page.charts(curve_charts(curves, str(report.binding["label"]), "consistency")) if curves else ""
    return section("Does it matter?", *said, paragraph(_ON_BENEFIT, "note") if drawn else "", drawn)


def _recalibration(report: Report) -> str:
    """The gain of a calibrator that was fitted on some of these rows, on those that it has not seen."""
    if report.recalibration is None:
        return ""
    findings, method = Findings.of_report(report.recalibration), report.recalibration.chosen
    how = (
        f"The method {method} was chosen on these rows to recalibrate the raw score, and was measured on rows that it "
        "was not fitted on. That was a trial, which keeps nothing: calcli fit makes such a calibrator."
    )
    title = "What would recalibration gain?"
    if method == tables.IDENTITY:
        return section(title, paragraph(verdict.NO_GAIN, "verdict"))
    losses = [f"{row.name} {number(tables.part_of(row, 'nll'), 4)}" for row in Findings.of_report(report).calibrated]
    if losses and "nll" in report.definitions:
        how += f" The log-loss of the other scores, on all rows: {', '.join(losses)}."
    return section(title, headline(findings), paragraph(how), numbers_table(findings))


def _seen(report: Report) -> str:
    """The least errors that so many rows show."""
    rows = verdict.seen(report)
    if rows is None:
        return ""
    said = (
        f"On {rows.title}, an error of this size would be noticed in four of five cases: a mean prediction that is so "
        "far from what comes true, in all rows or in a part of them. A smaller error may be there unnoticed."
    )
    return section("How small an error could be seen?", paragraph(said), table(rows))


def _groups(report: Report) -> str:
    """A table for each column and score, and the meaning of the last columns and of bold numbers."""
    parts = [table(shown, caption=shown.title) for shown in tables.by_group(report)]
    detectable, (name, meaning) = tables.GROUP_TERMS
    return "".join([*parts, terms((detectable, (name, f"{meaning}; bold below 0.05"))) if parts else ""])


def where_wrong(report: Report) -> str:
    """For each score whether segments were found in which it is wrong, with a table and a picture of them."""
    searches: Any = report.segment_search
    parts = [paragraph(sentence) for sentence in segments.sentences(report)]
    if report.segments:
        parts.append(paragraph(_ON_SEGMENTS, "note"))
    for score, shown in segments.tables(report):
        found = segments.entries(report, score)
        names = [search["score"] for search in searches]
        legend = [(svg.ESTIMATE, "observed, with its interval")]
        legend += [(svg.ink(place), f"predicted by {one}") for place, one in enumerate(names)]
        parts += [
            table(shown, caption=shown.title),
            page.intervals(segments.picture(found, names), "rate", legend),
        ]
    return "".join([*parts, terms(segments.terms(report))])


def _changes(report: Report) -> str:
    changes = tables.since(report)
    if changes is None:
        return ""
    shown, reasons = changes
    return section(f"Changes since {shown.title}", table(shown), *(paragraph(reason, "note") for reason in reasons))


_HEIGHT = 34
"""The height of the frame in letters; readers can make it larger."""


def html(shown: Report | CalibratorModel) -> str:
    """The page of a report or of a calibrator, in a frame."""
    document = webpage(shown) if isinstance(shown, Report) else _of_manifest(shown.manifest)
    style = f"width:100%;height:{_HEIGHT}em;border:0;resize:vertical"
    return f'<iframe style="{style}" srcdoc="{escape(document)}"></iframe>'


def _of_manifest(manifest: Manifest) -> str:
    """The page of a calibrator: its method, the rows that it was fitted on, and its held-out numbers."""
    numbers, fit = Findings.of_manifest(manifest), cast("facts.JsonObject", manifest.fit)
    measured = [headline(numbers), section("Numbers", numbers_table(numbers))] if numbers.calibrated else []
    pairs = [("fitted", f"{manifest.created}, on {fit['rows']:,} rows"), facts.holdout_fact(fit["holdout"])]
    if manifest.params:
        pairs.append(("parameters", ", ".join(f"{name}={value}" for name, value in manifest.params.items())))
    body = "".join([*measured, section("What it is", terms([*pairs, *facts.binding_facts(manifest.binding)]))])
    about = f"calcli {manifest.calcli}, seed {manifest.seed}"
    return page.document(f"{manifest.method}, a calibrator", about, body)
