"""Names that are used in a room below the one where they stand; only `calcli/__init__.py` says where that is.

And how results are shown in Python.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import fields
from importlib import import_module
from typing import Any

HOMES: dict[str, str] = {}
"""The module of each use: the page of a result in a notebook, and the names of arrays that lower rooms offer."""


def at_home(use: str, name: str) -> Any:
    """The object with this name in the module of a use."""
    return getattr(import_module(HOMES[use]), name)


class ShownInNotebook:
    """A result that a notebook shows as a page."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        page: str = at_home("notebook", "html")(self)
        return page


class Brief:
    """A result, a dataclass, that is shown without what is long; of that there are its type and its length."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (f"{part.name}={_shown(getattr(self, part.name))}" for part in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"


def _shown(value: object) -> str:
    text = repr(value)
    if isinstance(value, str) or (len(text) <= 200 and "\n" not in text):
        return text
    return f"<{type(value).__name__}{f' of {len(value):,}' if isinstance(value, Sized) else ''}>"
