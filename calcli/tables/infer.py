"""The types of the columns of a text file: integers, numbers, booleans, or text.

One streaming pass reads all rows, so the type fits every one of them. A number with a leading zero (a postal code, a
key) makes its column text, because 007 is not 7.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""Texts that stand for a missing number or boolean; in a column of text they are plain text."""

TRUTHS = ("true", "false")

TEXT_TYPES = (pl.String, pl.Categorical, pl.Enum)

LEADING_ZERO = r"^[+-]?0\d"

_DAY = r"\d{4}-\d\d-\d\d"
_CLOCK = r"(?:[01]\d|2[0-4]):[0-5]\d"
_SECONDS = r":[0-6]\d(?:[.,]\d+)?"
_ZONE = r" ?(?:[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?(?:\[[\w/+-]+\])?"
TIME = rf"^(?:{_DAY}(?:[Tt ]{_CLOCK}(?:{_SECONDS})?{_ZONE})?|{_CLOCK}{_SECONDS}{_ZONE})$"
"""Dates, times with or without a date and a zone, as ISO 8601 and libraries write them."""


def infer_schema(raw: pl.LazyFrame) -> pl.Schema:
    """The types of text columns, by one pass over all rows."""
    # The types that are still possible for each column after the rows so far; "empty": it may hold no value at all.
    kinds = {name: {"integer", "unsigned", "number", "boolean", "empty"} for name in raw.collect_schema()}
    for batch in raw.collect_batches():
        undecided = {name: kind for name, kind in kinds.items() if kind & {"number", "boolean"}}
        answers = batch.select(pl.struct(_look(name, kind)).alias(name) for name, kind in undecided.items())
        for name, answer in answers.row(0, named=True).items() if undecided else ():
            kinds[name] -= {kind for kind, fits in answer.items() if not fits}
    return pl.Schema({name: _dtype(kind) for name, kind in kinds.items()})


def _dtype(kinds: set[str]) -> pl.DataType:
    """The type of a column for which these are possible after all rows."""
    if "empty" in kinds or not kinds & {"number", "boolean"}:
        return pl.String()
    if "number" in kinds:
        if "integer" in kinds:
            return pl.Int64()
        return pl.UInt64() if "unsigned" in kinds else pl.Float64()
    return pl.Boolean()


def _look(name: str, kinds: set[str]) -> Iterator[pl.Expr]:
    """For each type that is still possible, whether these rows fit it."""
    text = pl.col(name)
    number = text.cast(pl.Float64, strict=False)
    lower = text.str.to_lowercase()
    truth = lower.is_in(TRUTHS)
    if "number" in kinds:
        yield (_only_missing(text, number.is_null()) & ~text.str.contains(LEADING_ZERO).any()).alias("number")
        for kind, dtype in (("integer", pl.Int64), ("unsigned", pl.UInt64)):
            if kind in kinds:
                yield _only_missing(text, text.cast(dtype, strict=False).is_null()).alias(kind)
    if "boolean" in kinds:
        yield _only_missing(text, ~truth).alias("boolean")
    if "empty" in kinds:
        yield (~(number.is_not_nan().any() | truth.any())).alias("empty")


def all_missing(values: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Whether a column has no value."""
    if dtype == pl.String:
        return _only_missing(values, pl.lit(value=True))
    return (values.is_null() | values.is_nan() if dtype.is_float() else values.is_null()).all()


def all_times(text: pl.Expr) -> pl.Expr:
    """Whether all texts that are not missing are dates or times of the calendar."""
    day = text.str.slice(0, 10)
    wrong = ~text.str.contains(TIME) | (day.str.contains("-") & day.str.to_date("%Y-%m-%d", strict=False).is_null())
    return _only_missing(text, wrong & (text != "NaT"))


def _only_missing(text: pl.Expr, rows: pl.Expr) -> pl.Expr:
    """Whether all values in these rows are missing."""
    return text.filter(rows & text.is_not_null()).is_in(MISSING).all()


def is_present(values: pl.Series) -> pl.Series:
    """Which values of a text column are not missing, if it holds numbers or booleans."""
    return values.is_not_null() & ~values.is_in(MISSING)


def cast_text(name: str, dtype: pl.DataType) -> pl.Expr:
    """A text column as the type that `infer_schema` found for it."""
    column = pl.col(name)
    if dtype.is_numeric():
        cast = column.cast(dtype, strict=False)
        return cast.fill_nan(None) if dtype.is_float() else cast
    if dtype == pl.Boolean:
        lower = column.str.to_lowercase()
        return pl.when(lower == "true").then(True).when(lower == "false").then(False).alias(name)
    return column
