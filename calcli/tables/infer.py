"""What the values of a text column are: integers, numbers, booleans, or just text.

The answer holds for every row, not for the first thousand: one streaming pass looks at all of them. A number that is
written with a leading zero (a postal code, a key) makes its column text, because 007 is not 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""What stands for no value where numbers or booleans are meant; in a column of text each is a text."""

LEADING_ZERO = r"^[+-]?0\d"


@dataclass
class Kinds:
    """What one column may still be, after some of its rows."""

    integer: bool = True
    number: bool = True
    boolean: bool = True
    empty: bool = True

    @property
    def text(self) -> bool:
        """Whether nothing but text is left."""
        return not (self.number or self.boolean)

    def dtype(self) -> pl.DataType:
        """The type of a column all of whose rows were seen."""
        if self.empty or self.text:
            return pl.String()
        if self.integer:
            return pl.Int64()
        return pl.Float64() if self.number else pl.Boolean()


def infer_schema(raw: pl.LazyFrame) -> pl.Schema:
    """The types of text columns, by one pass over all rows."""
    names = raw.collect_schema().names()
    kinds = {name: Kinds() for name in names}
    for batch in raw.collect_batches():
        for name in names:
            if not kinds[name].text:
                _narrow(kinds[name], batch[name])
    return pl.Schema({name: kind.dtype() for name, kind in kinds.items()})


def _narrow(kinds: Kinds, values: pl.Series) -> None:
    """Rule out what these rows cannot be."""
    present = values.filter(is_present(values))
    if not len(present):
        return
    kinds.empty = False
    if kinds.number:
        numbers = present.cast(pl.Float64, strict=False)
        kinds.number = not (numbers.has_nulls() or present.str.contains(LEADING_ZERO).any())
        kinds.integer = kinds.integer and kinds.number and not present.cast(pl.Int64, strict=False).has_nulls()
    if kinds.boolean:
        kinds.boolean = bool(present.str.to_lowercase().is_in(["true", "false"]).all())


def is_present(values: pl.Series) -> pl.Series:
    """Which text values stand for something, where numbers or booleans are meant."""
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
