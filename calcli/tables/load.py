"""A table as one batch of the rows that are fit for use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calcli.batch import Batch, Column, IntArray
from calcli.tables.arrays import Levels, join_arrays, join_columns
from calcli.tables.binding_types import Binding
from calcli.tables.checks import bound_columns, encode_scored, score_values
from calcli.tables.io_errors import reading
from calcli.tables.row_counts import Tally
from calcli.tables.scale import Scale
from calcli.tables.source import Source


@dataclass(frozen=True)
class Loaded:
    """All rows of a table that are fit for use.

    Attributes
    ----------
    batch
        The good rows, in order.
    rows
        How many there are in the table, bad ones included.
    rows_bad
        How many were dropped.
    row_numbers
        Where the good rows stand in the table, from 0; None if they are all.
    """

    batch: Batch
    rows: int
    rows_bad: int = 0
    row_numbers: IntArray | None = None


def load(
    source: Source,
    binding: Binding,
    *,
    features: bool,
    bad_rows: Literal["fail", "null"] = "fail",
    label: bool = True,
    check_scale: bool = True,
) -> Loaded:
    """All rows as one batch, read in chunks; only the bound columns are held.

    Parameters
    ----------
    source
        The table.
    binding
        Which column plays which part.
    features
        Whether features are wanted; without, a row costs 24 bytes for two classes.
    bad_rows
        ``fail`` refuses a table with bad rows; ``null`` drops them and counts.
    label
        Whether labels and weights are wanted.
    check_scale
        Whether logits that look like probabilities are refused, and the reverse.
    """
    tally = Tally(source.name, keep_going=bad_rows == "null")
    scale = Scale(binding.score) if check_scale and binding.score.columns else None
    names = bound_columns(binding, label=label, features=features)
    batches: list[Batch] = []
    levels = Levels()
    with reading(source.name):
        for frame in source.raw.select(names).collect_batches():
            values = score_values(frame, binding)
            if scale is not None:
                scale.see(values)
            chunk = encode_scored(
                frame, values, binding, label=label, features=features, offset=tally.rows, levels=levels
            )
            tally.see(chunk)
            if tally.hopeless:
                batches.clear()
            else:
                batches.append(chunk.good)
    if scale is not None:
        scale.judge()
    tally.judge()
    return Loaded(join_batches(batches), tally.rows, tally.rows_bad, tally.row_numbers)


def join_batches(batches: list[Batch]) -> Batch:
    """Chunks as one batch; empties the list."""
    first = batches[0]
    names = list(first.features)
    score = [batch.score for batch in batches]
    label = [batch.label for batch in batches if batch.label is not None]
    weight = [batch.weight for batch in batches if batch.weight is not None]
    target = [batch.target for batch in batches if batch.target is not None]
    node = [batch.node for batch in batches if batch.node is not None]
    features: dict[str, list[Column]] = {name: [batch.features[name] for batch in batches] for name in names}
    batches.clear()
    return Batch(
        score=join_arrays(score),
        label=join_arrays(label) if label else None,
        weight=join_arrays(weight) if weight else None,
        features={name: join_columns(features.pop(name)) for name in names},
        target=join_arrays(target) if target else None,
        node=join_columns(node) if node else None,
    )
