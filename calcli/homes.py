"""Names that are used in a room below the one where they stand; only `calcli/__init__.py` says where that is."""

from __future__ import annotations

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
