"""`inspect`: what an artifact is, on what it was fitted, how good it was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from calcli.artifacts.manifest import Manifest
from calcli.state import Json
from calcli.verbs.load import load


@dataclass(frozen=True, slots=True)
class Inspection:
    """An artifact, read and checked.

    Attributes
    ----------
    numbers
        The fitted parameters, for methods that have a handful.
    arrays
        Shape of each fitted array.
    """

    path: Path
    manifest: Manifest
    numbers: dict[str, Json]
    arrays: dict[str, tuple[int, ...]]

    def to_json(self) -> dict[str, Json]:
        """The manifest, and what was fitted."""
        shapes: dict[str, Json] = {name: list(shape) for name, shape in self.arrays.items()}
        return {
            "schema": "calcli.inspection/1",
            "artifact": str(self.path),
            "manifest": self.manifest.as_dict(),
            "fitted": {"params": self.numbers, "arrays": shapes},
        }


def inspect(path: str | Path) -> Inspection:
    """Read an artifact, check every hash, and say what it holds."""
    model = load(path)
    state = model.calibrator.state
    shapes = {name: array.shape for name, array in state.arrays.items()}
    return Inspection(Path(path), model.manifest, dict(state.params), shapes)
