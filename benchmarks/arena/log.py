"""What was measured, a line of JSON for each method and file, written as it comes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from board import Board, Result


class Log:
    """It goes on where it was left."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        for line in lines:
            entry = json.loads(line)
            self._found[entry["file"], entry["method"]] = entry

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._found

    def add(self, entry: dict[str, Any]) -> None:
        self._found[entry["file"], entry["method"]] = entry
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def by_chance(self, file: str) -> float | None:
        """The error of the worst segment of a file where probabilities are right, if it is known."""
        return next((one["by_chance"] for (name, _), one in self._found.items() if name == file), None)

    def earlier(self) -> set[str]:
        """The methods of which something was measured by an earlier run."""
        return {one["method"] for one in self._found.values() if "earlier" in one}

    def board(self, groups: Mapping[str, str], methods: Collection[str]) -> Board:
        """What is known of these methods on these files, in their order, each with its group."""
        place = {file: index for index, file in enumerate(groups)}
        asked = [entry for entry in self._found.values() if entry["file"] in groups and entry["method"] in methods]
        return Board(
            Result(
                groups[one["file"]],
                one["file"],
                one["method"],
                one["by_chance"],
                one.get("values"),
                one.get("reason", ""),
            )
            for one in sorted(asked, key=lambda one: place[one["file"]])
        )
