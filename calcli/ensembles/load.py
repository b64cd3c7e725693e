"""Opening an ensemble."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.errors import ArtifactError, FitError
from calcli.fitting.side_inputs import kept_sides
from calcli.numeric.probing import BROKEN, PROBED, any_column
from calcli.state import State, unnest
from calcli.tables.binding import Binding
from calcli.tables.load import load as load_rows
from calcli.tables.source import Data, open_source
from calcli.tables.training_binding import bind_unscored
from calcli.uncertainty.decomposition import Decomposed, decompose
from calcli.uncertainty.ensemble import Ensemble
from calcli.uncertainty.ood import SeenColumn

PARTS = ("ensemble", "seen")
"""What the state of an ensemble's artifact is nested of."""


@dataclass(frozen=True, slots=True)
class EnsembleModel:
    """An ensemble as an artifact keeps it.

    Examples
    --------
    >>> import calcli
    >>> model = calcli.load_ensemble("clicks.sglb")  # doctest: +SKIP
    >>> model.predict(frame).knowledge  # doctest: +SKIP
    array([0.0012, 0.0541, 0.0008])
    """

    path: Path | None
    manifest: Manifest
    binding: Binding
    sha256: str | None
    ensemble: Ensemble
    seen: SeenColumn

    def predict(self, data: Data) -> Decomposed:
        """The members' mean and the uncertainty in its parts, for frames or files."""
        with open_source(data) as source:
            binding = bind_unscored(source, known=self.binding, need_label=False)
            rows = load_rows(source, binding, features=True, label=False)
        return decompose(self.ensemble.members(rows.batch.features))

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features, in order."""
        return tuple(feature.name for feature in self.binding.features)


def load_ensemble(path: str | Path) -> EnsembleModel:
    """Open an artifact directory. Every payload's hash is checked; nothing in it can run code."""
    return opened(store.read(Path(path)))


def opened(artifact: Artifact) -> EnsembleModel:
    """The ensemble that an artifact holds, once it has predicted something."""
    model = read_ensemble(artifact)
    try:
        _probe(model)
    except (*BROKEN, FitError) as error:
        raise _damaged(artifact.path, error) from error
    return model


def _probe(model: EnsembleModel) -> None:
    """Predict some rows: a state that is not one of an ensemble fails here."""
    features = {feature.name: any_column(feature.role) for feature in model.binding.features}
    found, classes = model.ensemble.members(features), len(model.binding.classes)
    shape = (PROBED, model.ensemble.count, *((classes,) if classes > 2 else ()))
    if found.mean.shape != shape or (found.variance is None) == (not classes):
        raise ValueError(f"its members predict {found.mean.shape} numbers, not {shape}")


def read_ensemble(artifact: Artifact) -> EnsembleModel:
    """The ensemble that an artifact holds."""
    manifest, path = artifact.manifest, artifact.path
    if manifest.kind != "ensemble":
        raise ArtifactError(
            f"{path} is a calibrator, not an ensemble", hint="calcli uncertainty fit makes ensembles; see: calcli apply"
        )
    try:
        parts = unnest(artifact.state, PARTS)
        theirs = kept_sides(artifact.states, manifest.sides).blobs.get("model")
        ensemble = Ensemble.from_state(with_model(parts["ensemble"], theirs))
        return EnsembleModel(
            path,
            manifest,
            Binding.from_json(manifest.binding),
            artifact.sha256,
            ensemble,
            SeenColumn.from_state(parts["seen"]),
        )
    except BROKEN as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ArtifactError:
    return ArtifactError(f"{path} does not hold what an ensemble holds: {type(error).__name__} {error}")


def with_model(state: State, theirs: bytes | None) -> State:
    """The state with the user's own model in it, which artifacts keep as a side input: as it was handed in."""
    return state if theirs is None else replace(state, blobs={"member-0.cbm": theirs})
