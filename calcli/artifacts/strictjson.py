"""JSON that comes back exactly as it went in, or not at all.

Python's own module writes NaN, turns the key 1 into "1", reads 1e999 as infinity, and keeps the last of two equal
keys. Here each of these is an error on either side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
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


def loads_object(data: bytes) -> dict[str, Json]:
    """`loads` for a text that must hold an object."""
    value = loads(data)
    if not isinstance(value, dict):
        raise ValueError(f"it holds {type(value).__name__}, not an object")  # noqa: TRY004 - the text is at fault
    return value


def _fault(value: object, place: str, depth: int) -> str | None:
    """What keeps `value` from being JSON, and where, or None."""
    parts: Iterable[tuple[str, object]] = ()
    if isinstance(value, dict):
        if unfit := [key for key in value if not isinstance(key, str) or _has_surrogate(key)]:
            return f"{place} has the key {unfit[0]!r}, which is not text"
        parts = ((f"{place}[{key[:60]!r}]", part) for key, part in value.items())
    elif isinstance(value, list):
        parts = ((f"{place}[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, float) and not math.isfinite(value):
        return f"{place} is {value}; null stands for a number that is not there"
    elif isinstance(value, str) and _has_surrogate(value):
        return f"{place} is not text: {value!r}"
    elif not isinstance(value, str | int | float | None):
        return f"{place} is of type {type(value).__name__}, which JSON does not have"
    if depth > _DEEPEST:
        return f"{place} is nested deeper than {_DEEPEST}"
    return next((found for where, part in parts if (found := _fault(part, where, depth + 1))), None)


def _has_surrogate(text: str) -> bool:
    """Whether there is half of a surrogate pair in it: a str to Python, but no text to UTF-8."""
    return not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text)


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
