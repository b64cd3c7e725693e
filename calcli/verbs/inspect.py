"""`inspect`: the description of an artifact, the data of its fit, its held-out metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.ensembles.load import read_ensemble
from calcli.errors import UsageError
from calcli.files import as_text
from calcli.fitting.intervals import opened_intervals
from calcli.fitting.model import read_calibrator
from calcli.methods import catalog
from calcli.methods.base import Section
from calcli.places import Url, folder
from calcli.state import Json
from calcli.tables.labels import class_text


@dataclass(frozen=True, slots=True)
class Inspection:
    """An artifact, read and checked.

    Attributes
    ----------
    numbers
        The fitted parameters, for methods that have a handful.
    arrays
        Shape of each fitted array.
    sections
        The learned rules, if they were requested.
    """

    path: Path | Url
    manifest: Manifest
    numbers: dict[str, Json]
    arrays: dict[str, tuple[int, ...]]
    sections: tuple[Section, ...] = ()

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
    if artifact.manifest.kind == "ensemble":
        return _ensemble(artifact, rules=rules)
    if artifact.manifest.holds_intervals:
        return Inspection(artifact.path, artifact.manifest, dict(opened_intervals(artifact).rule.to_state().params), {})
    model = read_calibrator(artifact)
    sections: tuple[Section, ...] = ()
    if rules:
        if not model.calibrator.spec.explains:
            users = ", ".join(row.name for row in catalog.specs() if row.explains)
            raise UsageError(
                f"{model.method} has no rules, clusters or trees to show",
                hint=f"methods that have some: {users}" if users else f"see: calcli inspect {path}",
            )
        sections = model.calibrator.explain([class_text(label) for label in model.binding.classes])
    state = model.calibrator.state
    shapes = {name: array.shape for name, array in state.arrays.items()}
    return Inspection(folder(path), model.manifest, dict(state.params), shapes, sections)


def _ensemble(artifact: Artifact, *, rules: bool) -> Inspection:
    """An ensemble; its trees are too many to be shown as rules or numbers."""
    if rules:
        raise UsageError(
            "an ensemble has no rules to show", hint="its models can be opened with CatBoost: they are the .cbm files"
        )
    read_ensemble(artifact)
    return Inspection(artifact.path, artifact.manifest, {}, {})
