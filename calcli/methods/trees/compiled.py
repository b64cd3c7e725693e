"""Compiled loops.

Kernels release Python's lock and know nothing of threads: `on_threads` hands them blocks of rows. So they may be called
from any thread, several at once, which numba's own parallel loops do not survive.

numba keeps what it has compiled in the platform's cache directory, so that only the first fit on a machine pays for
it. Where nothing can be written there, it is compiled anew in every process.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.extending
from numba.core import cgutils

from calcli.version import VERSION

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function as machine code, without Python's lock; compiled when it is first called."""
    wrap: Any = numba.njit
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = before or cache_directory()  # read by numba when the function is wrapped, and only then
    try:
        return cast(Function, wrap(nogil=True, cache=bool(settings.CACHE_DIR), error_model="numpy")(function))
    finally:
        settings.CACHE_DIR = before


types: Any = numba.types
ir: Any = cast("Any", cgutils).ir
"""`types`, `ir`: numba's types, and the instructions of LLVM."""


def intrinsic(write: Callable[..., object]) -> Callable[..., None]:
    """The function, for kernels to call, whose instructions `write` writes by itself."""
    wrap: Any = numba.extending.intrinsic
    return cast(Callable[..., None], wrap(write))


def cache_directory() -> str:
    """The directory of compiled code; empty where nothing can be written."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = base / "calcli" / f"numba-{VERSION}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return str(directory)
    except (OSError, RuntimeError):
        return ""
