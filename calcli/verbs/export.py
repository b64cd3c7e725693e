"""`export`: a calibrator in another language, to run where the rows are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from calcli import extras
from calcli.errors import UsageError
from calcli.expressions import Term, Trees
from calcli.models.base import ColumnOptions, Given, Model, Scale, open_model
from calcli.tables.request import Request
from calcli.version import VERSION

if TYPE_CHECKING:
    import polars as pl

    from calcli.export.dialects import Dialect


Language: TypeAlias = Literal["sql", "json", "onnx"]
_RUN, _EMBEDDED = 200, 20
"""Rows on which an ONNX model is run before it is written, and those that it carries with it."""

Shape: TypeAlias = Literal["auto", "expression", "query", "view", "tables", "function", "dbt"]


@dataclass(frozen=True, slots=True)
class ExportRequest(Request):
    """The request of `export`.

    Attributes
    ----------
    artifact
        The directory of a fitted calibrator.
    to
        The language.
    dialect
        Of SQL, as sqlglot names it.
    shape
        ``expression`` for one expression a column, ``query`` for a SELECT, ``view`` for a view of the query, ``tables``
        for tables of large trees and the query that joins them, ``function`` for a function of the columns, ``dbt`` for
        a macro of a relation; they are called as the added column. ``auto`` is ``expression``, or refused where that is
        too long; with a table to read it is ``query``, or ``tables`` where the query is too long for the database.
    table
        Where the query finds the rows.
    keep
        The columns that the query passes through; None for all, () for none.
    column
        The stem of the columns that are added.
    scale
        ``prob``, or ``logit``.
    float32
        Of ONNX: whether its numbers, inputs and outputs, are float32; float64 otherwise.
    check
        Instead of the calibrator, a statement that brings so many rows and gives those that are not as expected.
    """

    artifact: Given
    to: Language = "sql"
    dialect: str = "duckdb"
    shape: Shape = "auto"
    table: str | None = None
    keep: tuple[str, ...] | None = None
    column: str = "calibrated"
    scale: Scale = "prob"
    float32: bool = False
    check: int | None = None


def export(request: ExportRequest) -> str:
    """The calibrator as text; ONNX is none, and has `export_onnx`."""
    model = open_model(request.artifact)
    outputs = calibrated_terms(model, request.column, request.scale)
    _check_size(outputs)
    if request.to == "json":
        from calcli.export.document import document

        return json.dumps(document(outputs), allow_nan=False)
    return _as_sql(request, model, outputs)


def export_onnx(request: ExportRequest) -> bytes:
    """The calibrator as an ONNX model, which has been run on rows of its own and gives what `apply` gives."""
    for package in ("onnx", "onnxruntime"):
        extras.require(package, "--to onnx")
    from calcli.export import onnx

    model = open_model(request.artifact)
    outputs = calibrated_terms(model, request.column, request.scale)
    whole = onnx.model(outputs, f"calcli {VERSION}: {model.method}, sha256 {model.sha256}", float32=request.float32)
    rows, expected = _expected(replace(request, check=_RUN), model, outputs)
    given = onnx.columns(rows, outputs, float32=request.float32)
    content = onnx.with_rows(whole, given, expected, _EMBEDDED)
    tolerance = 1e-6 if request.float32 else 1e-12
    for of_found, of_expected in zip(onnx.run(content, given), expected.values(), strict=True):
        wanted = np.array(of_expected, dtype=np.float64)
        if not np.allclose(of_found, wanted, rtol=0, atol=tolerance, equal_nan=True):
            raise RuntimeError("the ONNX model does not give what apply gives")
    return content


def _check_size(outputs: Mapping[str, Term]) -> None:
    """Refuse a forest that is too large to be written node by node."""
    from calcli.export.subexpressions import bottom_up

    forests = {id(one.nodes): one for one in bottom_up(outputs.values()) if isinstance(one, Trees)}
    nodes = sum(len(one.nodes) for one in forests.values())
    if nodes:
        raise UsageError(
            f"the calibrator holds a forest of {nodes:,} nodes, too many for SQL and JSON",
            hint="export it with --to onnx, or fit another method, such as effects",
        )


def dialects() -> Mapping[str, str]:
    """The dialects of SQL, and how far each is tested."""
    from calcli.export.dialects import DIALECTS

    return {name: dialect.tested for name, dialect in DIALECTS.items()}


def _as_sql(request: ExportRequest, model: Model, outputs: Mapping[str, Term]) -> str:
    from calcli.export import sql
    from calcli.export.dialects import find

    dialect = find(request.dialect)
    if request.check is not None:
        rows, expected = _expected(request, model, outputs)
        text = sql.check(outputs, dialect, rows.to_dicts(), expected)
        comment = "-- It gives the rows that are not as expected: none, if all is well.\n"
        return _heading(model, dialect) + comment + ";\n".join([*dialect.settings_for(text), text])
    if request.shape == "dbt":
        if request.table is not None:
            raise UsageError("a macro of dbt is told the table where it is called", hint="leave out --table")
        return sql.dbt(outputs, dialect, request.keep, request.column, _heading(model, dialect))
    made, text = _statements(request, dialect, outputs)
    return _heading(model, dialect, text) + ";\n".join([*made, *dialect.settings_for(text), text])


def _statements(request: ExportRequest, dialect: Dialect, outputs: Mapping[str, Term]) -> tuple[list[str], str]:
    """The statements that create tables, if there are any, and the statement or expression of the request."""
    from calcli.export import sql

    shape, table = request.shape, request.table
    reads = (table, request.keep) != (None, None)
    made: list[str] = []
    if shape not in ("query", "view", "tables") and not (shape == "auto" and reads):
        if reads:
            kind = "a function" if shape == "function" else "an expression"
            raise UsageError(f"{kind} reads no table and passes no columns through", hint="try: --shape query")
        if shape == "function":
            return made, sql.functions(outputs, dialect)
        return made, sql.expression(outputs, dialect, short=shape == "auto")
    if table is None:
        kind = "view" if shape == "view" else "query"
        raise UsageError(f"a {kind} needs the table that it reads", hint="name it: --table NAME")
    if shape == "view":
        return made, sql.view(outputs, dialect, table, request.keep, request.column)
    text = "" if shape == "tables" else sql.query(outputs, dialect, table, request.keep)
    if shape == "tables" or (shape == "auto" and dialect.is_too_long(text)):
        *made, text = sql.with_tables(outputs, dialect, table, request.keep, request.column)
    return made, text


def _heading(model: Model, dialect: Dialect, text: str = "") -> str:
    """Comments on where a statement comes from, and how far its dialect is tested."""
    of = f"{model.method}, sha256 {model.sha256}" if model.path is None else f"{model.path.name}, sha256 {model.sha256}"
    lines = [
        f"A calibrator of calcli {VERSION}: {of}.",
        f"Statements in {dialect.name} are {dialect.tested}; calcli export --check 100 writes one that checks them.",
    ]
    if dialect.is_too_long(text):
        lines.append(f"It has {len(text.encode()):,} bytes, and many databases take no statement of more than 1 MB.")
    return "".join(f"-- {' '.join(line.split())}\n" for line in lines)


def _expected(
    request: ExportRequest, model: Model, outputs: Mapping[str, Term]
) -> tuple[pl.DataFrame, Mapping[str, Sequence[float | None]]]:
    """Rows of the columns that are read, and the outputs that `apply` gives for them."""
    import polars as pl

    from calcli.export.document import sample_rows
    from calcli.export.subexpressions import inputs
    from calcli.tables.arrays import Levels
    from calcli.tables.source import computed

    rows = sample_rows(model.binding, outputs, request.check or 0)
    if request.float32:
        rows = rows.with_columns(pl.col(pl.Float64).cast(pl.Float32).cast(pl.Float64))
    rows = rows.with_columns(
        made.values.alias(name)
        for name in model.binding.score.columns
        if name not in rows.columns and (made := computed(name, rows.schema)) is not None
    )
    found = model.exported_columns(ColumnOptions(request.column, request.scale)).numbers(rows, Levels())
    values = np.column_stack(found.values)
    bad = np.zeros(len(rows), dtype=np.bool_) if found.bad is None else found.bad
    bad = np.atleast_2d(bad.T).T | np.isnan(values)
    expected = [
        [None if gone else value for value, gone in zip(*of, strict=True)]
        for of in zip(values.T.tolist(), bad.T.tolist(), strict=True)
    ]
    read = [name for name, _ in sorted(inputs(outputs.values()))]
    return rows.select(read), dict(zip(outputs, expected, strict=True))


def calibrated_terms(model: Model, column: str, scale: Scale) -> Mapping[str, Term]:
    """The columns that `apply` adds, by name, null where it gives null; a decision is 1 where a row gets it."""
    return model.exported_columns(ColumnOptions(column, scale)).formulas()
