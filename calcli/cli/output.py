"""Answers on stdout, in the form that ``--format`` names, and notes and warnings on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from calcli.cli.streams import write, write_path
from calcli.errors import UsageError

if TYPE_CHECKING:
    from calcli.cli.console import Console
    from calcli.methods.spec import MethodSpec
    from calcli.metrics.catalog import MetricSpec
    from calcli.models.requests import FitResult
    from calcli.reports.schema import Report
    from calcli.verbs.apply import ApplyResult, DecomposeResult
    from calcli.verbs.compare import CompareResult
    from calcli.verbs.decide import DecideResult
    from calcli.verbs.diagram import DiagramResult
    from calcli.verbs.explain import Explanation
    from calcli.verbs.inspect import Inspection
    from calcli.verbs.refit import PolicyRefit
    from calcli.verbs.refit_calibrator import RefitResult
    from calcli.verbs.uncertainty import EnsembleResult

Form: TypeAlias = Literal["table", "json", "csv", "markdown"]

_METHOD = (
    "name",
    "family",
    "summary",
    "multiclass",
    "order",
    "weights",
    "needs_features",
    "sums",
    "closed_form",
    "reference",
)
_METRIC = ("name", "family", "summary", "direction", "kind", "default")

_IN_VERDICT = {"not-better"}
"""Warnings that repeat the verdict of the table."""

_NOTES = {"choice"}
"""Warnings of a report that the verb notes on stderr while it runs."""


def fitted(result: FitResult, form: Form, console: Console) -> None:
    """The artifact's path on stdout and the report on stderr; in other forms, the report on stdout."""
    from calcli.cli.views import report as view

    if result.report is None:
        _binding(result.binding.to_json(), [("artifact", str(result.path))], form, console)
        return
    if form == "table":
        console.show([*view.fitted(result, console.stderr), *_picture(result.report, console), ""])
        _warn(result.report, console, verdict=not console.quiet)
        if result.path is not None:
            write_path(result.path)
    else:
        _report(result.report, form, console)
    if result.refused is not None:
        refuse(result.refused, console)


def decided(result: DecideResult, form: Form, console: Console) -> None:
    """The artifact's path on stdout and the options on stderr; exit code 1 where nothing is as it must be."""
    from calcli.cli import serial
    from calcli.cli.views import decisions as view

    if form == "table":
        console.show([*view.decided(result, console.stderr), ""])
    elif form == "json":
        _json(result.to_json(), console)
    else:
        from calcli.reporting.decisions import flat

        write(serial.flat(view.COLUMNS, list(flat(result.choice)), form))
    for warning in result.warnings:
        console.warn(warning.message)
    _warn_of_bad_rows(result.data.rows_bad, result.data.rows, "are bad and were left out", console)
    if result.refused is not None:
        refuse(result.refused, console)
    if form == "table" and result.path is not None:
        write_path(result.path)


def check_picture(target: str | None) -> None:
    """Refuse a picture that cannot be drawn before any rows are read."""
    if target not in (None, "-"):
        from calcli.reporting.decision_charts import form_of

        form_of(str(target))


def drawn(result: DecideResult, target: str | None, console: Console) -> None:
    """The pictures of a policy in a file, or on stderr, with ``--picture``."""
    if target is None:
        return
    from calcli.cli.views import pictures as view
    from calcli.reporting import decision_charts
    from calcli.tables.sink import write_bytes

    if not result.scores:
        console.warn("nothing was drawn: pictures are of thresholds, and these rows have more than two classes")
        return
    if target == "-":
        console.show(view.charts(decision_charts.charts(result), console.stderr))
        return
    write_bytes(decision_charts.drawn(result, target), target)
    console.note(f"drawn in {target}")


def decision_page(result: DecideResult, target: str | None, console: Console) -> None:
    """The policy as an HTML page, with ``--html``."""
    if target is None:
        return
    from calcli.reporting.decision_charts import webpage
    from calcli.tables.sink import write_bytes

    write_bytes(webpage(result), target)
    console.note(f"the page is in {target}")


def compared(result: CompareResult, form: Form, console: Console) -> None:
    """The leaderboard on stdout; with ``--select`` it goes to stderr, and the artifact's path to stdout."""
    from calcli.cli.views import leaderboard as view

    if form != "table":
        _report(result.report, form, console)
        return
    if result.selected is None:
        _lines(view.compared(result, console.stdout), console)
    else:
        console.show([*view.compared(result, console.stderr), ""])
    _warn(result.report, console, verdict=True)
    if result.selected is not None and result.selected.path is not None:
        write_path(result.selected.path)


