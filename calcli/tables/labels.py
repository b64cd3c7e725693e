"""Labels: the column that holds them, its distinct values, and which of two is the positive one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from calcli.errors import DataError, UsageError, available, nearest, unknown_name, word
from calcli.tables.binding_types import Binding, Flags, Label, LabelType, OtherTableError
from calcli.tables.paths import reading
from calcli.tables.source import Source
from calcli.tables.text import TEXT_TYPES, cast_text, infer_schema, is_present

LABEL_NAMES = ("label", "y", "target", "class", "y_true", "actual", "labels")
LATE_LABEL_NAMES = ("y_test", "y_val", "y_valid", "actuals", "true_label", "ground_truth", "truth", "outcome")
"""Names that count in any case, as those above do in another case than theirs, where no column has one of those."""

MOST_CLASSES = 50
"""Whole numbers with more distinct values than this are amounts, unless flags say otherwise."""

LOOKED_AT = 10_000
"""The number of rows that tell whether a column could be a label, or a score, and on which scale."""

WORDS = 10
"""Labels are shares if they hold so many different shares for each word."""

MOST = 10_000
"""The largest number of classes."""

PAIRS = (
    ("no", "yes"),
    ("n", "y"),
    ("false", "true"),
    ("f", "t"),
    ("neg", "pos"),
    ("negative", "positive"),
    ("0", "1"),
)
"""Pairs of labels whose second one is positive, as everybody knows."""

INTEGER = re.compile(r"[+-]?\d{1,20}(\.0*)?")


@dataclass(frozen=True)
class Labels:
    """Classes in order, and their type in the table."""

    type: LabelType
    values: tuple[Label, ...]
    soft: bool = False
    """Whether the labels are shares between 0 and 1, of which the classes are the ends."""


def distinct_labels(source: Source, column: str, *, may_be_soft: bool = False) -> Labels:
    """The sorted distinct labels, by one pass over the column; 0 and 1 where labels may be soft, and are."""
    seen: set[Label | float] = set()
    dtype = source.raw.collect_schema()[column]
    if not (dtype.is_numeric() or dtype in (*TEXT_TYPES, pl.Boolean, pl.Null)):
        raise DataError(
            f"the label {column!r} is {dtype}; labels are integers, booleans or text",
            hint="name the label with --label",
        )
    for chunk in source.chunks(column):
        seen.update(chunk[column].cast(pl.String if dtype in TEXT_TYPES else dtype).unique().drop_nulls().to_list())
        if len(seen) > MOST:
            break
    if may_be_soft and source.text:
        _refuse_words(source, column, [str(value) for value in seen])
    labels = _from_text(column, seen, may_be_soft) if source.text else _from_values(column, dtype, seen, may_be_soft)
    if len(seen) > MOST and not labels.soft:  # after the check of the values, whose message is better
        raise DataError(
            f"the label {column!r} has more than {MOST:,} distinct values", hint="name the label with --label"
        )
    if not labels.values:
        raise OtherTableError(f"the label {column!r} has no value in any row", hint="name the label with --label")
    return labels


def _refuse_words(source: Source, column: str, texts: Sequence[str]) -> None:
    """Refuse a few words among many shares between 0 and 1, which would make every share a class."""
    values = pl.Series(texts, dtype=pl.String)
    shares = values.cast(pl.Float64, strict=False)
    words = values.filter(is_present(values) & shares.is_null())
    shares = shares.drop_nulls()
    broken = (shares != shares.floor()) & shares.is_between(0.0, 1.0)
    if not len(words) or broken.sum() < WORDS * len(words) or not shares.is_between(0.0, 1.0).all():
        return
    row = 0
    for chunk in source.chunks(column):
        there = chunk[column].is_in(words.to_list()).fill_null(value=False)
        if there.any():
            at = int(there.arg_max() or 0)
            raise DataError(
                f"the label {column!r} is {chunk[column][at]!r} in row {row + at + 1}, among shares between 0 and 1",
                hint="correct the row, or leave the cell empty and add --bad-rows null",
            )
        row += len(chunk)


def _from_values(column: str, dtype: pl.DataType, seen: set[Label | float], may_be_soft: bool) -> Labels:
    if dtype == pl.Boolean:
        return Labels("bool", tuple(value for value in (False, True) if value in seen))
    if dtype in TEXT_TYPES:
        return Labels("string", tuple(sorted(str(value) for value in seen)))
    if dtype.is_integer():
        return Labels("int", tuple(sorted(int(value) for value in seen)))
    numbers = [float(value) for value in seen if not math.isnan(float(value))]
    broken = [value for value in numbers if not value.is_integer()]
    if broken and may_be_soft:
        outside = [value for value in numbers if not 0.0 <= value <= 1.0]
        if not outside:
            return Labels("float", (0, 1), soft=True)
        broken = outside
    if broken:
        raise DataError(
            f"the label {column!r} holds {broken[0]!r}: it looks like a regression target",
            hint="labels are integers, booleans, text or, for two classes, shares between 0 and 1; "
            "name the label with --label",
        )
    return Labels("float", tuple(sorted({int(value) for value in numbers})))


def _from_text(column: str, seen: Iterable[Label | float], may_be_soft: bool) -> Labels:
    """The labels of a text file in their inferred type; among text, "NA" and the like are classes."""
    texts = pl.LazyFrame({column: sorted(map(str, seen))}, schema={column: pl.String})
    dtype = infer_schema(texts)[column]
    values = texts.select(cast_text(column, dtype)).collect()[column]
    return _from_values(column, dtype, set(values.drop_nulls().to_list()), may_be_soft)


def class_text(label: Label) -> str:
    """A class as text, in column names and flags."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def as_class(value: Label | float, kind: LabelType) -> Label | None:
    """A value as a class of type `kind`; None if that would lose something."""
    if kind == "string":
        return class_text(value) if isinstance(value, bool | int | str) else None
    if isinstance(value, str):
        if value.lower() in ("true", "false"):
            value = value.lower() == "true"
        elif INTEGER.fullmatch(value):
            value = int(value.partition(".")[0])
        else:
            return None
    if not isinstance(value, bool | int) and not float(value).is_integer():
        return None
    number = int(value)
    if kind == "bool":
        return bool(number) if number in (0, 1) else None
    return number


