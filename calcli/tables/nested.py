"""Columns that a path names: ``response.logprobs[0]`` is an item of a list in a field of the column ``response``.

``exp(PATH)`` is the probability whose logarithm the path or the column of that name holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import polars as pl

from calcli.errors import DataError, unknown_name

ITEM = re.compile(r"\[(-?\d{1,9})\]")
EXP = re.compile(r"exp\((.+)\)", re.DOTALL)

Schema = Mapping[str, pl.DataType]


class Computed(NamedTuple):
    """A column that is computed from others, and its type."""

    values: pl.Expr
    dtype: pl.DataType


def logarithm_of(name: str) -> str | None:
    """The column or path in ``exp(...)``; None for other names."""
    found = EXP.fullmatch(name)
    return None if found is None else found[1]


def computed(name: str, schema: Schema) -> Computed | None:
    """The column that a name stands for; None if it is no path into a column of the table.

    What a row does not have, an item beyond the end of its list among it, is null.
    """
    inner = logarithm_of(name)
    if inner is None:
        return _at(name, schema)
    found = Computed(pl.col(inner), schema[inner]) if inner in schema else _at(inner, schema)
    if found is None:
        raise DataError(f"{name}: {unknown_name('column', inner, schema)}")
    if not (found.dtype.is_numeric() or found.dtype == pl.String):
        raise DataError(f"{name}: {inner!r} is {found.dtype}, not a number", hint=hint_inside(inner, found.dtype))
    return Computed(found.values.cast(pl.Float64, strict=False).exp(), pl.Float64())


def hint_inside(name: str, dtype: pl.DataType) -> str | None:
    """How to name what a nested column holds; None for other types."""
    if isinstance(dtype, pl.Struct) and dtype.fields:
        return f"name a field of it, as in {name}.{dtype.fields[0].name}"
    return f"name an item of it, as in {name}[0]" if isinstance(dtype, pl.List | pl.Array) else None


def _at(path: str, schema: Schema) -> Computed | None:
    """The value at a path; None if no nested column begins it."""
    column = _longest(path, schema, nested=True)
    return None if column is None else _inside(path, column, Computed(pl.col(column), schema[column]))


def _inside(path: str, known: str, part: Computed) -> Computed:
    """The value at a path, of which `known` leads to `part`."""
    rest, (values, dtype) = path[len(known) :], part
    if not rest:
        return part
    if isinstance(dtype, pl.Struct) and rest.startswith("."):
        fields = {field.name: _type(field.dtype) for field in dtype.fields}
        name = _longest(rest[1:], fields)
        if name is None:
            wanted = re.split(r"[.[]", rest[1:])[0]
            raise DataError(f"{path}: {unknown_name(f'field of {known!r}:', wanted, fields)}")
        return _inside(path, f"{known}.{name}", Computed(values.struct.field(name), fields[name]))
    item = ITEM.match(rest)
    if item is not None and isinstance(dtype, pl.List | pl.Array):
        of_lists = values.list if isinstance(dtype, pl.List) else values.arr
        found = of_lists.get(int(item[1]), null_on_oob=True)
        return _inside(path, known + item[0], Computed(found, _type(dtype.inner)))
    raise DataError(f"{path}: {known!r} is {dtype}, which has no {rest!r}", hint=hint_inside(known, dtype))


def _longest(path: str, schema: Schema, *, nested: bool = False) -> str | None:
    """The longest name that the path begins with: names can have dots themselves."""
    names = [
        name
        for name, dtype in schema.items()
        if (dtype.is_nested() or not nested) and (path == name or path.startswith((f"{name}.", f"{name}[")))
    ]
    return max(names, key=len, default=None)


def _type(dtype: Any) -> pl.DataType:
    """The type of a part, which polars may keep as a class."""
    return cast("pl.DataType", dtype() if isinstance(dtype, type) else dtype)