def refitted(result: RefitResult | PolicyRefit, form: Form, console: Console) -> None:
    """The artifact's path on stdout and the report on stderr; exit code 1 where the previous generation was kept."""
    from calcli.cli.views import report as view
    from calcli.verbs.refit_calibrator import RefitResult

    if form == "table":
        lines = (
            view.refitted(result, console.stderr)
            if isinstance(result, RefitResult)
            else view.policy_refitted(result, console.stderr)
        )
        console.show([*lines, ""])
        _warn(result.report, console, verdict=not console.quiet)
    else:
        _report(result.report, form, console)
    if result.kept is not None:
        refuse(result.kept, console, usual=result.usual)
    if form == "table":
        write_path(result.path)


def refuse(reason: str, console: Console, *, usual: bool = False) -> NoReturn:
    """A warning, or a note of what is usual, and exit code 1: the command ran, and the answer is no."""
    import typer

    (console.note if usual else console.warn)(reason)
    raise typer.Exit(1)


def evaluated(report: Report, form: Form, console: Console) -> None:
    """The report on stdout; exit code 1 where a gate failed or the calibration has drifted."""
    from calcli.cli.views import changes, groups, rejection
    from calcli.cli.views import report as view

    if form == "table":
        screen = console.stdout
        _lines(
            [
                *view.evaluated(report, screen),
                *groups.metrics(report, screen),
                *rejection.tables(report, screen),
                *changes.table(report, screen),
                *groups.verdicts(report, screen),
                *view.drift(report, screen),
                *view.policies(report, screen),
            ],
            console,
        )
        console.show(_picture(report, console))
        _warn(report, console, verdict=True)
    else:
        _report(report, form, console)
    failed = [str(gate["expr"]) for gate in report.gates if not gate["passed"]]
    if failed:
        refuse(f"--fail-if is true: {'; '.join(failed)}", console)
    if report.drift is not None and report.drift["drifted"]:
        refuse("the calibration has drifted since the fit", console)
    promise: Any = None if report.drift is None else report.drift["promise"]
    if promise is not None and promise["broken"]:
        refuse(f"the policy does not keep its promise, {promise['target']}", console)


def page(report: Report, target: str | None, console: Console) -> None:
    """The report as an HTML page, with ``--html``."""
    if target is None:
        return
    from calcli.reporting.webpage import webpage
    from calcli.tables.sink import write_bytes

    write_bytes(webpage(report).encode(), target)
    console.note(f"the page is in {target}")


def check_streams(target: str | None, form: Form) -> None:
    """Refuse a picture and its numbers on the same stdout."""
    if target == "-" and form != "table":
        raise UsageError("the image and its numbers would both go to stdout", hint="write the image to a file: -o FILE")


def pictured(result: DiagramResult, form: Form, console: Console) -> None:
    """The picture or its numbers on stdout; of a picture in a file, the captions on stderr."""
    from calcli.cli import serial
    from calcli.cli.views import pictures as view

    output = result.request.output
    if form == "json":
        _json(result.to_json(), console)
    elif form != "table":
        write(serial.flat(serial.POINTS, serial.point_rows(result.shown), form))
    elif output is None:
        _lines(view.diagram(result, console.stdout), console)
    if output is not None:
        console.show([*view.readings(result, console.stderr), *([] if output == "-" else [f"drawn in {output}"])])
    _warn_of_bad_rows(result.data.rows_bad, result.data.rows, "are bad and were left out", console)


def applied(result: ApplyResult, console: Console, *, dry_run: bool) -> None:
    """The rows and columns that were written, on stderr: stdout may be the table."""
    if result.doubt is not None:
        console.warn(result.doubt)
    if dry_run:
        more = [("adds", ", ".join(result.columns)), ("output", result.output)]
        _binding(result.binding.to_json(), more, "table", console)
        return
    _written(result, console)
    _warn_of_bad_rows(result.rows_bad, result.rows, "have no usable score and got null", console)


def decomposed(result: DecomposeResult, console: Console) -> None:
    """The rows and columns that were written, on stderr: stdout may be the table."""
    _written(result, console)
    _warn_of_bad_rows(result.rows_bad, result.rows, "have no usable predictions and got null", console)


def ensemble_fitted(result: EnsembleResult, console: Console) -> None:
    """The ensemble's path on stdout, and a summary of the training on stderr."""
    from calcli.cli.views import uncertainty as view

    if result.model is None:
        _binding(result.binding.to_json(), [("ensemble", str(result.path))], "table", console)
        return
    console.show([*view.fitted(result, console.stderr), ""])
    for warning in result.warnings:
        console.warn(warning)
    if result.path is not None:
        write_path(result.path)


