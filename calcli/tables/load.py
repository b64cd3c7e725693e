"""Read a table: the rows that pass every check, as a single batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from calcli.batch import Batch, Column, IntArray
from calcli.errors import DataError
from calcli.tables.arrays import join_arrays, join_columns
from calcli.tables.binding_types import Binding
from calcli.tables.checks import Tally, score_values
from calcli.tables.passes import Reading, read_rows
from calcli.tables.paths import reading
from calcli.tables.scores import Scale
from calcli.tables.source import Source


@dataclass(frozen=True)
class Loaded:
    """All good rows of a table."""

    source: Source
    binding: Binding

    batch: Batch
    """The good rows, in order."""

    rows: int
    """The number of rows in the table, bad ones included."""

    rows_bad: int = 0
    """How many were dropped."""

    row_numbers: IntArray | None = None
    """The row numbers of the good rows in the table, from 0; None if all are good."""

    copies: int = 0
    """How many more rows the good ones stand for, where weights are counts."""


def load(
    source: Source,
    binding: Binding,
    *,
    features: bool,
    bad_rows: Literal["fail", "null"] = "fail",
    label: bool = True,
    check_scale: bool = True,
) -> Loaded:
    """All good rows as one batch, read in chunks; only the bound columns are held.

    Without `features` a row of two classes costs 24 bytes, without `label` also its weight is left out. With the
    `bad_rows` ``fail`` a table with bad rows is refused, with ``null`` they are dropped and counted. `check_scale`
    refuses logits that look like probabilities, and the reverse.
    """
    tally = Tally(source, keep_going=bad_rows == "null")
    scale = Scale(binding.score) if check_scale and binding.score.columns else None
    wanted = Reading([binding], [scale], features=features, label=label)
    batch = join_batches([batch for (batch,), _ in read_rows(tally, wanted)])
    return Loaded(source, binding, batch, tally.rows, tally.rows_bad, tally.row_numbers, tally.copies)


def judge_scale(source: Source, binding: Binding, rows: int = 10_000) -> None:
    """Refuse logits that look like probabilities, and the reverse, by the first rows."""
    scale = Scale(binding.score)
    with reading(source.name):
        scale.see(
            score_values(source.raw.select(binding.score.columns).head(rows).collect(engine="streaming"), binding)
        )
    scale.judge()


def doubt_of_scale(source: Source, known: Binding) -> str | None:
    """The reason why an artifact's logits look like probabilities, by the first rows; they may be logits after all."""
    if known.score.kind != "logit":
        return None
    try:
        judge_scale(source, known)
    except DataError as error:
        return str(error)
    return None


def join_batches(batches: list[Batch]) -> Batch:
    """Chunks as one batch; empties the list."""
    arrays = {
        name: [part for batch in batches if (part := getattr(batch, name)) is not None]
        for name in ("score", "label", "weight", "target", "prob")
    }
    node = [batch.node for batch in batches if batch.node is not None]
    features: dict[str, list[Column]] = {
        name: [batch.features[name] for batch in batches] for name in batches[0].features
    }
    batches.clear()
    joined: dict[str, Any] = {name: join_arrays(parts) if parts else None for name, parts in arrays.items()}
    columns = {name: join_columns(features.pop(name)) for name in list(features)}
    return Batch(**joined, features=columns, node=join_columns(node) if node else None)
