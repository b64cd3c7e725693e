"""The protocol of artifacts that are open. A kind of artifact is one class, and one line in `KINDS`.

Where an artifact decides, `Decider` and `DecisionRows` are how its rule is chosen, measured and chosen again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.batch import FloatArray
from calcli.errors import DataError, UsageError
from calcli.files import as_text
from calcli.methods.base import Section
from calcli.models.stream import ModelColumns
from calcli.places import Url, folder
from calcli.state import Json, State
from calcli.tables.binding_types import NO_FLAGS, Binding, Flags
from calcli.tables.source import Data, Source

if TYPE_CHECKING:  # `apply` decides nothing anew
    from calcli.decisions.goal import Choice, DecisionGoal
    from calcli.decisions.measure import Number, Promise, Promised
    from calcli.diagrams.charts import AtThresholds
    from calcli.models.held_out import Mask
    from calcli.models.recipe import Recipe
    from calcli.reports.schema import DataFacts
    from calcli.tables.load import Loaded

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Model(ABC):
    """An artifact that is open: where it is, its manifest, the columns that it reads, and the hash of its manifest."""

    path: Path | Url | None
    manifest: Manifest
    binding: Binding
    sha256: str | None

    def __repr__(self) -> str:
        reads = [*self.binding.score.columns, *(feature.name for feature in self.binding.features)]
        shown = f"{reads[:10]}" if len(reads) <= 10 else f"{reads[:10]} and {len(reads) - 10} more"
        return f"{type(self).__name__}({self.name!r}, method={self.method!r}, reads={shown})"

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
    def name(self) -> str:
        """Its directory; its method where it is kept nowhere."""
        return self.method if self.path is None else as_text(self.path)

    @property
    def row_by_row(self) -> bool:
        """Whether each row can be predicted without the others, as it is on a cluster."""
        return True

    @property
    def recipe(self) -> Recipe | None:
        """How the model is fitted again; None where it decides by what a table has, and there is nothing to fit."""
        return None

    @property
    def flags(self) -> Flags:
        """The flags of its fit."""
        return NO_FLAGS

    def bind(self, source: Source, flags: Flags) -> Binding:
        """The columns of rows with labels that the model reads."""
        raise UsageError(f"{self.name} cannot be measured on rows with labels")

    def judged(self, loaded: Loaded) -> JudgedRows:
        """The rows that were read by this binding, under the rule by which the model decides."""
        raise UsageError(f"{self.name} decides nothing")

    def save(self, path: str | Path | Url) -> None:
        """Keep it in a directory, or as the next generation of the artifact that is there."""
        store.write(path, self.manifest, self.states)


class JudgedRows(Protocol):
    """Labelled rows under a rule that decides about them."""

    @property
    def kind(self) -> str:
        """The kind of the rule."""
        ...

    def taken(self, mask: Mask) -> JudgedRows:
        """Some of the rows."""
        ...

    def measured(self, *, replicates: int, seed: int) -> tuple[dict[str, Number], Promise | None]:
        """The numbers of the rule, and the test of its promise."""
        ...

    def promised(self) -> list[Promised]:
        """The promises of the rule about these rows."""
        ...

    def paid(self) -> FloatArray | None:
        """The cost of each row under the rule; None where the rule was not chosen for costs."""
        ...


class DecisionRows(ABC):
    """Labelled rows on which a rule is chosen for a goal."""

    @abstractmethod
    def choose(self, seed: int) -> Choice:
        """The rule, and its alternatives."""

    def curves(self, choice: Choice) -> tuple[AtThresholds, ...]:
        """The numbers of pictures, of the score that decides and of the raw one."""
        return ()

    def saved(self, paid: FloatArray, mask: Mask, seed: int) -> FloatArray:
        """The costs that each of some rows saves under a rule chosen on others of them, where it has `paid` so much.

        They are 0 where no rule can be chosen, and where rules are not chosen for costs.
        """
        return np.zeros(len(paid))

    @abstractmethod
    def model(self, choice: Choice, data: DataFacts, seed: int) -> Model:
        """The artifact of a rule that was chosen on these rows."""


@dataclass(frozen=True, slots=True)
class Decider(ABC):
    """How rules for a goal are chosen: by a score, or about predicted amounts."""

    goal: DecisionGoal
    flags: Flags

    @classmethod
    @abstractmethod
    def of(cls, goal: DecisionGoal, flags: Flags, calibrator: Given | None, edges: Data | None) -> Self:
        """The decider of a goal; `calibrator` is the artifact whose probabilities decide, if one is given.

        `edges` is an edge list in place of that of its fit.
        """

    @property
    @abstractmethod
    def calibrator(self) -> Model | None:
        """The calibrator whose probabilities decide, if there is one."""

    @property
    @abstractmethod
    def features(self) -> bool:
        """Whether features are read."""

    @abstractmethod
    def bind(self, source: Source) -> Binding:
        """The columns that are read."""

    def remarks(self, source: Source, binding: Binding) -> Sequence[str]:
        """Notes on the rows of the table, before they are read."""
        return ()

    @abstractmethod
    def rows(self, loaded: Loaded, seed: int) -> DecisionRows:
        """The rows that choose."""


def check_reads(source: Source, reads: Sequence[str]) -> None:
    """Refuse a table without the columns that a policy reads."""
    if missing := [name for name in reads if name not in source.columns]:
        raise DataError(f"the policy reads a column that the table does not have: {missing[0]!r}")


KINDS = {
    ("calibrator", "scores"): ("calibrator", "CalibratorModel"),
    ("multi", "scores"): ("multi", "MultiModel"),
    ("policy", "scores"): ("calibrator", "CalibratorModel"),
    ("policy", "amounts"): ("intervals", "IntervalModel"),
}
"""The module beside this one, and its class, by the kind that a manifest names and what its predictions are of."""

DECIDERS = {"scores": ("policy", "ScoreDecider"), "amounts": ("intervals", "AmountDecider")}
"""The module and the class of a decider, by what it decides about."""


def model_in(artifact: Artifact) -> Model:
    """The model that an artifact holds, unprobed. A calibrator says of an artifact of no kind why it is none."""
    return _kind(artifact.manifest).read(artifact)


Given: TypeAlias = str | Path | Url | Model
"""An artifact, as a caller names it: a directory, or the model itself; ``DIR#LABEL`` is one of several labels."""