def ensemble_evaluated(report: Report, form: Form, console: Console) -> None:
    """The report on stdout."""
    from calcli.cli.views import uncertainty as view

    if form == "table":
        _lines(view.evaluated(report, console.stdout), console)
        _warn(report, console, verdict=True)
    else:
        _report(report, form, console)


def inspected(inspection: Inspection, form: Form, console: Console) -> None:
    """An artifact: its manifest, its numbers, its files."""
    from calcli.cli.views import inspection as view

    if form == "table":
        _lines(view.inspected(inspection, console.stdout), console)
    else:
        _json(inspection.to_json(), console)


def explained(explanation: Explanation, form: Form, console: Console) -> None:
    """What moves the scores; of a picture in a file, where it is on stderr."""
    from calcli.cli.views import inspection as view

    if form == "table":
        _lines(view.explained(explanation, console.stdout), console)
    else:
        _json(explanation.to_json(), console)
    if explanation.request.output is not None:
        console.note(f"drawn in {explanation.request.output}")


def methods(specs: Sequence[MethodSpec], form: Form, console: Console, *, details: bool) -> None:
    """The catalog of methods, or one of them with all details."""
    from calcli.cli.views import catalogs as view

    if form == "table":
        screen = console.stdout
        _lines(view.method(specs[0], screen) if details else view.method_list(specs, screen), console)
    else:
        _catalog("methods", [{**asdict(spec), "needs": [*spec.packages]} for spec in specs], _METHOD, form, console)


def metrics(specs: Sequence[MetricSpec], form: Form, console: Console, *, details: bool) -> None:
    """The catalog of metrics, or one of them with all details."""
    from calcli.cli.views import catalogs as view

    if form == "table":
        screen = console.stdout
        _lines(view.metric(specs[0], screen) if details else view.metric_list(specs, screen), console)
    else:
        _catalog("metrics", [asdict(spec) for spec in specs], _METRIC, form, console)


def _catalog(name: str, entries: list[dict[str, Any]], header: Sequence[str], form: Form, console: Console) -> None:
    from calcli.cli import serial

    if form in ("csv", "markdown"):
        write(serial.flat(header, [[entry[key] for key in header] for entry in entries], form))
    else:
        _json({"schema": f"calcli.{name}/1", name: entries}, console)


def _binding(binding: dict[str, Any], more: list[tuple[str, str]], form: Form, console: Console) -> None:
    """The answer of ``--dry-run``: which column plays which part."""
    from calcli.cli import serial
    from calcli.cli.views import report as view

    if form in ("csv", "markdown"):  # the others have the notes themselves
        for note in binding["notes"]:
            console.note(note)
        write(serial.flat(("part", "column", "reason"), serial.binding_rows(binding), form))
    elif form == "json":
        _json({"schema": "calcli.binding/1", **dict(more), "binding": binding}, console)
    else:
        _lines(view.bound(binding, more, console.stdout), console)


def _report(report: Report, form: Form, console: Console) -> None:
    """A report for programs, and its warnings for people."""
    from calcli.cli import serial

    if form == "csv":
        write(serial.flat(serial.LONG, serial.long_rows(report), form))
    elif form == "markdown":
        from calcli.reporting.tables import every

        write(serial.markdown(every(report)))
    else:
        _json(report.to_json(), console)
    _warn(report, console, verdict=False)


def _picture(report: Report, console: Console) -> list[str]:
    """A small picture, if stderr is a terminal."""
    from calcli.cli.views import pictures as view

    return view.small(report.curves, console.stderr) if console.stderr.terminal else []


def _written(result: ApplyResult | DecomposeResult, console: Console) -> None:
    place = "standard output" if result.output == "-" else result.output
    console.show([f"{place}: {result.rows:,} rows, added {', '.join(result.columns)}"])


def _warn(report: Report, console: Console, *, verdict: bool) -> None:
    """The report's warnings, but for those that the `verdict` above them repeats."""
    for warning in report.warnings:
        if warning.code not in _NOTES and not (verdict and warning.code in _IN_VERDICT):
            console.warn(warning.message)
    _warn_of_bad_rows(report.data.rows_bad, report.data.rows, "are bad and were left out", console)


def _warn_of_bad_rows(bad: int, rows: int, consequence: str, console: Console) -> None:
    if bad:
        console.warn(f"{bad:,} of {rows:,} rows {consequence}")


def _lines(lines: Sequence[str], console: Console) -> None:
    write(console.stdout.fit("\n".join(lines)) + "\n")


def _json(document: object, console: Console) -> None:
    from calcli.cli import serial

    write(serial.to_json(document, unicode=console.stdout.unicode))
