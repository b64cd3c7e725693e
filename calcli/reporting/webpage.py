"""Reports and policies as pages that need nothing else: for a browser, a telephone, a printer, an archive. A notebook
shows the page in a frame whose style is its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from functools import singledispatch
from html import escape
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from calcli import extras
from calcli.artifacts.manifest import Manifest
from calcli.diagrams import page
from calcli.models.calibrator import CalibratorModel
from calcli.reporting import decisions, facts, tables, verdict
from calcli.reporting.tables import Findings, Table
from calcli.reporting.typesetting import GLUE, glued
from calcli.reporting.verdict import Verdict
from calcli.reports.schema import Report

if TYPE_CHECKING:
    from calcli.diagrams.charts import Chart
    from calcli.diagrams.curves import Curve
    from calcli.reports.schema import Report
    from calcli.verbs.decide import DecideResult

_BESIDE = 4
"""Up to so many scores are columns of the table of numbers; more scores are its lines."""

_DRAWN = 4
"""A comparison has so many pictures: the identity, the chosen method and the best of the others."""

_ROWS = {"under": "under-it", "off": "off", "chosen": "chosen"}
"""The class in the page's style of each kind of row that stands out."""

Picture: TypeAlias = Literal["png", "svg", "pdf", "html"]

_PICTURES: tuple[Picture, ...] = get_args(Picture)

_OPTIONS = {
    "bayes": "from the costs",
    "mean costs": "from the mean costs",
    "tuned": "best on these rows",
    "today": "today",
    "chosen": "for the target",
    "without confidence": "without confidence",
    "best": "nearest to the target",
}
"""The options of a policy that have a threshold of their own, in words."""

# The parts of a page


def text(sentence: str) -> str:
    """A sentence as HTML, with spaces at which no line ends."""
    return escape(sentence).replace(GLUE, "&nbsp;")


def paragraph(sentence: str, kind: str = "") -> str:
    """A paragraph of a sentence or two."""
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
    """A list of terms and their meanings."""
    entries = "".join(f"<dt>{text(term)}</dt><dd>{text(meaning)}</dd>\n" for term, meaning in pairs)
    return f"<dl>\n{entries}</dl>\n" if entries else ""


def _cell(tag: str, cell: str, word: bool) -> str:
    return f"<{tag}{_class('word' if word else '')}>{text(cell)}</{tag}>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


# The page of a report


def webpage(report: Report) -> str:
    """The report of `evaluate` or of `compare` as HTML. Nothing in it is fetched from anywhere."""
    findings = Findings.of_report(report)
    if report.command == "compare":
        title, opening = "Comparison of methods", _choice(report)
        board = tables.leaderboard(report, report.definitions)
        without = (paragraph(f"{name} {reason}", "note") for name, reason in tables.without_numbers(report))
        numbers, definitions = [table(board), *without], tables.leaderboard_terms(report, board)
    else:
        title, opening = "Calibration", headline(findings)
        numbers = [numbers_table(findings), *(table(each, caption=each.title) for each in tables.versus(report))]
        definitions = findings.terms()
    scarce = verdict.scarcity(report)
    notes: Any = report.binding["notes"]
    body = [
        paragraph(scarce, "warning") if scarce else "",
        opening,
        _drift(report),
        _gates(report),
        *(paragraph(one.message, "warning") for one in report.warnings if one.code != "choice"),
        section("Numbers", *numbers),
        _pictures(report),
        _groups(report),
        _changes(report),
        section("Data", terms(facts.measured(report.data, report.binding)), *map(paragraph, notes)),
        section("Scores", terms(_origins(report))),
        section("Definitions", terms(definitions)),
    ]
    files = f": {facts.names_of_files(report.data.files)}" if report.data.files else ""
    about = f"calcli {report.version}, {report.command}, seed {report.seed}"
    return page.document(f"{title}{files}", about, "".join(body))


def _choice(report: Report) -> str:
    """The chosen method, the reason, and the certainty of the choice."""
    said = [*(one.message for one in report.warnings if one.code == "choice"), tables.certainty(report)]
    return "".join(paragraph(f"{one}.", "verdict") for one in said if one)


def headline(findings: Findings) -> str:
    """The verdict on each score."""
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
    if report.drift is None:
        return ""
    moved, kept = facts.drift(report.drift), facts.promise_kept(report.drift)
    quiet = ("No verdict yet", "") if report.drift.get("learning") else ("No drift detected", "better")
    answer, kind = ("Drift", "worse") if report.drift["drifted"] else quiet
    found = paragraph(f"{answer}: {moved}.", kind) if moved else ""
    promise: Any = report.drift.get("promise")
    if kept:
        found += paragraph(f"{kept[:1].upper()}{kept[1:]}.", "worse" if promise["broken"] else "better")
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
        columns = tables.by_score(findings)
        header = ["", *(f"{metric} ({which})" for metric, which, *_ in columns)]
        rows = zip((score.name for score in findings.scores), *(values for _, _, *values in columns), strict=True)
        shown = Table("", header, [list(row) for row in rows])
    return table(shown) + "".join(paragraph(reason, "note") for reason in tables.missing(findings.scores))


def _pictures(report: Report) -> str:
    curves = _drawn(report)
    if not curves:
        return ""
    figures = page.figures(curves, str(report.binding["label"]), "consistency")
    return f"<h2>Reliability diagrams</h2>\n{page.switches(curves)}{figures}"


