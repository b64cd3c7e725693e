"""Answers on stdout, in the form that ``--format`` names, and notes and warnings on stderr."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from calcli.cli.process import write, write_path
from calcli.errors import UsageError

if TYPE_CHECKING:
    from calcli.cli.console import Console
    from calcli.cli.screen import Screen
    from calcli.cli.serial import Flat
    from calcli.fitting.requests import FitResult
    from calcli.methods.spec import MethodSpec
    from calcli.metrics.catalog import MetricSpec
    from calcli.reports.schema import DataFacts, Report
    from calcli.verbs.apply import ApplyResult
    from calcli.verbs.compare import CompareResult
    from calcli.verbs.decide import DecideResult
    from calcli.verbs.diagram import DiagramResult
    from calcli.verbs.explain import Explanation
    from calcli.verbs.inspect import Inspection
    from calcli.verbs.refit_calibrator import RefitResult
    from calcli.verbs.refit_policy import PolicyRefit
    from calcli.verbs.uncertainty_decompose import DecomposeResult
    from calcli.verbs.uncertainty_fit import EnsembleResult

Form: TypeAlias = Literal["table", "json", "csv", "markdown"]
Lines: TypeAlias = "Callable[[Screen], list[str]]"

_METHOD = [
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
]
_METRIC = ["name", "family", "summary", "direction", "kind", "default"]
"""The columns of the catalogs as CSV."""

_IN_VERDICT = {"not-better"}
"""Warnings that repeat the verdict of the table."""

_NOTES = {"choice"}
"""Warnings of a report that the verb notes on stderr while it runs."""


def _answer(
    form: Form,
    console: Console,
    lines: Lines,
    document: Callable[[], object],
    flat: Callable[[Flat], str] | None,
    *,
    beside_path: bool = False,
    below: Sequence[str] = (),
) -> None:
    """Write an answer in this form to stdout; lines for people to stderr if stdout is for a path.

    `below` the lines, a picture stands on stderr.
    """
    if form == "json":
        from calcli.cli import serial

        write(serial.to_json(document(), unicode=console.stdout.unicode))
    elif form != "table" and flat is not None:
        write(flat(form))
    elif beside_path:
        console.show([*lines(console.stderr), *below, ""])
    else:
        write(console.stdout.fit("\n".join(lines(console.stdout))) + "\n")
        console.show(below)


def _report(
    report: Report,
    form: Form,
    console: Console,
    lines: Lines,
    *,
    beside_path: bool = False,
    picture: bool = False,
    said: bool = True,
) -> None:
    """Write a report, and its warnings, of which those that repeat a verdict that is `said` are left out."""
    from calcli.cli import pictures, serial

    small = pictures.small(report.curves, console.stderr) if picture and console.stderr.terminal else []
    _answer(form, console, lines, report.to_json, partial(serial.report, report), beside_path=beside_path, below=small)
    hidden = _NOTES | _IN_VERDICT if said and form == "table" else _NOTES
    _warn([one.message for one in report.warnings if one.code not in hidden], console)
    _warn_of_bad_rows(report.data, console)


def fitted(result: FitResult, form: Form, console: Console) -> None:
    """The artifact's path on stdout and the report on stderr; in other forms, the report on stdout."""
    from calcli.cli import results

    if result.report is None:
        _binding(result.binding.to_json(), [("artifact", str(result.path))], form, console)
        return
    lines = partial(results.fitted, result)
    _report(result.report, form, console, lines, beside_path=True, picture=True, said=not console.quiet)
    _finish(result.path, result.refused, form, console)


def decided(result: DecideResult, form: Form, console: Console) -> None:
    """The artifact's path on stdout and the options on stderr; exit code 1 where nothing meets the target."""
    from calcli.cli import results, serial

    flat = partial(serial.options, result.choice)
    _answer(form, console, partial(results.decided, result), result.to_json, flat, beside_path=True)
    _warn([warning.message for warning in result.warnings], console)
    _warn_of_bad_rows(result.data, console)
    _finish(result.path, result.refused, form, console)


def compared(result: CompareResult, form: Form, console: Console) -> None:
    """The leaderboard on stdout; with ``--select`` it goes to stderr, and the artifact's path to stdout."""
    from calcli.cli import results

    selected = result.selected
    _report(result.report, form, console, partial(results.compared, result), beside_path=selected is not None)
    _finish(None if selected is None else selected.path, None, form, console)


