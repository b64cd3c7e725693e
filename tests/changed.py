"""The tests that belong to what has changed since a commit: ``python tests/changed.py [COMMIT]``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def tests_of(path: Path) -> Path | None:
    """A test file itself; of a module, the tests of its room; None if there are none."""
    if path.parts[0] == "tests":
        return path if path.name.startswith("test_") and (ROOT / path).exists() else None
    if path.parts[0] != "calcli":
        return None
    room = ROOT / "tests" / path.parent.relative_to("calcli")
    while not any(room.glob("test_*.py")):
        room = room.parent
    return (room if room != ROOT / "tests" else room / "test_readme.py").relative_to(ROOT)


def main(since: str = "main") -> None:
    changed = subprocess.check_output(["git", "diff", "--name-only", since], cwd=ROOT, text=True).splitlines()
    found = {tests for name in changed if (tests := tests_of(Path(name))) is not None}
    print("\n".join(sorted(map(str, found | {Path("tests/test_layout.py")}))))


if __name__ == "__main__":
    main(*sys.argv[1:])
