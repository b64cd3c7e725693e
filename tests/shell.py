"""Running what the documents show, as a reader would: in a shell, in a directory of their own, with sample data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


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
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", command], cwd=place, env=env, capture_output=True, text=True, check=False, timeout=600
    )
