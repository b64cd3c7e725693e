"""An installation that lacks packages."""

from __future__ import annotations

import sys

import pytest


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Neither these packages can be imported, nor what belongs to them."""
    loaded = [name for name in sys.modules if name.partition(".")[0] in packages]
    for name in {*packages, *loaded}:
        monkeypatch.setitem(sys.modules, name, None)
