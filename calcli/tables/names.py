"""Integers that are names: which features are read as categories though they hold whole numbers.

It is decided once, when the columns of a fit are bound, by the labels of some of the rows
(`calcli.numeric.level_effects`); the binding of the artifact keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calcli.batch import Batch, IntArray
from calcli.numeric.level_effects import LevelEffects, Residuals
from calcli.tables.arrays import numbers
from calcli.tables.binding_types import Binding, Feature, Flags
from calcli.tables.checks import bound_columns, encode
from calcli.tables.features import has_whole_numbers, roles_named
from calcli.tables.labels import LOOKED_AT
from calcli.tables.paths import reading
from calcli.tables.source import Source

STANDARD_ERRORS = 2.33
"""Integers are names if the effects of their values beside their order are so far above chance, as those of one
quantity in a hundred are."""

FEW = 16
"""Fewer values are names by the name of their column alone: methods tell each from the others as numbers too, and of so
few the effects of a step in their order look like those of names."""

WORDS = frozenset(
    ["id", "ids", "code", "codes", "key", "hash", "uuid", "zip", "zipcode", "postcode", "plz", "category"]
)
"""Last words of the names of columns whose integers are names unless their values say nothing beside their order."""

MOST_ROWS, MOST_CELLS = 1 << 20, 1 << 25
"""So many rows are looked at, evenly spaced, and so many values of all columns, or residuals of all classes."""


def with_names(
    source: Source, binding: Binding, features: Sequence[Feature], flags: Flags, unit: str | None
) -> tuple[tuple[Feature, ...], list[str]]:
    """The features, some of whose integers are read as categories, and the names of these.

    `unit` is a column whose rows may depend on each other.
    """
    given = roles_named(flags, source.columns)
    numeric = [one for one in features if one.role == "number" and one.name not in given]
    whole = _whole_at_first(source, numeric)
    asked = [one for one in numeric if one.name in whole]
    if not asked or binding.label is None or binding.trials is not None:
        return tuple(features), []
    batch, units = _some_rows(source, replace(binding, features=tuple(asked)), unit)
    if not len(batch):  # all of these rows are bad
        return tuple(features), []
    residuals = Residuals.of(batch, counts=binding.weight_kind == "counts", units=units)
    columns = {one.name: batch.features[one.name].values.astype(np.float64, copy=False) for one in asked}
    names = [
        name for name, values in columns.items() if _are_whole(values) and _are_names(name, residuals.effects(values))
    ]
    names = [name for name in names if source.schema[name].is_integer() or has_whole_numbers(source, name)]
    return tuple(replace(one, role="category") if one.name in names else one for one in features), names


def _whole_at_first(source: Source, features: Sequence[Feature]) -> list[str]:
    """The columns whose first rows hold whole numbers alone."""
    names = [one.name for one in features]
    with reading(source.name):
        rows = source.typed(names).head(LOOKED_AT).collect(engine="streaming")
    return [name for name in names if _are_whole(numbers(rows[name]))]


def _are_whole(values: np.ndarray) -> bool:
    present = values[~np.isnan(values)]
    return bool(np.isfinite(present).all() and (present % 1.0 == 0.0).all())


def _are_names(name: str, effects: LevelEffects | None) -> bool:
    """Whether integers are names, by their effects and by the name of their column."""
    last = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)[-1:]
    named = bool(last) and last[0].lower() in WORDS
    if effects is None or named:
        return effects is not None and effects.z >= 0.0
    return effects.values >= FEW and effects.z >= STANDARD_ERRORS and effects.beside_order


def _some_rows(source: Source, binding: Binding, unit: str | None) -> tuple[Batch, IntArray | None]:
    """Evenly spaced rows that can be used, and the unit of each."""
    from calcli.tables.load import join_batches

    most = min(MOST_ROWS, MOST_CELLS // max(len(binding.features), 3 * len(binding.classes)))
    step = -(-source.rows() // most)
    parts: list[Batch] = []
    units: list[IntArray] = []
    rows = 0
    columns = bound_columns(binding, label=True, features=True)
    for frame in source.chunks(*dict.fromkeys([*columns, *([] if unit is None else [unit])])):
        some = frame.gather_every(step, -rows % step)
        encoded = encode(some, binding, label=True, features=True, offset=rows)
        parts.append(encoded.good)
        if unit is not None:
            units.append(some[unit].hash().to_numpy()[~encoded.is_bad].astype(np.int64))
        rows += len(frame)
    return join_batches(parts), np.concatenate(units) if units else None


def note_on_names(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    what = "is read as a category" if len(names) == 1 else "are read as categories"
    text = "integers that are names, by their effects beside those of order; if they are quantities: --numbers"
    return [f"{', '.join(map(repr, names))} {what}: {text} {','.join(names)}"]
