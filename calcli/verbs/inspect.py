"""`inspect`: the description of an artifact, the data of its fit, its held-out metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.ensembles.load import EnsembleModel
from calcli.files import as_text
from calcli.methods.base import Section
from calcli.models import kinds
from calcli.places import Url, folder
from calcli.state import Json


@dataclass(frozen=True, slots=True)
class Inspection:
    """An artifact, read and checked."""

    path: Path | Url
    manifest: Manifest
    numbers: dict[str, Json]
    """The fitted parameters, for methods that have a handful."""

    arrays: dict[str, tuple[int, ...]]
    """Shape of each fitted array."""

    sections: tuple[Section, ...] = ()
    """The learned rules, if they were requested."""

    def to_json(self) -> dict[str, Json]:
        """The manifest, and the fitted state."""
        shapes: dict[str, Json] = {name: list(shape) for name, shape in self.arrays.items()}
        plain: dict[str, Json] = {
            "schema": "calcli.inspection/1",
            "artifact": as_text(self.path),
            "manifest": self.manifest.as_dict(),
            "fitted": {"params": self.numbers, "arrays": shapes},
        }
        if self.sections:
            plain["rules"] = [
                {
                    "title": section.title,
                    "note": section.note,
                    "rows": [dict(zip(section.columns, row, strict=True)) for row in section.rows],
                }
                for section in self.sections
            ]
        return plain


def inspect(path: str | Path, *, rules: bool = False) -> Inspection:
    """Read an artifact, check every hash, and describe it; with `rules`, with all that was learned."""
    artifact = store.read(path)
    model = EnsembleModel.read(artifact) if artifact.manifest.kind == "ensemble" else kinds.read(artifact)
    numbers, arrays, sections = model.contents(rules=rules)
    return Inspection(folder(path), model.manifest, dict(numbers), dict(arrays), tuple(sections))