def parse_classes(texts: Sequence[str], labels: Labels | None) -> Labels:
    """The classes that ``--classes`` names, in its order, in the type of the table's labels."""
    if len(texts) < 2 or len(set(texts)) < len(texts):
        raise UsageError(f"--classes {','.join(texts)}: it takes two or more different classes")
    kind = labels.type if labels else ("int" if all(INTEGER.fullmatch(text) for text in texts) else "string")
    values = [as_class(text, kind) for text in texts]
    for text, value in zip(texts, values, strict=True):
        if value is None:
            raise DataError(f"--classes names {text!r}, but the labels are of type {kind}")
    named = Labels(kind, tuple(value for value in values if value is not None))
    check_seen(labels, named)
    return named


def check_seen(seen: Labels | None, classes: Labels) -> None:
    """Refuse labels that are not among the classes."""
    for value in seen.values if seen else ():
        if as_class(value, classes.type) not in classes.values:
            listed = available([class_text(label) for label in classes.values])
            raise DataError(f"the label {value!r} is not a class of the artifact or of --classes; {listed}")


def positive_class(labels: Labels, flag: str | None) -> Label | None:
    """The positive class of two; None for more than two."""
    texts = [class_text(label) for label in labels.values]
    if len(texts) != 2:
        if flag is not None:
            raise UsageError(f"--positive {flag}: there are {len(texts)} classes, and it is for two")
        return None
    if flag is not None:
        chosen = as_class(flag, labels.type)
        if chosen is None or chosen not in labels.values:
            raise DataError(f"--positive: {unknown_name('class', flag, texts)}")
        return chosen
    if labels.type != "string":
        return max(labels.values)
    for pair in PAIRS:
        if {text.lower() for text in texts} == set(pair):
            return labels.values[[text.lower() for text in texts].index(pair[1])]
    raise DataError(
        f"which of the classes {texts[0]!r} and {texts[1]!r} is the positive one?",
        hint=f"use --positive {word(texts[0])} or --positive {word(texts[1])}",
    )


def label_column(
    names: Sequence[str], flags: Flags, known: Binding | None, *, need: bool, source: Source | None = None
) -> str | None:
    """The label: the flag's, the artifact's, or without an artifact a column with one of the usual names.

    With its `source` no column is suggested whose values are no labels.
    """
    if flags.label is not None:
        return flags.label
    if known is not None and known.label is not None:
        if known.label in names or not need:
            return known.label if known.label in names else None
        other = next((name for name in LABEL_NAMES if name in names), nearest(known.label, names) or "COL")
        raise OtherTableError(
            f"no column {known.label!r}, the label that the artifact was fitted with; {available(names)}",
            hint=f"if it has another name here, use --label {word(other)}",
        )
    usual = [name for name in LABEL_NAMES if name in names] or [
        name for name in names if name.lower() in (*LABEL_NAMES, *LATE_LABEL_NAMES)
    ]
    if len(usual) == 1:
        return usual[0]
    if not need:
        return None
    if usual:
        raise DataError(
            f"the label could be {' or '.join(map(repr, usual))}", hint=f"choose with --label {word(usual[0])}"
        )
    meant = [match for name in LABEL_NAMES if (match := nearest(name, names)) is not None]
    meant = [name for name in meant if source is None or _could_be_label(source, name)]
    hint = f"did you mean {meant[0]!r}? use --label {word(meant[0])}" if meant else "name it with --label COL"
    raise DataError(f"no label column; {available(names)}", hint=hint)


def _could_be_label(source: Source, name: str) -> bool:
    """Whether the first rows hold few distinct values, each in many of them, and no numbers with fractions."""
    with reading(source.name):
        values = source.typed([name]).head(LOOKED_AT).collect(engine="streaming")[name]
    if (
        values.dtype.is_nested()
        or values.dtype.is_temporal()
        or values.n_unique() > max(2, min(MOST_CLASSES, len(values) // 10))
    ):
        return False
    return not values.dtype.is_numeric() or bool((values == values.cast(pl.Float64).floor()).all())
