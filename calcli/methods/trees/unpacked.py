"""Unpacking a state once for all chunks of rows that are predicted with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from calcli.state import State

Model = TypeVar("Model")


@dataclass(frozen=True, slots=True, eq=False)
class _Key:
    """A state, equal to another that holds the very same array, and arrays of the same names."""

    state: State
    array: NDArray[np.generic]

    def __hash__(self) -> int:
        return id(self.array)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Key):
            return False
        return self.array is other.array and self.state.arrays.keys() == other.state.arrays.keys()


def unpacked_once(array: str) -> Callable[[Callable[[State], Model]], Callable[[State], Model]]:
    """Keep the results of a function for the last states; those that share this array and names are the same state."""

    def decorated(unpack: Callable[[State], Model]) -> Callable[[State], Model]:
        kept = lru_cache(maxsize=16)(lambda key: unpack(key.state))
        return lambda state: kept(_Key(state, state.arrays[array]))

    return decorated
