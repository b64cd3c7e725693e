"""The columns that an artifact adds, as a function of DataFrames: `apply` writes them, a stream carries them on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from calcli.engines.calibrated_columns import CalibratedColumns, Scale
from calcli.engines.local import BadRows, Stream
from calcli.engines.passthrough import kept_columns
from calcli.errors import UsageError
from calcli.expressions import Term
from calcli.fitting.model import Model, load
from calcli.spark import session as spark
from calcli.tables.binding import bind
from calcli.tables.binding_types import Flags
from calcli.tables.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def calibrator(
    artifact: str | Path,
    *,
    column: str = "calibrated",
    scale: Scale = "prob",
    extra: bool = False,
    bad_rows: BadRows = "null",
    flags: Flags | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """A function that adds the calibrated columns to a DataFrame, a streaming one too.

    ``rows.transform(calcli.spark.calibrator("train.platt"))`` adds what ``calcli apply`` adds. Nothing is computed
    before the DataFrame is. Where the calibrator has a formula, no Python runs on the workers; others get Arrow
    batches, and calcli must be installed there.

    Parameters
    ----------
    artifact
        The directory of a fitted calibrator.
    column, scale, extra
        As for `calcli.apply`.
    bad_rows
        ``null``: rows without a usable score get null; ``fail``: they end the query.
    flags
        Which columns to read, where they have other names than at the fit.
    """
    model = load(artifact)
    check_row_by_row(artifact, model)
    if model.policy is not None:
        raise UsageError(f"{artifact} decides, and a DataFrame is only calibrated", hint="see: calcli export")

    def calibrated(rows: DataFrame) -> DataFrame:
        example = Source(pl.LazyFrame(schema=spark.schema_of(rows)), name="the DataFrame")
        binding = bind(example, flags or Flags(), known=model.binding, need_label=False, features=model.needs_features)
        added = CalibratedColumns(column, model.calibrator, binding, scale, extra, model.needs_features)
        kept_columns(example, None, added.names, hint="try: column=NAME")
        return spark.with_added(rows, Stream(added, bad_rows), terms_of(added))

    return calibrated


def check_row_by_row(artifact: str | Path, model: Model) -> None:
    """Refuse an artifact that does not calibrate each row by itself."""
    if model.calibrator.whole_table:
        raise UsageError(
            f"{artifact} predicts all rows of a table at once, which is not possible on a cluster",
            hint="fit it with --set apply=online",
        )


def terms_of(added: CalibratedColumns) -> dict[str, Term] | None:
    """The added columns as formulas, if they have any."""
    with suppress(UsageError):
        return None if added.extra else added.formulas()
    return None
