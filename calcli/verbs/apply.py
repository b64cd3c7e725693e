"""`apply`: add the calibrated columns to a table, in a stream."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from calcli.engines.columns import Added, Scale
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import BadRows, Stream, Watch
from calcli.errors import CalcliError, DataError, UsageError, unknown_name
from calcli.tables.binding import Binding, Flags, bind
from calcli.tables.checks import load as load_rows
from calcli.tables.formats import SEPARATORS, format_of
from calcli.tables.sink import write
from calcli.tables.source import Data, Source, open_source
from calcli.verbs.load import load


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """What `apply` is asked.

    Attributes
    ----------
    artifact
        The directory of a fitted calibrator.
    data
        Paths, globs, directories, ``-``, or a frame.
    output
        Where the table goes; ``-`` is standard output and needs `output_format`.
    column
        The stem of the columns that are added.
    scale
        ``prob``, or ``logit`` for log-odds (for more than two classes log-probabilities).
    extra
        Add the logits too, and what else the method can say of a row: an interval, where it has one.
    keep
        The input columns to pass through; None for all, () for none.
    """

    artifact: str | Path
    data: Data
    output: str | Path
    column: str = "calibrated"
    scale: Scale = "prob"
    extra: bool = False
    keep: tuple[str, ...] | None = None
    flags: Flags = Flags()
    input_format: str | None = None
    output_format: str | None = None
    bad_rows: BadRows = "fail"
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What was written.

    Attributes
    ----------
    rows, rows_bad
        All rows, and those that got null because they have no usable score.
    columns
        The columns that were added.
    """

    output: str
    rows: int
    rows_bad: int
    columns: tuple[str, ...]
    binding: Binding


def apply(request: ApplyRequest, listener: Listener = SILENT) -> ApplyResult:
    """Calibrate every row of a table: same rows, same order, other columns untouched."""
    if request.scale == "logit" and request.extra:
        raise UsageError("--extra adds the logits, and --as logit makes them of the column itself", hint="keep one")
    model = load(request.artifact)
    output_format = format_of(request.output, request.output_format, flag="--output-format")
    with open_source(request.data, format=request.input_format) as source:
        binding = bind(source, request.flags, known=model.binding, need_label=False, features=model.needs_features)
        added = Added.of(request.column, model.calibrator, binding, request.scale, extra=request.extra)
        kept = _kept_columns(source, request.keep, added.names)
        if request.dry_run:
            return ApplyResult(str(request.output), 0, 0, added.names, binding)
        # Text that goes to text is passed through as text, so that 007 and 1.50 stay what they are.
        frame = source.raw if source.text and output_format in SEPARATORS else source.typed()
        stream = Stream(binding, added, model.needs_features, request.bad_rows, Watch())
        with stage(listener, "calibrating"):
            rows = _write(
                stream, stream.through(frame).select(*kept, *added.names), source, request.output, output_format
            )
    return ApplyResult(str(request.output), rows, stream.watch.bad, added.names, binding)


def _write(stream: Stream, frame: pl.LazyFrame, source: Source, output: str | Path, output_format: str) -> int:
    """Write, and let the error that ended the stream be the one that is seen, not what polars makes of it."""
    try:
        return write(frame, output, format=output_format, arrow_types=source.arrow_types)
    except CalcliError:
        if stream.watch.bad and stream.bad_rows == "fail":
            # Another pass counts all bad rows and finds the first, which a stream that stops at one does not know.
            load_rows(source, stream.binding, features=stream.features, label=False, check_scale=False)
        if stream.watch.failure is not None:
            raise stream.watch.failure from None
        raise


def _kept_columns(source: Source, keep: tuple[str, ...] | None, added: tuple[str, ...]) -> list[str]:
    """The input columns that pass through, in the order of the table."""
    names = source.columns
    for name in keep or ():
        if name not in names:
            raise UsageError(unknown_name("column to keep:", name, names))
    kept = [name for name in names if keep is None or name in keep]
    for name in added:
        if name in kept:
            raise DataError(
                f"the table already has a column {name!r}, which the calibrated one would replace",
                hint="try: --column NAME",
            )
    return kept
