"""Rows from out of the domain, made from another table (paper, section 5).

They have the scale of the rows that the ensemble was trained on, so that no single value gives them away, but the
dependence between columns of the other table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Column, FloatArray
from calcli.errors import DataError
from calcli.numeric.seeded import stream
from calcli.state import Json, State, pack_texts, unpack_texts


@dataclass(frozen=True, slots=True)
class SeenFeatures:
    """The scale and the values of features in the training rows."""

    scale: Mapping[str, tuple[float, float]]
    """Mean and standard deviation of each number, without missing values."""

    values: Mapping[str, Column]
    """Each category and boolean, as a column that holds every value once, also the missing one if there was any."""

    @classmethod
    def of(cls, features: Mapping[str, Column]) -> SeenFeatures:
        scale: dict[str, tuple[float, float]] = {}
        values: dict[str, Column] = {}
        for name, column in features.items():
            if column.role == "number":
                scale[name] = _scale(column.values)
            else:
                values[name] = _as_column(column.role, np.unique(column.values), column.levels)
        return cls(scale, values)

    def to_state(self) -> State:
        """As an artifact keeps it."""
        scale: NDArray[np.generic] = np.array(list(self.scale.values()), dtype=np.float64).reshape(-1, 2)
        arrays = {"scale": scale}
        roles: list[Json] = []
        for place, column in enumerate(self.values.values()):
            roles.append(column.role)
            arrays[f"{place}/values"] = column.values
            arrays |= pack_texts(column.levels, str(place))
        return State({"numbers": list(self.scale), "values": list(self.values), "roles": roles}, arrays)

    @classmethod
    def from_state(cls, state: State) -> SeenFeatures:
        """The inverse of `to_state`."""
        numbers, names, roles = (state.params[key] for key in ("numbers", "values", "roles"))
        if not (isinstance(numbers, list) and isinstance(names, list) and isinstance(roles, list)):
            raise TypeError("it has no statistics of the features")
        pairs = zip(numbers, state.array("scale"), strict=True)
        scale = {str(name): (float(mean), float(sd)) for name, (mean, sd) in pairs}
        values: dict[str, Column] = {}
        for place, (name, role) in enumerate(zip(names, roles, strict=True)):
            levels = unpack_texts(state.arrays, str(place))
            values[str(name)] = _as_column(str(role), state.arrays[f"{place}/values"], levels)
        return cls(scale, values)


def _as_column(role: str, values: NDArray[np.generic], levels: tuple[str, ...]) -> Column:
    if role == "category":
        return Column("category", values.astype(np.int32), levels)
    return Column("boolean", values.astype(np.float64))


def _scale(values: NDArray[np.generic]) -> tuple[float, float]:
    """Mean and standard deviation of the finite values; (0, 0) without any."""
    numbers = np.asarray(values, dtype=np.float64)
    finite = numbers[np.isfinite(numbers)]
    return (float(finite.mean()), float(finite.std())) if len(finite) else (0.0, 0.0)


def make(
    features: tuple[str, ...], seen: SeenFeatures, foreign: FloatArray, rows: int, *, seed: int, first: bool = False
) -> dict[str, Column]:
    """Rows from out of the domain.

    Parameters
    ----------
    features
        The names of the columns to make, in order.
    seen
        The scale of numbers and the values of categories, which are drawn uniformly.
    foreign
        The numbers of another table, a column for each; those of zero variance are left out. The i-th number among the
        features is the i-th of them, at the scale of `seen`: x = (u - mean u)/sd u * sd + mean.
    rows
        How many to make.
    seed
        The seed of all random draws.
    first
        Take the first rows of the table, and their own mean and deviation, in place of rows drawn at random.
    """
    if rows > len(foreign):
        raise DataError(
            f"the table to make rows from has {len(foreign):,} rows, and it takes {rows:,}",
            hint="use a larger one, or evaluate on fewer rows",
        )
    # Rows of the other table, and the columns of it that vary.
    drawn = np.arange(rows) if first else stream(seed, "strangers", "rows").permutation(len(foreign))[:rows]
    scales = [_scale(column) for column in (foreign[drawn] if first else foreign).T]
    usable = [place for place, (_, sd) in enumerate(scales) if sd > 0.0]
    if len(usable) < len(seen.scale):
        raise DataError(
            f"the table to make rows from has {len(usable)} columns of numbers that vary, "
            f"and there are {len(seen.scale)} features that are numbers",
            hint="use another one",
        )
    # Numbers are brought to the scale of the features, the values of other features are drawn uniformly.
    columns: dict[str, Column] = {}
    numbers = iter(usable)
    for name in features:
        if name in seen.scale:
            place = next(numbers)
            (mean, sd), (seen_mean, seen_sd) = scales[place], seen.scale[name]
            columns[name] = Column("number", (foreign[drawn, place] - mean) / sd * seen_sd + seen_mean)
        else:
            column = seen.values[name]
            columns[name] = column.take(stream(seed, "strangers", name).integers(len(column.values), size=rows))
    return columns
