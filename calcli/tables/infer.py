"""The types of the columns of a text file: integers, numbers, booleans, or text.

One streaming pass reads all rows, so the type fits every one of them. A number with a leading zero (a postal code, a
key) makes its column text, because 007 is not 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""Texts that stand for a missing number or boolean; in a column of text they are plain text."""

TRUTHS = ("true", "false")

TEXT_TYPES = (pl.String, pl.Categorical, pl.Enum)

LEADING_ZERO = r"^[+-]?0\d"


@dataclass
class Kinds:
    """The types that are still possible for a column after some of its rows."""

    integer: bool = True
    number: bool = True
    boolean: bool = True
    empty: bool = True

    @property
    def text(self) -> bool:
        """Whether only text is left."""
        return not (self.number or self.boolean)

    def dtype(self) -> pl.DataType:
        """The type, after all rows."""
        if self.empty or self.text:
            return pl.String()
        if self.number:
            return pl.Int64() if self.integer else pl.Float64()
        return pl.Boolean()


def infer_schema(raw: pl.LazyFrame) -> pl.Schema:
    """The types of text columns, by one pass over all rows."""
    kinds = {name: Kinds() for name in raw.collect_schema()}
    for batch in raw.collect_batches():
        open_questions = {name: kind for name, kind in kinds.items() if not kind.text}
        answers = batch.select(pl.struct(_look(name, kind)).alias(name) for name, kind in open_questions.items())
        for name, answer in answers.row(0, named=True).items() if open_questions else ():
            for question, value in answer.items():
                setattr(kinds[name], question, getattr(kinds[name], question) and value)
    return pl.Schema({name: kind.dtype() for name, kind in kinds.items()})


def _look(name: str, kinds: Kinds) -> Iterator[pl.Expr]:
    """For each type that is still possible, whether these rows fit it."""
    text = pl.col(name)
    number = text.cast(pl.Float64, strict=False)
    lower = text.str.to_lowercase()
    truth = lower.is_in(TRUTHS)
    if kinds.number:
        yield (_only_missing(text, number.is_null()) & ~text.str.contains(LEADING_ZERO).any()).alias("number")
        if kinds.integer:
            yield _only_missing(text, text.cast(pl.Int64, strict=False).is_null()).alias("integer")
    if kinds.boolean:
        yield _only_missing(text, ~truth).alias("boolean")
    if kinds.empty:
        yield (~(number.is_not_nan().any() | truth.any())).alias("empty")


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
