"""The protocol of artifacts that are open. A kind of artifact is one class, and one line in `KINDS`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple, Self, TypeAlias

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.errors import DataError
from calcli.methods.base import Section
from calcli.models.stream import ModelColumns
from calcli.places import Url
from calcli.state import Json, State
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.source import Data, Source

Scale: TypeAlias = Literal["prob", "logit"]

RULE = "threshold"
"""The role of the payload in which an artifact of the kind ``policy`` keeps how it decides."""


class ColumnOptions(NamedTuple):
    """How the added columns are called, and what they hold."""

    stem: str = "calibrated"
    """Their name, before the names of classes and parts."""

    scale: Scale = "prob"
    """Probabilities, or log-odds."""

    extra: bool = False
    """Whether there are more of them: whatever else the model can say of a row."""


class Contents(NamedTuple):
    """The parts of a model that `inspect` shows beside the manifest: a few numbers, the shapes of arrays, rules."""

    numbers: Mapping[str, Json] = {}
    arrays: Mapping[str, tuple[int, ...]] = {}
    sections: Sequence[Section] = ()


@dataclass(frozen=True, slots=True)
class Model(ABC):
    """An artifact that is open: where it is, its manifest, the columns that it reads, and the hash of its manifest."""

    path: Path | Url | None
    manifest: Manifest
    binding: Binding
    sha256: str | None

    @classmethod
    @abstractmethod
    def read(cls, artifact: Artifact) -> Self:
        """The model that an artifact of this kind holds."""

    @abstractmethod
    def probe(self) -> None:
        """Refuse a damaged model, which is found by predicting with it."""

    def linked(self, edges: Data | None) -> Model:
        """The model with an edge list in place of that of its fit; `edges` is None where there is no other."""
        return self

    @abstractmethod
    def columns(self, source: Source, flags: Flags, options: ColumnOptions) -> ModelColumns:
        """The columns that it adds to this table."""

    @abstractmethod
    def exported_columns(self, options: ColumnOptions) -> ModelColumns:
        """The columns that it adds to a table like that of its fit."""

    @abstractmethod
    def contents(self, *, rules: bool) -> Contents:
        """The parts that `inspect` shows, with the rules that were learned if `rules` is set."""

    @property
    @abstractmethod
    def states(self) -> Mapping[str, State]:
        """The payloads of the artifact, by role."""

    @property
    def method(self) -> str:
        """The method that made it."""
        return self.manifest.method

    @property
    def row_by_row(self) -> bool:
        """Whether each row can be predicted without the others, as it is on a cluster."""
        return True

    def save(self, path: str | Path | Url) -> None:
        """Keep it in a directory, or as the next generation of the artifact that is there."""
        store.write(path, self.manifest, self.states)


def check_reads(source: Source, reads: Sequence[str]) -> None:
    """Refuse a table without the columns that a policy reads."""
    if missing := [name for name in reads if name not in source.columns]:
        raise DataError(f"the policy reads a column that the table does not have: {missing[0]!r}")


KINDS = {
    ("calibrator", "scores"): ("calibrator", "CalibratorModel"),
    ("policy", "scores"): ("calibrator", "CalibratorModel"),
    ("policy", "amounts"): ("intervals", "IntervalModel"),
}
"""The module beside this one, and its class, by the kind that a manifest names and what its predictions are of."""


def model_in(artifact: Artifact) -> Model:
    """The model that an artifact holds, unprobed. A calibrator says of an artifact of no kind why it is none."""
    model: Model = _kind(artifact.manifest).read(artifact)
    return model


def open_model(artifact: Artifact) -> Model:
    """The model that an artifact holds, after a trial prediction."""
    model = model_in(artifact)
    model.probe()
    return model


def _kind(manifest: Manifest) -> type[Model]:
    of = "amounts" if manifest.task == "regression" else "scores"
    module, name = KINDS.get((manifest.kind, of), KINDS["calibrator", "scores"])
    kind: type[Model] = getattr(import_module(f"calcli.models.{module}"), name)
    return kind
