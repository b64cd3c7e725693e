from __future__ import annotations

from tests.conftest import here

__all__ = ["here"]
