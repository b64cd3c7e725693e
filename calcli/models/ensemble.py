"""An ensemble as an artifact keeps it, and the columns that `uncertainty apply` and `uncertainty decompose` add."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from calcli.artifacts import store
from calcli.artifacts.store import Artifact
from calcli.batch import FloatArray
from calcli.errors import ArtifactError, FitError, UsageError
from calcli.models.base import ColumnOptions, Contents, Given, Model, artifact_of
from calcli.models.side_inputs import kept_sides
from calcli.models.stream import AddedColumns, Computed, ModelColumns
from calcli.parameters import names_parameters
from calcli.state import BROKEN, PROBED, State, any_column, damage_reported, nest, unnest
from calcli.tables.arrays import Levels
from calcli.tables.binding import bind_unscored
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.checks import bound_columns, encode
from calcli.tables.labels import class_text
from calcli.tables.load import load as load_rows
from calcli.tables.side_tables import MemberColumns, encode_members, refuse_bad_members
from calcli.tables.source import Data, Source, open_source
from calcli.uncertainty.decomposition import (
    Decomposed,
    Members,
    SeenFeatures,
    decompose,
    expected_kl,
    reverse_information,
)
from calcli.uncertainty.ensemble import Ensemble

STEM = "uncertainty"


@dataclass(frozen=True, kw_only=True)
class UncertaintyColumns(AddedColumns):
    """The columns that are computed from the members' predictions."""

    classes: tuple[str, ...] = ()
    """Their names, where each has a column; none for two classes and for amounts."""

    regression: bool = False
    """Whether amounts are predicted."""

    model: bool = False
    """Whether the whole model's own prediction is among them, as of a virtual ensemble."""

    extra: bool = False
    """More measures of disagreement: ``epkl``, the expected divergence of one member from another, and ``rmi``, the
    same less knowledge uncertainty. The second is of classes alone, where both are in nats.
    """

    @property
    def names(self) -> tuple[str, ...]:
        parts = tuple(f"{STEM}_{part}" for part in ("total", "data", "knowledge"))
        model = self._of_classes("model") if self.model else ()
        return (*self._of_classes("mean"), *parts, *model, *(f"{STEM}_{name}" for name in self._extras))

    @property
    def _extras(self) -> tuple[str, ...]:
        if not self.extra:
            return ()
        return ("epkl",) if self.regression else ("epkl", "rmi")

    def _of_classes(self, part: str) -> tuple[str, ...]:
        return tuple(f"{STEM}_{part}_{name}" for name in self.classes) or (f"{STEM}_{part}",)

    def values(self, members: Members) -> list[FloatArray]:
        parts = decompose(members)
        values = [parts.mean, parts.total, parts.data, parts.knowledge]
        if self.model:
            values.append(members.only(-1).mean[:, 0])
        if self.extra:
            divergence = expected_kl(members, parts)
            values += [divergence, reverse_information(parts, divergence)][: len(self._extras)]
        return values


@dataclass(frozen=True, kw_only=True)
class PredictedColumns(UncertaintyColumns, ModelColumns):
    """From the predictions of an ensemble."""

    ensemble: Ensemble

    @property
    def reads(self) -> list[str]:
        return bound_columns(self.binding, label=False, features=True)

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        if not len(rows):  # CatBoost takes no empty pool
            return Computed([np.empty(0) for _ in self.names])
        encoded = encode(rows, self.binding, label=False, features=True, levels=levels)
        return Computed(self.values(self.ensemble.members(encoded.batch.features)))


@dataclass(frozen=True, kw_only=True)
class DecomposedColumns(UncertaintyColumns):
    """From predictions of members that are in the table."""

    members: MemberColumns

    task = "decomposing"

    def refuse_bad_rows(self, source: Source) -> None:
        refuse_bad_members(source, self.members)

    @property
    def reads(self) -> list[str]:
        return self.members.names

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        encoded = encode_members(rows, self.members)
        return Computed(self.values(Members(encoded.mean, encoded.variance)), encoded.bad)


