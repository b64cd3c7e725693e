"""Reports of `fit`, `refit`, `evaluate` and `compare` as answers: what a screen shows of them, and their pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from calcli.cli import pictures, serial
from calcli.cli.output import Answer, bad_rows, bound
from calcli.cli.screen import (
    Screen,
    aligned,
    answered,
    described,
    fact_list,
    more,
    narrowed,
    notes,
    remarks,
    shown_width,
    table,
    widest_fitting,
    wrapped,
)
from calcli.reporting import estimates, facts, labels, segments, tables, verdict
from calcli.reporting.tables import Findings
from calcli.reporting.typesetting import GLUE, Table, number, signed
from calcli.reporting.verdict import DECISIVE, Verdict

if TYPE_CHECKING:
    from calcli.models.requests import FitResult
    from calcli.reports.schema import Report
    from calcli.verbs.compare import CompareResult
    from calcli.verbs.refit import DecisionRefit
    from calcli.verbs.refit_calibrator import RefitResult

_SHORT = {"better": "better", "worse": "WORSE", "unclear": "NOT shown better", "same": "the same", "unknown": "unknown"}
"""The verdicts in a list of several scores."""


# Answers


def fitted(result: FitResult) -> Answer:
    """The path of the artifact and the report; the roles of the columns after a dry run."""
    report, model = result.report, result.model
    if report is None or model is None:
        return bound(result.binding, ("artifact", str(result.path)))
    holdout = model.manifest.fit["holdout"]
    more = [facts.holdout_fact(holdout)] if isinstance(holdout, dict) else []
    return of_report(
        report,
        lambda screen: [*measured(report, screen, more), *groups(report, screen)],
        beside_path=True,
        below=partial(pictures.small, report.curves),
        path=result.path,
        refused=result.refused,
    )


def refitted(result: RefitResult | DecisionRefit) -> Answer:
    """The path of the artifact and the report; a no where the previous generation was kept."""
    from calcli.verbs.refit import DecisionRefit

    lines = _policy_refit if isinstance(result, DecisionRefit) else _calibrator_refit
    shown: Callable[[Screen], list[str]] = partial(lines, result)  # type: ignore[arg-type]
    return of_report(result.report, shown, beside_path=True, path=result.path, refused=result.kept, usual=result.usual)


def _outcome(result: RefitResult | DecisionRefit) -> str:
    return f"{result.path} {'is replaced' if result.kept is None else 'stays as it is'}"


def _policy_refit(result: DecisionRefit, screen: Screen) -> list[str]:
    """Whether a policy was replaced, and why; the numbers of the old and the new one."""
    said = (
        f"{_outcome(result)}: {result.why}. It is replaced if this happens by chance at most once in twenty years of "
        "nights."
    )
    return [*wrapped(said, screen.prose), *_policies(result.report, screen), *measured(result.report, screen)]


def _calibrator_refit(result: RefitResult, screen: Screen) -> list[str]:
    """Whether the artifact was replaced, with the numbers that decided it and those that are required; the report."""
    from calcli.models.policy import IN_PLACE

    report, metric = result.report, result.guard.metric.name
    new, old = report.value(result.name, metric), report.value(IN_PLACE, metric)
    digits = Findings.of_report(report).digits  # as in the table below
    words = DECISIVE.get(metric, metric)
    because = "" if result.kept is None or result.usual else f", because {(report.refit or {})['reason']}"
    opening = (
        f"{_outcome(result)}{because}. On held-out new rows the {words} is {number(new, digits)} with the new "
        f"{result.name}, {number(old, digits)} with the one in place. The log-likelihood of these rows changes by "
        f"{result.evidence.evidence:+.1f} nats; {result.evidence.threshold:+.1f} are required. Against no calibration:"
    )
    mean, most = (signed(moved, 4).lstrip("+") for moved in result.moved)
    more = [("change", f"new minus old probability: {mean} on average, {most} at most (absolute)")]
    if result.kept is None:
        more.append(("before", f"the old one is kept; calcli refit {result.path} --rollback restores it"))
    return measured(report, screen, more, opening)


def evaluated(report: Report) -> Answer:
    """The report; a no where a gate failed, the calibration has drifted or a policy breaks its promise."""

    def lines(screen: Screen) -> list[str]:
        shown = [*measured(report, screen), *groups(report, screen), *_segments(report, screen)]
        for each in tables.rejection(report):
            shown += _titled(each, wrapped(each.title, screen.prose), screen)
        more = _recalibration, changes, _gates, _drift, _policies
        return [*shown, *(line for part in more for line in part(report, screen))]

    refused = _failed(report)
    promise: Any = None if report.drift is None else report.drift["promise"]
    if refused is not None:
        pass
    elif report.drift is not None and report.drift["drifted"]:
        refused = "the calibration has drifted since the fit"
    elif promise is not None and promise["broken"]:
        refused = f"the policy does not keep its promise, {promise['target']}"
    return of_report(report, lines, below=partial(pictures.small, report.curves), refused=refused)


def estimated(report: Report) -> Answer:
    """The estimates; a no where a gate failed."""

    def lines(screen: Screen) -> list[str]:
        shown: list[str] = []
        for sentence in estimates.headline(report):
            shown += wrapped(sentence, screen.prose)
        narrower = map(estimates.ever_narrower, estimates.tables(report))
        rows, terms = narrowed(narrower, estimates.terms(report), screen)
        shown += [*rows, "", *fact_list(estimates.data(report), screen), ""]
        return [*shown, *notes(terms, screen), *_gates(report, screen)]

    return of_report(report, lines, refused=_failed(report))


def _failed(report: Report) -> str | None:
    """The gates that failed, as the reason for a no."""
    failed = [str(gate["expr"]) for gate in report.gates if not gate["passed"]]
    return f"--fail-if is true: {'; '.join(failed)}" if failed else None


def compared(result: CompareResult) -> Answer:
    """The leaderboard; with ``--select`` also the path of the artifact."""
    report, selected = result.report, result.selected

    def lines(screen: Screen) -> list[str]:
        said = ". ".join(part for part in (result.choice.why, tables.certainty(report)) if part)
        # The intervals tell methods apart, so that other metrics give way to them first.
        names = list(report.definitions)
        counts = [(behind, count) for behind in (True, False) for count in range(len(names), 0, -1)]
        boards = (tables.leaderboard(report, names[:count], behind=behind) for behind, count in counts)
        shown, rows = widest_fitting(boards, screen)
        found = [*_scarcity(report, screen), *wrapped(f"{said}.", screen.prose), "", *rows]
        if without := tables.without_numbers(report):
            found += ["", *described(without, screen.prose)]
        terms = tables.leaderboard_terms(report, shown)
        if hidden := [name for name in names if name not in shown.header]:
            terms.append(more(hidden))
        return [*found, "", *fact_list(facts.measured(report.data, report.binding), screen), "", *notes(terms, screen)]

    return of_report(report, lines, beside_path=selected is not None, path=selected and selected.path)


def of_report(report: Report, lines: Callable[[Screen], list[str]], **more: Any) -> Answer:
    """The answer of a report, with its warnings but for those that the verb notes while it runs."""
    warnings = [one.message for one in report.warnings if one.code != "choice"]
    repeated = {one.message for one in report.warnings if one.code == "not-better"}
    warnings += bad_rows(report.data)

    def page() -> str:
        from calcli.reporting import webpage

        return webpage.webpage(report)

    flat = partial(serial.report, report)
    return Answer(lines, report.to_json, flat, page=page, warnings=warnings, repeated=repeated, **more)


# The parts of a report


def measured(report: Report, screen: Screen, more: Sequence[facts.Pair] = (), opening: str | None = None) -> list[str]:
    """The verdicts, the table with why numbers are missing, the rows and columns, the definitions.

    The `opening` stands in place of the sentence above several verdicts.
    """
    findings = Findings.of_report(report)
    lines = [*_scarcity(report, screen), *headline(findings, screen, opening)]
    if findings.scores:
        lines += ["", *numbers_table(findings, screen)]
    lines += _labels(report, screen)
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


def _labels(report: Report, screen: Screen) -> list[str]:
    """How many of several labels have a lower loss, and a table of them without its interval where it is too wide."""
    lines = [line for sentence in labels.headline(report) for line in wrapped(sentence, screen.prose)]
    if (of_labels := labels.table(report)) is not None:
        shown, rows = widest_fitting((of_labels, of_labels.without(len(of_labels.header) - 2)), screen)
        lines += ["", screen.bold(shown.title), *rows]
    return lines


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
    names = ["", "better", *(score.name for score in findings.scores)]
    return in_blocks(names, tables.by_score(findings), "l", screen)


def in_blocks(names: Sequence[str], columns: Sequence[list[str]], align: str, screen: Screen) -> list[str]:
    """Columns with two headers beside the names; those that do not fit into the width continue in another block."""
    lines: list[str] = []
    for block in _blocks(names, columns, screen.width):
        lines += ["", *two_headers([names, *block], align + "r" * len(block), screen)]
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


def two_headers(columns: Iterable[Sequence[str]], align: str, screen: Screen) -> list[str]:
    """Columns whose first two cells are headers."""
    lines = aligned(list(zip(*columns, strict=True)), align)
    return [*map(screen.dim, lines[:2]), *lines[2:]]


def _titled(shown: Table, title: Iterable[str], screen: Screen) -> list[str]:
    return ["", *map(screen.bold, title), *table(shown, screen)]


def groups(report: Report, screen: Screen) -> list[str]:
    """A table for each column and score, without the last metrics where the screen is too narrow for all."""
    found = list(tables.by_group(report))
    terms = tables.GROUP_TERMS if report.command != "fit" else ()
    if not found:
        return []
    lines, kept = narrowed(map(_ever_fewer_metrics, found), terms, screen)
    return [*lines, "", *notes(kept, screen)]


def _segments(report: Report, screen: Screen) -> list[str]:
    """For each score whether segments were found, and a table of them without its last columns where it is too wide."""
    lines: list[str] = []
    for sentence in segments.sentences(report):
        lines += ["", *wrapped(sentence, screen.prose)]
    found = (
        [each.first(width) for width in range(len(each.header), segments.FEWEST - 1, -1)]
        for _, each in segments.tables(report)
    )
    if not report.segments:
        return lines
    rows, kept = narrowed(found, segments.terms(report), screen)
    return [*lines, *rows, "", *notes(kept, screen)]


def _recalibration(report: Report, screen: Screen) -> list[str]:
    """The gain of recalibration on held-out rows."""
    if report.recalibration is None:
        return []
    gained = report.recalibration.chosen != tables.IDENTITY
    said = headline(Findings.of_report(report.recalibration), screen) if gained else [verdict.NO_GAIN]
    return ["", screen.bold("recalibration"), *said]


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
        answer, color = ("passed", screen.good) if gate.passed else ("FAILED", screen.bad)
        lines += answered(answer, color, gate.text, screen.prose)
        lines += [f"  {failure}, the limit {limit:g}" for failure, limit in gate.failures]
    return ["", *lines] if lines else []


def _drift(report: Report, screen: Screen) -> list[str]:
    """Whether the calibration has drifted, and whether a policy keeps its promise, in a sentence each."""
    lines: list[str] = []
    colors: Mapping[bool | None, Callable[[str], str]] = {True: screen.bad, False: screen.good, None: str}
    for _, answer, bad, said in facts.drift(report.drift):
        lines += ["", *answered(answer, colors[bad], said, screen.prose)]
    return lines


def _policies(report: Report, screen: Screen) -> list[str]:
    """The numbers of each policy, and whether its promise holds."""
    if not report.decisions:
        return []
    from calcli.reporting import decisions

    lines: list[str] = []
    for entry in report.decisions:
        lines += ["", *wrapped(decisions.measured(entry), screen.prose)]
    return lines
