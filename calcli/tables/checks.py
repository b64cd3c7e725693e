"""Rows as arrays, after every check.

A bad row has no label or weight where they are wanted, a negative or infinite weight, a score that is missing or not
finite, or probabilities that are none. Bad rows keep their place in a chunk, with a score of 0, and are marked; `load`
refuses or drops them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray
from calcli.numeric.links import CLIP, scores
from calcli.tables.arrays import (
    UNKNOWN,
    Levels,
    class_indices,
    feature_column,
    index_order,
    no_number,
    node_ids,
    numbers,
)
from calcli.tables.binding_types import Binding
from calcli.tables.row_masks import Mask, count_reasons, in_any, mark
from calcli.tables.scale import SLACK, SUM_SLACK

LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Encoded:
    """One chunk of rows.

    Attributes
    ----------
    batch
        All rows of the chunk, in their places.
    bad
        Which of them are bad; None where none is.
    why
        How many rows each reason holds for.
    first
        The first bad row (from 0, in this chunk) and what is wrong with it.
    """

    batch: Batch
    bad: Mask | None = None
    why: Mapping[str, int] = field(default_factory=dict)
    first: tuple[int, str] | None = None

    @property
    def is_bad(self) -> Mask:
        """A mark for each row."""
        return np.zeros(len(self.batch), dtype=np.bool_) if self.bad is None else self.bad

    @property
    def good(self) -> Batch:
        """The rows that are not bad."""
        return self.batch if self.bad is None else self.batch.take(~self.bad)


def bound_columns(binding: Binding, *, label: bool, features: bool) -> list[str]:
    """The columns that `encode` reads, each once."""
    names = [*binding.score.columns, *(() if binding.node_id is None else (binding.node_id,))]
    if label:
        names += [name for name in (binding.label, binding.weight) if name is not None]
    if features:
        names += [feature.name for feature in binding.features]
    return list(dict.fromkeys(names))


def encode(
    frame: pl.DataFrame,
    binding: Binding,
    *,
    label: bool,
    features: bool,
    offset: int = 0,
    levels: Levels | None = None,
) -> Encoded:
    """One chunk as arrays.

    Parameters
    ----------
    frame
        Typed columns, or the String columns of a text file.
    binding
        Which column plays which part.
    label
        Whether labels and weights are wanted.
    features
        Whether features are wanted.
    offset
        How many rows stand before this chunk, for messages.
    levels
        Those that the table's categories had before this chunk.
    """
    values = score_values(frame, binding)
    return encode_scored(frame, values, binding, label=label, features=features, offset=offset, levels=levels)


def score_values(frame: pl.DataFrame, binding: Binding) -> FloatArray:
    """The score columns as numbers: an array for one, a matrix for several; NaN where there is no number.

    Rows of a table without a score have zeros.
    """
    columns = binding.score.columns
    if len(columns) < 2:
        return numbers(frame[columns[0]]) if columns else np.zeros(len(frame))
    return np.column_stack([numbers(frame[name]) for name in columns])


def encode_scored(
    frame: pl.DataFrame,
    values: FloatArray,
    binding: Binding,
    *,
    label: bool,
    features: bool,
    offset: int,
    levels: Levels | None,
) -> Encoded:
    """The same, of a chunk whose `score_values` are known."""
    wrong: dict[str, Mask] = {}
    score = _score(frame, values, binding, wrong)
    indices = target = weight = None
    if label and binding.label is not None and binding.regression:
        target = _amount(frame[binding.label], "label", wrong)
    elif label and binding.label is not None:
        indices = class_indices(frame[binding.label], binding, offset)
        mark(wrong, "the label is missing", indices == UNKNOWN)
    if label and binding.weight is not None:
        weight = _weight(frame[binding.weight], wrong)
    named = binding.features if features else ()
    columns = {feature.name: feature_column(frame[feature.name], feature, offset, levels) for feature in named}
    node = None if binding.node_id is None else node_ids(frame[binding.node_id])
    bad = np.logical_or.reduce(list(wrong.values())) if wrong else None
    if bad is None:
        return Encoded(Batch(score, indices, weight, columns, target, node))
    score = np.where(bad if score.ndim == 1 else bad[:, None], 0.0, score)
    indices = None if indices is None else np.where(bad, 0, indices)
    weight = None if weight is None else np.where(bad, 0.0, weight)
    target = None if target is None else np.where(bad, 0.0, target)
    row = int(bad.argmax())
    reason = next(reason for reason, mask in wrong.items() if mask[row])
    return Encoded(Batch(score, indices, weight, columns, target, node), bad, count_reasons(wrong), (row, reason))


def _score(frame: pl.DataFrame, values: FloatArray, binding: Binding, wrong: dict[str, Mask]) -> FloatArray:
    if not binding.score.columns:
        return values
    if not np.isfinite(values).all():
        _mark_not_finite(frame.select(binding.score.columns), values, wrong)
    if binding.score.kind == "prob":
        return score_from_probabilities(values, binding, wrong)
    return _two_columns(values, binding) if values.ndim == 2 and binding.binary else values


def _mark_not_finite(frame: pl.DataFrame, values: FloatArray, wrong: dict[str, Mask]) -> None:
    """Tell apart, now that it matters, what is missing, what is no number, and what is infinite."""
    word = np.zeros(len(frame), dtype=np.bool_)
    for column in frame:
        if column.dtype == pl.String:
            word |= no_number(column).to_numpy()
    missing, infinite = in_any(np.isnan(values)), in_any(np.isinf(values))
    mark(wrong, "the score is not a number", word)
    mark(wrong, "the score is missing", missing & ~word)
    mark(wrong, "the score is infinite", infinite & ~missing)


def score_from_probabilities(values: FloatArray, binding: Binding, wrong: dict[str, Mask]) -> FloatArray:
    """Log-odds or log-probabilities, clipped; rows that are no probabilities are added to `wrong`."""
    with np.errstate(invalid="ignore", over="ignore"):
        outside = (values < -SLACK) | (values > 1.0 + SLACK)
        if values.ndim == 1:
            mark(wrong, "the probability is outside [0, 1]", outside)
            return scores(values)
        mark(wrong, "a probability is outside [0, 1]", in_any(outside))
        mark(wrong, "the probabilities do not add up to 1", np.abs(values.sum(axis=1) - 1.0) > SUM_SLACK)
        if binding.binary:
            return _two_columns(np.log(np.clip(values, CLIP, 1.0 - CLIP)), binding)
        return scores(values)


def _two_columns(values: FloatArray, binding: Binding) -> FloatArray:
    """The log-odds z = v1 - v0, where v1 is the positive class."""
    positive = binding.classes.index(index_order(binding)[1])
    with np.errstate(over="ignore", invalid="ignore"):
        z: FloatArray = values[:, positive] - values[:, 1 - positive]
    return np.clip(z, -LARGEST, LARGEST, out=z)  # of missing ones NaN, of infinite ones too: both are marked


def _weight(values: pl.Series, wrong: dict[str, Mask]) -> FloatArray:
    weight = _amount(values, "weight", wrong)
    mark(wrong, "the weight is negative", weight < 0)
    return weight


def _amount(values: pl.Series, part: str, wrong: dict[str, Mask]) -> FloatArray:
    """A column of finite numbers; rows where it has none are added to `wrong`."""
    amount = numbers(values)
    if np.isfinite(amount).all():
        return amount
    if values.dtype == pl.String:
        mark(wrong, f"the {part} is not a number", no_number(values).to_numpy())
    word = wrong.get(f"the {part} is not a number", np.zeros(len(amount), dtype=np.bool_))
    mark(wrong, f"the {part} is missing", np.isnan(amount) & ~word)
    mark(wrong, f"the {part} is infinite", np.isinf(amount))
    return amount
