"""`apply`: add the calibrated columns to a table, in a stream."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from calcli.artifacts import store
from calcli.artifacts.store import Artifact
from calcli.engines.calibrated_columns import CalibratedColumns, Scale
from calcli.engines.decision_columns import DecisionColumns, IntervalColumns
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import BadRows, Stream
from calcli.engines.options import Engine, check_master, check_parquet, paths_of
from calcli.engines.passthrough import RowsWritten, kept_columns, promised_format, write_rows
from calcli.errors import DataError, UsageError
from calcli.fitting.model import Model, opened
from calcli.places import place
from calcli.tables.binding import bind, bind_unscored
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import doubt_of_scale
from calcli.tables.load import load as load_rows
from calcli.tables.side_tables import load_nodes
from calcli.tables.source import Data, Source, open_source

if TYPE_CHECKING:
    from calcli.fitting.intervals import IntervalModel


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """The request of `apply`.

    Attributes
    ----------
    artifact
        The directory of a fitted calibrator.
    data
        Paths, globs, directories, ``-``, or a frame.
    output
        Where the table goes; ``-`` is standard output.
    column
        The stem of the columns that are added.
    scale
        ``prob``, or ``logit`` for log-odds (for more than two classes log-probabilities).
    extra
        Add the logits too, and what else the method can say of a row: an interval, where it has one.
    keep
        The input columns to pass through; None for all, () for none.
    edges
        Pairs of ids of linked rows, in place of those of the fit: new rows have new edges.
    engine
        ``local`` for this machine, ``spark`` for a cluster.
    master
        The URL of the cluster; None is what Spark's own configuration says, or else this machine.
    """

    artifact: str | Path
    data: Data
    output: str | os.PathLike[str]
    column: str = "calibrated"
    scale: Scale = "prob"
    extra: bool = False
    keep: tuple[str, ...] | None = None
    flags: Flags = Flags()
    input_format: str | None = None
    delimiter: str | None = None
    output_format: str | None = None
    bad_rows: BadRows = "fail"
    edges: Data | None = None
    engine: Engine = "local"
    master: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The columns and rows that were written.

    Attributes
    ----------
    rows, rows_bad
        All rows, and those that got null because they have no usable score.
    columns
        The columns that were added.
    doubt
        Why the score may not be what the artifact takes it for, if it may not.
    """

    output: str
    rows: int
    rows_bad: int
    columns: tuple[str, ...]
    binding: Binding
    doubt: str | None = None


AnyColumns: TypeAlias = CalibratedColumns | DecisionColumns | IntervalColumns

Applied: TypeAlias = tuple[AnyColumns, RowsWritten, str | None]
"""The columns, how many rows they have, and what is doubtful about the score."""


def apply(request: ApplyRequest, listener: Listener = SILENT) -> ApplyResult:
    """Calibrate every row of a table: same rows, same order, other columns untouched."""
    if request.scale == "logit" and request.extra:
        raise UsageError("--extra adds logits, and --as logit turns the column itself into logits", hint="keep one")
    check_master(request.engine, request.master)
    artifact = store.read(request.artifact)
    if artifact.manifest.holds_intervals:
        added, written, doubt = _intervals(request, artifact, listener)
    else:
        model = opened(artifact, edges=request.edges)
        added, written, doubt = (_on_spark if request.engine == "spark" else _here)(request, model, listener)
    return ApplyResult(str(place(request.output)), written.rows, written.bad, added.names, added.binding, doubt)


