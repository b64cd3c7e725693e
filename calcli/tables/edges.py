"""Edge lists: tables with a row for each edge and the ids of its two ends."""

from __future__ import annotations

import numpy as np

from calcli.batch import Column, Edges
from calcli.errors import DataError
from calcli.tables.arrays import join_columns, node_ids
from calcli.tables.io_errors import reading
from calcli.tables.source import Source

END_NAMES = (("src", "dst"), ("source", "target"), ("from", "to"))
"""Names of the two columns, for tables with more than two."""


def load_edges(source: Source) -> Edges:
    """All edges of an edge list; a missing end stays missing."""
    ends: list[tuple[Column, Column]] = []
    with reading(source.name):
        for frame in source.raw.select(_end_columns(source)).collect_batches():
            source_ids, target_ids = (node_ids(column) for column in frame)
            ends.append((source_ids, target_ids))
    sources, targets = (join_columns([pair[place] for pair in ends]) for place in (0, 1))
    nodes = tuple(sorted({*sources.levels, *targets.levels}))
    return Edges(nodes, np.column_stack([end.recode(nodes, unseen=-1) for end in (sources, targets)]).astype(np.int64))


def _end_columns(source: Source) -> tuple[str, str]:
    """The two columns with the ids."""
    names = source.columns
    for pair in END_NAMES:
        if set(pair) <= set(names):
            return pair
    if len(names) == 2:
        return names[0], names[1]
    raise DataError(
        f"{source.name} is not an edge list: it has the columns {', '.join(names[:12])}",
        hint="name the two ends src and dst",
    )


def load_nodes(source: Source, column: str) -> Column:
    """The ids of all rows of a table."""
    with reading(source.name):
        return join_columns([node_ids(frame[column]) for frame in source.raw.select(column).collect_batches()])
