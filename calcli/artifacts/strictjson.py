"""JSON that comes back exactly as it went in, or not at all.

Python's own module writes NaN, turns the key 1 into "1", reads 1e999 as infinity, and keeps the last of two equal
keys. Here each of these is an error on either side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NoReturn

from calcli.state import Json

_DEEPEST = 64  # far above what a state or a manifest nests, far below what the parser of any Python can stand


def dumps(value: object) -> str:
    """Compact text of `value` with sorted keys: equal values give equal texts.

    Raises
    ------
    ValueError
        If reading the text would not give `value` again: it says where in `value`, and why.
    """
    if found := _fault(value, "value", 0):
        raise ValueError(found)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def loads(data: bytes) -> Json:
    """The value of a text in UTF-8, or a `ValueError` that says what is wrong with it."""
    try:
        value: Json = json.loads(
            data.decode("utf-8"),
            parse_float=_finite,
            parse_constant=_not_json,
            object_pairs_hook=_unique,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if found := _fault(value, "value", 0):
        raise ValueError(found)
    return value


def _fault(value: object, place: str, depth: int) -> str | None:
    """What keeps `value` from being JSON, or None."""
    if depth > _DEEPEST:
        return f"{place} is nested deeper than {_DEEPEST}"
    if value is None or isinstance(value, bool | int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{place} is {value}; null stands for a number that is not there"
    if isinstance(value, str):
        # Half of a surrogate pair is a str to Python but no text to UTF-8.
        return None if value.isascii() or not _has_surrogate(value) else f"{place} is not text: {value!r}"
    if isinstance(value, list):
        parts = ((f"{place}[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or _has_surrogate(key):
                return f"{place} has the key {key!r}, which is not text"
        parts = ((f"{place}.{key}", part) for key, part in value.items())
    else:
        return f"{place} is of type {type(value).__name__}, which JSON does not have"
    return next((found for where, part in parts if (found := _fault(part, where, depth + 1))), None)


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= sign <= "\udfff" for sign in text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is too large for a float")
    return value


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON; null stands for a number that is not there")


def _unique(pairs: list[tuple[str, Json]]) -> Mapping[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if key in dict(pairs[:place]))
        raise ValueError(f"the key {twice[:40]!r} is there twice")
    return found
