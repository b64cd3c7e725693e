"""Plain Python as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from calcli.artifacts.manifest import JsonObject
from calcli.state import Json


def as_json(value: Mapping[str, object]) -> JsonObject:
    """The object with tuples as lists, all the way down: equal to what reading it back gives."""
    return cast(JsonObject, _plain(value))


def _plain(value: object) -> Json:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return cast(Json, value)
