"""Bindings: the roles of the columns of a table, and the flags that set them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from calcli.batch import Role
from calcli.errors import DataError, UsageError, check_choices
from calcli.tables.weights import UNSCALED, WeightKind, WeightScale

Label: TypeAlias = bool | int | str
LabelType: TypeAlias = Literal["int", "bool", "string", "float"]
ScaleKind: TypeAlias = Literal["logit", "prob"]
ScoreKind: TypeAlias = Literal["logit", "prob", "rank"]


@dataclass(frozen=True)
class Flags:
    """The flags about columns; None or () if not given.

    Columns may be paths into nested ones, as ``response.logprobs[0]``. `logprob` names the logarithm of a probability,
    and becomes the `prob` of ``exp(logprob)``; `percent` names a probability in percent, and becomes that of
    ``percent(percent)``. `positives` and `trials` name counts: of so many trials of a row so many were positive. `rank`
    names a number on no scale, larger where the positive class is likelier; `descending` makes ``minus(rank)`` of it.
    `categories` and `numbers` say how features are read, and may be patterns, as ``site_*``. `multi` names several
    labels, each with a score of its own, by two patterns, as ``label_*`` and ``score_*``: the star is what pairs them.
    """

    label: str | None = None
    prob: str | None = None
    logit: str | None = None
    weight: str | None = None
    weight_kind: WeightKind | None = None
    positive: str | None = None
    features: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    categories: Sequence[str] = ()
    numbers: Sequence[str] = ()
    classes: Sequence[str] | None = None
    node_id: str | None = None
    normalise: bool = False
    trials: str | None = None
    rank: str | None = None
    multi: tuple[str, str] | None = None
    descending: InitVar[bool] = False
    positives: InitVar[str | None] = None
    logprob: InitVar[str | None] = None
    percent: InitVar[str | None] = None

    def __post_init__(self, descending: bool, positives: str | None, logprob: str | None, percent: str | None) -> None:
        check_choices(self)
        if descending and self.rank is None:
            raise UsageError("--descending says how --rank ranks", hint="add --rank COLUMN")
        if descending:
            object.__setattr__(self, "rank", f"minus({self.rank})")
        if positives is not None:
            if self.label is not None or self.trials is None:
                raise UsageError(
                    "--positives goes with --trials, in place of --label", hint="add --trials with the number of all"
                )
            object.__setattr__(self, "label", positives)
        given = {"prob": self.prob, "logprob": logprob, "percent": percent, "rank": self.rank}
        named = [name for name, column in given.items() if column is not None]
        if len(named) > 1:
            raise UsageError(f"--{named[0]} and --{named[1]} are both given", hint="give only one of them")
        named += [name for name in ("logit", "label", "trials") if getattr(self, name) is not None]
        if self.multi is not None and named:
            raise UsageError(
                f"--multi names labels and scores, and so does --{named[0]}", hint=f"leave out --{named[0]}"
            )
        for function, column in (("exp", logprob), ("percent", percent)):
            if column is not None:
                object.__setattr__(self, "prob", f"{function}({column})")


NO_FLAGS = Flags()


@dataclass(frozen=True)
class Score:
    """The columns of the prediction: one for the positive class, or one for each class, in class order."""

    kind: ScoreKind
    """Log-odds or logits, probabilities, or a number that only ranks."""

    columns: tuple[str, ...]


NO_SCORE = Score("prob", ())
"""The score of a table on which a model is trained, or to which one is applied."""


@dataclass(frozen=True)
class Feature:
    """A column that calibration may depend on; `dtype` is the name of its polars type."""

    name: str
    role: Role
    dtype: str

    @property
    def whole(self) -> bool:
        """Whether it is a category of whole numbers: 17 is the same one in all types."""
        return self.role == "category" and self.dtype.startswith(("Int", "UInt", "Float", "Decimal"))


@dataclass(frozen=True)
class Dropped:
    """A column that is no feature, and why."""

    column: str
    reason: str


@dataclass(frozen=True)
class Binding:
    """The roles of the columns."""

    label: str | None
    """None if the labels are not known, or not wanted."""

    label_type: LabelType
    """The type of the label column that the classes were found in; "float" is integers written as floats."""

    classes: tuple[Label, ...]
    """In the order of the class index, sorted unless the flags order them; empty for a regression, whose label is an
    amount.
    """

    positive: Label | None
    """The class whose probability a binary score is; None for more than two classes."""

    score: Score
    weight: str | None = None
    features: tuple[Feature, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    node_id: str | None = None
    """The column with the ids of the rows in an edge list, if there is one."""

    weight_kind: WeightKind = "importance"
    """The meaning of a weight, if there is one."""

    weight_scale: WeightScale = field(default=UNSCALED, compare=False)
    """The scale of this table's weights; manifests do not keep it, because it belongs to these rows."""

    trials: str | None = None
    """The column with the number of trials of a row, of which `label` counts the positive ones."""

    soft: bool = False
    """Whether the labels of this table are shares between 0 and 1: a row is two weighted ones, of both classes."""

    normalise: bool = False
    """Whether the probabilities of a row are divided by their sum, however far it is from 1."""

    notes: tuple[str, ...] = ()
    """Sentences for the user about choices that were made."""

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
            "weight_kind": None if self.weight is None else self.weight_kind,
            "features": [feature.name for feature in self.features],
            "feature_types": [{"role": feature.role, "dtype": feature.dtype} for feature in self.features],
            "dropped": [{"column": gone.column, "reason": gone.reason} for gone in self.dropped],
            "node_id": self.node_id,
            "normalise": self.normalise,
            **({} if self.trials is None else {"trials": self.trials}),
            **({"soft": True} if self.soft else {}),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, d: Mapping[str, Any]) -> Binding:
        """Read the object of `to_json`; unknown keys are ignored."""
        binding = cls(
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
            weight_kind=d.get("weight_kind") or "importance",
            normalise=bool(d.get("normalise", False)),
            trials=d.get("trials"),
            soft=bool(d.get("soft", False)),
            notes=tuple(d.get("notes", ())),
        )
        binding._check()
        return binding

    def _check(self) -> None:
        """Raise a `ValueError` for invalid values, because manifests can be written by hand."""
        names = [*self.score.columns, *(feature.name for feature in self.features), *self.notes]
        names += [text for feature in self.features for text in (feature.role, feature.dtype)]
        names += [text for gone in self.dropped for text in (gone.column, gone.reason)]
        names += [name for name in (self.label, self.weight, self.node_id, self.trials) if name is not None]
        labels = [*self.classes, *([] if self.positive is None else [self.positive])]
        if not all(isinstance(name, str) for name in names) or not all(isinstance(one, Label) for one in labels):
            raise ValueError("the binding names columns or classes by invalid names")
        if self.label_type not in get_args(LabelType) or self.score.kind not in get_args(ScoreKind):
            raise ValueError("the binding is of labels or scores that are not known")
        if self.weight_kind not in get_args(WeightKind):
            raise ValueError("the binding has weights of a kind that is not known")
        if any(feature.role not in get_args(Role) for feature in self.features):
            raise ValueError("the binding has features of a role that is not known")
        if len({(type(one), one) for one in self.classes}) < len(self.classes) or len(self.classes) == 1:
            raise ValueError("the binding has classes that cannot be told apart")
        if self.binary and self.positive not in self.classes:
            raise ValueError("the binding's positive class is none of its classes")


class OtherTableError(DataError):
    """A table lacks the label or the score that an artifact was fitted with."""
