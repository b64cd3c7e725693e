"""Draw the pictures of docs/gallery.md anew: ``python docs/gallery.py [DIR]``.

The page says how each picture is made. Its shell commands are run in order, in a directory with the sample data, and
the pictures that they draw are kept in docs/gallery; what stands below a command in a console block becomes what it
prints on a terminal of 100 columns. With DIR, all of it is written there and the page stays as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGE = "gallery.md"
PICTURES = "gallery"


def run(command: str, folder: Path) -> str:
    """What a command of calcli prints."""
    program, *words = shlex.split(command)
    if program != "calcli":
        sys.exit(f"not a command of calcli: {command}")
    env = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(DOCS.parent), "PYTHONIOENCODING": "utf-8"}
    command_line = [sys.executable, "-m", "calcli", *words]
    done = subprocess.run(command_line, cwd=folder, env=env, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        sys.exit(f"failed: {command}\n{done.stderr}")
    return done.stdout


def redrawn(text: str, folder: Path) -> str:
    """The page with its console blocks filled, after every command of its shell blocks has been run."""

    def block(found: re.Match[str]) -> str:
        commands = [line.removeprefix("$ ") for line in found[2].splitlines() if found[1] == "sh" or line[:2] == "$ "]
        printed = [run(command, folder) for command in commands if command]
        if found[1] == "sh":
            return found[0]
        return "```console\n" + "".join(f"$ {one}\n{out}" for one, out in zip(commands, printed, strict=True)) + "```\n"

    return re.sub(r"^```(sh|console)\n(.*?)^```\n", block, text, flags=re.DOTALL | re.MULTILINE)


def main(words: list[str]) -> int:
    """Draw everything; nothing is changed before all commands have succeeded."""
    target = Path(words[0]) if words else DOCS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(DOCS.parent / "sample_data", folder / "sample_data")
        (folder / PICTURES).mkdir()
        page = redrawn((DOCS / PAGE).read_text(encoding="utf-8"), folder)
        (target / PAGE).write_text(page, encoding="utf-8")
        shutil.rmtree(target / PICTURES, ignore_errors=True)
        shutil.copytree(folder / PICTURES, target / PICTURES)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
