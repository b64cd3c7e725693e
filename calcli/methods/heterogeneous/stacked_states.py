"""Many states of one method packed into one, with one array for each of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from calcli.state import Json, State


def stack(states: Sequence[State]) -> State:
    """All states in one. They must have arrays of the same names, whose shapes may differ."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name in states[0].arrays if states else ():
        of_states = [np.asarray(state.arrays[name]) for state in states]
        arrays[f"{name}/values"] = np.concatenate([array.ravel() for array in of_states])
        arrays[f"{name}/shapes"] = np.array([array.shape for array in of_states], dtype=np.int64)
    return State({"states": [dict(state.params) for state in states]}, arrays)


def unstack(whole: State) -> list[State]:
    """The states that `stack` put together."""
    params = cast("list[dict[str, Json]]", whole.params["states"])
    arrays: list[dict[str, NDArray[np.generic]]] = [{} for _ in params]
    for key, values in whole.arrays.items():
        name, _, suffix = key.rpartition("/")
        if suffix != "values":
            continue
        start = 0
        for of_state, shape in zip(arrays, np.asarray(whole.arrays[f"{name}/shapes"]), strict=True):
            end = start + int(np.prod(shape))
            of_state[name] = values[start:end].reshape([int(side) for side in shape])
            start = end
    return [State(of_state, own_arrays) for of_state, own_arrays in zip(params, arrays, strict=True)]
