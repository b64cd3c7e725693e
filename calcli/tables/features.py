"""Find the features of a table, and the reasons why other columns are none."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import polars as pl

from calcli.batch import Role
from calcli.errors import DataError, UsageError, nearest, unknown_name
from calcli.tables.arrays import no_number
from calcli.tables.binding_types import NO_FLAGS, Binding, Dropped, Feature, Flags
from calcli.tables.paths import reading
from calcli.tables.records import MIXED
from calcli.tables.scores import score_named
from calcli.tables.source import Source
from calcli.tables.text import TEXT_TYPES, all_missing, all_times, is_present

ID_NAMES: Final = ("id", "node_id", "row_id", "index")
ID_WORDS: Final = frozenset(["id", "ids", "uuid", "guid", "key", "hash", "no", "nr", "number", "code"])
UNITS: Final = frozenset(["customer", "household", "participant", "patient", "person", "session", "subject", "user"])
UNITS_WITH_IDS: Final = UNITS | {
    *("account", "author", "borrower", "buyer", "candidate", "client", "device", "driver", "employee", "member"),
    *("passenger", "player", "seller", "student", "subscriber", "visitor"),
}
"""Units whose rows may have something in common that no score knows; the later words count only in names of ids."""

HEADS: Final = (10_000, 1_000_000)
"""The numbers of first rows that are looked at; columns that these prove to be features are read no further."""

COLUMNS_AT_ONCE = 256
"""The number of columns in one query: the memory of a query with many distinct counts grows with their square."""

MOST_CELLS = 1 << 23
"""The number of values that a look at the first rows holds in memory."""

CATEGORY: Role = "category"

UNIT = "named like a group id"
EMPTY, TIME, ID = "no value in any row", "a date or time", "every value is different, as in an id"
"""Reasons in the values of a column; the first of several counts."""


def role_of(dtype: pl.DataType) -> Role | None:
    """The role of a feature of this type; None for dates, binary and nested types."""
    if dtype in TEXT_TYPES:
        return "category"
    if dtype == pl.Boolean:
        return "boolean"
    return "number" if dtype.is_numeric() else None


def find_features(
    source: Source, flags: Flags, binding: Binding, held_out_by: str | None = None
) -> tuple[tuple[Feature, ...], tuple[Dropped, ...]]:
    """The features that ``--features`` names, or else all columns that can be features."""
    schema = source.schema
    roles = dict.fromkeys(source.arrow_types.names, CATEGORY) | roles_named(flags, source.columns)
    if flags.features is not None:
        return _flagged(flags.features, source, binding, roles), ()
    taken = {binding.label, binding.weight, binding.node_id, binding.trials, *binding.score.columns}
    free = [name for name in source.stored if name not in taken]
    # 1. names and types
    reasons: dict[str, str] = {}
    for name in free:
        reason = "named by --ignore" if name in flags.ignore else _reason(name, schema[name], binding)
        if name == held_out_by:
            reason = "rows are held out by it"
        if name in source.mixed:
            reason = reason or MIXED
        if reason is not None:
            reasons[name] = reason
    # 2. values
    reasons |= reasons_in_values(source, [name for name in free if name not in reasons])
    features = tuple(_feature(name, source, roles) for name in free if name not in reasons)
    return features, tuple(Dropped(name, reasons[name]) for name in schema if name in reasons)


def roles_named(flags: Flags, columns: Sequence[str]) -> dict[str, Role]:
    """The roles that ``--categories`` and ``--numbers`` give to columns; each of their patterns must match some."""
    roles: dict[str, Role] = {}
    named: tuple[tuple[str, Sequence[str], Role], ...]
    named = (("--categories", flags.categories, "category"), ("--numbers", flags.numbers, "number"))
    for flag, patterns, role in named:
        for pattern in patterns:
            found = [name for name in columns if name == pattern] or [
                name for name in columns if fnmatchcase(name, pattern)
            ]
            if not found:
                raise DataError(f"{flag}: {unknown_name('column', pattern, columns)}")
            for name in found:
                if roles.setdefault(name, role) != role:
                    raise UsageError(
                        f"{name!r} is named by --categories and by --numbers", hint="a feature has one role"
                    )
    return roles


def _feature(name: str, source: Source, roles: Mapping[str, Role]) -> Feature:
    dtype = source.schema[name]
    own_role, given = role_of(dtype), roles.get(name)
    if own_role is None:
        raise DataError(
            f"the column {name!r} is {dtype}, which cannot be a feature",
            hint="cast it, or leave it out of --features",
        )
    role = own_role if own_role == "boolean" or given is None else given
    if role == "category" and own_role == "number" and not dtype.is_integer() and not has_whole_numbers(source, name):
        raise DataError(f"--categories: {name!r} holds numbers with fractions", hint="round them, or cast them to text")
    return Feature(name, role, str(dtype))


def has_whole_numbers(source: Source, name: str) -> bool:
    """Whether a column of numbers holds no fractions in any row."""
    values = pl.col(name).cast(pl.Float64).fill_nan(None).drop_nulls()
    with reading(source.name):
        fractions = source.typed([name]).select((values % 1.0 != 0.0).any()).collect(engine="streaming")
    return not fractions.item()


def _flagged(names: Sequence[str], source: Source, binding: Binding, roles: Mapping[str, Role]) -> tuple[Feature, ...]:
    schema = source.schema
    taken = {binding.label: "label", binding.weight: "weight", binding.trials: "number of trials"}
    for name in names:
        if name not in schema:
            raise DataError(f"--features: {unknown_name('column', name, schema)}")
        if name in taken:
            raise UsageError(f"--features names {name!r}, which is the {taken[name]}")
    return tuple(_feature(name, source, roles) for name in dict.fromkeys(names))


def _reason(name: str, dtype: pl.DataType, binding: Binding) -> str | None:
    """The reason in its name or type why a column is no feature; None for a feature."""
    if score_named(name, binding.classes, binding.score):
        return "named like a score"
    if name.startswith(("calibrated", "uncertainty_")):
        return "written by calcli"
    if name.lower() in ID_NAMES:
        return "named like an id"
    if named_like_units(name) and (dtype.is_integer() or dtype in TEXT_TYPES):
        return UNIT
    return None if role_of(dtype) else _no_role(dtype)


def _no_role(dtype: pl.DataType) -> str:
    if dtype.is_temporal():
        return TIME
    if dtype.is_nested():
        return "a nested type"
    return EMPTY if dtype == pl.Null else f"of type {dtype}"


def named_like_units(name: str) -> bool:
    """Whether a column is named like the id of a unit: ``user_id``, ``customerKey``, ``session``."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    if len(words) == 1:
        return words[0].removesuffix("s") in UNITS
    return bool(words) and words[-1] in ID_WORDS and not UNITS_WITH_IDS.isdisjoint(words)


