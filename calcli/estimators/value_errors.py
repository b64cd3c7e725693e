"""Errors as callers with arrays expect them: `ValueError`, with rows from 0, and with parameters in place of flags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from calcli.errors import DataError, FitError, UsageError
from calcli.parameters import Parameter, in_python

_ROW = re.compile(r"\brow (\d[\d,]*)")
_BAD_ROWS = re.compile(r"(?:, or )?(?:add )?--bad-rows null.*")

PARAMETERS = {
    "features": "X",
    "weight": "sample_weight",
    "resample-by": "groups",
    "seed": "random_state",
    "class": "of",
    "label": "y",
    "group": "groups",
}
"""The parameters that have other names than the flags and columns."""

_BY_FLAG = {flag: Parameter(f"{name}={{}}") for flag, name in PARAMETERS.items()} | {
    "set": Parameter("params={}", Mapping)
}


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Turn errors of usage, rows and fit into `ValueError`."""
    try:
        yield
    except (UsageError, DataError, FitError) as error:
        raise ValueError(of_arrays(str(error))) from error


def of_arrays(text: str) -> str:
    """The message of a table's error for a caller with arrays: the first row is row 0, and ``--holdout none`` is
    ``holdout='none'``.
    """
    text = _ROW.sub(lambda found: f"row {int(found[1].replace(',', '')) - 1:,}", text)
    text = re.sub(r"^seed is\b", "random_state is", text)
    return in_python(_BAD_ROWS.sub(", or leave them out", text), _BY_FLAG)
