from __future__ import annotations

from tests.verbs.conftest import here

__all__ = ["here"]
