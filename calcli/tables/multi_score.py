"""Several scores of the same rows: a row that is bad for one of them is bad for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from calcli.batch import Batch
from calcli.tables.binding_types import Binding
from calcli.tables.checks import Encoded, bound_columns, encode, score_values
from calcli.tables.io_errors import reading
from calcli.tables.row_counts import Count, Tally
from calcli.tables.scale import Scale
from calcli.tables.source import Source


def read_together(
    source: Source, bindings: Sequence[Binding], tally: Tally, *, suspect: Sequence[Scale | None]
) -> Iterator[tuple[Batch, ...]]:
    """The good rows in chunks, a batch for each binding; nothing but the bound columns is read.

    Parameters
    ----------
    source
        The table.
    bindings
        Which column plays which part. Labels and weights are those of the first; the others bring scores and features.
    tally
        Counts the rows, and has refused the table by the time that the iterator ends if there are bad ones.
    suspect
        For each binding, what looks at the scale of its score, if anything shall.
    """
    with reading(source.name):
        for frame in source.raw.select(columns_of(bindings)).collect_batches():
            batches = encode_together(frame, bindings, tally, suspect)
            if batches is not None:
                yield batches
    for scale in suspect:
        if scale is not None:
            scale.judge()
    tally.judge()


def columns_of(bindings: Sequence[Binding]) -> list[str]:
    """The columns that are read, each once."""
    names = [name for place, one in enumerate(bindings) for name in bound_columns(one, label=place == 0, features=True)]
    return list(dict.fromkeys(names))


def encode_together(
    frame: pl.DataFrame, bindings: Sequence[Binding], count: Count, suspect: Sequence[Scale | None]
) -> tuple[Batch, ...] | None:
    """The good rows of one chunk, a batch for each binding; None where there are none, or no result will be."""
    for binding, scale in zip(bindings, suspect, strict=True):
        if scale is not None:
            scale.see(score_values(frame, binding))
    encoded = _encode_all(frame, bindings, offset=count.rows)
    united = _united(encoded, bindings)
    count.see(united)
    return None if count.hopeless or united.is_bad.all() else _aligned(encoded, united)


def _encode_all(frame: pl.DataFrame, bindings: Sequence[Binding], *, offset: int) -> list[Encoded]:
    """The chunk for each binding; those that read the same are the same."""
    found: dict[tuple[object, object], Encoded] = {}
    for place, binding in enumerate(bindings):
        read = (binding.score, binding.features)
        if read not in found:
            found[read] = encode(frame, binding, label=place == 0, features=True, offset=offset)
    return [found[binding.score, binding.features] for binding in bindings]


def _united(encoded: Sequence[Encoded], bindings: Sequence[Binding]) -> Encoded:
    """The first, with what is bad in any."""
    bad = [one.bad for one in encoded if one.bad is not None]
    if not bad:
        return encoded[0]
    why: dict[str, int] = {}
    firsts: list[tuple[int, str]] = []
    for one, binding in zip(encoded, bindings, strict=True):
        place = "" if binding.score == bindings[0].score else f" ({binding.score.columns[0]})"
        why |= {reason + place: count for reason, count in one.why.items()}
        if one.first is not None:
            firsts.append((one.first[0], one.first[1] + place))
    return replace(encoded[0], bad=np.logical_or.reduce(bad), why=why, first=min(firsts, key=lambda first: first[0]))


def _aligned(encoded: Sequence[Encoded], united: Encoded) -> tuple[Batch, ...]:
    """The good rows of each binding, with the labels and weights of the first."""
    first = united.good
    batches = []
    for one in encoded:
        batch = first if one is encoded[0] else replace(one, bad=united.bad).good
        batches.append(replace(batch, label=first.label, weight=first.weight))
    return tuple(batches)
