"""Tables beside the one that is calibrated: more rows with features, edge lists, node ids, matrices of costs, and
the predictions of an ensemble's members.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from calcli.batch import Batch, Column, Edges, FloatArray
from calcli.errors import DataError, available, nearest, unknown_name
from calcli.files import disk_errors
from calcli.places import folder, stores
from calcli.tables.arrays import feature_column, join_columns, node_ids, numbers
from calcli.tables.binding_types import NO_SCORE, Binding, Feature
from calcli.tables.checks import Checked, Count, Mask, bound_columns, encode, in_any, mark, mark_missing, summary
from calcli.tables.features import known_features
from calcli.tables.load import join_batches
from calcli.tables.paths import reading
from calcli.tables.scales import SLACK, SUM_SLACK
from calcli.tables.source import Source

END_NAMES = (("src", "dst"), ("source", "target"), ("from", "to"))
"""Names of the two columns, for tables with more than two."""

Matrix = tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]
"""The actions, and their costs by class."""


def load_auxiliary(source: Source, binding: Binding, *, label: bool) -> Batch:
    """All rows of an additional table, with a score of 0; it must have the features of `binding`.

    Labels are read if there are any; with `label` a table without them is refused.
    """
    known_features(source, binding)
    label_name = binding.label if binding.label in source.columns else None
    if label and label_name is None:
        match = nearest(binding.label or "label", source.columns)
        raise DataError(
            f"{source.name} has no label {binding.label!r}", hint=f"did you mean {match!r}?" if match else None
        )
    unscored = replace(binding, label=label_name, score=NO_SCORE, weight=None, node_id=None)
    parts: list[Batch] = []
    rows = 0
    for frame in source.chunks(*bound_columns(unscored, label=True, features=True)):
        encoded = encode(frame, unscored, label=True, features=True, offset=rows)
        if encoded.first is not None:
            raise DataError(
                f"{source.name} has no label in row {rows + encoded.first[0] + 1}", hint="leave such rows out"
            )
        parts.append(encoded.batch)
        rows += len(frame)
    if not rows:
        raise DataError(f"{source.name} has no rows")
    joined = join_batches(parts)
    return joined if binding.binary else replace(joined, score=np.zeros((rows, len(binding.classes))))


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
    parts: dict[str, list[Column]] = {feature.name: [] for feature in features}
    rows = 0
    for frame in source.chunks(*parts):
        sample = frame.gather_every(step, -rows % step)
        for feature in features:
            parts[feature.name].append(feature_column(sample[feature.name], feature, rows))
        rows += len(frame)
    return {name: join_columns(columns) for name, columns in parts.items()}


def load_edges(source: Source) -> Edges:
    """All edges of an edge list; a missing end stays missing."""
    pairs = [[node_ids(column) for column in frame] for frame in source.chunks(*_end_columns(source))]
    ends = [join_columns(list(parts)) for parts in zip(*pairs, strict=True)]
    nodes = tuple(sorted({level for end in ends for level in end.levels}))
    return Edges(nodes, np.column_stack([end.recode(nodes, unseen=-1) for end in ends]).astype(np.int64))


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
    return join_columns([node_ids(chunk[column]) for chunk in source.chunks(column)])


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


_OUTSIDE = "a probability is outside [0, 1]"


@dataclass(frozen=True, slots=True)
class MemberColumns:
    """The columns of the predictions."""

    means: tuple[tuple[str, ...], ...]
    """The column of each member, or its columns by class; members are in the order of their numbers."""

    variances: tuple[str, ...] = ()
    """The column of each member's variance, if amounts are predicted with one."""

    classes: tuple[str, ...] = ()
    """The names of the classes; none if each member has one column."""

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [*(name for member in self.means for name in member), *self.variances]


@dataclass(frozen=True)
class EncodedMembers(Checked):
    """One chunk of rows as arrays, with harmless numbers in bad rows."""

    mean: FloatArray
    variance: FloatArray | None
    """`mean`, `variance`: shape (n, M), or (n, M, K) for classes."""

    def __len__(self) -> int:
        return len(self.mean)


def find_members(source: Source, stem: str, variances: str | None = None) -> MemberColumns:
    """The columns ``<stem>_<m>`` or ``<stem>_<m>_<class>``, and ``<variances>_<m>`` where that is given."""
    # 1. one column a member, or one a member and class, and not both
    alone = _numbered(source.columns, stem)
    by_class = _numbered_classes(source.columns, stem)
    if alone and by_class:
        (plain, *_), (with_class, *_) = alone.values(), next(iter(by_class.values())).values()
        raise DataError(
            f"--members {stem}: {plain!r} has no class and {with_class!r} has one",
            hint="members are <stem>_<m>, or <stem>_<m>_<class>",
        )
    members = sorted(alone or by_class)
    if len(members) < 2:
        raise _too_few(source, stem, members)
    # 2. classes, or amounts with or without variances
    if by_class:
        if variances is not None:
            raise DataError(f"--variances is for regression, and {stem}_{members[0]}_<class> are classes")
        return _per_class(stem, by_class, members)
    means = tuple((alone[member],) for member in members)
    if variances is None:
        return MemberColumns(means)
    of_variances = _numbered(source.columns, variances)
    if sorted(of_variances) != members:
        lost = next((member for member in members if member not in of_variances), None)
        extra = next((member for member in of_variances if member not in members), None)
        missing = f"{variances}_{lost}" if lost is not None else f"{stem}_{extra}"
        raise DataError(f"each member needs a mean and a variance, and there is no {missing!r}")
    return MemberColumns(means, tuple(of_variances[member] for member in members))


