"""JSON that is read back exactly as it was written, or refused.

Python's own module writes NaN, turns the key 1 into "1", reads 1e999 as infinity, and keeps the last of two equal
keys. Here each of these is an error, in writing and in reading.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NoReturn, cast

from calcli.state import Json

_DEEPEST = 64  # far deeper than any state or manifest, far below the recursion limit of any Python's parser


def as_json(value: Mapping[str, object]) -> dict[str, Json]:
    """The object with tuples as lists, recursively: equal to the object read back from its JSON."""
    return cast("dict[str, Json]", _lists(value))


def _lists(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _lists(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_lists(part) for part in value]
    return value


def dumps(value: object, name: str = "value") -> str:
    """Compact text of `value` with sorted keys: equal values give equal texts.

    If reading the text would not give `value` again, a `ValueError` says where in `value` (called `name`), and why.
    """
    if fault := _fault(value):
        raise ValueError(name + fault)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def loads(data: bytes) -> Json:
    """The value of a text in UTF-8; a `ValueError` says what is wrong with the text."""
    try:
        value: Json = json.loads(
            data.decode("utf-8"),
            parse_float=_finite,
            parse_constant=_not_json,
            object_pairs_hook=_unique,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if fault := _fault(value):
        raise ValueError(f"value{fault}")
    return value


def loads_object(data: bytes) -> dict[str, Json]:
    """`loads` for a text that must hold an object."""
    value = loads(data)
    if not isinstance(value, dict):
        raise ValueError(f"it holds {type(value).__name__}, not an object")  # noqa: TRY004 - the text is at fault
    return value


def _fault(value: object, depth: int = 0) -> str:
    """The part of `value` that is not JSON, and the reason; empty if all of it is JSON."""
    if depth > _DEEPEST:
        return f" is nested deeper than {_DEEPEST}"
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str) or _has_surrogate(key):
                return f" has the key {key!r}, which is not text"
            if not _is_plain(part) and (fault := _fault(part, depth + 1)):
                return f"[{key[:60]!r}]{fault}"
        return ""
    if isinstance(value, list):
        faults = ((index, _fault(part, depth + 1)) for index, part in enumerate(value) if not _is_plain(part))
        return next((f"[{index}]{fault}" for index, fault in faults if fault), "")
    return _fault_of_scalar(value)


def _is_plain(value: object) -> bool:
    """Whether it is JSON at first sight, as most values of a manifest are."""
    if type(value) is str:
        return value.isascii()
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int)


def _fault_of_scalar(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isfinite(value) else f" is {value}; null stands for a number that is not there"
    if isinstance(value, str):
        return f" is not text: {value[:60]!r}" if _has_surrogate(value) else ""
    return "" if isinstance(value, int | None) else f" is of type {type(value).__name__}, which JSON does not have"


def _has_surrogate(text: str) -> bool:
    """Whether a str has half of a surrogate pair, which UTF-8 cannot encode."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is too large for a float")
    return value


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON; write null for a missing number")


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    mapping: dict[str, Json] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"the key {key[:60]!r} occurs twice")
        mapping[key] = value
    return mapping
