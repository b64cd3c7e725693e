"""`uncertainty apply`: add the predictions of an ensemble, and their uncertainty, to a table, in a stream."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from calcli.engines.ensemble_columns import PredictedColumns
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import Stream
from calcli.engines.passthrough import kept_columns, promised_format, write_rows
from calcli.ensembles.load import load_ensemble
from calcli.places import place
from calcli.tables.binding import bind_unscored
from calcli.tables.binding_types import Flags
from calcli.tables.labels import class_text
from calcli.tables.source import Data, open_source
from calcli.verbs.apply import ApplyResult

RENAME = "leave it out with --keep, or rename it, before"


@dataclass(frozen=True, slots=True)
class EnsembleApplyRequest:
    """The request of `uncertainty apply`.

    Attributes
    ----------
    ensemble
        The directory of an ensemble.
    data
        Paths, globs, directories, ``-``, or a frame; a label is not needed.
    output
        Where the table goes; ``-`` is standard output and needs `output_format`.
    extra
        Add more measures of disagreement, as `UncertaintyColumns.extra` says.
    keep
        The input columns to pass through; None for all, () for none.
    """

    ensemble: str | Path
    data: Data
    output: str | os.PathLike[str]
    extra: bool = False
    keep: tuple[str, ...] | None = None
    input_format: str | None = None
    delimiter: str | None = None
    output_format: str | None = None
    dry_run: bool = False


def apply(request: EnsembleApplyRequest, listener: Listener = SILENT) -> ApplyResult:
    """Predict every row of a table: same rows, same order, other columns untouched."""
    model = load_ensemble(request.ensemble)
    output_format = promised_format(request.output, request.output_format)
    with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
        binding = bind_unscored(source, Flags(), known=model.binding, need_label=False)
        classes = tuple(map(class_text, binding.classes)) if len(binding.classes) > 2 else ()
        columns = PredictedColumns(
            binding=binding,
            ensemble=model.ensemble,
            classes=classes,
            regression=binding.regression,
            model=model.ensemble.virtual,
            extra=request.extra,
        )
        kept = kept_columns(source, request.keep, columns.names, hint=RENAME)
        if request.dry_run:
            return ApplyResult(str(place(request.output)), 0, 0, columns.names, binding)
        with stage(listener, "predicting"):
            written = write_rows(Stream(columns, "fail"), source, kept, request.output, output_format, lambda: None)
    return ApplyResult(str(place(request.output)), written.rows, 0, columns.names, binding)
