"""Edge lists: tables with a row for each edge, and the ids of its two ends."""

from __future__ import annotations

import numpy as np

from calcli.batch import Column, Edges
from calcli.errors import DataError
from calcli.tables.arrays import join_columns, node_ids
from calcli.tables.io_errors import reading
from calcli.tables.source import Source

END_NAMES = (("src", "dst"), ("source", "target"), ("from", "to"))
"""What the two columns are called, where there are more than two."""


def load_edges(source: Source) -> Edges:
    """All edges of such a table; an end that is missing stays missing."""
    ends: list[tuple[Column, Column]] = []
    with reading(source.name):
        for frame in source.raw.select(_end_columns(source)).collect_batches():
            one, other = (node_ids(column) for column in frame)
            ends.append((one, other))
    one, other = (join_columns([pair[place] for pair in ends]) for place in (0, 1))
    nodes = tuple(sorted({*one.levels, *other.levels}))
    return Edges(nodes, np.column_stack([end.recode(nodes, unseen=-1) for end in (one, other)]).astype(np.int64))


def _end_columns(source: Source) -> tuple[str, str]:
    """The columns with the ids of the ends."""
    names = source.columns
    for pair in END_NAMES:
        if set(pair) <= set(names):
            return pair
    if len(names) == 2:
        return names[0], names[1]
    raise DataError(
        f"{source.name} is no edge list: it has the columns {', '.join(names[:12])}",
        hint="name the two ends src and dst",
    )


def load_nodes(source: Source, column: str) -> Column:
    """The ids of all rows of a table."""
    with reading(source.name):
        return join_columns([node_ids(frame[column]) for frame in source.raw.select(column).collect_batches()])
