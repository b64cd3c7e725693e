"""`load`: an artifact as a Python object that predicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.batch import Edges, FloatArray, SideInputs
from calcli.decisions.policy import Policy
from calcli.errors import ArtifactError, UsageError
from calcli.fitting.side_inputs import LoadedSideInputs, kept_sides, read_edges
from calcli.methods import catalog
from calcli.methods.calibrator import FittedMethod
from calcli.numeric.probing import damage
from calcli.places import Url
from calcli.state import Json, State
from calcli.tables.binding import bind
from calcli.tables.binding_types import NO_FLAGS, Binding, Flags
from calcli.tables.load import load as load_rows
from calcli.tables.source import Data, open_source
from calcli.version import DISTRIBUTION

THRESHOLD = "threshold"
"""The role of the policy of an artifact of this kind; its calibrator is kept beside it."""


@dataclass(frozen=True, slots=True)
class Model:
    """A calibrator as an artifact keeps it, with the binding of its columns.

    Attributes
    ----------
    binding
        The columns that predicting reads; the fit may have read more features.
    policy
        How decisions follow from its probabilities; None where it only calibrates.

    Examples
    --------
    >>> import calcli
    >>> model = calcli.load("train.platt")  # doctest: +SKIP
    >>> model.predict(frame)  # doctest: +SKIP
    array([0.12, 0.81, 0.44])
    """

    path: Path | Url | None
    manifest: Manifest
    binding: Binding
    sha256: str | None
    calibrator: FittedMethod
    policy: Policy | None = None

    @classmethod
    def of(
        cls, path: Path | Url | None, manifest: Manifest, fitted: Binding, sha256: str | None, calibrator: FittedMethod
    ) -> Model:
        """From the binding of the fit."""
        reads = calibrator.reads
        if reads is not None:
            fitted = replace(fitted, features=tuple(feature for feature in fitted.features if feature.name in reads))
        return cls(path, manifest, fitted, sha256, calibrator)

    @property
    def fitted_binding(self) -> Binding:
        """The binding of the fit, with all features."""
        return Binding.from_json(self.manifest.binding)

    def linked_by(self, edges: Edges) -> Model:
        """The same with another edge list, if it was fitted with one."""
        if self.calibrator.sides.edges is None:
            return self
        return replace(self, calibrator=replace(self.calibrator, sides=self.calibrator.sides | SideInputs(edges=edges)))

    @property
    def method(self) -> str:
        """The key of the method in the catalog."""
        return self.calibrator.spec.name

    @property
    def fitted(self) -> Mapping[str, Json]:
        """Time, data and parameters of the fit."""
        manifest = self.manifest
        return {
            "created": manifest.created,
            "rows": manifest.fit["rows"],
            "files": manifest.data["files"],
            "preset": manifest.preset,
            "params": manifest.params,
        }

    @property
    def needs_features(self) -> bool:
        """Whether predicting reads any."""
        return self.calibrator.spec.needs_features and self.calibrator.reads != ()

    def predict(self, data: Data, flags: Flags = NO_FLAGS, *, check_scale: bool = True) -> FloatArray:
        """Calibrated probabilities for the rows of a polars, pandas or pyarrow frame, or of files.

        Of the positive class, shape (n,), or for each class, shape (n, K), in the order of ``binding.classes``.
        A row without a usable score is an error, as ``calcli apply`` treats it. `flags` name the score where it is
        not in the column that the artifact was fitted on. `check_scale` refuses logits that look like probabilities,
        and the reverse.
        """
        with open_source(data) as source:
            binding = bind(source, flags, known=self.binding, need_label=False, features=self.needs_features)
            rows = load_rows(source, binding, features=self.needs_features, label=False, check_scale=check_scale)
        return self.calibrator.predict(rows.batch)

    def _repr_html_(self) -> str:
        """Itself in a notebook; the words for people stand above this room."""
        return str(import_module("calcli.reporting.notebook").of_model(self))

    @property
    def states(self) -> Mapping[str, State]:
        """What an artifact keeps of it, by role."""
        kept = LoadedSideInputs(self.calibrator.sides).kept(self.calibrator.spec)
        rule = {} if self.policy is None else {THRESHOLD: self.policy.to_state()}
        return {store.STATE: self.calibrator.to_state(), **kept, **rule}

    def save(self, path: str | Path | Url) -> None:
        """Keep it in a directory, or as the next generation of the artifact that is there."""
        store.write(path, self.manifest, self.states)

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[object, ...]]:
        """Pickle what an artifact keeps, so that a pickle holds numbers, and outlives the classes of this version."""
        manifest, files = store.pack(self.manifest, self.states)
        return _unpickled, (self.path, manifest.to_json(), {file.payload.name: file.data for file in files})


def _unpickled(path: Path | Url | None, manifest: bytes, payloads: Mapping[str, bytes]) -> Model:
    return replace(read_calibrator(store.unpack(manifest, payloads)), path=path)


def load(path: str | Path, *, edges: Data | None = None) -> Model:
    """Open an artifact directory. Every payload's hash is checked; nothing in it can run code.

    Parameters
    ----------
    path
        The directory.
    edges
        An edge list in place of that of the fit, for rows that are not in it.
    """
    return opened(store.read(path), edges=edges)


def opened(artifact: Artifact, *, edges: Data | None = None) -> Model:
    """The calibrator that an artifact holds; a damaged one is found by predicting with it. `edges` is as in `load`."""
    model = read_calibrator(artifact)
    try:
        model.calibrator.probe({feature.name: feature.role for feature in model.binding.features})
    except ArtifactError as error:
        raise ArtifactError(f"{artifact.path}: {error.message}", hint=error.hint) from error
    if edges is None:
        return model
    if model.calibrator.sides.edges is None:
        raise UsageError(f"{artifact.path} was not fitted with --edges", hint="leave it out")
    return model.linked_by(read_edges(edges)[0])


def read_calibrator(artifact: Artifact) -> Model:
    """The calibrator that an artifact holds."""
    manifest, path = artifact.manifest, artifact.path
    if manifest.kind not in ("calibrator", "policy"):
        raise ArtifactError(f"{path} is an {manifest.kind}, not a calibrator", hint="see: calcli uncertainty --help")
    if manifest.holds_intervals:
        raise ArtifactError(f"{path} predicts intervals of amounts, and no probabilities", hint="see: calcli apply")
    if manifest.method not in catalog.names():
        raise ArtifactError(
            f"{path} was fitted with the method {manifest.method!r} of calcli {manifest.calcli}, "
            "which this version does not have",
            hint=f"try: pip install --upgrade {DISTRIBUTION}",
        )
    with damage(path, f"a {manifest.method} artifact"):
        binding = Binding.from_json(manifest.binding)
        sides = kept_sides(artifact.states, manifest.sides)
        calibrator = replace(FittedMethod.from_state(manifest.method, artifact.state, sides), kept=True)
        if calibrator.classes != len(binding.classes):
            raise ValueError(f"it is of {calibrator.classes} classes, and the labels have {len(binding.classes)}")
        policy = Policy.from_state(artifact.states[THRESHOLD]) if manifest.kind == "policy" else None
        if policy is not None:
            policy.check(calibrator.classes)
    return replace(Model.of(path, manifest, binding, artifact.sha256, calibrator), policy=policy)
