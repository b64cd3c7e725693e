"""Binding a table without a score: the rows that a model is trained on, or applied to.

Labels, weights and features are found as in `binding.bind`. Besides, this decides between classes and regression.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import polars as pl

from calcli.batch import Role
from calcli.errors import DataError, UsageError, unknown_name
from calcli.tables.binding import (
    check_flags,
    check_parts,
    classes_of,
    label_column,
    label_like,
    left_out,
    weighed,
    weight_column,
    weight_kind,
)
from calcli.tables.binding_types import NO_FLAGS, NO_SCORE, Binding, Feature, Flags
from calcli.tables.features import find_features, known_features, role_of
from calcli.tables.io_errors import reading
from calcli.tables.labels import Labels, distinct_labels, positive_class
from calcli.tables.source import Source

Task: TypeAlias = Literal["class", "regression"]

MOST_CLASSES = 50
"""Whole numbers with more distinct values than this are amounts, unless flags say otherwise."""


def bind_unscored(
    source: Source,
    flags: Flags = NO_FLAGS,
    *,
    task: Task | None = None,
    known: Binding | None = None,
    need_label: bool = True,
) -> Binding:
    """Find the label, weight and features of a table without a score.

    Parameters
    ----------
    source
        The table.
    flags
        They take precedence.
    task
        Whether the label is a class or an amount; None decides by its values.
    known
        The binding of an artifact: its task and classes are fixed, and its columns are looked for.
    need_label
        Whether a table without labels is refused. If not, the labels are not read.
    """
    # 1. label, and its classes or None for a regression
    check_flags(source, flags, known)
    names = [name for name in source.columns if name not in flags.ignore]
    label = label_column(names, flags, known, need=need_label)
    notes: list[str] = []
    if known is not None and known.regression:
        classes = None
    elif known is not None:
        seen = distinct_labels(source, label) if need_label and label is not None else None
        classes = classes_of(seen, flags, known).labels
    else:
        classes = _classes_or_none(source, str(label), flags, task, notes)
    if classes is None and need_label and label is not None and not source.schema[label].is_numeric():
        raise DataError(
            f"the label {label!r} is {source.schema[label]}, not a number: regression needs a number",
            hint="leave out --task, or name another label with --label",
        )
    # 2. weight; a column has one role
    binding = Binding(
        label=label,
        label_type="float" if classes is None else classes.type,
        classes=() if classes is None else classes.values,
        positive=_positive(classes, flags, known),
        score=NO_SCORE,
        weight=weight_column(source, flags, known, notes, need=need_label),
        weight_kind=weight_kind(flags, known),
    )
    check_parts(binding)
    if need_label:
        binding = weighed(source, binding, flags, known, notes)
    # 3. features
    if known is not None:
        return replace(binding, features=known_features(source, known), notes=tuple(notes))
    features, dropped = find_features(source, flags, binding)
    if not features:
        raise DataError(
            f"{source.name} has no features: all of its columns are labels, scores, ids, dates or named by --ignore",
            hint="name some with --features A,B",
        )
    return replace(
        binding, features=features, dropped=dropped, notes=(*notes, *label_like(features), *left_out(dropped))
    )


def model_features(
    source: Source, names: Sequence[str], categories: Collection[int], chosen: Sequence[Feature] | None
) -> tuple[Feature, ...]:
    """The features of a user's model, as columns of the table, in the order of the model.

    Parameters
    ----------
    source
        The table.
    names
        The names of its features; their numbers if it was trained without names.
    categories
        The indices of those that are categories.
    chosen
        The features that ``--features`` names, in the order of the model; None matches them by name.
    """
    columns = [feature.name for feature in chosen] if chosen is not None else list(names)
    if len(columns) != len(names):
        raise UsageError(
            f"--features names {len(columns)} columns, and the model has {len(names)} features",
            hint="name one for each, in the order of the model",
        )
    source.find(*columns)
    for name in columns:
        if name in source.schema:
            continue
        if all(each.isdecimal() for each in names):
            raise DataError(
                f"the model was trained without names: its features are {names[0]} to {names[-1]}",
                hint="name the columns in its order: --features A,B,...",
            )
        raise DataError(f"the model's features: {unknown_name('column', name, source.columns)}")
    return tuple(_as_the_model_takes(source, name, place in categories) for place, name in enumerate(columns))


def _as_the_model_takes(source: Source, name: str, category: bool) -> Feature:
    dtype = source.schema[name]
    own_role = role_of(dtype)
    fits = (own_role == "category" or dtype.is_integer()) if category else own_role in ("number", "boolean")
    if own_role is None or not fits:
        words = "a category" if category else "a number"
        raise DataError(f"the model takes {name!r} as {words}, and the column is {dtype}", hint="cast the column")
    role: Role = "category" if category else own_role
    return Feature(name, role, str(dtype))


def _positive(classes: Labels | None, flags: Flags, known: Binding | None) -> bool | int | str | None:
    if known is not None:
        return known.positive
    if classes is None:
        if flags.positive is not None or flags.classes is not None:
            raise UsageError("--positive and --classes are for classes, and the label is a number here")
        return None
    return positive_class(classes, flags.positive)


def _classes_or_none(source: Source, label: str, flags: Flags, task: Task | None, notes: list[str]) -> Labels | None:
    """The classes, or None if the label is an amount."""
    if task is None and flags.classes is None and flags.positive is None:
        task = _guess(source, label, notes)
    if task == "regression":
        return None
    try:
        seen = distinct_labels(source, label)
    except DataError as error:
        if source.schema[label].is_float():
            raise DataError(error.message, hint="try: --task regression") from None
        raise
    classes = classes_of(seen, flags, None).labels or seen
    if len(classes.values) < 2:
        raise DataError(f"the label {label!r} has one class only: {classes.values[0]!r}")
    return classes


def _guess(source: Source, label: str, notes: list[str]) -> Task:
    """Whole numbers with few distinct values are classes, other numbers amounts; doubtful decisions are noted."""
    dtype = source.schema[label]
    if not dtype.is_numeric():
        return "class"
    whole, distinct = True, set[float]()
    with reading(source.name):
        for frame in source.typed([label]).collect_batches():
            values = frame[label].cast(pl.Float64).drop_nulls().drop_nans().unique()
            whole = whole and bool((values == values.floor()).all())
            distinct.update(values.to_list())
            if not whole or len(distinct) > MOST_CLASSES:
                break
    if whole and len(distinct) <= MOST_CLASSES:
        if len(distinct) > 2:
            notes.append(
                f"the label {label!r} holds {len(distinct)} different whole numbers: taken for classes; "
                "if they are amounts: --task regression"
            )
        return "class"
    what = f"more than {MOST_CLASSES} different numbers" if whole else "numbers that are not whole"
    notes.append(f"the label {label!r} holds {what}, so this is a regression")
    return "regression"
