"""Options that the environment gives."""

from __future__ import annotations

import os
from collections.abc import Sequence

_NO = {"", "0", "false", "no", "off", "n", "f"}

THREAD_VARIABLES = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Where polars, OpenMP and numba read how many threads they may make."""


def variable_of(flag: str) -> str:
    """The variable of an option: ``CALCLI_INPUT_FORMAT`` of ``--input-format``."""
    return f"CALCLI_{flag.removeprefix('--').replace('-', '_').upper()}"


def is_set(flag: str, words: Sequence[str]) -> bool:
    """Whether a switch is on, before the words are parsed and whether or not they can be."""
    return flag in words or os.environ.get(variable_of(flag), "").lower() not in _NO


def forget_what_stops_libraries() -> None:
    """Drop numbers of threads that are none, and matplotlib's backend, which pictures in files do not need.

    polars, numba and matplotlib read these variables when they are imported, and raise where they make no sense.
    """
    os.environ.pop("MPLBACKEND", None)
    for name in THREAD_VARIABLES:
        value = os.environ.get(name, "1")
        if not (value.isdecimal() and int(value) > 0):
            del os.environ[name]
