"""Answers on stdout, in the form that was asked for, and what is said of them on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from calcli.cli.streams import write, write_path
from calcli.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from calcli.cli.console import Console
    from calcli.fitting.requests import FitResult
    from calcli.methods import spec as method_rows
    from calcli.metrics import catalog as metric_rows
    from calcli.reports.schema import Report
    from calcli.verbs.apply import ApplyResult
    from calcli.verbs.compare import CompareResult
    from calcli.verbs.diagram import DiagramResult
    from calcli.verbs.inspect import Inspection
    from calcli.verbs.refit import RefitResult
    from calcli.verbs.uncertainty_decompose import DecomposeResult
    from calcli.verbs.uncertainty_fit import EnsembleResult

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

_SAID = {"not-better"}
"""Warnings that the verdict says in other words."""

_NEWS = {"choice"}
"""What is no warning at all, and is said as a note when it is found."""


def fitted(result: FitResult, form: Form, talk: Console) -> None:
    """The artifact's path on stdout and the report on stderr; in other forms, the report on stdout."""
    from calcli.cli.views import report as view

    if result.report is None:
        _bound(result.binding.to_json(), [("artifact", str(result.path))], form, talk)
        return
    if form == "table":
        talk.show([*view.fitted(result, talk.screen), *_picture(result.report, talk), ""])
        _warn(result.report, talk, said=not talk.quiet)
        if result.path is not None:
            write_path(result.path)
    else:
        _report(result.report, form, talk)
    if result.refused is not None:
        refuse(result.refused, talk)


def compared(result: CompareResult, form: Form, talk: Console) -> None:
    """The leaderboard on stdout; where the choice is kept, its path stands alone there."""
    from calcli.cli.views import leaderboard as view

    if form != "table":
        _report(result.report, form, talk)
    elif result.selected is None:
        _lines(view.compared(result, talk.page), talk)
    else:
        talk.show([*view.compared(result, talk.screen), ""])
        if result.selected.path is not None:
            write_path(result.selected.path)


def refitted(result: RefitResult, form: Form, talk: Console) -> None:
    """The artifact's path on stdout and the report on stderr; exit code 1 where the one in place was kept."""
    from calcli.cli.views import report as view

    if form == "table":
        talk.show([*view.evaluated(result.report, talk.screen), ""])
        _warn(result.report, talk, said=not talk.quiet)
    else:
        _report(result.report, form, talk)
    if result.kept is not None:
        refuse(result.kept, talk)
    if form == "table":
        write_path(result.path)


def rolled_back(path: Path, talk: Console) -> None:
    """Which artifact is as it was before."""
    talk.note(f"{path} is the generation before again")
    write_path(path)


def refuse(answer: str, talk: Console) -> NoReturn:
    """The question was understood, and the answer is no: exit code 1."""
    import typer

    talk.warn(answer)
    raise typer.Exit(1)


def evaluated(report: Report, form: Form, talk: Console) -> None:
    """The report on stdout; exit code 1 where a gate failed."""
    from calcli.cli.views import changes, groups, rejection
    from calcli.cli.views import report as view

    if form == "table":
        _lines(
            [
                *view.evaluated(report, talk.page),
                *groups.shown(report, talk.page),
                *rejection.tables(report, talk.page),
                *changes.table(report, talk.page),
                *groups.verdicts(report, talk.page),
                *view.drift(report, talk.page),
            ],
            talk,
        )
        talk.show(_picture(report, talk))
        _warn(report, talk, said=True)
    else:
        _report(report, form, talk)
    failed = [str(gate["expr"]) for gate in report.gates if not gate["passed"]]
    if failed:
        refuse(f"--fail-if is true: {'; '.join(failed)}", talk)
    if report.drift is not None and report.drift["drifted"]:
        refuse("the calibration has moved since the fit", talk)


def page(report: Report, target: str | None, talk: Console) -> None:
    """The report as a page in a file, if one is asked for."""
    if target is None:
        return
    from calcli.reporting.webpage import webpage
    from calcli.tables.sink import write_bytes

    write_bytes(webpage(report).encode(), target)
    talk.note(f"the page is in {target}")


def check_streams(target: str | None, form: Form) -> None:
    """Refuse two answers in one stream."""
    if target == "-" and form != "table":
        raise UsageError("the picture and its numbers would both go to stdout", hint="draw it into a file: -o FILE")


def pictured(result: DiagramResult, form: Form, talk: Console) -> None:
    """The picture on stdout, or its numbers; of one in a file, what to see in it on stderr."""
    from calcli.cli import serial
    from calcli.cli.views import pictures as view

    output = result.request.output
    if form == "json":
        _json(result.to_json(), talk)
    elif form != "table":
        write(serial.flat(serial.POINTS, serial.point_rows(result.shown), form))
    elif output is None:
        _lines(view.shown(result, talk.page), talk)
    if output is not None:
        talk.show([*view.readings(result, talk.screen), *([] if output == "-" else [f"drawn in {output}"])])
    if result.data.rows_bad:
        talk.warn(f"{result.data.rows_bad:,} of {result.data.rows:,} rows are bad and were left out")