def _drawn(report: Report) -> list[Curve]:
    """The curves that the page shows: all of them, or those of the best methods of a comparison."""
    if report.command != "compare":
        return list(report.curves)
    first = [tables.IDENTITY, *([report.chosen] if report.chosen else [])]
    names = list(dict.fromkeys([*first, *(row.name for row in tables.ranked(report))]))[:_DRAWN]
    return [curve for curve in report.curves if curve.score in names]


def _groups(report: Report) -> str:
    """A table for each column and score, and the meaning of the last columns and of bold numbers."""
    parts = [table(shown, caption=shown.title) for shown in tables.by_group(report)]
    detectable, (name, meaning) = tables.GROUP_TERMS
    return section("Groups", *parts, terms((detectable, (name, f"{meaning}; bold below 0.05"))) if parts else "")


def _changes(report: Report) -> str:
    changes = tables.since(report)
    if changes is None:
        return ""
    shown, reasons = changes
    return section(f"Changes since {shown.title}", table(shown), *(paragraph(reason, "note") for reason in reasons))


def _origins(report: Report) -> list[facts.Pair]:
    """The source of each score; of artifacts also the data of their fit."""
    return [(score.name, facts.origin(asdict(score.source))) for score in report.scores if score.status == "ok"]


# The pictures and the page of a policy


def picture_form(output: str | os.PathLike[str]) -> Picture:
    """The kind of picture that the name of a file promises; refuses one that cannot be drawn."""
    from calcli.diagrams.image import image_format_of

    form = image_format_of(output, _PICTURES)
    if form != "html":
        extras.require("matplotlib", f"a picture as {form}")
    return form


def policy_charts(result: DecideResult) -> tuple[Chart, ...]:
    """The charts of costs, net benefit and rates by threshold that there are numbers for; none of many classes."""
    if not result.scores:
        return ()
    from calcli.diagrams.charts import decision_charts

    risks = [(risk.coverage, risk.risk, risk.bound) for risk in result.choice.risks if risk.risk is not None]
    target = None if result.choice.policy is None else result.choice.policy.target
    confidence = 0.95 if target is None else target.confidence
    return decision_charts(result.scores, _thresholds(result), risks, confidence=confidence)


def _thresholds(result: DecideResult) -> dict[str, float]:
    """The thresholds of the options by their names in words, that of the policy first."""
    options = sorted(result.choice.options, key=lambda option: option.name != result.choice.chosen)
    return {
        _OPTIONS[option.name]: option.threshold
        for option in options
        if option.name in _OPTIONS and option.threshold is not None
    }


def policy_picture(result: DecideResult, output: str | os.PathLike[str]) -> bytes:
    """The charts of a policy as the content of this file."""
    shown, form = policy_charts(result), picture_form(output)
    if form == "html":
        return _policy_page(result, shown, "")
    from calcli.diagrams import image

    return image.render_charts(shown, form)


def policy_page(result: DecideResult) -> bytes:
    """The policy in words and tables, with the charts where there are two classes."""
    found = [
        section(each.title or "Options", table(each._replace(words=max(each.words, 1))))
        for each in decisions.tables(result.choice)
    ]
    return _policy_page(result, policy_charts(result), "".join(found))


def _policy_page(result: DecideResult, shown: tuple[Chart, ...], body: str) -> bytes:
    """A page with this body and, where there are two classes, a slider and the charts."""
    from calcli.diagrams.curves import amount

    if result.scores:
        from calcli.reports.measuring import class_names

        names, label = class_names(result.binding), result.binding.label or "label"
        at = next(iter(_thresholds(result).values()), 0.5)
        body += page.slider(result.scores[0], at, (f"{label} = {names[1]}", f"{label} = {names[0]}"))
        body += page.charts(shown)
    rows = amount(result.data.rows - result.data.rows_bad)
    about = f"{rows} rows. {decisions.headline(result.choice) or result.choice.why}"
    return page.document("Decisions by a threshold" if result.scores else "Decisions", about, body).encode()


_HEIGHT = 34
"""The height of the frame in letters; readers can make it larger."""


@singledispatch
def html(shown: object) -> str:
    """The page of a result; how it is drawn goes by its type."""
    raise TypeError(f"there is no page of a {type(shown).__name__}")


@html.register
def of_report(report: Report) -> str:
    """The page of a report."""
    return _framed(webpage(report))


@html.register
def of_model(model: CalibratorModel) -> str:
    """The page of a calibrator: its method, the rows that it was fitted on, and its held-out numbers."""
    manifest = model.manifest
    numbers = Findings.of_manifest(manifest)
    measured = [headline(numbers), section("Numbers", numbers_table(numbers))] if numbers.calibrated else []
    body = "".join([*measured, section("What it is", terms(_facts(manifest)))])
    about = f"calcli {manifest.calcli}, seed {manifest.seed}"
    return _framed(page.document(f"{manifest.method}, a calibrator", about, body))


def _facts(manifest: Manifest) -> list[facts.Pair]:
    fit = cast("dict[str, Any]", manifest.fit)
    params = ", ".join(f"{name}={value}" for name, value in manifest.params.items())
    what = [("fitted", f"{manifest.created}, on {fit['rows']:,} rows"), facts.holdout_fact(fit["holdout"])]
    return [*what, *([("parameters", params)] if params else []), *facts.binding_facts(manifest.binding)]


def _framed(document: str) -> str:
    style = f"width:100%;height:{_HEIGHT}em;border:0;resize:vertical"
    return f'<iframe style="{style}" srcdoc="{escape(document)}"></iframe>'
