"""Find the score columns by flags or names, and by whether their values can be scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

import numpy as np
import polars as pl

from calcli.batch import FloatArray
from calcli.errors import DataError, UsageError, available, nearest, unknown_name, word
from calcli.tables.arrays import numbers
from calcli.tables.binding_types import Flags, Label, OtherTableError, Score, ScoreKind
from calcli.tables.labels import LOOKED_AT, Labels, class_text, positive_class
from calcli.tables.paths import reading
from calcli.tables.scales import ENOUGH, SOME, outside
from calcli.tables.source import Source, call_in

DOUBTFUL = ("y_pred", "prediction")
"""Stems that libraries give to predicted classes too; other names come first."""

OF_PROBABILITIES = ("prob", "proba", "probability", "pred_proba", "p", "score", "y_prob", "y_score", *DOUBTFUL)

STEMS: Mapping[str, ScoreKind] = {"logit": "logit", **dict.fromkeys(OF_PROBABILITIES, "prob")}

OF_ONE_CLASS = ("prob", "proba", "probability", "pred_proba", "y_prob")
"""Stems of which ``<stem>_<positive class>`` alone is a score."""

LATE = (
    *("y_proba", "y_pred_proba", "y_pred_prob", "pred_prob", "prob_pred", "predicted_proba", "predicted_prob"),
    *("predicted_probability", "prediction_probability", "p1", "p_hat", "y_hat", "predicted", "pred"),
)
"""Stems that count in any case, as those above do in another case than theirs, where no column has one of those. Other
columns of these names stay features."""

VECTOR = ["type", "size", "indices", "values"]
"""The fields of a vector of Spark's machine learning, as Parquet has it."""

INTEGER = re.compile(r"-?(0|[1-9]\d*)")


class NoScoreError(DataError):
    """There is no score column, by flag or by name."""


@dataclass(frozen=True)
class Candidate:
    """Columns that could be the score."""

    score: Score
    stem: str
    """The column, or the part before the class in the names of several."""

    classes: Labels | None = None
    """The classes that the columns name; None for a single column."""

    from_one: bool = False
    """Whether the columns count from 1 and the classes from 0."""

    def __str__(self) -> str:
        columns = self.score.columns
        return columns[0] if len(columns) == 1 else f"{columns[0]} … {columns[-1]}"

    @property
    def doubtful(self) -> bool:
        """Whether its name is one that predicted classes have too."""
        known = self.stem in STEMS or self.stem.rpartition("_")[0] in OF_ONE_CLASS
        return self.stem in DOUBTFUL or not known

    @property
    def flag(self) -> str:
        """The flag that chooses it."""
        return f"--{self.score.kind} {self.stem}"


@dataclass(frozen=True)
class ClassSpec:
    """The classes that are known before the score is looked for.

    `fixed`: they are given by a flag or an artifact, so score columns cannot add any.
    """

    labels: Labels | None
    fixed: bool

    @property
    def count(self) -> int | None:
        return len(self.labels.values) if self.labels else None


@dataclass(frozen=True)
class FirstRows:
    """The columns in which the score is looked for, and whether their first rows can hold one."""

    source: Source
    names: Sequence[str]
    label: str | None

    def numeric(self) -> list[str]:
        """The columns of numbers but the label; only these are suggested if there is no score."""
        return [name for name in self.names if name != self.label and self.source.schema[name].is_numeric()]

    def could_be(self, score: Score) -> bool:
        """Whether these columns hold probabilities, but not 0 and 1 only; or logits, but no probabilities."""
        values = self._values(score)
        if score.kind == "prob":
            return bool(len(values)) and not self.decided(score) and outside(values).mean() <= SOME
        return len(values) < ENOUGH or bool(outside(values).any())

    def decided(self, score: Score) -> bool:
        """Whether these columns hold 0 and 1 only, as predicted classes do."""
        values = self._values(score)
        return bool(len(values)) and bool(np.isin(values, (0.0, 1.0)).all())

    def _values(self, score: Score) -> FloatArray:
        """The numbers of the rows that have one in each column."""
        if not all(self.source.holds_text(name) or self.source.schema[name].is_numeric() for name in score.columns):
            return np.empty((0, 1))
        with reading(self.source.name):
            rows = self.source.raw.select(score.columns).head(LOOKED_AT).collect(engine="streaming")
        values = np.column_stack([numbers(column) for column in rows])
        return values[np.isfinite(values).all(axis=1)]


