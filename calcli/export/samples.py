"""Rows to check a formula with: scores of every size, and features on its cuts, beside them and missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import polars as pl

from calcli.export.subexpressions import inputs, tested_values
from calcli.expressions import Term
from calcli.numeric.links import sigmoid, softmax
from calcli.numeric.seeded import stream
from calcli.tables.binding_types import Binding

Values: TypeAlias = "list[float | str | bool | None]"


def sample_rows(binding: Binding, outputs: Mapping[str, Term], count: int) -> pl.DataFrame:
    """So many rows; in the columns that the outputs read no value of the first one is missing."""
    rng = stream(0, "rows to check")
    logits = rng.normal(0.0, 3.0, (count, max(2, len(binding.score.columns))))
    prob = softmax(logits).round(6)
    if len(binding.score.columns) == 1:
        logits, prob = logits[:, :1], sigmoid(logits[:, 0]).round(6)[:, None]
    scores = prob if binding.score.kind == "prob" else logits
    columns: dict[str, Any] = {name: scores[:, at] for at, name in enumerate(binding.score.columns)}
    tested = tested_values(outputs.values())
    for name, role in sorted(inputs(outputs.values())):
        if name in columns:
            continue
        values: Values = [True, False]
        if role == "category":
            values = [*sorted(map(str, tested.get(name, ()))), "a level that was never seen"]
        elif role == "number":
            cuts = [float(one) for one in tested.get(name, ()) if abs(float(one)) < 1e300]
            values = [*cuts, *(one + (1.0 + abs(one)) / 8.0 for one in cuts), 0.0]
        chosen = [values[at] for at in rng.integers(0, len(values), count)]
        missing = rng.random(count) < 1.0 / 8.0
        columns[name] = [
            None if place and gone else value for place, (value, gone) in enumerate(zip(chosen, missing, strict=True))
        ]
    rows = pl.DataFrame(columns, strict=False)
    unread = {feature.name: feature.role for feature in binding.features if feature.name not in columns}
    kinds: dict[str, pl.DataType] = {"category": pl.String(), "number": pl.Float64(), "boolean": pl.Boolean()}
    return rows.with_columns(pl.lit(None, kinds[role]).alias(name) for name, role in unread.items())
