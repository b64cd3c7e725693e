"""Tables beside the one that is calibrated: more rows with features, edge lists, node ids, matrices of costs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calcli.batch import Batch, Column, Edges, FloatArray
from calcli.errors import DataError, nearest, unknown_name
from calcli.files import disk_errors
from calcli.places import folder, stores
from calcli.tables.arrays import UNKNOWN, class_indices, feature_column, join_columns, node_ids, numbers
from calcli.tables.binding_types import Binding, Feature
from calcli.tables.features import known_features
from calcli.tables.io_errors import reading
from calcli.tables.load import join_batches
from calcli.tables.source import Source

END_NAMES = (("src", "dst"), ("source", "target"), ("from", "to"))
"""Names of the two columns, for tables with more than two."""

Matrix = tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]
"""The actions, and their costs by class."""


def load_auxiliary(source: Source, binding: Binding, *, label: bool) -> Batch:
    """All rows of an additional table, with a score of 0; labels are read if there are any.

    Parameters
    ----------
    source
        The table.
    binding
        The binding of the table to calibrate, whose features this one must have.
    label
        Whether a table without the label is refused.
    """
    features = known_features(source, binding)
    label_name = binding.label if binding.label in source.columns else None
    if label and label_name is None:
        match = nearest(binding.label or "label", source.columns)
        raise DataError(
            f"{source.name} has no label {binding.label!r}", hint=f"did you mean {match!r}?" if match else None
        )
    names = [feature.name for feature in features] + ([] if label_name is None else [label_name])
    shape = () if binding.binary else (len(binding.classes),)
    parts: list[Batch] = []
    rows = 0
    with reading(source.name):
        for frame in source.raw.select(names).collect_batches():
            codes = None if label_name is None else class_indices(frame[label_name], binding, rows)
            if codes is not None and (codes == UNKNOWN).any():
                row = rows + int((codes == UNKNOWN).argmax())
                raise DataError(f"{source.name} has no label in row {row + 1}", hint="leave such rows out")
            columns = {feature.name: feature_column(frame[feature.name], feature, rows) for feature in features}
            parts.append(Batch(np.zeros((len(frame), *shape)), codes, None, columns))
            rows += len(frame)
    if not rows:
        raise DataError(f"{source.name} has no rows")
    return join_batches(parts)


def load_numbers(source: Source) -> FloatArray:
    """All numeric columns of a table, in order, as a matrix; missing values are NaN."""
    names = [name for name, dtype in source.schema.items() if dtype.is_numeric()]
    if not names:
        raise DataError(f"{source.name} has no columns of numbers")
    with reading(source.name):
        frame = source.typed(names).collect(engine="streaming")
    return np.column_stack([numbers(column) for column in frame])


def sample_features(source: Source, features: Sequence[Feature], most: int) -> dict[str, Column]:
    """The features of at most `most` rows, evenly spaced over the table."""
    step = -(-source.rows() // most)
    names = [feature.name for feature in features]
    parts: dict[str, list[Column]] = {name: [] for name in names}
    rows = 0
    with reading(source.name):
        for frame in source.raw.select(names).collect_batches():
            sample = frame.gather_every(step, -rows % step)
            for feature in features:
                parts[feature.name].append(feature_column(sample[feature.name], feature, rows))
            rows += len(frame)
    return {name: join_columns(columns) for name, columns in parts.items()}


def load_edges(source: Source) -> Edges:
    """All edges of an edge list; a missing end stays missing."""
    ends: list[tuple[Column, Column]] = []
    with reading(source.name):
        for frame in source.raw.select(_end_columns(source)).collect_batches():
            source_ids, target_ids = (node_ids(column) for column in frame)
            ends.append((source_ids, target_ids))
    sources, targets = (join_columns([pair[end] for pair in ends]) for end in (0, 1))
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


def read_costs(path: str | Path, classes: Sequence[str]) -> Matrix:
    """The costs, in the order of `classes`.

    The header names the actions after an empty field, each row begins with its class. Actions are classes, or others,
    such as to leave a row to a person.
    """
    where = folder(path)
    with disk_errors(f"cannot read {where}"):
        content = stores.content(where)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{where} is not UTF-8 text", hint="a matrix of costs is a CSV file") from None
    lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text, newline="")) if any(line)]
    if len(lines) < 2 or len(lines[0]) < 2:
        raise DataError(f"{where} has no matrix of costs", hint="a header of actions, then for each class its costs")
    actions = tuple(lines[0][1:])
    costs: dict[str, tuple[float, ...]] = {}
    for name, *cells in lines[1:]:
        if name not in classes:
            raise DataError(f"{where}: {unknown_name('class', name, classes)}")
        if name in costs or len(cells) != len(actions):
            raise DataError(f"{where}: the class {name!r} is there twice, or has not {len(actions)} costs")
        costs[name] = tuple(_cost(cell, f"{where}, class {name!r}") for cell in cells)
    if missing := [name for name in classes if name not in costs]:
        raise DataError(f"{where} has no costs of the class {missing[0]!r}")
    if len(set(actions)) < len(actions):
        raise DataError(f"{where} names an action twice")
    return actions, tuple(costs[name] for name in classes)


def _cost(text: str, where: str) -> float:
    try:
        cost = float(text)
    except ValueError:
        cost = math.nan
    if not (math.isfinite(cost) and cost >= 0.0):
        raise DataError(f"{where}: {text!r} is no cost; a cost is 0 or more")
    return cost