def find_scores(names: Sequence[str], flags: Flags, spec: ClassSpec, rows: FirstRows) -> list[Candidate]:
    """The score columns: one candidate, or two if there are logits and probabilities."""
    if flags.prob is not None and flags.logit is not None:
        raise UsageError("--prob and --logit are both given", hint="give only one of them")
    if flags.rank is not None:
        if flags.logit is not None:
            raise UsageError("--rank and --logit are both given", hint="give only one of them")
        if spec.count is not None and spec.count > 2:
            raise UsageError(f"--rank is for two classes, and the labels have {spec.count}")
        if flags.rank not in names:
            raise DataError(f"--rank: {unknown_name('column', flags.rank, names)}")
        return [Candidate(Score("rank", (flags.rank,)), flags.rank)]
    for kind, value in (("prob", flags.prob), ("logit", flags.logit)):
        if value is not None:
            inside = score_inside(rows.source, value, cast("ScoreKind", kind), spec)
            return [inside or named_score(names, value, cast("ScoreKind", kind), spec, flag=f"--{kind}")]
    nested = [name for name in STEMS if name in names and _is_nested(rows.source, name)]
    candidates = _by_name([name for name in names if name not in nested], spec, flags.positive, rows)
    if all(one.doubtful for one in candidates):
        parts = [score_inside(rows.source, name, STEMS[name], spec) for name in nested]
        candidates = [one for one in parts if one is not None] or candidates
    for kind in ("logit", "prob"):
        same = [candidate for candidate in candidates if candidate.score.kind == kind]
        if len(same) > 1:
            raise DataError(
                f"{len(same)} scores are possible: {'; '.join(map(str, same))}",
                hint=f"choose one, for example {same[0].flag}",
            )
    if not candidates:
        _refuse_without_score(names, spec, rows)
    return candidates


def _is_nested(source: Source, name: str) -> bool:
    return not source.holds_text(name) and name in source.columns and source.schema[name].is_nested()


def score_inside(source: Source, name: str, kind: ScoreKind, spec: ClassSpec) -> Candidate | None:
    """The items or fields of a nested column, one for each class; None for other columns.

    Fields have the names of the classes, items their order. A dense vector of Spark's machine learning is a list.
    """
    if not _is_nested(source, name):
        return None
    path, dtype = name, source.schema[name]
    if isinstance(dtype, pl.Struct) and [field.name for field in dtype.fields] == VECTOR:
        path, dtype = f"{name}.values", pl.List(pl.Float64)
    if isinstance(dtype, pl.Struct):
        ends = {field.name: f"{path}.{field.name}" for field in dtype.fields}
    else:
        ends = {str(index): f"{path}[{index}]" for index in range(_length(source, path, dtype))}
    found = per_class([], name, kind, spec, ends=ends)
    if found is None:
        holds = ", ".join(list(ends)[:8]) if isinstance(dtype, pl.Struct) else f"{len(ends)} items"
        labels = "" if spec.labels is None else ", ".join(map(class_text, spec.labels.values[:8]))
        raise DataError(
            f"{name!r} holds {holds}, which are not the classes {labels}",
            hint="name as many classes as there are, in their order: --classes a,b,c",
        )
    source.find(*found.score.columns)
    return found


def _length(source: Source, path: str, dtype: pl.DataType) -> int:
    """The number of items in every row of a column of lists."""
    if isinstance(dtype, pl.Array):
        return dtype.size
    source.find(path)
    count = pl.col(path).list.len()
    with reading(source.name):
        least, most = source.raw.select(count.min().alias("least"), count.max()).collect(engine="streaming").row(0)
    if least is None or least != most:
        counts = "no lists" if least is None else f"lists of {least} to {most} items"
        raise DataError(f"{path!r} holds {counts}; a score for each class is expected in every row")
    return int(most)


def fitted_score(names: Sequence[str], score: Score, spec: ClassSpec, rows: FirstRows) -> Candidate:
    """The score that an artifact was fitted on; no other column is taken in its stead."""
    absent = next((column for column in score.columns if column not in names), None)
    if absent is None:
        return Candidate(score, score.columns[0], spec.labels)
    similar = nearest(absent, rows.numeric()) if len(score.columns) == 1 else None
    other = next(iter(_by_name(names, spec)), Candidate(Score(score.kind, ()), similar or "COL"))
    raise OtherTableError(
        f"no column {absent!r}, the score that the artifact was fitted on; {available(names)}",
        hint=f"if the score has another name here, name it: {other.flag}",
    )


def named_score(names: Sequence[str], value: str, kind: ScoreKind, spec: ClassSpec, *, flag: str) -> Candidate:
    """The column that a flag names, or the columns per class if it names their stem."""
    many = per_class(names, value, kind, spec) or per_class(names, value, kind, spec, from_one=True)
    if many is not None and (value not in names or (spec.count or 2) > 2):
        return many
    if value not in names:
        raise DataError(f"{flag}: no columns {value}_<class>, and {unknown_name('column', value, names)}")
    if spec.count is not None and spec.count > 2:
        raise DataError(
            f"{flag} {value} is one column, but there are {spec.count} classes",
            hint=f"a column for each is expected: {', '.join(_expected(value, spec))}",
        )
    return Candidate(Score(kind, (value,)), value)


