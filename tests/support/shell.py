"""Commands in processes of their own: calcli, with or without a terminal, and what the documents show in a shell."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[2]

HANGS = 600
"""Seconds after which a process hangs, however busy the machine is."""

Run = Callable[..., tuple[int, str, str]]
"""Runs calcli: the exit code, stdout, stderr."""


def script(path: Path) -> ModuleType:
    """The module of a script, which is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(text: str) -> list[str]:
    """The lines of all shell blocks."""
    return [line for block in blocks(text, "sh") for line in block.splitlines() if line.strip()]


def readers_folder(folder: Path) -> Path:
    """A directory with the sample data, and `calcli` on the path of `run`."""
    shutil.copytree(ROOT / "sample_data", folder / "sample_data")
    script = folder / "bin" / "calcli"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m calcli "$@"\n')
    script.chmod(0o755)
    return folder


def run(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    """What a shell makes of a line."""
    path = f"{place / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )


def environment(**more: str) -> dict[str, str]:
    """That of this process, without what changes how calcli or Python print."""
    dropped = {"PYTHONUNBUFFERED", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONWARNINGS"}
    kept = {key: value for key, value in os.environ.items() if key not in dropped and not key.startswith("CALCLI_")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def soon(true: Callable[[], object], of: subprocess.Popen[Any] | None = None) -> bool:
    """Whether it comes true while the process that is to bring it about still runs, however busy the machine is."""
    end = time.monotonic() + HANGS
    while not true():
        if (of is not None and of.poll() is not None) or time.monotonic() > end:
            return bool(true())  # it may have come true just before the end
        time.sleep(0.05)
    return True


def calcli(*words: str, cwd: Path, env: dict[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run calcli as a user does."""
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True, **more}
    command = [sys.executable, "-m", "calcli", *words]
    return subprocess.run(command, cwd=cwd, env=env or environment(), check=False, timeout=HANGS, **more)


ESCAPE = "\x1b["


def on_terminal(*words: str, cwd: Path, own_process: bool = False, **more: str) -> tuple[int, str]:
    """Exit code, and what appears on a terminal that is stdin, stdout and stderr of this process, or of its own one."""
    import pty

    ours, theirs = pty.openpty()
    seen = bytearray()
    reader = threading.Thread(target=_read, args=(ours, seen))
    reader.start()
    env = environment(**{"TERM": "xterm-256color", "COLUMNS": "80", **more})
    try:
        if own_process:
            command = [sys.executable, "-m", "calcli", *words]
            code = subprocess.run(
                command, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs, check=False, timeout=HANGS
            ).returncode
        else:
            code = _main_on(theirs, words, cwd, env)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return code, seen.decode().replace("\r\n", "\n")


def _read(handle: int, seen: bytearray) -> None:
    with suppress(OSError):  # nobody writes any more
        while part := os.read(handle, 1 << 16):
            seen += part


def _main_on(handle: int, words: Sequence[str], cwd: Path, env: dict[str, str]) -> int:
    """`main` with this handle as its three streams."""
    from calcli.cli.main import main

    with (
        os.fdopen(handle, "r", closefd=False) as stdin,
        os.fdopen(handle, "w", encoding="utf-8", closefd=False) as stdout,
        os.fdopen(handle, "w", encoding="utf-8", closefd=False) as stderr,
        patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr),
        patch.dict(os.environ, env, clear=True),
        chdir(cwd),
    ):
        return main(words)