def artifact_of(given: Given) -> Artifact:
    """The artifact in a directory, or of a model."""
    if isinstance(given, Model):
        return Artifact(given.path or Path(given.name), given.manifest, given.states, given.sha256 or "")
    directory, mark, label = (given.text if isinstance(given, Url) else str(given)).rpartition("#")
    if not mark or store.exists(given):
        return store.read(given)
    return artifact_of(_named("multi", "MultiModel").read(store.read(directory)).member(label))


def name_of(given: Given) -> str:
    """The directory as text; of a model what it is called."""
    return given.name if isinstance(given, Model) else as_text(folder(given))


def kept_at(given: Given) -> Path | Url:
    """The directory of an artifact."""
    if not isinstance(given, Model):
        return folder(given)
    if given.path is None:
        raise UsageError("the model is kept in no directory", hint="keep it first: model.save(PATH)")
    return given.path


def open_model(given: Given) -> Model:
    """The model itself, or the one that a directory holds, after a trial prediction."""
    if isinstance(given, Model) and isinstance(given, _kind(given.manifest)):
        return given
    model = model_in(artifact_of(given))
    model.probe()
    return model


def decider_of(goal: DecisionGoal, flags: Flags, calibrator: Given | None = None, edges: Data | None = None) -> Decider:
    """The decider of a goal, by a score or about amounts; `calibrator` and `edges` are as in `Decider.of`."""
    decider: type[Decider] = _named(*DECIDERS["scores" if goal.intervals is None else "amounts"])
    return decider.of(goal, flags, calibrator, edges)


def _kind(manifest: Manifest) -> type[Model]:
    of = "amounts" if manifest.task == "regression" else "scores"
    kind: type[Model] = _named(*KINDS.get((manifest.kind, of), KINDS["calibrator", "scores"]))
    return kind


def _named(module: str, name: str) -> Any:
    return getattr(import_module(f"calcli.models.{module}"), name)
