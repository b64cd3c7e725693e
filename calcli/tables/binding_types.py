"""Which column plays which part: the words in which a binding is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from calcli.batch import Role

Label: TypeAlias = bool | int | str
LabelType: TypeAlias = Literal["int", "bool", "string", "float"]
ScoreKind: TypeAlias = Literal["logit", "prob"]


@dataclass(frozen=True)
class Flags:
    """What the command line says about columns; None and () where it says nothing."""

    label: str | None = None
    prob: str | None = None
    logit: str | None = None
    weight: str | None = None
    positive: str | None = None
    features: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    node_id: str | None = None


NO_FLAGS = Flags()


@dataclass(frozen=True)
class Score:
    """The columns that hold the prediction: one for the positive class, or one for each class, in class order."""

    kind: ScoreKind
    columns: tuple[str, ...]


NO_SCORE = Score("prob", ())
"""Of a table that a model is to be trained on, or applied to."""


@dataclass(frozen=True)
class Feature:
    """A column that calibration may depend on; `dtype` is what polars calls its type."""

    name: str
    role: Role
    dtype: str


@dataclass(frozen=True)
class Dropped:
    """A column that is no feature, and why."""

    column: str
    reason: str


@dataclass(frozen=True)
class Binding:
    """Which column plays which part.

    Attributes
    ----------
    label
        None where the labels are not known, or not asked for.
    label_type
        Of the label in the table that the classes were found in; "float" is integers written as floats.
    classes
        In the order of the class index, sorted unless the flags order them. None at all where the label is an amount,
        for a regression to predict.
    positive
        The class that a binary score speaks of; None for more than two classes.
    node_id
        The column with the ids by which an edge list knows the rows, if there is one.
    notes
        What was decided where there was a choice, in sentences.
    """

    label: str | None
    label_type: LabelType
    classes: tuple[Label, ...]
    positive: Label | None
    score: Score
    weight: str | None = None
    features: tuple[Feature, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    node_id: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def binary(self) -> bool:
        return len(self.classes) == 2

    @property
    def regression(self) -> bool:
        return not self.classes

    def to_json(self) -> dict[str, Any]:
        """The ``binding`` object of reports and manifests."""
        return {
            "label": self.label,
            "label_type": self.label_type,
            "positive": self.positive,
            "classes": list(self.classes),
            "score": {"kind": self.score.kind, "columns": list(self.score.columns)},
            "weight": self.weight,
            "features": [feature.name for feature in self.features],
            "feature_types": [{"role": feature.role, "dtype": feature.dtype} for feature in self.features],
            "dropped": [{"column": gone.column, "reason": gone.reason} for gone in self.dropped],
            "node_id": self.node_id,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, d: Mapping[str, Any]) -> Binding:
        """The binding that `to_json` wrote; keys that it does not know are ignored."""
        found = cls(
            label=d["label"],
            label_type=d["label_type"],
            classes=tuple(d["classes"]),
            positive=d["positive"],
            score=Score(d["score"]["kind"], tuple(d["score"]["columns"])),
            weight=d["weight"],
            features=tuple(
                Feature(name, kind["role"], kind["dtype"])
                for name, kind in zip(d["features"], d["feature_types"], strict=True)
            ),
            dropped=tuple(Dropped(gone["column"], gone["reason"]) for gone in d["dropped"]),
            node_id=d.get("node_id"),
            notes=tuple(d.get("notes", ())),
        )
        found._check()
        return found

    def _check(self) -> None:
        """A `ValueError` where a value is not of the kind that it should be: somebody wrote it."""
        names = [*self.score.columns, *(feature.name for feature in self.features), *self.notes]
        names += [text for feature in self.features for text in (feature.role, feature.dtype)]
        names += [text for gone in self.dropped for text in (gone.column, gone.reason)]
        names += [name for name in (self.label, self.weight, self.node_id) if name is not None]
        labels = [*self.classes, *([] if self.positive is None else [self.positive])]
        if not all(isinstance(name, str) for name in names) or not all(isinstance(one, Label) for one in labels):
            raise ValueError("the binding names columns or classes by what is no name")
        if self.label_type not in get_args(LabelType) or self.score.kind not in get_args(ScoreKind):
            raise ValueError("the binding is of labels or scores that are not known")
        if any(feature.role not in get_args(Role) for feature in self.features):
            raise ValueError("the binding has features of a role that is not known")
        if len({(type(one), one) for one in self.classes}) < len(self.classes) or len(self.classes) == 1:
            raise ValueError("the binding has classes that cannot be told apart")
        if self.binary and self.positive not in self.classes:
            raise ValueError("the binding's positive class is none of its classes")
