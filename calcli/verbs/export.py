"""`export`: a calibrator in another language, to run where the rows are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from calcli import expressions as terms
from calcli.engines.calibrated_columns import CalibratedColumns, Scale
from calcli.errors import UsageError
from calcli.export.inputs import table_inputs
from calcli.expressions import Term
from calcli.fitting.model import Model, load
from calcli.methods.formula import formula_of
from calcli.numeric.link_terms import logits

Language: TypeAlias = Literal["sql", "json"]
Shape: TypeAlias = Literal["expression", "query"]


@dataclass(frozen=True, slots=True)
class ExportRequest:
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
        ``expression`` for one expression a column, ``query`` for a SELECT.
    table
        Where the query finds the rows.
    keep
        The columns that the query passes through; None for all, () for none.
    column
        The stem of the columns that are added.
    scale
        ``prob``, or ``logit``.
    """

    artifact: str | Path
    to: Language = "sql"
    dialect: str = "duckdb"
    shape: Shape = "expression"
    table: str | None = None
    keep: tuple[str, ...] | None = None
    column: str = "calibrated"
    scale: Scale = "prob"


def export(request: ExportRequest) -> str:
    """The calibrator as text."""
    outputs = calibrated_terms(load(request.artifact), request.column, request.scale)
    if request.to == "json":
        from calcli.export.document import document

        return json.dumps(document(outputs), allow_nan=False)
    return _as_sql(request, outputs)


def _as_sql(request: ExportRequest, outputs: Mapping[str, Term]) -> str:
    from calcli.export import sql

    sql.check_dialect(request.dialect)
    if request.shape == "expression":
        if request.table is not None or request.keep is not None:
            raise UsageError("an expression reads no table and passes no columns through", hint="try: --shape query")
        return sql.expression(outputs, request.dialect)
    if request.table is None:
        raise UsageError("a query needs the table that it reads", hint="name it: --table NAME")
    return sql.query(outputs, request.dialect, request.table, request.keep)


def calibrated_terms(model: Model, column: str, scale: Scale) -> Mapping[str, Term]:
    """The columns that `apply` adds, by name; null where it gives null."""
    table = table_inputs(model.binding)
    prob = formula_of(model.calibrator, table.score, table.features)
    values = prob if scale == "prob" else logits(prob)
    names = CalibratedColumns(column, model.calibrator, model.binding, scale).names
    return {name: terms.choose(table.valid, value, None) for name, value in zip(names, values, strict=True)}
