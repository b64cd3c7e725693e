"""Opening the artifact of an ensemble."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from calcli.artifacts import store
from calcli.artifacts.store import Artifact
from calcli.ensembles.columns import PredictedColumns
from calcli.errors import ArtifactError, FitError, UsageError
from calcli.fitting.side_inputs import kept_sides
from calcli.models.base import ColumnOptions, Contents, Model
from calcli.numeric.probing import BROKEN, PROBED, any_column, damage
from calcli.state import State, nest, unnest
from calcli.tables.binding import bind_unscored
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.labels import class_text
from calcli.tables.load import load as load_rows
from calcli.tables.source import Data, Source, open_source
from calcli.uncertainty.decomposition import Decomposed, decompose
from calcli.uncertainty.ensemble import Ensemble
from calcli.uncertainty.ood import SeenFeatures

PARTS = ("ensemble", "seen")
"""The parts of an artifact's state: the models, and the scale and values of their features."""


@dataclass(frozen=True, slots=True)
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
        with damage(self.path, "an ensemble", (*BROKEN, FitError)):
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


def load_ensemble(path: str | Path) -> EnsembleModel:
    """Open an artifact directory. Every payload's hash is checked; nothing in it can run code."""
    return opened(store.read(path))


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
    with damage(path, "an ensemble"):
        parts = unnest(artifact.state, PARTS)
        state = parts["ensemble"]
        user_model = kept_sides(artifact.states, manifest.sides).blobs.get("model")
        if user_model is not None:  # it is kept beside the state, as it was handed in
            state = replace(state, blobs={"member-0.cbm": user_model})
        ensemble, seen = Ensemble.from_state(state), SeenFeatures.from_state(parts["seen"])
        return EnsembleModel(path, manifest, Binding.from_json(manifest.binding), artifact.sha256, ensemble, seen)
