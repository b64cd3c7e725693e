"""Answers on stdout, in the form that ``--format`` names, and notes and warnings on stderr."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from calcli.cli.process import write, write_path
from calcli.errors import UsageError

if TYPE_CHECKING:
    from calcli.cli.process import Console
    from calcli.cli.screen import Screen
    from calcli.cli.serial import Flat
    from calcli.reporting.facts import Pair
    from calcli.reports.schema import DataFacts
    from calcli.tables.binding_types import Binding
    from calcli.verbs.apply import ApplyResult, DecomposeResult

Form: TypeAlias = Literal["table", "json", "csv", "markdown"]

SUFFIXES: Mapping[str, Form] = {".json": "json", ".csv": "csv", ".md": "markdown"}
"""The forms that the name of a file chooses."""


class Answer(NamedTuple):
    """The answer of a command: for people and for programs, and how the command ends."""

    lines: Callable[[Screen], list[str]]
    """The answer for people, on a screen."""

    document: Callable[[], object] = dict
    """The answer as JSON, where the command offers it."""

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

    page: Callable[[], str] | None = None
    """The answer as a page, where the command offers one with ``--html``."""

    path: os.PathLike[str] | None = None
    """The artifact that was saved."""

    refused: str | None = None
    """Why the answer is no, which is exit code 1."""

    usual: bool = False
    """Whether a no is as common as a yes, and no warning."""


def show(answer: Answer, form: Form, console: Console, target: str | None = None) -> None:
    """Write an answer in this form to stdout or to a file, its warnings to stderr; exit with 1 where it is no."""
    hidden: Collection[str] = ()
    form, screen = form_of(target, form), console.stdout
    if target not in (None, "-"):
        from calcli.cli.screen import Screen

        screen = Screen()
    if form == "json":
        from calcli.cli import serial

        put(serial.to_json(answer.document(), unicode=screen.unicode), target)
    elif form != "table" and answer.flat is not None:
        for note in answer.notes:
            console.note(note)
        put(answer.flat(form), target)
    else:
        below = [] if answer.below is None else answer.below(console.stderr)
        if answer.beside_path:
            console.show([*answer.lines(console.stderr), *below, ""])
        else:
            put(screen.fit(answer.lines(screen)) + "\n", target)
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


def form_of(target: str | None, form: Form) -> Form:
    """The form that the name of a file chooses, if it chooses any."""
    suffix = PurePath(target or "").suffix.lower()
    if suffix in (".html", ".htm"):
        raise UsageError(f"-o {target}: a report is text, JSON, CSV or Markdown", hint=f"a page is --html {target}")
    return SUFFIXES.get(suffix, form)


def check_file(target: str | None, data: Sequence[str] | None = None, input_format: str | None = None) -> None:
    """Refuse, before any work is done, a file to which no report can be written, or that is a table of `data`."""
    form_of(target, "table")
    if target is None or target == "-":
        return
    from calcli.files import target_of
    from calcli.places import place

    where = place(target)
    if isinstance(where, Path) and target_of(where).exists() and data:
        from calcli.tables.paths import find_inputs

        if find_inputs(data, input_format).have(where):
            raise UsageError(f"-o {target} is a table that this report is about", hint="name another file")


def put(answer: str | bytes, target: str | None) -> None:
    """Write an answer to stdout, or to the file of ``-o``."""
    if target is not None and target != "-":
        from calcli.tables.sink import write_bytes as write_to

        write_to(answer.encode() if isinstance(answer, str) else answer, target)
    else:
        write(answer)


def bound(binding: Binding, *more: Pair) -> Answer:
    """The answer of ``--dry-run``: the roles of the columns, and the notes on how they were found."""
    from calcli.cli import serial
    from calcli.cli.screen import fact_list, wrapped
    from calcli.reporting.facts import binding_facts

    found = binding.to_json()

    def lines(screen: Screen) -> list[str]:
        notes = [line for note in binding.notes for line in ["", *wrapped(note, screen.prose)]]
        return [*fact_list([*binding_facts(found), *more], screen), *notes]

    document = {"schema": "calcli.binding/1", **dict(more), "binding": found}
    return Answer(lines, lambda: document, partial(serial.binding, found), notes=binding.notes)


def applied(result: ApplyResult, console: Console, *, dry_run: bool) -> Answer | None:
    """The roles of the columns after a dry run; else what was written, on stderr."""
    if result.doubt is not None:
        console.warn(result.doubt)
    if dry_run:
        return bound(result.binding, ("adds", ", ".join(result.columns)), ("output", result.output))
    written(result, "have no usable score and got null", console)
    return None


def written(result: ApplyResult | DecomposeResult, consequence: str, console: Console) -> None:
    """Show the rows and columns that were written, on stderr: stdout may be the table."""
    place = "standard output" if result.output == "-" else result.output
    console.show([f"{place}: {result.rows:,} rows, added {', '.join(result.columns)}"])
    for warning in bad_rows(result, consequence):
        console.warn(warning)


def bad_rows(
    counted: DataFacts | ApplyResult | DecomposeResult, consequence: str = "are bad and were left out"
) -> list[str]:
    """The warning that some rows are bad, if any are."""
    return [f"{counted.rows_bad:,} of {counted.rows:,} rows {consequence}"] if counted.rows_bad else []


def write_file(content: bytes, target: str, note: str, console: Console) -> None:
    """Write a picture or a page beside the answer."""
    put(content, target)
    console.note(note)
