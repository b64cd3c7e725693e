"""Read a table: the rows that pass every check, as batches.

`read_batches` streams them for one or several scores; `load` gathers them into a single batch. Both go through
`encode_chunk`, as do the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from calcli.batch import Batch, Column, IntArray
from calcli.errors import DataError
from calcli.tables.arrays import Levels, join_arrays, join_columns
from calcli.tables.binding_types import Binding
from calcli.tables.checks import Count, Encoded, Tally, bound_columns, encode, score_values
from calcli.tables.paths import reading
from calcli.tables.scores import Scale
from calcli.tables.source import Source


class Chunk(NamedTuple):
    """The good rows of a chunk, a batch for each binding, and their row numbers in it; None if all are good."""

    batches: tuple[Batch, ...]
    row_numbers: IntArray | None


@dataclass(frozen=True)
class Loaded:
    """All good rows of a table."""

    source: Source
    binding: Binding
    """`source`, `binding`: the table, and the roles of its columns."""

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

    Parameters
    ----------
    source
        The table.
    binding
        The roles of the columns.
    features
        Whether features are wanted; without, a row costs 24 bytes for two classes.
    bad_rows
        ``fail`` refuses a table with bad rows; ``null`` drops them and counts.
    label
        Whether labels and weights are wanted.
    check_scale
        Whether logits that look like probabilities are refused, and the reverse.
    """
    tally = Tally(source, keep_going=bad_rows == "null")
    scale = Scale(binding.score) if check_scale and binding.score.columns else None
    chunks = read_batches(tally, [binding], [scale], label=label, features=features)
    batches = [batch for (batch,) in chunks]
    batch = join_batches(batches)
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


def read_batches(
    tally: Tally,
    bindings: Sequence[Binding],
    scales: Sequence[Scale | None],
    *,
    label: bool = True,
    features: bool = True,
) -> Iterator[tuple[Batch, ...]]:
    """The good rows in chunks, a batch for each binding; only the bound columns are read.

    Parameters
    ----------
    tally
        Counts the rows of the table. Bad rows that may not be dropped are refused when all rows have been read.
    bindings
        The roles of the columns. Labels and weights are those of the first; the others bring scores and features. A row
        that is bad for one of them is bad for all.
    scales
        For each binding, the check of its score's scale, if one is wanted.
    label, features
        As of `load`.
    """
    levels = Levels()
    columns = columns_of(bindings, label=label, features=features)
    with reading(tally.name):
        for frame in tally.source.raw.select(columns).collect_batches():
            chunk = encode_chunk(frame, bindings, tally, scales, label=label, features=features, levels=levels)
            if chunk is not None:
                yield chunk.batches
    for scale in scales:
        if scale is not None:
            scale.judge()
    tally.judge()


def columns_of(bindings: Sequence[Binding], *, label: bool = True, features: bool = True) -> list[str]:
    """The columns that `encode_chunk` reads, each once."""
    names = [
        name
        for index, binding in enumerate(bindings)
        for name in bound_columns(binding, label=label and index == 0, features=features)
    ]
    return list(dict.fromkeys(names))


def encode_chunk(
    frame: pl.DataFrame,
    bindings: Sequence[Binding],
    count: Count,
    scales: Sequence[Scale | None],
    *,
    label: bool = True,
    features: bool = True,
    levels: Levels | None = None,
) -> Chunk | None:
    """The good rows of one chunk, as in `read_batches`; None if it has none, or if the table will be refused."""
    # 1. encode the chunk for each binding; those that read the same columns share the result
    encoded: dict[tuple[object, object], Encoded] = {}
    for index, (binding, scale) in enumerate(zip(bindings, scales, strict=True)):
        values = score_values(frame, binding)
        if scale is not None:
            scale.see(values)
        if (binding.score, binding.features) not in encoded:
            encoded[binding.score, binding.features] = encode(
                frame,
                binding,
                label=label and index == 0,
                features=features,
                offset=count.rows,
                levels=levels,
                values=values,
            )
    parts = [encoded[binding.score, binding.features] for binding in bindings]
    # 2. count the rows that are bad for any of them
    union = _union(parts, bindings)
    count.see(union)
    if count.hopeless or union.is_bad.all():
        return None
    # 3. the good rows of each, with the labels and weights of the first
    first = union.good
    goods = [first if part is parts[0] else replace(part, bad=union.bad).good for part in parts]
    batches = tuple(replace(good, label=first.label, weight=first.weight) for good in goods)
    row_numbers = None if union.bad is None else np.flatnonzero(~union.bad)
    # 4. where weights are counts, each row as often as it counts
    if first.weight is None or bindings[0].weight_kind == "importance":
        return Chunk(batches, row_numbers)
    counts = first.weight.astype(np.int64)
    count.repeat(counts)
    if not counts.any():
        return None
    repeated = np.repeat(np.arange(len(counts)), counts)
    copies = tuple(replace(batch, weight=None).take(repeated) for batch in batches)
    return Chunk(copies, repeated if row_numbers is None else row_numbers[repeated])


def _union(parts: Sequence[Encoded], bindings: Sequence[Binding]) -> Encoded:
    """The first part with the bad rows of all parts; the reasons name each score but the first."""
    bad = [part.bad for part in parts if part.bad is not None]
    if not bad:
        return parts[0]
    why: dict[str, int] = {}
    firsts: list[tuple[int, str]] = []
    for part, binding in zip(parts, bindings, strict=True):
        suffix = "" if binding.score == bindings[0].score else f" ({binding.score.columns[0]})"
        why |= {reason + suffix: count for reason, count in part.why.items()}
        if part.first is not None:
            firsts.append((part.first[0], part.first[1] + suffix))
    return replace(parts[0], bad=np.logical_or.reduce(bad), why=why, first=min(firsts, key=lambda first: first[0]))


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