def _here(request: ApplyRequest, model: Model, listener: Listener) -> Applied:
    """On this machine, in a stream."""
    output_format = promised_format(request.output, request.output_format)
    with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
        with stage(listener, "looking at the columns"):
            added, kept = _columns(request, model, source)
        doubt = doubt_of_scale(source, added.binding)
        if request.dry_run:
            return added, RowsWritten(0, 0), doubt
        # What should be known of rows that an edge list links.
        if (node_id := added.binding.node_id) is not None:
            for remark in model.calibrator.remarks(load_nodes(source, node_id)):
                listener.note(remark)

        def recount() -> None:
            load_rows(source, added.binding, features=added.features, label=False, check_scale=False)

        stream = Stream(added, request.bad_rows, whole_table=model.calibrator.whole_table)
        with stage(listener, "calibrating"):
            return added, write_rows(stream, source, kept, request.output, output_format, recount), doubt


def _intervals(request: ApplyRequest, artifact: Artifact, listener: Listener) -> Applied:
    """The ends of intervals around predicted amounts."""
    from calcli.fitting.intervals import opened_intervals

    model = opened_intervals(artifact)
    if request.engine == "spark":
        return _by_cluster(request, lambda source: _interval_columns(request, model, source), listener)
    output_format = promised_format(request.output, request.output_format)
    with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
        added, kept = _interval_columns(request, model, source)
        written = RowsWritten(0, 0)
        if not request.dry_run:
            with stage(listener, "predicting"):
                stream = Stream(added, request.bad_rows)
                written = write_rows(stream, source, kept, request.output, output_format, lambda: None)
    return added, written, None


def _interval_columns(request: ApplyRequest, model: IntervalModel, source: Source) -> tuple[AnyColumns, list[str]]:
    """The ends that are added, and the columns that pass through."""
    added = IntervalColumns(bind_unscored(source, known=model.binding, need_label=False), model.rule)
    if missing := [name for name in added.reads if name not in source.columns]:
        raise DataError(f"the policy reads a column that the table does not have: {missing[0]!r}")
    return added, kept_columns(source, request.keep, added.names, hint="leave it out with --keep, or rename it, before")


def _on_spark(request: ApplyRequest, model: Model, listener: Listener) -> Applied:
    """On a cluster, over a dataset of Parquet files."""
    from calcli.spark.columns import check_row_by_row

    check_row_by_row(request.artifact, model)
    return _by_cluster(request, lambda source: _columns(request, model, source), listener)


def _by_cluster(
    request: ApplyRequest, columns: Callable[[Source], tuple[AnyColumns, list[str]]], listener: Listener
) -> Applied:
    """Columns that are added on a cluster, by formulas where they have any."""
    from calcli.spark.columns import terms_of, write_with_added
    from calcli.spark.rows import example_rows, read_table
    from calcli.spark.session import spark_session

    paths = paths_of(request.data, request.input_format, request.delimiter)
    check_parquet(request.output_format, "--output-format")
    if str(request.output) == "-":
        raise UsageError("--engine spark writes a directory", hint="name it with -o DIR")
    with spark_session(request.master) as session:
        table = read_table(session, paths)
        with open_source(example_rows(table)) as source:
            added, kept = columns(source)
        if request.dry_run:
            return added, RowsWritten(0, 0), None
        terms = terms_of(added) if isinstance(added, CalibratedColumns) else None
        with stage(listener, "calibrating on Spark"):
            stream = Stream(added, request.bad_rows)
            return added, write_with_added(table, stream, kept, str(request.output), terms), None


def _columns(request: ApplyRequest, model: Model, source: Source) -> tuple[AnyColumns, list[str]]:
    """The columns that are added, and those that pass through."""
    binding = bind(source, request.flags, known=model.binding, need_label=False, features=model.needs_features)
    calibrated = CalibratedColumns(
        request.column, model.calibrator, binding, request.scale, request.extra, model.needs_features
    )
    added: AnyColumns = calibrated
    if model.policy is not None:
        added = DecisionColumns(calibrated, model.policy)
        source.find(*model.policy.rule.reads, known=True)
        if missing := [name for name in model.policy.rule.reads if name not in source.columns]:
            raise DataError(f"the policy reads a column that the table does not have: {missing[0]!r}")
    return added, kept_columns(source, request.keep, added.names, hint="try: --column NAME")