def refitted(result: RefitResult | PolicyRefit, form: Form, console: Console) -> None:
    """The artifact's path on stdout and the report on stderr; exit code 1 where the previous generation was kept."""
    from calcli.cli import results

    _report(
        result.report,
        form,
        console,
        partial(results.refitted, result),
        beside_path=True,
        said=not console.quiet,
    )
    _finish(result.path, result.kept, form, console, usual=result.usual)


def evaluated(report: Report, form: Form, console: Console) -> None:
    """The report on stdout; exit code 1 where a gate failed or the calibration has drifted."""
    from calcli.cli import results

    _report(report, form, console, partial(results.evaluated, report), picture=True)
    failed = [str(gate["expr"]) for gate in report.gates if not gate["passed"]]
    if failed:
        _refuse(f"--fail-if is true: {'; '.join(failed)}", console)
    if report.drift is not None and report.drift["drifted"]:
        _refuse("the calibration has drifted since the fit", console)
    promise: Any = None if report.drift is None else report.drift["promise"]
    if promise is not None and promise["broken"]:
        _refuse(f"the policy does not keep its promise, {promise['target']}", console)


def _finish(
    path: os.PathLike[str] | None, refused: str | None, form: Form, console: Console, *, usual: bool = False
) -> None:
    """End with exit code 1 where the answer is no, else with the path of the artifact below a table."""
    if refused is not None:
        _refuse(refused, console, usual=usual)
    if form == "table" and path is not None:
        write_path(path)


def _refuse(reason: str, console: Console, *, usual: bool = False) -> NoReturn:
    """End with exit code 1 and a warning, or a note of what is usual: the command ran, and the answer is no."""
    import typer

    (console.note if usual else console.warn)(reason)
    raise typer.Exit(1)


def check_picture(target: str | None) -> None:
    """Refuse a picture that cannot be drawn before any rows are read."""
    if target not in (None, "-"):
        from calcli.reporting.webpage import picture_form

        picture_form(str(target))


def policy_picture(result: DecideResult, target: str | None, console: Console) -> None:
    """The charts of a policy in a file, or on stderr, with ``--picture``."""
    if target is None:
        return
    from calcli.cli import pictures
    from calcli.reporting import webpage

    if not result.scores:
        console.warn("nothing was drawn: pictures are of thresholds, and these rows have more than two classes")
    elif target == "-":
        console.show(pictures.charts(webpage.policy_charts(result), console.stderr))
    else:
        _write_file(webpage.policy_picture(result, target), target, f"drawn in {target}", console)


def policy_page(result: DecideResult, target: str | None, console: Console) -> None:
    """The policy as an HTML page, with ``--html``."""
    if target is not None:
        from calcli.reporting import webpage

        _write_file(webpage.policy_page(result), target, f"the page is in {target}", console)


def page(report: Report, target: str | None, console: Console) -> None:
    """The report as an HTML page, with ``--html``."""
    if target is not None:
        from calcli.reporting import webpage

        _write_file(webpage.webpage(report).encode(), target, f"the page is in {target}", console)


def _write_file(content: bytes, target: str, note: str, console: Console) -> None:
    from calcli.tables.sink import write_bytes

    write_bytes(content, target)
    console.note(note)


def check_streams(target: str | None, form: Form) -> None:
    """Refuse a picture and its numbers on the same stdout."""
    if target == "-" and form != "table":
        raise UsageError("the image and its numbers would both go to stdout", hint="write the image to a file: -o FILE")


def pictured(result: DiagramResult, form: Form, console: Console) -> None:
    """The picture or its numbers on stdout; the captions on stderr if the picture is in a file."""
    from calcli.cli import pictures, serial

    output = result.request.output
    if output is None or form != "table":
        flat = partial(serial.points, result.shown)
        _answer(form, console, partial(pictures.diagram, result), result.to_json, flat)
    if output is not None:
        drawn = [] if output == "-" else [f"drawn in {output}"]
        console.show([*pictures.readings(result, console.stderr), *drawn])
    _warn_of_bad_rows(result.data, console)


