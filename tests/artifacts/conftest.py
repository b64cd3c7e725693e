"""No test here waits for the disk: whether and when it is asked to sync is checked by `tests.support.disk_probe`."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _fast_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