def _by_name(
    names: Sequence[str], spec: ClassSpec, positive: str | None = None, rows: FirstRows | None = None
) -> list[Candidate]:
    """The columns that are named like scores, by the surest kind of name whose columns can be scores."""
    sure = {stem: kind for stem, kind in STEMS.items() if stem not in DOUBTFUL}
    tiers = [
        [*_with_stems(names, spec, sure)]
        or [*_of_one_class(names, spec, positive, {stem: STEMS[stem] for stem in OF_ONE_CLASS})],
        [*_with_stems(names, spec, {stem: STEMS[stem] for stem in DOUBTFUL})],
        [
            one
            for one in _named_late(names, spec, positive)
            if rows is None or rows.could_be(one.score) or rows.decided(one.score)
        ],
    ]
    found = [tier for tier in tiers if tier]
    if rows is not None and sum(map(len, found)) > 1:
        for tier in found:
            if any(one.score.kind == "logit" for one in tier):
                return tier
            if scores := [one for one in tier if rows.could_be(one.score)]:
                return scores
    return found[0] if found else []


def _named_late(names: Sequence[str], spec: ClassSpec, positive: str | None) -> list[Candidate]:
    """The columns with the stems of `LATE`, with other stems in another case, and those that count from 1."""
    kinds: Mapping[str, ScoreKind] = {**STEMS, **dict.fromkeys(LATE, "prob")}
    parts = [part for name in names for part in (name, name.rpartition("_")[0])]
    spelled = {part: kinds[part.lower()] for part in parts if part.lower() in kinds and part not in STEMS}
    several = (per_class(names, stem, kind, spec, from_one=True) for stem, kind in {**STEMS, **spelled}.items())
    return (
        [*_with_stems(names, spec, spelled)]
        or [*_of_one_class(names, spec, positive, spelled)]
        or [many for many in several if many is not None and many.from_one]
    )


def _of_one_class(
    names: Sequence[str], spec: ClassSpec, flag: str | None, kinds: Mapping[str, ScoreKind]
) -> Iterator[Candidate]:
    """The column ``<stem>_<class>`` of the positive class, if the other class has none."""
    if spec.labels is None or spec.count != 2:
        return
    try:
        positive = positive_class(spec.labels, flag)
    except DataError:  # which is the positive one?
        return
    index = spec.labels.values.index(positive)
    other = class_text(spec.labels.values[1 - index])
    numbered = set() if spec.labels.type == "string" else {str(index)}
    own = ({class_text(spec.labels.values[index])} | numbered) - {other}
    for stem, kind in kinds.items():
        ends = _ends(names, stem)
        of_classes = [end for end in ends if end in own or end == other or INTEGER.fullmatch(end)]
        if len(of_classes) == 1 and of_classes[0] in own:
            name = ends[of_classes[0]]
            yield Candidate(Score(kind, (name,)), name)


def _with_stems(names: Sequence[str], spec: ClassSpec, kinds: Mapping[str, ScoreKind]) -> Iterator[Candidate]:
    binary = spec.count is None or spec.count <= 2
    singles = [Candidate(Score(kind, (stem,)), stem) for stem, kind in kinds.items() if binary and stem in names]
    yield from singles
    for stem, kind in kinds.items():
        many = per_class(names, stem, kind, spec)
        if many is None or many.classes is None:
            continue
        # Without labels, "value" in p_value could be a class; if there is a column p too, it is not taken for one.
        if not (singles and spec.labels is None and many.classes.type == "string"):
            yield many


def per_class(
    names: Sequence[str],
    stem: str,
    kind: ScoreKind,
    spec: ClassSpec,
    *,
    from_one: bool = False,
    ends: Mapping[str, str] | None = None,
) -> Candidate | None:
    """The columns ``<stem>_<class>`` or ``<stem>_0 .. K-1``, if there is one for each class.

    With `from_one` those that are ``<stem>_1 .. K`` for the classes 0 .. K-1, in order; `ends` are other names for the
    columns, by class.
    """
    ends = _ends(names, stem) if ends is None else ends
    if len(ends) < 2:
        return None
    if spec.labels is not None and spec.fixed:
        labels = spec.labels
    else:
        labels = _unlabelled(ends) if spec.labels is None else _widened(spec.labels, ends)
    if from_one:
        numbered = tuple(ends.get(str(index + 1), "") for index in range(len(labels.values)))
        beyond = {"0", str(len(numbered) + 1)} & ends.keys()
        counted = labels.type in ("int", "float") and labels.values == tuple(range(len(numbered)))
        fits = counted and all(numbered) and not beyond and len(numbered) > 1
        return Candidate(Score(kind, numbered), stem, labels, from_one=True) if fits else None
    columns = [ends.get(class_text(value), ends.get(str(value), "")) for value in labels.values]
    if not all(columns):
        if labels.type == "string" and not spec.fixed:
            return None  # 0 .. K-1 does not tell the order of classes that are text
        columns = [ends.get(str(index), "") for index in range(len(labels.values))]
        if not all(columns) or (not spec.fixed and str(len(columns)) in ends):
            return None
    return Candidate(Score(kind, tuple(columns)), stem, labels) if len(columns) > 1 else None