def _picture(report: Report, talk: Console) -> list[str]:
    """A small one for stderr, if somebody is looking."""
    from calcli.cli.views import pictures as view

    return view.beside(report.curves, talk.screen) if talk.screen.terminal else []


def applied(result: ApplyResult, talk: Console, *, dry_run: bool) -> None:
    """What was written, on stderr: stdout may be the table."""
    from calcli.cli.views import report as view

    if dry_run:
        more = [("adds", ", ".join(result.columns)), ("output", result.output)]
        _lines(view.bound(result.binding.to_json(), more, talk.page), talk)
        return
    _written(result.output, result.rows, result.columns, talk)
    if result.rows_bad:
        talk.warn(f"{result.rows_bad:,} of {result.rows:,} rows have no usable score and got null")


def ensemble_fitted(result: EnsembleResult, talk: Console) -> None:
    """The ensemble's path on stdout, and what was trained on stderr."""
    from calcli.cli.views import uncertainty as view

    if result.model is None:
        _bound(result.binding.to_json(), [("ensemble", str(result.path))], "table", talk)
        return
    talk.show([*view.fitted(result, talk.screen), ""])
    for warning in result.warnings:
        talk.warn(warning)
    if result.path is not None:
        write_path(result.path)


def ensemble_evaluated(report: Report, form: Form, talk: Console) -> None:
    """The report on stdout."""
    from calcli.cli.views import uncertainty as view

    if form == "table":
        _lines(view.evaluated(report, talk.page), talk)
        _warn(report, talk, said=True)
    else:
        _report(report, form, talk)


def decomposed(result: DecomposeResult, talk: Console) -> None:
    """What was written, on stderr: stdout may be the table."""
    _written(result.output, result.rows, result.columns, talk)
    if result.rows_bad:
        talk.warn(f"{result.rows_bad:,} of {result.rows:,} rows have no usable predictions and got null")


def inspected(inspection: Inspection, form: Form, talk: Console) -> None:
    """What an artifact is."""
    from calcli.cli.views import inspection as view

    if form == "table":
        _lines(view.inspected(inspection, talk.page), talk)
    else:
        _json(inspection.to_json(), talk)


def methods(rows: Sequence[method_rows.MethodSpec], form: Form, talk: Console, *, details: bool) -> None:
    """The catalog of methods, or a row of it with all details."""
    from calcli.cli.views import catalogs as view

    if form == "table":
        _lines(view.method(rows[0], talk.page) if details else view.method_list(rows, talk.page), talk)
    else:
        _catalog("methods", [asdict(row) for row in rows], _METHOD, form, talk)


def metrics(rows: Sequence[metric_rows.MetricSpec], form: Form, talk: Console, *, details: bool) -> None:
    """The catalog of metrics, or a row of it with all details."""
    from calcli.cli.views import catalogs as view

    if form == "table":
        _lines(view.metric(rows[0], talk.page) if details else view.metric_list(rows, talk.page), talk)
    else:
        _catalog("metrics", [asdict(row) for row in rows], _METRIC, form, talk)


def _written(output: str, rows: int, columns: Sequence[str], talk: Console) -> None:
    place = "standard output" if output == "-" else output
    talk.show([f"{place}: {rows:,} rows, added {', '.join(columns)}"])


def _catalog(name: str, rows: list[dict[str, Any]], header: Sequence[str], form: Form, talk: Console) -> None:
    from calcli.cli import serial

    if form in ("csv", "markdown"):
        write(serial.flat(header, [[row[key] for key in header] for row in rows], form))
    else:
        _json({"schema": f"calcli.{name}/1", name: rows}, talk)


def _bound(binding: dict[str, Any], more: list[tuple[str, str]], form: Form, talk: Console) -> None:
    """What a dry run found out; it is the answer, so it goes to stdout."""
    from calcli.cli import serial
    from calcli.cli.views import report as view

    if form in ("csv", "markdown"):
        write(serial.flat(("part", "column", "reason"), serial.binding_rows(binding), form))
    elif form == "json":
        _json({"schema": "calcli.binding/1", **dict(more), "binding": binding}, talk)
    else:
        _lines(view.bound(binding, more, talk.page), talk)


def _report(report: Report, form: Form, talk: Console) -> None:
    """A report for a machine; what a careful reader should see is in it, and is said to people too."""
    from calcli.cli import serial

    if form in ("csv", "markdown"):
        write(serial.flat(serial.LONG, serial.long_rows(report), form))
    else:
        _json(report.to_json(), talk)
    _warn(report, talk, said=False)


def _warn(report: Report, talk: Console, *, said: bool) -> None:
    """The report's warnings, but for those that were `said` already."""
    for warning in report.warnings:
        if warning.code not in _NEWS and not (said and warning.code in _SAID):
            talk.warn(warning.message)
    if report.data.rows_bad:
        talk.warn(f"{report.data.rows_bad:,} of {report.data.rows:,} rows are bad and were left out")


def _lines(lines: Sequence[str], talk: Console) -> None:
    write(talk.page.fit("\n".join(lines)) + "\n")


def _json(found: object, talk: Console) -> None:
    from calcli.cli import serial

    write(serial.to_json(found, unicode=talk.page.unicode))
