"""What a fitted calibrator is: numbers and bytes, never objects.

A `State` can be written to disk and read back bit for bit, and cannot run code. Methods put scalars and short lists
into `params`, anything long into `arrays`, and files in a format of their own (a CatBoost model, safetensors) into
`blobs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class State:
    """The numbers of one fitted method.

    Attributes
    ----------
    params
        JSON-able; floats are finite.
    arrays
        Numeric or boolean arrays by name; never of objects.
    blobs
        File name (its suffix says the format) to content.
    """

    params: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)

    def number(self, name: str) -> float:
        """The parameter `name` as a float."""
        value = self.params[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"parameter {name!r} is {value!r}, not a number")
        return float(value)

    def array(self, name: str) -> NDArray[np.float64]:
        """The array `name` as float64."""
        return np.asarray(self.arrays[name], dtype=np.float64)


def pack_texts(texts: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """Texts as arrays of a state: their UTF-8 bytes one after another, and where each ends."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(one) for one in encoded], dtype=np.int64)
    return {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ends": ends}


def unpack_texts(arrays: Mapping[str, NDArray[np.generic]]) -> tuple[str, ...]:
    """The texts that `pack_texts` packed."""
    text, ends = arrays["text"].tobytes(), [0, *(int(end) for end in arrays["ends"])]
    return tuple(text[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends))


def nest(parts: Mapping[str, State]) -> State:
    """One state that holds several, each under a name without a slash."""
    arrays: dict[str, NDArray[np.generic]] = {}
    blobs: dict[str, bytes] = {}
    params: dict[str, Json] = {}
    for name, part in parts.items():
        params[name] = dict(part.params)
        arrays.update({f"{name}/{key}": value for key, value in part.arrays.items()})
        blobs.update({f"{name}/{key}": value for key, value in part.blobs.items()})
    return State(params, arrays, blobs)


def unnest(whole: State, names: Iterable[str]) -> dict[str, State]:
    """The states that `nest` put together."""
    parts = {}
    for name in names:
        params = whole.params[name]
        if not isinstance(params, dict):
            raise TypeError(f"state part {name!r} holds {params!r}, not parameters")
        start = f"{name}/"
        parts[name] = State(
            params,
            {key.removeprefix(start): value for key, value in whole.arrays.items() if key.startswith(start)},
            {key.removeprefix(start): value for key, value in whole.blobs.items() if key.startswith(start)},
        )
    return parts
