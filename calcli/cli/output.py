"""Answers on stdout, in the form that ``--format`` names, and notes and warnings on stderr."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from calcli.cli.process import write, write_path
from calcli.errors import UsageError

if TYPE_CHECKING:
    from calcli.cli.process import Console
    from calcli.cli.screen import Screen
    from calcli.cli.serial import Flat
    from calcli.methods.spec import MethodSpec
    from calcli.metrics.catalog import MetricSpec
    from calcli.models.requests import FitResult
    from calcli.reports.schema import DataFacts, Report
    from calcli.verbs.apply import ApplyResult, DecomposeResult
    from calcli.verbs.compare import CompareResult
    from calcli.verbs.decide import DecideResult
    from calcli.verbs.diagram import DiagramResult
    from calcli.verbs.inspect import Explanation, Inspection
    from calcli.verbs.refit import DecisionRefit
    from calcli.verbs.refit_calibrator import RefitResult
    from calcli.verbs.uncertainty import EnsembleResult

Form: TypeAlias = Literal["table", "json", "csv", "markdown"]

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


class Answer(NamedTuple):
    """The answer of a command: for people and for programs, and how the command ends."""

    lines: Callable[[Screen], list[str]]
    """The answer for people, on a screen."""

    document: Callable[[], object]
    """The answer as JSON."""

    flat: Callable[[Flat], str] | None = None
    """The answer as CSV or Markdown, where the command offers them."""

    beside_path: bool = False
    """Whether stdout is for the path, so that the lines go to stderr."""

    below: Callable[[Screen], list[str]] | None = None
    """More lines, which stand on stderr below the others."""

    notes: Sequence[str] = ()
    """Sentences that CSV and Markdown have no place for."""

    warnings: Sequence[str] = ()
    repeated: Collection[str] = ()
    """Warnings that the lines say too."""

    path: os.PathLike[str] | None = None
    """The artifact that was saved."""

    refused: str | None = None
    """Why the answer is no, which is exit code 1."""

    usual: bool = False
    """Whether a no is as common as a yes, and no warning."""


def show(answer: Answer, form: Form, console: Console) -> None:
    """Write an answer in this form to stdout and its warnings to stderr; exit with 1 where the answer is no."""
    hidden: Collection[str] = ()
    if form == "json":
        from calcli.cli import serial

        write(serial.to_json(answer.document(), unicode=console.stdout.unicode))
    elif form != "table" and answer.flat is not None:
        for note in answer.notes:
            console.note(note)
        write(answer.flat(form))
    else:
        below = [] if answer.below is None else answer.below(console.stderr)
        if answer.beside_path:
            console.show([*answer.lines(console.stderr), *below, ""])
        else:
            write(console.stdout.fit("\n".join(answer.lines(console.stdout))) + "\n")
            console.show(below)
        hidden = () if answer.beside_path and console.quiet else answer.repeated
    for warning in answer.warnings:
        if warning not in hidden:
            console.warn(warning)
    if answer.refused is not None:
        import typer

        (console.note if answer.usual else console.warn)(answer.refused)
        raise typer.Exit(1)
    if form == "table" and answer.path is not None:
        write_path(answer.path)


def _report(report: Report, lines: Callable[[Screen], list[str]], **more: Any) -> Answer:
    """The answer of a report, with its warnings but for those that the verb notes while it runs."""
    from calcli.cli import serial

    warnings = [one.message for one in report.warnings if one.code != "choice"]
    repeated = {one.message for one in report.warnings if one.code == "not-better"}
    flat = partial(serial.report, report)
    warnings += _bad_rows(report.data)
    return Answer(lines, report.to_json, flat, warnings=warnings, repeated=repeated, **more)


def _small_picture(report: Report, screen: Screen) -> list[str]:
    """A small picture, if stderr is a terminal."""
    from calcli.cli import pictures

    return pictures.small(report.curves, screen) if screen.terminal else []


def fitted(result: FitResult) -> Answer:
    """The path of the artifact and the report; the roles of the columns after a dry run."""
    from calcli.cli import results

    if result.report is None:
        return _binding(result.binding.to_json(), [("artifact", str(result.path))])
    return _report(
        result.report,
        partial(results.fitted, result),
        beside_path=True,
        below=partial(_small_picture, result.report),
        path=result.path,
        refused=result.refused,
    )


def decided(result: DecideResult) -> Answer:
    """The path of the policy and its options; a no where nothing meets the target."""
    from calcli.cli import results, serial

    return Answer(
        partial(results.decided, result),
        result.to_json,
        partial(serial.options, result.choice),
        beside_path=True,
        warnings=[*(warning.message for warning in result.warnings), *_bad_rows(result.data)],
        path=result.path,
        refused=result.refused,
    )


def compared(result: CompareResult) -> Answer:
    """The leaderboard; with ``--select`` also the path of the artifact."""
    from calcli.cli import results

    lines, selected = partial(results.compared, result), result.selected
    return _report(result.report, lines, beside_path=selected is not None, path=selected and selected.path)


def refitted(result: RefitResult | DecisionRefit) -> Answer:
    """The path of the artifact and the report; a no where the previous generation was kept."""
    from calcli.cli import results

    lines = partial(results.refitted, result)
    return _report(result.report, lines, beside_path=True, path=result.path, refused=result.kept, usual=result.usual)


def evaluated(report: Report) -> Answer:
    """The report; a no where a gate failed, the calibration has drifted or a policy breaks its promise."""
    from calcli.cli import results

    refused = None
    failed = [str(gate["expr"]) for gate in report.gates if not gate["passed"]]
    promise: Any = None if report.drift is None else report.drift["promise"]
    if failed:
        refused = f"--fail-if is true: {'; '.join(failed)}"
    elif report.drift is not None and report.drift["drifted"]:
        refused = "the calibration has drifted since the fit"
    elif promise is not None and promise["broken"]:
        refused = f"the policy does not keep its promise, {promise['target']}"
    picture = partial(_small_picture, report)
    return _report(report, partial(results.evaluated, report), below=picture, refused=refused)


def ensemble_evaluated(report: Report) -> Answer:
    """The report of ensembles."""
    from calcli.cli import results

    return _report(report, partial(results.ensemble_evaluated, report))


def inspected(inspection: Inspection) -> Answer:
    """An artifact: its manifest, its numbers, its files."""
    from calcli.cli import inspection as view

    return Answer(partial(view.inspected, inspection), inspection.to_json)


def explained(explanation: Explanation) -> Answer:
    """The contributions to the scores."""
    from calcli.cli import inspection as view

    return Answer(partial(view.explained, explanation), explanation.to_json)


def methods(specs: Sequence[MethodSpec], *, details: bool) -> Answer:
    """The catalog of methods, or one of them with all details."""
    from calcli.cli import catalogs

    lines = partial(catalogs.method, specs[0]) if details else partial(catalogs.method_list, specs)
    return _catalog("methods", [{**asdict(spec), "needs": [*spec.packages]} for spec in specs], _METHOD, lines)


def metrics(specs: Sequence[MetricSpec], *, details: bool) -> Answer:
    """The catalog of metrics, or one of them with all details."""
    from calcli.cli import catalogs

    lines = partial(catalogs.metric, specs[0]) if details else partial(catalogs.metric_list, specs)
    return _catalog("metrics", [asdict(spec) for spec in specs], _METRIC, lines)


def _catalog(
    name: str, entries: list[dict[str, Any]], header: Sequence[str], lines: Callable[[Screen], list[str]]
) -> Answer:
    def flat(form: Flat) -> str:
        from calcli.cli import serial  # not above: its imports would take a tenth of the time of the list

        return serial.flat(header, [[entry[key] for key in header] for entry in entries], form)

    return Answer(lines, lambda: {"schema": f"calcli.{name}/1", name: entries}, flat)


def _binding(binding: dict[str, Any], more: list[tuple[str, str]]) -> Answer:
    """The answer of ``--dry-run``: the roles of the columns."""
    from calcli.cli import results, serial

    document = {"schema": "calcli.binding/1", **dict(more), "binding": binding}
    lines = partial(results.bound, binding, more)
    return Answer(lines, lambda: document, partial(serial.binding, binding), notes=binding["notes"])


def pictured(result: DiagramResult, form: Form, console: Console) -> None:
    """The picture or its numbers on stdout; the captions on stderr if the picture is in a file."""
    from calcli.cli import pictures, serial

    output = result.request.output
    if output is None or form != "table":
        flat = partial(serial.points, result.shown)
        show(Answer(partial(pictures.diagram, result), result.to_json, flat), form, console)
    if output is not None:
        drawn = [] if output == "-" else [f"drawn in {output}"]
        console.show([*pictures.readings(result, console.stderr), *drawn])
    _warn(_bad_rows(result.data), console)


def applied(result: ApplyResult, console: Console, *, dry_run: bool) -> None:
    """The rows and columns that were written, on stderr: stdout may be the table."""
    if result.doubt is not None:
        console.warn(result.doubt)
    if dry_run:
        more = [("adds", ", ".join(result.columns)), ("output", result.output)]
        show(_binding(result.binding.to_json(), more), "table", console)
    else:
        _written(result, "have no usable score and got null", console)


def decomposed(result: DecomposeResult, console: Console) -> None:
    """The rows and columns that were written, on stderr: stdout may be the table."""
    _written(result, "have no usable predictions and got null", console)


def _written(result: ApplyResult | DecomposeResult, consequence: str, console: Console) -> None:
    place = "standard output" if result.output == "-" else result.output
    console.show([f"{place}: {result.rows:,} rows, added {', '.join(result.columns)}"])
    _warn(_bad_rows(result, consequence), console)


def ensemble_fitted(result: EnsembleResult, console: Console) -> None:
    """The ensemble's path on stdout, and a summary of the training on stderr."""
    from calcli.cli import results

    if result.model is None:
        show(_binding(result.binding.to_json(), [("ensemble", str(result.path))]), "table", console)
        return
    console.show([*results.ensemble_fitted(result, console.stderr), ""])
    _warn(result.warnings, console)
    if result.path is not None:
        write_path(result.path)


def _bad_rows(
    counted: DataFacts | ApplyResult | DecomposeResult, consequence: str = "are bad and were left out"
) -> list[str]:
    return [f"{counted.rows_bad:,} of {counted.rows:,} rows {consequence}"] if counted.rows_bad else []


def _warn(messages: Iterable[str], console: Console) -> None:
    for message in messages:
        console.warn(message)


# Files and streams beside the answer


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
