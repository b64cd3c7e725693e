"""Errors as callers with arrays expect them: `ValueError`, with rows from 0, and with parameters in place of flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from calcli.errors import DataError, FitError, UsageError

_ROW = re.compile(r"\brow (\d[\d,]*)")
_SETTING = re.compile(r"--set ([\w.]+)=([\w.]+)")
_FLAG = re.compile(r"--([a-z][a-z-]*)(?: ([a-z0-9][\w.:]*\w|[a-z0-9]))?")
_BAD_ROWS = re.compile(r"(?:, or )?(?:add )?--bad-rows null.*")

PARAMETERS = {
    "features": "X",
    "weight": "sample_weight",
    "resample-by": "groups",
    "seed": "random_state",
    "class": "of",
    "label": "y",
    "group": "groups",
    "set": "params",
}
"""The parameters that have other names than the flags and columns."""


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Turn errors of usage, rows and fit into `ValueError`."""
    try:
        yield
    except (UsageError, DataError, FitError) as error:
        raise ValueError(in_python(str(error))) from error


def in_python(text: str) -> str:
    """The message of a table's error for a caller with arrays: the first row is row 0, and ``--holdout none`` is
    ``holdout='none'``.
    """
    text = _ROW.sub(lambda found: f"row {int(found[1].replace(',', '')) - 1:,}", text)
    text = _BAD_ROWS.sub(", or leave them out", text)
    text = _SETTING.sub(r"params={'\1': \2}", text)
    return _FLAG.sub(_parameter, text)


def _parameter(found: re.Match[str]) -> str:
    name = PARAMETERS.get(found[1], found[1].replace("-", "_"))
    value = found[2] or ""
    if not value and found.string.startswith(":", found.end()):  # of the name alone
        return name
    return f"{name}={value if not value or value.isdecimal() else repr(value)}"
