"""`uncertainty decompose`: the same columns from the predictions of any ensemble's members."""

from __future__ import annotations

import os
from dataclasses import dataclass

from calcli.engines.ensemble_columns import DecomposedColumns
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import BadRows, Stream
from calcli.engines.passthrough import kept_columns, promised_format, write_rows
from calcli.places import place
from calcli.tables.members import MemberColumns, find_members, refuse_bad_members
from calcli.tables.source import Data, open_source
from calcli.verbs.uncertainty_apply import RENAME


@dataclass(frozen=True, slots=True)
class DecomposeRequest:
    """The request of `uncertainty decompose`.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame.
    members
        The stem of ``<stem>_<m>``, P(positive) or a mean, or of ``<stem>_<m>_<class>``.
    output
        Where the table goes; ``-`` is standard output and needs `output_format`.
    variances
        The stem of each member's variance, where amounts are predicted.
    extra, keep
        As of `uncertainty apply`.
    """

    data: Data
    members: str
    output: str | os.PathLike[str]
    variances: str | None = None
    extra: bool = False
    keep: tuple[str, ...] | None = None
    input_format: str | None = None
    delimiter: str | None = None
    output_format: str | None = None
    bad_rows: BadRows = "fail"


@dataclass(frozen=True, slots=True)
class DecomposeResult:
    """The columns that were written, and those that they were computed from."""

    output: str
    rows: int
    rows_bad: int
    columns: tuple[str, ...]
    members: MemberColumns


def decompose(request: DecomposeRequest, listener: Listener = SILENT) -> DecomposeResult:
    """Decompose every row of a table: same rows, same order, other columns untouched."""
    output_format = promised_format(request.output, request.output_format)
    with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
        members = find_members(source, request.members, request.variances)
        listener.note(_description(members))
        columns = DecomposedColumns(
            members=members, classes=members.classes, regression=bool(members.variances), extra=request.extra
        )
        kept = kept_columns(source, request.keep, columns.names, hint=RENAME)
        stream = Stream(columns, request.bad_rows)
        with stage(listener, "decomposing"):
            written = write_rows(
                stream, source, kept, request.output, output_format, lambda: refuse_bad_members(source, members)
            )
    return DecomposeResult(str(place(request.output)), written.rows, written.bad, columns.names, members)


def _description(members: MemberColumns) -> str:
    count, names = len(members.means), members.names
    if members.variances:
        return f"{count} members that predict an amount: {names[0]} and {members.variances[0]} are the first"
    if members.classes:
        return f"{count} members that predict the classes {', '.join(members.classes)}: {names[0]} is the first column"
    return f"{count} members that predict the probability of one of two classes: {names[0]} to {names[-1]}"
