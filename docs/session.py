"""Draw docs/session.svg, the terminal session of the README: ``python docs/session.py``.

The commands are run in a pseudo-terminal of 80 columns on a copy of the sample data, and what they print is drawn as it
would appear. Needs a Unix.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 80
COMMANDS = (
    "calcli fit --method isotonic sample_data/train.parquet",
    "calcli apply train.isotonic sample_data/test.parquet -o - --output-format csv --keep row_id | head -3",
)


def run(command: str, folder: Path) -> str:
    """What a command prints on a terminal, with its colours."""
    scripts = sysconfig.get_path("scripts")
    env = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PATH": f"{scripts}:{os.environ['PATH']}"}
    env.pop("NO_COLOR", None)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, shell=True, cwd=folder, env=env, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # how Linux says that the other side was closed
            break
        if not part:
            break
        printed += part
    if process.wait() != 0:
        sys.exit(f"failed: {command}")
    return settled(printed.decode())


def settled(text: str) -> str:
    """What is left on the screen: without the bars that were drawn over."""
    text = re.sub(r"\x1b\[\?25[lh]", "", text.replace("\r\n", "\n"))
    text = re.sub(r"(?:\r|\x1b\[2K|\x1b\[1A)+[^\n]*?(?=\r|\x1b\[2K|\x1b\[1A)", "", text)
    return re.sub(r"\r|\x1b\[2K|\x1b\[1A", "", text)


def main() -> None:
    console = Console(record=True, width=COLUMNS + 2, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "sample_data", folder / "sample_data")
        for command in COMMANDS:
            console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
            console.print(Text.from_ansi(run(command, folder).strip("\n")))
            console.print()
    svg = console.export_svg(title="calcli", clear=False)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no picture loads fonts from elsewhere
    svg = svg.replace("Fira Code", "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas")
    (ROOT / "docs" / "session.svg").write_text(svg)


if __name__ == "__main__":
    main()
