"""A calibrator as an artifact keeps it, with or without a policy, and as a Python object that predicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import polars as pl
from numpy.typing import ArrayLike

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.batch import Edges, FloatArray, SideInputs
from calcli.errors import ArtifactError, UsageError
from calcli.homes import ShownInNotebook
from calcli.methods import catalog
from calcli.methods.calibrator import FittedMethod
from calcli.models.base import (
    RULE,
    ColumnOptions,
    Contents,
    Given,
    JudgedRows,
    Model,
    artifact_of,
    check_reads,
)
from calcli.models.columns import CalibratedColumns
from calcli.models.side_inputs import LoadedSideInputs, kept_sides, read_edges
from calcli.models.stream import ModelColumns
from calcli.parameters import names_parameters
from calcli.places import Url
from calcli.state import Json, State, damage_reported
from calcli.tables.binding import bind
from calcli.tables.binding_types import NO_FLAGS, Binding, Flags
from calcli.tables.labels import class_text
from calcli.tables.score_arrays import columns_of, holds_scores, scores_of
from calcli.tables.source import Data, Source, open_source
from calcli.version import DISTRIBUTION

if TYPE_CHECKING:  # what fits is imported where something is fitted, what decides where there is a policy
    from calcli.decisions.policy import Policy
    from calcli.models.recipe import Recipe
    from calcli.tables.load import Loaded


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CalibratorModel(Model, ShownInNotebook):
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

    calibrator: FittedMethod
    policy: Policy | None = None

    @classmethod
    def of(
        cls, path: Path | Url | None, manifest: Manifest, fitted: Binding, sha256: str | None, calibrator: FittedMethod
    ) -> CalibratorModel:
        """From the binding of the fit."""
        reads = calibrator.reads
        if reads is not None:
            fitted = replace(fitted, features=tuple(feature for feature in fitted.features if feature.name in reads))
        return cls(path, manifest, fitted, sha256, calibrator)

    @classmethod
    def read(cls, artifact: Artifact) -> CalibratorModel:
        manifest, path = artifact.manifest, artifact.path
        if manifest.kind == "multi":
            raise ArtifactError(
                f"{path} holds a calibrator for each of several labels, and this takes one",
                hint=f"name a label: '{path}#LABEL'; they are in: calcli inspect {path}",
            )
        if manifest.kind not in ("calibrator", "policy"):
            raise ArtifactError(
                f"{path} is an {manifest.kind}, not a calibrator", hint="see: calcli uncertainty --help"
            )
        if manifest.task == "regression":
            raise ArtifactError(f"{path} predicts intervals of amounts, and no probabilities", hint="see: calcli apply")
        if manifest.method not in catalog.names():
            raise ArtifactError(
                f"{path} was fitted with the method {manifest.method!r} of calcli {manifest.calcli}, "
                "which this version does not have",
                hint=f"try: pip install --upgrade {DISTRIBUTION}",
            )
        with damage_reported(path, f"a {manifest.method} artifact"):
            binding = Binding.from_json(manifest.binding)
            sides = kept_sides(artifact.states, manifest.sides)
            calibrator = replace(FittedMethod.from_state(manifest.method, artifact.state, sides), kept=True)
            if calibrator.classes != len(binding.classes):
                raise ValueError(f"it is of {calibrator.classes} classes, and the labels have {len(binding.classes)}")
            policy = None if manifest.kind == "calibrator" else _policy(artifact.states[RULE], calibrator.classes)
        return replace(cls.of(path, manifest, binding, artifact.sha256, calibrator), policy=policy)

    def probe(self) -> None:
        try:
            self.calibrator.probe({feature.name: feature.role for feature in self.binding.features})
        except ArtifactError as error:
            raise ArtifactError(f"{self.name}: {error.message}", hint=error.hint) from error

    def linked(self, edges: Data | None) -> CalibratorModel:
        """The model with an edge list in place of that of its fit."""
        if edges is None:
            return self
        if self.calibrator.sides.edges is None:
            raise UsageError(f"{self.name} was not fitted with --edges", hint="leave it out")
        return self.linked_by(read_edges(edges)[0])

    @property
    def fitted_binding(self) -> Binding:
        """The binding of the fit, with all features."""
        return Binding.from_json(self.manifest.binding)

    def linked_by(self, edges: Edges) -> CalibratorModel:
        """The model with another edge list, if it was fitted with one."""
        if self.calibrator.sides.edges is None:
            return self
        return replace(self, calibrator=replace(self.calibrator, sides=self.calibrator.sides | SideInputs(edges=edges)))

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

    @names_parameters
    def predict(self, data: Data | ArrayLike, flags: Flags = NO_FLAGS, *, check_scale: bool = True) -> FloatArray:
        """Calibrated probabilities for the rows of a polars, pandas or pyarrow frame, or of files, or for scores.

        Of the positive class, shape (n,), or for each class, shape (n, K), in the order of ``binding.classes``, as an
        array of scores is. A row without a usable score is an error, as ``calcli apply`` treats it. `flags` name the
        score where it is not in the column that the artifact was fitted on. `check_scale` refuses logits that look like
        probabilities, and the reverse.
        """
        from calcli.tables.load import load

        if holds_scores(data):
            if self.needs_features:
                features = ", ".join(feature.name for feature in self.binding.features[:8])
                raise UsageError(f"{self.name} reads features too: {features}", hint="predict a frame that has them")
            data = pl.DataFrame(columns_of(scores_of(data), self.binding))
        with open_source(cast("Data", data)) as source:
            binding = bind(source, flags, known=self.binding, need_label=False, features=self.needs_features)
            rows = load(source, binding, features=self.needs_features, label=False, check_scale=check_scale)
        return self.calibrator.predict(rows.batch)

    @property
    def row_by_row(self) -> bool:
        return not self.calibrator.whole_table

    @property
    def recipe(self) -> Recipe | None:
        recipe = self._recipe
        return None if self.policy is not None and recipe.method == "identity" else recipe

    @property
    def flags(self) -> Flags:
        return self._recipe.flags

    @property
    def _recipe(self) -> Recipe:
        from calcli.models.recipe import Recipe

        return Recipe.from_json(self.manifest.recipe)

    def bind(self, source: Source, flags: Flags) -> Binding:
        return bind(source, flags, known=self.binding, features=self.needs_features)

    def judged(self, loaded: Loaded) -> JudgedRows:
        from calcli.models.judged import judged

        if self.policy is None:
            return super().judged(loaded)
        batch = loaded.batch
        return judged(
            self.policy, self.binding, loaded, self.calibrator.predict(batch), batch.labels, batch.weight, batch.units
        )

    def columns(self, source: Source, flags: Flags, options: ColumnOptions) -> ModelColumns:
        binding = bind(source, flags, known=self.binding, need_label=False, features=self.needs_features)
        if self.policy is not None:
            source.find(*self.policy.rule.reads, known=True)
            check_reads(source, self.policy.rule.reads)
        return self._columns(binding, options, features=self.needs_features)

    def exported_columns(self, options: ColumnOptions) -> ModelColumns:
        return self._columns(self.binding, options, features=True)

    def _columns(self, binding: Binding, options: ColumnOptions, *, features: bool) -> ModelColumns:
        stem, scale, extra = options
        calibrated = CalibratedColumns(binding, stem, self.calibrator, scale, extra, features)
        if self.policy is None:
            return calibrated
        from calcli.models.decided import DecisionColumns

        return DecisionColumns(binding, calibrated, self.policy)

    def contents(self, *, rules: bool) -> Contents:
        spec, state = self.calibrator.spec, self.calibrator.state
        if rules and not spec.explains:
            users = ", ".join(row.name for row in catalog.specs() if row.explains)
            raise UsageError(
                f"{self.method} has no rules, clusters or trees to show",
                hint=f"methods that have some: {users}" if users else f"see: calcli inspect {self.name}",
            )
        sections = self.calibrator.explain([class_text(label) for label in self.binding.classes]) if rules else ()
        return Contents(state.params, {name: array.shape for name, array in state.arrays.items()}, sections)

    @property
    def states(self) -> Mapping[str, State]:
        """The payloads of the artifact, by role."""
        kept = LoadedSideInputs(self.calibrator.sides).kept(self.calibrator.spec)
        rule = {} if self.policy is None else {RULE: self.policy.to_state()}
        return {store.STATE: self.calibrator.to_state(), **kept, **rule}

    def __reduce__(self) -> tuple[Callable[..., CalibratorModel], tuple[object, ...]]:
        """Pickle what an artifact keeps, so that a pickle holds numbers, and outlives the classes of this version."""
        manifest, files = store.pack(self.manifest, self.states)
        return _unpickled, (self.path, manifest.to_json(), {file.payload.name: file.data for file in files})


def _policy(state: State, classes: int) -> Policy:
    from calcli.decisions.policy import Policy

    policy = Policy.from_state(state)
    policy.check(classes)
    return policy


def _unpickled(path: Path | Url | None, manifest: bytes, payloads: Mapping[str, bytes]) -> CalibratorModel:
    return replace(CalibratorModel.read(store.unpack(manifest, payloads)), path=path)


def load(path: Given, *, edges: Data | None = None) -> CalibratorModel:
    """Open an artifact directory. Every payload's hash is checked; nothing in it can run code.

    Parameters
    ----------
    path
        The directory; a model that is open is taken as it is.
    edges
        An edge list in place of that of the fit, for rows that are not in it.
    """
    if isinstance(path, CalibratorModel):
        return path.linked(edges)
    return opened(artifact_of(path), edges=edges)


def opened(artifact: Artifact, *, edges: Data | None = None) -> CalibratorModel:
    """The calibrator that an artifact holds, after a trial prediction. `edges` is as in `load`."""
    model = CalibratorModel.read(artifact)
    model.probe()
    return model.linked(edges)
