"""Many states of one method as one: an entry for each array that they have, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from calcli.state import Json, State


def stack(states: Sequence[State]) -> State:
    """The states one behind the other. All must have the same arrays, which may differ in shape."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name in states[0].arrays if states else ():
        own = [np.asarray(state.arrays[name]) for state in states]
        arrays[f"{name}/values"] = np.concatenate([array.ravel() for array in own])
        arrays[f"{name}/shapes"] = np.array([array.shape for array in own], dtype=np.int64)
    return State({"states": [dict(state.params) for state in states]}, arrays)


def unstack(whole: State) -> list[State]:
    """The states that `stack` put together."""
    params = cast("list[dict[str, Json]]", whole.params["states"])
    arrays: list[dict[str, NDArray[np.generic]]] = [{} for _ in params]
    for key, values in whole.arrays.items():
        name, _, what = key.rpartition("/")
        if what != "values":
            continue
        start = 0
        for own, shape in zip(arrays, np.asarray(whole.arrays[f"{name}/shapes"]), strict=True):
            end = start + int(np.prod(shape))
            own[name] = values[start:end].reshape([int(side) for side in shape])
            start = end
    return [State(each, own) for each, own in zip(params, arrays, strict=True)]