def applied(result: ApplyResult, console: Console, *, dry_run: bool) -> None:
    """The rows and columns that were written, on stderr: stdout may be the table."""
    if result.doubt is not None:
        console.warn(result.doubt)
    if dry_run:
        more = [("adds", ", ".join(result.columns)), ("output", result.output)]
        _binding(result.binding.to_json(), more, "table", console)
        return
    _written(result, console)
    _warn_of_bad_rows(result, console, "have no usable score and got null")


def decomposed(result: DecomposeResult, console: Console) -> None:
    """The rows and columns that were written, on stderr: stdout may be the table."""
    _written(result, console)
    _warn_of_bad_rows(result, console, "have no usable predictions and got null")


def _written(result: ApplyResult | DecomposeResult, console: Console) -> None:
    place = "standard output" if result.output == "-" else result.output
    console.show([f"{place}: {result.rows:,} rows, added {', '.join(result.columns)}"])


def ensemble_fitted(result: EnsembleResult, console: Console) -> None:
    """The ensemble's path on stdout, and a summary of the training on stderr."""
    from calcli.cli import results

    if result.model is None:
        _binding(result.binding.to_json(), [("ensemble", str(result.path))], "table", console)
        return
    console.show([*results.ensemble_fitted(result, console.stderr), ""])
    _warn(result.warnings, console)
    _finish(result.path, None, "table", console)


def ensemble_evaluated(report: Report, form: Form, console: Console) -> None:
    """The report on stdout."""
    from calcli.cli import results

    _report(report, form, console, partial(results.ensemble_evaluated, report))


def inspected(inspection: Inspection, form: Form, console: Console) -> None:
    """An artifact: its manifest, its numbers, its files."""
    from calcli.cli import inspection as view

    _answer(form, console, partial(view.inspected, inspection), inspection.to_json, None)


def explained(explanation: Explanation, form: Form, console: Console) -> None:
    """The contributions to the scores; the name of the picture's file on stderr."""
    from calcli.cli import inspection as view

    _answer(form, console, partial(view.explained, explanation), explanation.to_json, None)
    if explanation.request.output is not None:
        console.note(f"drawn in {explanation.request.output}")


def methods(specs: Sequence[MethodSpec], form: Form, console: Console, *, details: bool) -> None:
    """The catalog of methods, or one of them with all details."""
    from calcli.cli import catalogs

    lines = partial(catalogs.method, specs[0]) if details else partial(catalogs.method_list, specs)
    _catalog("methods", [{**asdict(spec), "needs": [*spec.packages]} for spec in specs], _METHOD, form, console, lines)


def metrics(specs: Sequence[MetricSpec], form: Form, console: Console, *, details: bool) -> None:
    """The catalog of metrics, or one of them with all details."""
    from calcli.cli import catalogs

    lines = partial(catalogs.metric, specs[0]) if details else partial(catalogs.metric_list, specs)
    _catalog("metrics", [asdict(spec) for spec in specs], _METRIC, form, console, lines)


def _catalog(
    name: str, entries: list[dict[str, Any]], header: Sequence[str], form: Form, console: Console, lines: Lines
) -> None:
    def flat(form: Flat) -> str:
        from calcli.cli import serial  # not above: its imports would take a tenth of the time of the list

        return serial.flat(header, [[entry[key] for key in header] for entry in entries], form)

    _answer(form, console, lines, lambda: {"schema": f"calcli.{name}/1", name: entries}, flat)


def _binding(binding: dict[str, Any], more: list[tuple[str, str]], form: Form, console: Console) -> None:
    """The answer of ``--dry-run``: the roles of the columns."""
    from calcli.cli import results, serial

    if form in ("csv", "markdown"):  # the others have the notes themselves
        for note in binding["notes"]:
            console.note(note)
    document = {"schema": "calcli.binding/1", **dict(more), "binding": binding}
    _answer(form, console, partial(results.bound, binding, more), lambda: document, partial(serial.binding, binding))


def _warn(messages: Iterable[str], console: Console) -> None:
    for message in messages:
        console.warn(message)


def _warn_of_bad_rows(
    counted: DataFacts | ApplyResult | DecomposeResult, console: Console, consequence: str = "are bad and were left out"
) -> None:
    if counted.rows_bad:
        console.warn(f"{counted.rows_bad:,} of {counted.rows:,} rows {consequence}")
