"""The lowest versions that pyproject.toml admits, as constraints for pip: ``python tests/lowest.py > lowest.txt``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*>=\s*([^,;\s]+)")


def lowest(*extras: str) -> Iterator[str]:
    """``NAME==VERSION`` of each dependency, and of those of some extras."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    asked = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    for requirement in asked:
        found = _REQUIREMENT.match(requirement)
        if found is None:
            raise SystemExit(f"{requirement!r} has no lower bound")
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    print("\n".join(lowest("trees", "graphs", "plots", "test")))