def _ends(names: Sequence[str], stem: str) -> dict[str, str]:
    """The columns ``<stem>_<end>``, by their ends; of ``exp(<stem>)`` those that are ``exp(<stem>_<end>)``."""
    call = call_in(stem)
    before, after = (f"{stem}_", "") if call is None else (f"{call[0]}({call[1]}_", ")")
    inside = (name for name in names if name.startswith(before) and name.endswith(after))
    return {end: name for name in inside if (end := name.removeprefix(before).removesuffix(after))}


def _unlabelled(ends: Mapping[str, str]) -> Labels:
    """The classes that the columns name, if there are no labels."""
    count = _counted(ends)
    if count:
        return Labels("int", tuple(range(count)))
    return Labels("string", tuple(sorted(ends)))


def _counted(ends: Mapping[str, str]) -> int:
    """K if the ends are 0 .. K-1 and perhaps other text, else 0."""
    count = sum(INTEGER.fullmatch(end) is not None for end in ends)
    return count if count > 1 and all(str(index) in ends for index in range(count)) else 0


def _widened(labels: Labels, ends: Mapping[str, str]) -> Labels:
    """The labels, and further classes that columns name, because a sample may lack a class."""
    values: tuple[Label, ...]
    if labels.type == "bool":
        return labels
    if labels.type == "string":
        values = tuple(sorted(ends))
    else:
        values = tuple(sorted(int(end) for end in ends if INTEGER.fullmatch(end)))
    return Labels(labels.type, values) if set(labels.values) <= set(values) else labels


def _expected(stem: str, spec: ClassSpec) -> list[str]:
    texts = [f"{stem}_{class_text(label)}" for label in (spec.labels.values if spec.labels else ())]
    return texts if len(texts) <= 4 else [*texts[:3], "…", texts[-1]]


def _refuse_without_score(names: Sequence[str], spec: ClassSpec, rows: FirstRows) -> NoReturn:
    """Raise the most helpful error: score columns that do not fit the classes, or names that are nearly right."""
    # 1. columns by class that are not those of the labels
    for stem in STEMS:
        count = _counted(_ends(names, stem))
        if count and spec.fixed and spec.count not in (None, count):
            raise DataError(
                f"there are {spec.count} classes, but {count} columns {stem}_0 … {stem}_{count - 1}",
                hint="name as many classes as columns, in their order, with --classes",
            )
        if count and spec.labels is not None and spec.labels.type == "string":
            raise DataError(
                f"the columns {stem}_0 … {stem}_{count - 1} do not say which class is which: the labels are "
                + ", ".join(class_text(label) for label in spec.labels.values[:8]),
                hint="name the classes in the order of the columns: --classes a,b,c",
            )
    # 2. one column for more than two classes
    single = [stem for stem in STEMS if stem in names]
    if single and spec.count is not None:
        raise DataError(
            f"{single[0]!r} is one column, but there are {spec.count} classes",
            hint=f"a column for each is expected: {', '.join(_expected(single[0], spec))}",
        )
    # 3. nothing is named like a score
    likely = rows.numeric() if spec.count in (None, 2) else []
    meant = [
        (name, kind)
        for stem, kind in STEMS.items()
        if (name := nearest(stem, likely)) is not None and rows.could_be(Score(kind, (name,)))
    ]
    hint = "name it with --logit COL or --prob COL"
    if meant:
        name, kind = meant[0]
        hint = f"did you mean {name!r}? use --{kind} {word(name)}"
    raise NoScoreError(f"no score column; {available(names)}", hint=hint)


def score_named(name: str, classes: Sequence[Label], score: Score) -> bool:
    """Whether a column is named like a score."""
    ends = {class_text(label) for label in classes} | {str(index) for index in range(len(classes))}
    held = {call[1] for column in score.columns if (call := call_in(column)) is not None}
    return (
        name in STEMS
        or name in held.union(score.columns)
        or any(end in ends for stem in STEMS for end in _ends([name], stem))
    )
