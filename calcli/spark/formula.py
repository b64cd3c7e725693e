"""A calibrator's formula as columns of Spark: no Python runs on the workers, and nothing is installed there.

`calcli.export.sql` writes the terms, the same that are exported, as expressions of Spark. A term that is used several
times becomes a column on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from calcli.export.dialects import find, quoted
from calcli.export.sql import stem_of
from calcli.export.subexpressions import bottom_up, steps
from calcli.export.writer import Writer
from calcli.expressions import Lookup, Term

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_TERMS = 1_000
"""Longer formulas take Spark from ten seconds to minutes to plan: trees of thousands of branches most of all."""

HUGE_METHOD = 8_000
"""Bytes of a generated method that Java still compiles. Spark's own limit is that of what Java can load, so that a
longer expression would be interpreted, which is many times slower than code that Spark generates in pieces."""


def is_short(outputs: Mapping[str, Term]) -> bool:
    """Whether Spark can plan the formula within seconds; each value of a look-up counts as a term."""
    counts = (len(one.values) if isinstance(one, Lookup) else 1 for one in bottom_up(outputs.values()))
    return sum(counts) <= MOST_TERMS


def with_outputs(table: DataFrame, outputs: Mapping[str, Term]) -> DataFrame:
    """The table with the outputs as columns, null in rows that cannot be used."""
    writer = Writer(find("spark"), stem_of([*table.columns, *outputs]))
    for terms in steps(outputs.values()):
        columns, _ = writer.named(terms, ())
        table = table.selectExpr("*", *columns)
    last = (f"{writer.output(term)} AS {quoted(name, writer.dialect)}" for name, term in outputs.items())
    table = table.selectExpr("*", *last)
    return table.drop(*writer.names.values())
