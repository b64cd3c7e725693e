"""The columns that an artifact adds on a cluster: `apply` writes them, a stream carries them on.

A calibrator with a short formula is applied without Python, and nothing is installed on the workers:
`calcli.export.sql` writes its terms as expressions of Spark. For any other the driver binds columns on a few rows
of the table and pickles the calibrator into the task, and workers compute from Arrow batches what one machine would.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import polars as pl
import pyarrow as pa

from calcli.errors import UsageError, check_choice
from calcli.export.dialects import find, quoted
from calcli.export.sql import stem_of
from calcli.export.subexpressions import bottom_up, inputs, steps
from calcli.export.writer import Writer
from calcli.expressions import Lookup, Term, Trees
from calcli.models.base import Given, Model, Scale
from calcli.models.calibrator import load
from calcli.models.columns import CalibratedColumns
from calcli.models.stream import REFUSED, ColumnAdder, RowsWritten, kept_columns
from calcli.spark.session import column_named, failures, numbered, partition_columns, refuse_paths, schema_of
from calcli.tables.arrays import Levels
from calcli.tables.binding import bind
from calcli.tables.binding_types import Flags
from calcli.tables.request import TABLE, BadRows
from calcli.tables.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def calibrator(
    artifact: Given,
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
        The directory of a fitted calibrator, or the model itself.
    column, scale, extra
        As for `calcli.apply`.
    bad_rows
        ``null``: rows without a usable score get null; ``fail``: they end the query.
    flags
        Which columns to read, where they have other names than at the fit.
    """
    check_choice("scale", scale, get_args(Scale))
    check_choice("bad_rows", bad_rows, get_args(BadRows))
    model = load(artifact)
    check_row_by_row(model)
    if model.policy is not None:
        raise UsageError(f"{model.name} decides, and a DataFrame is only calibrated", hint="see: calcli export")

    def calibrated(rows: DataFrame) -> DataFrame:
        example = Source(pl.LazyFrame(schema=schema_of(rows)), name="the DataFrame")
        binding = bind(example, flags or Flags(), known=model.binding, need_label=False, features=model.needs_features)
        added = CalibratedColumns(binding, column, model.calibrator, scale, extra, model.needs_features)
        kept_columns(example, None, added, hint="try: column=NAME")
        return with_added(rows, ColumnAdder(added, bad_rows))

    return calibrated


def check_row_by_row(model: Model) -> None:
    """Refuse an artifact that does not calibrate each row by itself."""
    if not model.row_by_row:
        raise UsageError(
            f"{model.name} predicts all rows of a table at once, which is not possible on a cluster",
            hint="fit it with --set apply=online",
        )


def write_with_added(table: DataFrame, stream: ColumnAdder, kept: Sequence[str], output: str) -> RowsWritten:
    """Write the `kept` columns and the calibrated ones, partitioned as the table is."""
    from pyspark.sql import Observation, functions

    refuse_paths(table, stream.added.reads)
    names = stream.added.names
    needed = [name for name in table.columns if name in {*kept, *stream.added.reads}]
    scored = with_added(table.select(*map(column_named, needed)), stream).select(*map(column_named, (*kept, *names)))
    # Rows are counted as they are written; bad ones are those in which the first added column is null.
    counted = Observation("calcli")
    missing = functions.count_if(column_named(names[0]).isNull())
    scored = scored.observe(counted, functions.count(functions.lit(1)).alias("rows"), missing.alias("bad"))
    partitions = [name for name in partition_columns(table) if name in kept]
    with failures(output):
        writer = scored.write.partitionBy(*partitions)
        if output.startswith(TABLE):
            writer.saveAsTable(output.removeprefix(TABLE))
        else:
            writer.parquet(output)
    return RowsWritten(int(counted.get["rows"]), int(counted.get["bad"]))


def with_added(rows: DataFrame, stream: ColumnAdder) -> DataFrame:
    """The rows with the added columns: by their terms, so that no Python runs on the workers, or else by Python."""
    from pyspark.sql import functions

    outputs = stream.added.written_terms()
    if outputs is None or not is_short(outputs) or _has_odd_names(rows, outputs):
        return _by_workers(rows, stream)
    scored = with_outputs(rows, outputs)
    if stream.bad_rows == "null":
        return scored
    refused = functions.raise_error(functions.lit(f"calcli.errors.DataError: {REFUSED}"))
    first = column_named(stream.added.names[0])
    return scored.withColumn(stream.added.names[0], functions.when(first.isNull(), refused).otherwise(first))


def _has_odd_names(rows: DataFrame, outputs: Mapping[str, Term]) -> bool:
    """Whether Spark would write some categories in another way: 17.0 for 17, or an error for a text as a number."""
    odd = {"category": ("double", "float", "decimal"), "whole": ("double", "float", "decimal", "string")}
    roles = inputs(outputs.values())
    return any(rows.schema[name].dataType.typeName() in odd.get(role, ()) for name, role in roles)


def _by_workers(rows: DataFrame, stream: ColumnAdder) -> DataFrame:
    """The rows with the columns that Python on the workers adds."""
    from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

    kinds: dict[pl.DataType, DataType] = {
        pl.String(): StringType(),
        pl.Int64(): LongType(),
        pl.Boolean(): BooleanType(),
    }

    # The columns have plain names until the added ones are there.
    plain, names = numbered(rows), stream.added.names
    types = [kinds.get(stream.added.types.get(name, pl.Float64()), DoubleType()) for name in names]
    added = [StructField(f"added{place}", kind) for place, kind in enumerate(types)]
    fields = StructType([*plain.schema.fields, *added])
    return plain.mapInArrow(functools.partial(_calibrated, stream, rows.columns), fields).toDF(*rows.columns, *names)


def _calibrated(stream: ColumnAdder, names: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker, the Arrow batches of one task with the added columns."""
    levels = Levels()
    for batch in batches:
        named = batch.rename_columns(names)
        frame: Any = pl.from_arrow(named.select(list(stream.added.reads)))
        added = stream.compute(frame, levels)
        renumbered = [*batch.schema.names, *(f"added{place}" for place in range(added.width))]
        columns = [column.to_arrow(compat_level=pl.CompatLevel.oldest()) for column in added]
        short = [one.cast(pa.string()) if pa.types.is_large_string(one.type) else one for one in columns]
        yield pa.RecordBatch.from_arrays([*batch.columns, *short], names=renumbered)


MOST_TERMS = 1_000
"""Longer formulas take Spark from ten seconds to minutes to plan: trees of thousands of branches most of all."""


def is_short(outputs: Mapping[str, Term]) -> bool:
    """Whether Spark can plan the formula within seconds; each value of a look-up or of trees counts as a term."""
    counts = (len(one.values) if isinstance(one, Lookup | Trees) else 1 for one in bottom_up(outputs.values()))
    return sum(counts) <= MOST_TERMS


def with_outputs(table: DataFrame, outputs: Mapping[str, Term]) -> DataFrame:
    """The table with the outputs as columns, null in rows that cannot be used.

    A term that is used several times becomes a column on the way.
    """
    writer = Writer(find("spark"), stem_of([*table.columns, *outputs]))
    for terms in steps(outputs.values()):
        columns, _ = writer.named(terms, ())
        table = table.selectExpr("*", *columns)
    last = (f"{writer.output(term)} AS {quoted(name, writer.dialect)}" for name, term in outputs.items())
    table = table.selectExpr("*", *last)
    return table.drop(*writer.names.values())
