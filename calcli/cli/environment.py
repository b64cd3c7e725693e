"""Options that the environment gives."""

from __future__ import annotations

import os
from collections.abc import Sequence

_NO = {"", "0", "false", "no", "off", "n", "f"}


def variable_of(flag: str) -> str:
    """The variable of an option: ``CALCLI_INPUT_FORMAT`` of ``--input-format``."""
    return f"CALCLI_{flag.removeprefix('--').replace('-', '_').upper()}"


def is_set(flag: str, words: Sequence[str]) -> bool:
    """Whether a switch is on, before the words are parsed and whether or not they can be."""
    return flag in words or os.environ.get(variable_of(flag), "").lower() not in _NO
