"""Features without a score: of additional tables, or of a sample of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calcli.batch import Batch, Column, FloatArray
from calcli.errors import DataError, nearest
from calcli.tables.arrays import UNKNOWN, class_indices, feature_column, join_columns, numbers
from calcli.tables.binding_types import Binding, Feature
from calcli.tables.features import known_features
from calcli.tables.io_errors import reading
from calcli.tables.load import join_batches
from calcli.tables.source import Source


def load_auxiliary(source: Source, binding: Binding, *, label: bool) -> Batch:
    """All rows of an additional table, with a score of 0; labels are read if there are any.

    Parameters
    ----------
    source
        The table.
    binding
        Of the table to calibrate: this one must have the same features.
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
    """These columns of at most `most` rows, evenly spaced over the table."""
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