PARTS = ("ensemble", "seen")
"""The parts of an artifact's state: the models, and the scale and values of their features."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EnsembleModel(Model):
    """An ensemble as an artifact keeps it.

    Examples
    --------
    >>> import calcli
    >>> model = calcli.load_ensemble("clicks.sglb")  # doctest: +SKIP
    >>> model.predict(frame).knowledge  # doctest: +SKIP
    array([0.0012, 0.0541, 0.0008])
    """

    ensemble: Ensemble
    seen: SeenFeatures

    @names_parameters
    def predict(self, data: Data) -> Decomposed:
        """The members' mean and the uncertainty in its parts, for frames or files."""
        with open_source(data) as source:
            binding = bind_unscored(source, known=self.binding, need_label=False)
            rows = load_rows(source, binding, features=True, label=False)
        return decompose(self.ensemble.members(rows.batch.features))

    @classmethod
    def read(cls, artifact: Artifact) -> EnsembleModel:
        return read_ensemble(artifact)

    def probe(self) -> None:
        """Refuse an ensemble whose models do not predict what its manifest says."""
        with damage_reported(self.path, "an ensemble", (*BROKEN, FitError)):
            features = {feature.name: any_column(feature.role) for feature in self.binding.features}
            members, classes = self.ensemble.members(features), len(self.binding.classes)
            shape = (PROBED, self.ensemble.count, *((classes,) if classes > 2 else ()))
            if members.mean.shape != shape or (members.variance is None) == (not classes):
                raise ValueError(f"its members predict {members.mean.shape} numbers, not {shape}")

    def columns(self, source: Source, flags: Flags, options: ColumnOptions) -> PredictedColumns:
        return self._columns(bind_unscored(source, flags, known=self.binding, need_label=False), options)

    def exported_columns(self, options: ColumnOptions) -> PredictedColumns:
        return self._columns(self.binding, options)

    def _columns(self, binding: Binding, options: ColumnOptions) -> PredictedColumns:
        return PredictedColumns(
            binding=binding,
            ensemble=self.ensemble,
            classes=tuple(map(class_text, binding.classes)) if len(binding.classes) > 2 else (),
            regression=binding.regression,
            model=self.ensemble.virtual,
            extra=options.extra,
        )

    def contents(self, *, rules: bool) -> Contents:
        """Nothing: its trees are too many to be shown as rules or numbers."""
        if rules:
            raise UsageError(
                "an ensemble has no rules to show",
                hint="its models can be opened with CatBoost: they are the .cbm files",
            )
        return Contents()

    @property
    def states(self) -> dict[str, State]:
        ensemble, seen = self.ensemble.to_state(), self.seen.to_state()
        if not any(side["role"] == "model" for side in self.manifest.sides):
            return {store.STATE: nest({"ensemble": ensemble, "seen": seen})}
        # A user's model is kept unchanged, as its hash is its identity.
        state = nest({"ensemble": replace(ensemble, blobs={}), "seen": seen})
        return {store.STATE: state, "model": State(blobs={"model.cbm": self.ensemble.files[0]})}

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features, in order."""
        return tuple(feature.name for feature in self.binding.features)


def load_ensemble(path: Given) -> EnsembleModel:
    """Open an artifact directory. Every payload's hash is checked; nothing in it can run code."""
    return path if isinstance(path, EnsembleModel) else opened(artifact_of(path))


def opened(artifact: Artifact) -> EnsembleModel:
    """The ensemble that an artifact holds, after a trial prediction: a state that is not one of an ensemble fails."""
    model = read_ensemble(artifact)
    model.probe()
    return model


def read_ensemble(artifact: Artifact) -> EnsembleModel:
    """The ensemble that an artifact holds."""
    manifest, path = artifact.manifest, artifact.path
    if manifest.kind != "ensemble":
        raise ArtifactError(
            f"{path} is a calibrator, not an ensemble", hint="calcli uncertainty fit makes ensembles; see: calcli apply"
        )
    with damage_reported(path, "an ensemble"):
        parts = unnest(artifact.state, PARTS)
        state = parts["ensemble"]
        user_model = kept_sides(artifact.states, manifest.sides).blobs.get("model")
        if user_model is not None:  # it is kept beside the state, as it was handed in
            state = replace(state, blobs={"member-0.cbm": user_model})
        ensemble, seen = Ensemble.from_state(state), SeenFeatures.from_state(parts["seen"])
        return EnsembleModel(path, manifest, Binding.from_json(manifest.binding), artifact.sha256, ensemble, seen)
