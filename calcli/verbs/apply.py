"""Copying a table with columns added, in a stream: `apply`, `uncertainty apply` and `uncertainty decompose`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import polars as pl

from calcli.errors import UsageError
from calcli.homes import Brief
from calcli.listener import SILENT, Listener, stage
from calcli.models.base import ColumnOptions, Given, Model, Scale, open_model
from calcli.models.stream import (
    AddedColumns,
    ColumnAdder,
    ModelColumns,
    RowsWritten,
    kept_columns,
    promised_format,
    write_rows,
)
from calcli.places import place
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.request import BadRows, Engine, Request, RowsRequest, check_master, open_table
from calcli.tables.source import Data, Source

if TYPE_CHECKING:  # of ensembles
    from calcli.tables.side_tables import MemberColumns

Columns = TypeVar("Columns", bound=AddedColumns)


@dataclass(frozen=True, slots=True)
class ApplyRequest(RowsRequest):
    """The request of `apply`.

    Attributes
    ----------
    artifact
        The directory of a fitted calibrator, or the model itself.
    output
        Where the table goes; ``-`` is standard output. None gives it to the caller, as `ApplyResult.frame`.
    scale
        ``prob``, or ``logit`` for log-odds (for more than two classes log-probabilities).
    extra
        Add the logits too, and what else the method can say of a row: an interval, where it has one.
    edges
        Pairs of ids of linked rows, in place of those of the fit: new rows have new edges.
    prior_shift
        ``estimate``: find the class rates of these rows, and give the probabilities that a calibrator for them has.
    """

    artifact: Given
    data: Data
    output: str | os.PathLike[str] | None = None
    column: str = "calibrated"
    scale: Scale = "prob"
    extra: bool = False
    keep: Sequence[str] | None = None
    stream: bool = False
    output_format: str | None = None
    edges: Data | None = None
    prior_shift: Literal["estimate"] | None = None
    engine: Engine = "local"
    master: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class ApplyResult(Brief):
    """The columns and rows that were written."""

    output: str
    """Where the table went; empty where it is `frame`."""

    rows: int
    rows_bad: int
    """`rows`, `rows_bad`: all rows, and those that got null because they have no usable score."""

    columns: tuple[str, ...]
    """The columns that were added."""

    binding: Binding
    doubt: str | None = None
    """Why the score may not be what the artifact takes it for, if it may not."""

    frame: pl.DataFrame | None = None
    """The table, where no output was named; None after a dry run."""


@dataclass(frozen=True, slots=True)
class EnsembleApplyRequest(Request):
    """The request of `uncertainty apply`.

    Attributes
    ----------
    ensemble
        The directory of an ensemble, or the model itself.
    data
        Paths, globs, directories, ``-``, or a frame; a label is not needed.
    output
        As of `apply`; on standard output it needs `output_format`.
    extra
        Add more measures of disagreement, as `UncertaintyColumns.extra` says.
    """

    ensemble: Given
    data: Data
    output: str | os.PathLike[str] | None = None
    extra: bool = False
    keep: Sequence[str] | None = None
    stream: bool = False
    input_format: str | None = None
    delimiter: str | None = None
    output_format: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DecomposeRequest(Request):
    """The request of `uncertainty decompose`.

    Attributes
    ----------
    members
        The stem of ``<stem>_<m>``, P(positive) or a mean, or of ``<stem>_<m>_<class>``.
    output
        As of `apply`; on standard output it needs `output_format`.
    variances
        The stem of each member's variance, where amounts are predicted.
    """

    data: Data
    members: str
    output: str | os.PathLike[str] | None = None
    variances: str | None = None
    extra: bool = False
    keep: Sequence[str] | None = None
    stream: bool = False
    input_format: str | None = None
    delimiter: str | None = None
    output_format: str | None = None
    bad_rows: BadRows = "fail"


@dataclass(frozen=True, slots=True, repr=False)
class DecomposeResult(Brief):
    """The columns that were written, and those that they were computed from; without an output, the table itself."""

    output: str
    rows: int
    rows_bad: int
    columns: tuple[str, ...]
    members: MemberColumns
    frame: pl.DataFrame | None = None


def apply(request: ApplyRequest, listener: Listener = SILENT) -> ApplyResult:
    """Calibrate every row of a table: same rows, same order, other columns untouched."""
    if request.scale == "logit" and request.extra:
        raise UsageError("--extra adds logits, and --as logit turns the column itself into logits", hint="keep one")
    check_master(request.engine, request.master)
    model = open_model(request.artifact).linked(request.edges)
    options = ColumnOptions(request.column, request.scale, request.extra)

    def columns(source: Source) -> ModelColumns:
        fitting = model if request.prior_shift is None else _at_new_rates(model, source, request, listener)
        return fitting.columns(source, request.flags, options)

    if request.engine != "local" and request.prior_shift is not None:
        raise UsageError("--prior-shift estimate reads all rows first", hint="leave out --engine spark")
    if request.engine != "local" and model.manifest.kind == "multi":
        raise UsageError(f"{model.name} is of several labels, and --engine spark takes one", hint=f"{model.name}#LABEL")
    if request.engine != "local":
        from calcli.models.cluster import cluster

        return _result(request, *cluster(request.engine).copy_with(columns, model, request, listener), None)
    return _result(request, *_here(request, columns, request.bad_rows, listener, dry_run=request.dry_run))


def _at_new_rates(model: Model, source: Source, request: ApplyRequest, listener: Listener) -> Model:
    """The calibrator for the class rates of these rows, which a note tells."""
    from calcli.models.calibrator import CalibratorModel
    from calcli.models.moved_rates import moved_rates, off_at_fit, with_moved_rates
    from calcli.reports.measuring import class_names
    from calcli.tables.binding import bind
    from calcli.tables.load import load

    if not isinstance(model, CalibratorModel):
        raise UsageError("--prior-shift is for calibrators of classes", hint="leave it out")
    with stage(listener, "estimating class rates"):
        features = model.needs_features
        bound = bind(source, request.flags, known=model.binding, need_label=False, features=features)
        rows = load(source, bound, features=features, bad_rows=request.bad_rows, label=False)
        found = moved_rates(model, model.calibrator.predict(rows.batch), None)
    shown = zip(class_names(model.binding), *found.rates, strict=True)
    said = ", ".join(f"{name} {value:.4f} ({lo:.4f} to {hi:.4f})" for name, value, lo, hi in shown)
    listener.note(f"class rates of these rows: {said}")
    if said_of_fit := off_at_fit(model):
        listener.note(said_of_fit)
    if found.contradicted:
        listener.note(
            f"the scores contradict that only the class rates have moved (p = {found.p:.2g}): do not rely on these "
            "probabilities without labels"
        )
    return with_moved_rates(model, found)


def apply_ensemble(request: EnsembleApplyRequest, listener: Listener = SILENT) -> ApplyResult:
    """Predict every row of a table: same rows, same order, other columns untouched."""
    from calcli.models.ensemble import load_ensemble

    model, options = load_ensemble(request.ensemble), ColumnOptions(extra=request.extra)

    def columns(source: Source) -> ModelColumns:
        return model.columns(source, Flags(), options)

    return _result(request, *_here(request, columns, "fail", listener, dry_run=request.dry_run))


def decompose(request: DecomposeRequest, listener: Listener = SILENT) -> DecomposeResult:
    """Decompose the uncertainty of every row of a table: same rows, same order, other columns untouched."""
    from calcli.models.ensemble import DecomposedColumns
    from calcli.tables.side_tables import find_members

    def columns(source: Source) -> DecomposedColumns:
        members = find_members(source, request.members, request.variances)
        listener.note(_description(members))
        return DecomposedColumns(
            members=members, classes=members.classes, regression=bool(members.variances), extra=request.extra
        )

    added, written, _ = _here(request, columns, request.bad_rows, listener)
    return DecomposeResult(_shown(request.output), written.rows, written.bad, added.names, added.members, written.frame)


def _here(
    request: ApplyRequest | EnsembleApplyRequest | DecomposeRequest,
    columns: Callable[[Source], Columns],
    bad_rows: BadRows,
    listener: Listener,
    *,
    dry_run: bool = False,
) -> tuple[Columns, RowsWritten, str | None]:
    """The columns added on this machine, the rows that were written, and why their score may be another one."""
    output_format = promised_format(request.output, request.output_format)
    with open_table(request) as source:
        with stage(listener, "looking at the columns"):
            added = columns(source)
            kept = kept_columns(source, request.keep, added)
        doubt = added.doubt(source)
        if dry_run:
            return added, RowsWritten(0, 0), doubt
        for remark in added.remarks(source):
            listener.note(remark)
        adder = ColumnAdder(added, bad_rows)
        with stage(listener, added.task):
            written = write_rows(adder, source, kept, request.output, output_format, at_once=request.stream)
        return added, written, doubt


def _result(
    request: ApplyRequest | EnsembleApplyRequest, added: ModelColumns, written: RowsWritten, doubt: str | None
) -> ApplyResult:
    return ApplyResult(
        _shown(request.output), written.rows, written.bad, added.names, added.binding, doubt, written.frame
    )


def _shown(output: str | os.PathLike[str] | None) -> str:
    return "" if output is None else str(place(output))


def _description(members: MemberColumns) -> str:
    count, names = len(members.means), members.names
    if members.variances:
        return f"{count} members that predict an amount: {names[0]} and {members.variances[0]} are the first"
    if members.classes:
        return f"{count} members that predict the classes {', '.join(members.classes)}: {names[0]} is the first column"
    return f"{count} members that predict the probability of one of two classes: {names[0]} to {names[-1]}"
