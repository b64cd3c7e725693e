"""calcli where Windows differs: no modules of POSIX, no renaming or removing of open files, no flags of POSIX.

Nothing here runs Windows. A process takes from itself what Windows lacks, refuses what Windows refuses, and then does
the work of a user.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from calcli.places import Url, place

ROOT = Path(__file__).parents[1]

LIBRARIES = """
import contextlib, numba, polars, pyarrow.parquet, rich.progress, scipy.optimize, sklearn.cluster, typer
with contextlib.suppress(ImportError):
    import matplotlib.pyplot
"""

POSIX = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix")
LACKING = (
    *("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "ST_RDONLY", "statvfs", "fork", "getuid", "geteuid"),
    *("sched_getaffinity", "killpg", "setsid", "uname", "mkfifo", "sysconf"),
)
SIGNALS = ("SIGKILL", "SIGPIPE", "SIGHUP", "SIGALRM")

LIKE_WINDOWS = (
    f"""
import errno, fcntl, multiprocessing.connection, os, shutil, signal, subprocess, sys, tempfile, types
import numpy

POSIX, LACKING, SIGNALS = {POSIX}, {LACKING}, {SIGNALS}
"""
    + """
flock, fcntl_ = fcntl.flock, fcntl

def locking(handle, mode, size):
    try:
        fcntl_.lockf(handle, fcntl_.LOCK_EX | (0 if mode == 1 else fcntl_.LOCK_NB), size, os.lseek(handle, 0, 1))
    except BlockingIOError as error:
        raise PermissionError(errno.EACCES, "locked") from error

def while_closed(action):
    def checked(path, *rest, **named):
        for place in (path, *rest[:1]):
            for handle in os.listdir("/proc/self/fd"):
                try:
                    taken = os.path.samestat(os.stat(f"/proc/self/fd/{handle}"), os.lstat(place))
                except (OSError, TypeError):
                    continue
                if taken:
                    raise PermissionError(errno.EACCES, "it is open", str(path))
        return action(path, *rest, **named)
    return checked

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_LOCK=1, LK_NBLCK=2)
for name in POSIX:
    sys.modules[name] = None
for name in LACKING:
    if hasattr(os, name):
        delattr(os, name)
for name in SIGNALS:
    delattr(signal, name)
for name in ("rename", "replace", "unlink", "remove"):
    setattr(os, name, while_closed(getattr(os, name)))
shutil._use_fd_functions = False
sys.platform = "win32"
"""
)

KNOW_POSIX = ("locks", "files", "numeric.threads", "models.workers")
"""The modules that name what Windows lacks."""

THOSE_MODULES = f"""
import importlib
for name in {KNOW_POSIX}:
    importlib.import_module("calcli." + name)
from calcli import locks
assert locks.WINDOWS and locks.ITSELF == 0
"""

EVERY_MODULE = """
import importlib, pkgutil, calcli
for module in pkgutil.walk_packages(calcli.__path__, "calcli."):
    if not module.name.startswith(("calcli.__main__", "calcli.spark")):
        importlib.import_module(module.name)
from calcli import locks
assert locks.WINDOWS and locks.ITSELF == 0
"""

COMMANDS = """
from calcli.cli.main import main

def run(*words, code=0):
    assert main(words) == code, words

data = "sample_data/train.parquet"
run("fit", data, "--method", "mbct", "-o", folder + "/art", "--quiet")
run("fit", data, "--method", "platt", "-o", folder + "/art", "--quiet")
run("apply", folder + "/art", data, "-o", folder + "/out.csv", "--quiet")
run("apply", folder + "/art", data, "-o", folder + "/out.csv", "--quiet")
run("apply", folder + "/art", data, "-o", folder + "/out.jsonl", "--quiet")
run("evaluate", folder + "/out.jsonl", "--score", "calibrated", "--label", "label", "--quiet")
run("diagram", data, "--with", folder + "/art", "-o", folder + "/page.html", "--quiet")
run("evaluate", "sample_data/test.parquet", "--drift", folder + "/art", "--quiet")
run("refit", folder + "/art", data, "--quiet", code=1)  # a fit of the same rows is no better
assert not [name for name in os.listdir(folder) if name.endswith(".tmp")], os.listdir(folder)
assert b"\\r\\n" not in open(folder + "/out.jsonl", "rb").read()
"""


def run_like_windows(tmp_path: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    """A process that first imports libraries, where these are a part: they may ask for what is taken from it then."""
    *libraries, program = parts
    script = "\n".join([*libraries, LIKE_WINDOWS, f"folder = {str(tmp_path)!r}", program])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_other_modules_name_nothing_that_windows_lacks() -> None:
    names = re.compile(rf"\bimport (?:{'|'.join(POSIX)})\b|\b(?:{'|'.join((*LACKING, *SIGNALS))})\b")
    package = ROOT / "calcli"
    found = {path for path in package.rglob("*.py") if re.search(names, path.read_text())}
    assert {".".join(path.relative_to(package).with_suffix("").parts) for path in found} <= {*KNOW_POSIX}


@pytest.mark.skipif(sys.platform != "linux", reason="open files are found in /proc")
def test_modules_that_know_posix_can_be_imported(tmp_path: Path) -> None:
    result = run_like_windows(tmp_path, THOSE_MODULES)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="open files are found in /proc")
def test_every_module_can_be_imported(tmp_path: Path) -> None:
    result = run_like_windows(tmp_path, LIBRARIES, EVERY_MODULE)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="open files are found in /proc")
def test_a_user_fits_applies_and_refits(tmp_path: Path) -> None:
    result = run_like_windows(tmp_path, LIBRARIES, COMMANDS)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "text", [r"C:\data\train.parquet", "C:/data/train.parquet", r"\\server\share\t.csv", "D:t.csv"]
)
def test_a_path_with_a_drive_is_no_url(text: str) -> None:
    found = place(text)
    assert isinstance(found, Path)
    assert str(found) == text


def test_a_path_of_windows_is_a_place_as_it_stands() -> None:
    path = PureWindowsPath(r"C:\data\train.parquet")
    assert not isinstance(place(path), Url)
    assert os.fspath(place(path)) == str(path)