def _numbered(names: Sequence[str], stem: str) -> dict[int, str]:
    """The columns ``<stem>_<m>`` by m."""
    return {int(match[1]): name for name in names if (match := re.fullmatch(rf"{re.escape(stem)}_(\d{{1,9}})", name))}


def _numbered_classes(names: Sequence[str], stem: str) -> dict[int, dict[str, str]]:
    """The columns ``<stem>_<m>_<class>`` by m and class."""
    by_class: dict[int, dict[str, str]] = {}
    for name in names:
        if match := re.fullmatch(rf"{re.escape(stem)}_(\d{{1,9}})_(.+)", name, re.DOTALL):
            by_class.setdefault(int(match[1]), {})[match[2]] = name
    return by_class


def _too_few(source: Source, stem: str, members: Sequence[int]) -> DataError:
    if members:
        return DataError(f"--members {stem}: there is only member {members[0]}; an ensemble needs two or more")
    stems = {match[1] for name in source.columns if (match := re.fullmatch(r"(.+)_\d{1,9}", name))}
    meant = nearest(stem, sorted(stems))
    hint = f"did you mean --members {meant}?" if meant else "--members STEM stands for STEM_0, STEM_1, …"
    return DataError(f"no columns {stem}_0, {stem}_1, …; {available(source.columns)}", hint=hint)


def _per_class(stem: str, by_class: Mapping[int, Mapping[str, str]], members: Sequence[int]) -> MemberColumns:
    classes = tuple(by_class[members[0]])
    for member in members:
        if set(by_class[member]) != set(classes):
            raise DataError(
                f"member {member} predicts the classes {', '.join(sorted(by_class[member]))}, "
                f"and member {members[0]} {', '.join(sorted(classes))}",
                hint=f"there must be a column {stem}_<m>_<class> for each member and class",
            )
    if len(classes) < 2:
        raise DataError(f"--members {stem}: there is one class only: {classes[0]!r}")
    return MemberColumns(tuple(tuple(by_class[member][name] for name in classes) for member in members), (), classes)


def encode_members(frame: pl.DataFrame, columns: MemberColumns) -> EncodedMembers:
    """Some rows, typed or the String columns of a text file, as arrays; `wrong` holds the bad rows by reason."""
    wrong: dict[str, Mask] = {}
    raw = _matrix(frame, [name for member in columns.means for name in member], "prediction", wrong)
    mean = raw if not columns.classes else raw.reshape(len(raw), len(columns.means), len(columns.classes))
    variance = None
    if columns.variances:
        variance = _matrix(frame, columns.variances, "variance", wrong)
        mark(wrong, "a variance is not positive", in_any(variance <= 0.0))
    else:
        mean = _as_probabilities(mean, wrong)
    bad, why, first = summary(wrong)
    if bad is not None:
        harmless = 1.0 / len(columns.classes) if columns.classes else 0.5
        mean = np.where(bad.reshape(-1, *[1] * (mean.ndim - 1)), harmless, mean)
        variance = None if variance is None else np.where(bad[:, None], 1.0, variance)
    return EncodedMembers(mean, variance, bad=bad, why=why, first=first)


def _matrix(frame: pl.DataFrame, names: Sequence[str], part: str, wrong: dict[str, Mask]) -> FloatArray:
    values: FloatArray = np.column_stack([numbers(frame[name]) for name in names])
    if not np.isfinite(values).all():
        mark_missing([frame[name] for name in names], values, f"a {part}", wrong)
        mark(wrong, f"a {part} is infinite", in_any(np.isinf(values)))
    return values


def _as_probabilities(values: FloatArray, wrong: dict[str, Mask]) -> FloatArray:
    """Probabilities clipped to [0, 1], because float32 rounds; those of classes are divided by their sum."""
    with np.errstate(invalid="ignore"):
        mark(wrong, _OUTSIDE, in_any(((values < -SLACK) | (values > 1.0 + SLACK)) & np.isfinite(values)))
        clipped = np.clip(values, 0.0, 1.0)
        if values.ndim == 2:
            return clipped
        total = clipped.sum(axis=2, keepdims=True)
        mark(wrong, "the probabilities of a member do not add up to 1", in_any(np.abs(total - 1.0) > SUM_SLACK))
        return clipped / np.where(total > 0.0, total, 1.0)


def refuse_bad_members(source: Source, columns: MemberColumns) -> None:
    """Read the table, and refuse it if rows are bad."""
    count = Count(source.name, keep_going=False)
    for frame in source.chunks(*columns.names):
        count.see(encode_members(frame, columns))
    outside = count.why[_OUTSIDE]
    if outside > count.rows / 10:
        raise DataError(
            f"{columns.names[0]!r} and the others look like logits or regression predictions, not probabilities: "
            f"{outside:,} of {count.rows:,} rows lie outside [0, 1]",
            hint="for regression add --variances STEM; convert logits to probabilities first",
        )
    if count.hopeless:
        raise count.error()
