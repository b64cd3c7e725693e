"""Calibrators of several labels in one artifact: a calibrator for each label, and the columns that they add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from calcli.artifacts import store
from calcli.artifacts.manifest import MANIFEST
from calcli.artifacts.store import Artifact
from calcli.batch import FloatArray
from calcli.errors import ArtifactError, DataError, UsageError, unknown_name
from calcli.methods.base import Section
from calcli.models.base import ColumnOptions, Contents, Model
from calcli.models.calibrator import CalibratorModel
from calcli.models.columns import CalibratedColumns
from calcli.models.manifests import manifest_of
from calcli.models.stream import Computed, ModelColumns
from calcli.places import Url
from calcli.reports.schema import DataFacts
from calcli.state import Json, State, damage_reported, prefixed, unprefixed
from calcli.tables.arrays import Levels
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.pairs import flags_of_labels, joint_binding, name_of_labels
from calcli.tables.source import Data, Source

if TYPE_CHECKING:  # `apply` and `evaluate` fit and export nothing
    from calcli.expressions import Term
    from calcli.models.recipe import Recipe

SEVERAL = "several"
"""The method of an artifact whose labels have several."""

_SHARED = ("calcli", "created", "versions", "data")
"""The keys that the manifest of the whole has for all labels, so that payloads hold no times, versions and paths."""

_WHAT = "an artifact of several labels"


@dataclass(frozen=True, slots=True)
class MultiColumns(ModelColumns):
    """The columns of the calibrators of all labels."""

    members: tuple[CalibratedColumns, ...]

    task, rename = CalibratedColumns.task, CalibratedColumns.rename

    @property
    def whole_table(self) -> bool:
        return any(member.whole_table for member in self.members)

    @property
    def reads(self) -> list[str]:
        return list(dict.fromkeys(column for member in self.members for column in member.reads))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for member in self.members for name in member.names)

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        """The columns of each label, whose bad rows are those of its own score."""
        parts = [member.compute(rows, levels) for member in self.members]
        bad = None
        if any(part.bad is not None for part in parts):
            of_parts = (np.zeros(len(rows), dtype=np.bool_) if part.bad is None else part.bad for part in parts)
            repeats = [len(member.names) for member in self.members]
            bad = np.repeat(np.column_stack([*of_parts]), repeats, axis=1)
        return Computed([values for part in parts for values in part.values], bad)

    def formulas(self) -> dict[str, Term]:
        return {name: term for member in self.members for name, term in member.formulas().items()}

    def doubt(self, source: Source) -> str | None:
        return next(filter(None, (member.doubt(source) for member in self.members)), None)

    def remarks(self, source: Source) -> Sequence[str]:
        return list(dict.fromkeys(remark for member in self.members for remark in member.remarks(source)))

    def refuse_bad_rows(self, source: Source) -> None:
        for member in self.members:
            try:
                member.refuse_bad_rows(source)
            except DataError as error:
                score = ", ".join(member.binding.score.columns)
                raise DataError(f"{error.message} (the score {score!r})", hint=error.hint) from error


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MultiModel(Model):
    """The calibrators of several labels as an artifact keeps them.

    Attributes
    ----------
    members
        The calibrator of each label, by its name.

    Examples
    --------
    >>> import calcli
    >>> model = calcli.fit(frame, multi=("label_*", "score_*")).model  # doctest: +SKIP
    >>> model.members["spam"].predict(frame)  # doctest: +SKIP
    array([0.12, 0.81, 0.44])
    """

    members: Mapping[str, CalibratorModel]

    @classmethod
    def of(
        cls,
        path: Path | Url | None,
        members: Mapping[str, CalibratorModel],
        recipe: Recipe,
        data: DataFacts,
        seed: int,
    ) -> MultiModel:
        """The model of calibrators that were fitted by one recipe."""
        manifests = [member.manifest for member in members.values()]
        methods = {manifest.method for manifest in manifests}
        binding = joint_binding(name_of_labels(recipe.flags), [one.binding for one in members.values()])
        longest = max(manifests, key=lambda one: int(str(one.fit["rows"])))
        manifest = manifest_of(
            data,
            binding,
            kind="multi",
            task="binary",
            method=methods.pop() if len(methods) == 1 else SEVERAL,
            requested=recipe.method,
            preset=recipe.preset,
            params={},
            seed=seed,
            recipe=recipe.to_json(),
            fit={"holdout": longest.fit["holdout"], "before": {}, "after": {}, "difference": {}},
            definitions=longest.definitions,
            sides=(),
            contains_rows=any(manifest.contains_rows for manifest in manifests),
        )
        return cls(path, manifest, binding, None, dict(members))

    @classmethod
    def read(cls, artifact: Artifact) -> MultiModel:
        path, members = artifact.path, {}
        shared: dict[str, Any] = {key: getattr(artifact.manifest, key) for key in _SHARED}
        if artifact.manifest.kind != "multi":
            raise ArtifactError(f"{path} holds no calibrators of several labels", hint=f"see: calcli inspect {path}")
        with damage_reported(path, _WHAT):
            names, blobs = artifact.state.params["labels"], artifact.state.blobs
            if not isinstance(names, list) or not names or len({*map(str, names)}) < len(names):
                raise ValueError(f"its labels are {names!r}")
            for place, name in enumerate(map(str, names)):
                files = unprefixed(str(place), blobs)
                try:
                    one = store.unpack(files.pop(MANIFEST), files)
                    member = CalibratorModel.read(replace(one, manifest=replace(one.manifest, **shared)))
                except ArtifactError as error:
                    raise ArtifactError(f"{path}, label {name!r}: {error.message}", hint=error.hint) from error
                if member.policy is not None or len(member.binding.classes) != 2:
                    raise ValueError(f"the label {name!r} has no calibrator of two classes")
                members[name] = replace(member, path=_address(path, name))
            label = Binding.from_json(artifact.manifest.binding).label
            binding = joint_binding(str(label), [one.binding for one in members.values()])
        return cls(path, artifact.manifest, binding, artifact.sha256, members)

    def probe(self) -> None:
        for member in self.members.values():
            member.probe()

    def linked(self, edges: Data | None) -> MultiModel:
        return replace(self, members={name: member.linked(edges) for name, member in self.members.items()})

    def member(self, label: str) -> CalibratorModel:
        """The calibrator of one label."""
        if label not in self.members:
            raise UsageError(f"{self.name}: {unknown_name('label', label, self.members)}")
        return self.members[label]

    @property
    def bindings(self) -> dict[str, Binding]:
        """The columns of each label."""
        return {name: member.binding for name, member in self.members.items()}

    @property
    def row_by_row(self) -> bool:
        return all(member.row_by_row for member in self.members.values())

    @property
    def states(self) -> dict[str, State]:
        blobs: dict[str, bytes] = {}
        for place, member in enumerate(self.members.values()):
            draft = replace(member.manifest, calcli="", created="", versions={}, data={})
            manifest, files = store.pack(draft, member.states)
            content = {MANIFEST: manifest.to_json()} | {file.payload.name: file.data for file in files}
            blobs |= prefixed(str(place), content)
        return {store.STATE: State({"labels": [*self.members]}, blobs=blobs)}

    def columns(self, source: Source, flags: Flags, options: ColumnOptions) -> MultiColumns:
        named = flags_of_labels(source, flags, self.bindings, need_label=False)
        options_of = {name: _named(options, name) for name in named}
        return self._columns(self.members[name].columns(source, one, options_of[name]) for name, one in named.items())

    def exported_columns(self, options: ColumnOptions) -> MultiColumns:
        return self._columns(one.exported_columns(_named(options, name)) for name, one in self.members.items())

    def _columns(self, members: Iterable[ModelColumns]) -> MultiColumns:
        columns = tuple(one for one in members if isinstance(one, CalibratedColumns))
        return MultiColumns(joint_binding(str(self.binding.label), [one.binding for one in columns]), columns)

    def predict(self, data: Data) -> FloatArray:
        """Calibrated probabilities for the rows of a frame or of files, shape (n, labels), as `members` are ordered."""
        return np.column_stack([member.predict(data) for member in self.members.values()])

    def contents(self, *, rules: bool) -> Contents:
        """A line for each label, with the log-loss on held-out rows before and after."""
        if rules:
            raise UsageError(
                "each label has rules of its own", hint=f"name a label: {self.name}#{next(iter(self.members))}"
            )
        rows = [(name, *_line(member)) for name, member in self.members.items()]
        return Contents(sections=[Section("labels", ("label", "score", "method", "rows", *_LOSSES), tuple(rows))])


_LOSSES = ("nll before", "nll after")


def _line(member: CalibratorModel) -> tuple[Json, ...]:
    """The score, the method, the rows of the fit, and the log-loss before and after on held-out rows."""
    fit = member.manifest.fit
    parts = (fit.get(part) for part in ("before", "after"))
    losses = [part.get("nll") if isinstance(part, dict) else None for part in parts]
    return ", ".join(member.binding.score.columns), member.method, fit.get("rows"), *losses


def _address(path: Path | Url, label: str) -> Path | Url:
    """The name of the calibrator of one label."""
    return Url(f"{path.text}#{label}") if isinstance(path, Url) else Path(f"{path}#{label}")


def _named(options: ColumnOptions, label: str) -> ColumnOptions:
    return options._replace(stem=f"{options.stem}_{label}")