def reasons_in_values(source: Source, names: Sequence[str]) -> dict[str, str]:
    """The reasons in their values why columns are no features.

    A column of distinct integers or texts is an id. Text that holds dates is a date in any file: CSV and JSON have no
    other dates, and a table must not have a feature more in CSV than in Parquet.
    """
    left = {name: _questions(name, source.schema[name]) for name in names}
    for limit in (*HEADS, None):
        # Dates are judged by the first rows, if there are any: no feature begins with a million of them.
        asked = {name: why for name, why in left.items() if why and (limit or TIME not in why or EMPTY in why)}
        if not asked:
            break
        names_left, rows = list(asked), 0
        while names_left:
            # Rows of the shortest head are few in some tables: their columns are read in few passes.
            at_once = max(COLUMNS_AT_ONCE, MOST_CELLS // rows if rows and limit == HEADS[0] else 0)
            part, names_left = names_left[:at_once], names_left[at_once:]
            row = _answers(source, {name: asked[name] for name in part}, limit)
            for name in part:
                left[name] = {reason: holds for reason, holds in asked[name].items() if row[f"{reason}: {name}"]}
            rows = row["len"]
        if limit is not None and rows < limit:
            break
    return {name: next(iter(why)) for name, why in left.items() if why}


def _answers(source: Source, asked: Mapping[str, Mapping[str, pl.Expr]], limit: int | None) -> dict[str, Any]:
    """The answers to the questions about these columns, by the first rows or all, and the number of rows.

    The shortest head is collected first: without a plan to optimise, many columns cost a tenth of the time.
    """
    questions = [why[reason].alias(f"{reason}: {name}") for name, why in asked.items() for reason in why]
    rows = source.typed(list(asked))
    with reading(source.name):
        if limit == HEADS[0]:
            head = rows.head(limit).collect(engine="streaming")
            parts = (questions[first : first + COLUMNS_AT_ONCE] for first in range(0, len(questions), COLUMNS_AT_ONCE))
            answers = {"len": len(head)}
            for part in parts:
                answers |= head.select(part).row(0, named=True)
            return answers
        rows = rows if limit is None else rows.head(limit)
        return rows.select(pl.len(), *questions).collect(engine="streaming").row(0, named=True)


def words_among_numbers(source: Source, features: Sequence[Feature]) -> dict[str, str]:
    """Categories half of whose values or more are numbers in the first rows, each with its first value that is none."""
    names = [one.name for one in features if one.role == "category" and source.schema[one.name] == pl.String]
    words: dict[str, str] = {}
    for start in range(0, len(names), COLUMNS_AT_ONCE):
        with reading(source.name):
            rows = source.raw.select(names[start : start + COLUMNS_AT_ONCE]).head(HEADS[0]).collect(engine="streaming")
        for column in rows:
            wrong = column.filter(no_number(column))
            if 0 < len(wrong) <= is_present(column).sum() / 2:
                words[column.name] = wrong[0]
    return words


def _questions(name: str, dtype: pl.DataType) -> dict[str, pl.Expr]:
    """For each reason that can apply to values of this type, whether it holds in all rows that are looked at."""
    values = pl.col(name)
    questions = {EMPTY: all_missing(values, dtype)}
    if dtype == pl.String:
        questions[TIME] = all_times(values)
    if dtype == pl.String or dtype.is_integer():
        questions[ID] = values.drop_nulls().n_unique() == values.drop_nulls().len()
    return questions


def known_features(source: Source, known: Binding, flags: Flags = NO_FLAGS) -> tuple[Feature, ...]:
    """The features of an artifact, which the table must have in the same roles; flags cannot replace them."""
    for feature in known.features:
        if flags.features is not None and feature.name not in flags.features:
            raise UsageError(
                f"--features leaves out {feature.name!r}, a feature that the artifact was fitted with",
                hint="leave out --features: an artifact uses its own features",
            )
        if feature.name not in source.columns:
            match = nearest(feature.name, source.columns)
            raise DataError(
                f"no column {feature.name!r}, a feature of the artifact",
                hint=f"did you mean {match!r}?" if match else "add the column, with null where the value is unknown",
            )
        if feature.name in source.mixed:
            raise source.mixed[feature.name]
        if not source.text:
            _check_role(feature, source.schema[feature.name])
    return known.features


def _check_role(feature: Feature, dtype: pl.DataType) -> None:
    """Check the type of a column; the values in text files are checked when they are encoded."""
    role = role_of(dtype)
    fine = role == feature.role or dtype == pl.Null or (feature.role == "number" and role == "boolean")
    fine = fine or str(dtype) == feature.dtype or (feature.role == "category" and role == "number")
    if not fine and not (feature.role != "number" and dtype.is_integer()):
        raise DataError(
            f"the feature {feature.name!r} is {dtype}, but the artifact was fitted with {feature.dtype}",
            hint="cast the column",
        )


def model_features(
    source: Source, names: Sequence[str], categories: Collection[int], chosen: Sequence[Feature] | None
) -> tuple[Feature, ...]:
    """The features of a user's model, as columns of the table, in the order of the model.

    `names` are those of the model, or numbers if it was trained without names; `categories` are the indices of those
    that are categories. `chosen` are the features that ``--features`` names; None matches columns by name.
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
    return tuple(_model_feature(name, source.schema[name], index in categories) for index, name in enumerate(columns))


def _model_feature(name: str, dtype: pl.DataType, category: bool) -> Feature:
    """The column as a feature of the model; refused if the model takes another role."""
    own_role = role_of(dtype)
    fits = (own_role == "category" or dtype.is_integer()) if category else own_role in ("number", "boolean")
    if own_role is None or not fits:
        words = "a category" if category else "a number"
        raise DataError(f"the model takes {name!r} as {words}, and the column is {dtype}", hint="cast the column")
    role: Role = "category" if category else own_role
    return Feature(name, role, str(dtype))
