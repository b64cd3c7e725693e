"""The functions that a verb asks of a cluster (`calcli.models.cluster.Cluster`), as Spark does them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from calcli.errors import UsageError
from calcli.listener import Listener, stage
from calcli.models.base import Model
from calcli.models.cluster import Columns, CopyRequest
from calcli.models.requests import FitRequest
from calcli.models.stream import ColumnAdder, RowsWritten, kept_columns
from calcli.spark.columns import check_row_by_row, write_with_added
from calcli.spark.engine import spark_table as table_of
from calcli.spark.fit import checked
from calcli.spark.fit import fit as fit_from_sums
from calcli.spark.sample import sampled_table
from calcli.spark.session import example_rows, read_table, spark_session
from calcli.tables.request import check_parquet, paths_of
from calcli.tables.source import Source, open_source

__all__ = ["copy_with", "fit_from_sums", "fitting", "sampled_table", "table_of"]


@contextmanager
def fitting(request: FitRequest) -> Iterator[None]:
    """A session in which one fit reads its table several times."""
    checked(request)
    with spark_session(request.master):
        yield


def copy_with(
    columns: Callable[[Source], Columns], model: Model, request: CopyRequest, listener: Listener
) -> tuple[Columns, RowsWritten]:
    """The columns that are added to a dataset of Parquet files, and the rows that were written."""
    check_row_by_row(model)
    paths = paths_of(request)
    check_parquet(request.output_format, "--output-format")
    if request.output is None or str(request.output) == "-":
        raise UsageError("--engine spark writes a directory", hint="name it with -o DIR")
    with spark_session(request.master) as session:
        table = read_table(session, paths)
        with open_source(example_rows(table)) as source:
            added = columns(source)
            kept = kept_columns(source, request.keep, added)
        if request.dry_run:
            return added, RowsWritten(0, 0)
        with stage(listener, "calibrating on Spark"):
            return added, write_with_added(table, ColumnAdder(added, request.bad_rows), kept, str(request.output))
