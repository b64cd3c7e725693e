"""Find the role of each column: flags decide first, then the artifact; without an artifact, usual names count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from calcli.errors import DataError, UsageError, unknown_name
from calcli.numeric.links import probabilities
from calcli.tables.arrays import numbers
from calcli.tables.binding_types import NO_FLAGS, NO_SCORE, Binding, Dropped, Flags, Label, Score
from calcli.tables.checks import encode
from calcli.tables.features import UNIT, find_features, known_features, words_among_numbers
from calcli.tables.labels import (
    LABEL_NAMES,
    MOST_CLASSES,
    Labels,
    as_class,
    check_seen,
    distinct_labels,
    label_column,
    parse_classes,
    positive_class,
)
from calcli.tables.names import note_on_names, with_names
from calcli.tables.paths import reading
from calcli.tables.scores import (
    DOUBTFUL,
    STEMS,
    Candidate,
    ClassSpec,
    FirstRows,
    find_scores,
    fitted_score,
    named_score,
    score_inside,
)
from calcli.tables.source import Source, call_in, hint_inside
from calcli.tables.weights import WeightSums, halves

AGREEMENT = 1e-6

MOST_LISTED = 5
"""The largest number of columns that a note lists."""

Task: TypeAlias = Literal["class", "regression"]


def bind(
    source: Source,
    flags: Flags = NO_FLAGS,
    *,
    known: Binding | None = None,
    need_label: bool = True,
    need_score: bool = True,
    features: bool = True,
    held_out_by: str | None = None,
    task: Task | None = None,
) -> Binding:
    """Find the label, score, weight, node id and features of a table; flags take precedence.

    `known` is the binding of an artifact: its classes are fixed. Unless a flag names another column, its label and its
    score are the only ones that are taken; its features always are. With `need_label` a table without labels is
    refused; without it, labels are not read where an artifact is known. Rows without a score, on which a model is
    trained or to which one is applied (not `need_score`), need features; the `task` says whether their label is a class
    or an amount, None decides by its values. Without `features` passes over the rows are saved, which tell ids from
    features and infer the types of text files. `held_out_by` is a column of groups or times, which is no feature unless
    ``--features`` names it.
    """
    if flags.multi is not None:
        raise UsageError(
            "--multi is for fit, evaluate and apply, and this takes one label",
            hint="name it: --label LABEL --prob SCORE, or of an artifact 'DIR#LABEL'",
        )
    binder = _Binder(source, flags, known, need_label)
    if need_score:
        binding = binder.with_score()
        if features:
            binding = binder.with_features(binding, flags, held_out_by)
        binding = binder.weighed(binding)
    else:
        binding = binder.weighed(binder.without_score(task))
        binding = binder.with_features(binding, flags if known is None else NO_FLAGS)
        if not binding.features and known is None:
            raise DataError(
                f"{source.name} has no features: all of its columns are labels, scores, ids, dates or named by "
                "--ignore",
                hint="name some with --features A,B",
            )
    return replace(binding, notes=tuple(binder.notes))


bind_unscored = partial(bind, need_score=False)
"""`bind` for rows on which a model is trained, or to which one is applied."""


COUNTED = Labels("int", (0, 1))
"""The classes of rows whose positives are counted."""


@dataclass(frozen=True)
class _Binder:
    """The steps of `bind`, with the notes on the choices that were made."""

    source: Source
    flags: Flags
    known: Binding | None
    need_label: bool
    notes: list[str] = field(default_factory=list)

    def with_score(self) -> Binding:
        """The roles of all columns but the features."""
        # 1. label and classes
        names, label = self._names_and_label()
        read = label is not None and (self.need_label or self.known is None)
        seen = None
        if self._trials():
            seen = COUNTED
        elif read:
            seen = distinct_labels(self.source, str(label), may_be_soft=True)
        spec = self._class_spec(seen)

        # 2. score; its columns may name classes that no label has
        rows = FirstRows(self.source, names, label)
        asked = (self.flags.prob, self.flags.logit, self.flags.rank)
        if self.known is not None and asked == (None, None, None):
            candidates = [fitted_score(names, self.known.score, spec, rows)]
        else:
            candidates = find_scores(names, self.flags, spec, rows)
        chosen = candidates[0]
        if self.known is not None and (self.known.score.kind == "rank") != (chosen.score.kind == "rank"):
            reads = "numbers that only rank" if chosen.score.kind != "rank" else "log-odds or probabilities"
            raise UsageError(f"the artifact reads {reads}, and {chosen.flag} names another kind of score")
        classes = chosen.classes or spec.labels or Labels("int", (0, 1))
        if len(classes.values) < 2:
            raise DataError(
                f"the label {label!r} has one class only: {classes.values[0]!r}",
                hint="if there is another one, name both: --classes A,B",
            )
        # 3. weight and node id; a column has one role, scores are numbers, two scores agree
        binding = replace(self._binding(label, classes, chosen.score), soft=seen is not None and seen.soft)
        if binding.soft:
            self.notes.append(
                f"the label {label!r} holds shares between 0 and 1: soft labels, each row of which is two weighted ones"
            )
        named = self.known is not None or asked != (None, None, None)
        for candidate in candidates:
            _check_score_types(self.source, candidate.score)
            if candidate.doubtful and not named and rows.decided(candidate.score):
                raise DataError(
                    f"{candidate} holds 0 and 1 only: predicted classes, not probabilities",
                    hint=f"name the probabilities with --prob COL; if there are no others, use {candidate.flag}",
                )
        beside = {name for one in candidates for name in (one.stem, *one.score.columns)} | set(DOUBTFUL)
        passed = next((name for name in STEMS if name in names and name not in beside), None)
        if passed is not None and len(classes.values) == 2 and not named:
            self.notes.append(f"{chosen} is the score, because {passed!r} holds no probabilities")
        if chosen.from_one:
            self.notes.append(
                f"{chosen} are taken in order for the classes {classes.values[0]} … {classes.values[-1]}, which count "
                "from 0"
            )
        for other in candidates[1:]:
            _check_agreement(self.source, binding, other)
            self.notes.append(f"{chosen} and {other} agree: using {chosen}")
        return binding

    def without_score(self, task: Task | None) -> Binding:
        """The label, the weight, and the classes unless this is a regression."""
        _, label = self._names_and_label()
        if self.known is None:
            classes = self._classes_or_none(str(label), task)
        elif self.known.regression:
            classes = None
        else:
            read = self.need_label and label is not None
            classes = self._class_spec(distinct_labels(self.source, str(label)) if read else None).labels
        if classes is None and self.need_label and label is not None and not self.source.schema[label].is_numeric():
            raise DataError(
                f"the label {label!r} is {self.source.schema[label]}, not a number: regression needs a number",
                hint="leave out --task, or name another label with --label",
            )
        return self._binding(label, classes, NO_SCORE)

    def with_features(self, binding: Binding, flags: Flags, held_out_by: str | None = None) -> Binding:
        """The binding with the features of the artifact, or of the table."""
        if self.known is not None:
            return replace(binding, features=known_features(self.source, self.known, flags))
        columns, dropped = find_features(self.source, flags, binding, held_out_by)
        if binding.score.columns:
            columns, names = with_names(self.source, binding, columns, flags, held_out_by)
            self.notes.extend(note_on_names(names))
        self.notes.extend(
            f"{one.name!r} is named like a label but used as a feature; if it is one: --ignore {one.name}"
            for one in columns
            if one.name in LABEL_NAMES
        )
        self.notes.extend(_notes_on_units(dropped))
        self.notes.extend(_notes_on_words(words_among_numbers(self.source, columns)))
        return replace(binding, features=columns, dropped=dropped)

    def weighed(self, binding: Binding) -> Binding:
        """The binding with the scale of this table's weights, in a pass over them; a note says how they are read."""
        weight, soft = binding.weight, binding.label if binding.soft else None
        read = [name for name in (soft, weight) if name is not None]
        if not read or not self.need_label:
            return binding
        if soft is not None and weight is not None and binding.weight_kind == "counts":
            raise UsageError(
                f"the label {soft!r} holds shares, and {weight!r} counts rows, which have a label each",
                hint="for k positives of n rows: --positives K --trials N",
            )
        sums = WeightSums()
        for frame in self.source.chunks(*read):
            one = np.ones(len(frame)) if weight is None else numbers(frame[weight])
            sums.add(one if soft is None else halves(numbers(frame[soft]), one))
        if weight is not None and self.flags.weight_kind is None and (self.known is None or self.known.weight is None):
            text = f"{weight!r} holds importance weights (only their ratios matter)"
            whole = f"{text}; if it holds numbers of rows, add --weight-kind counts"
            self.notes.append(whole if sums.whole else text)
        return with_scale(binding, sums)

    def _names_and_label(self) -> tuple[list[str], str | None]:
        """The columns that are not ignored, and the label; every column that a flag or the artifact names is found."""
        _find_named(self.source, self.flags, self.known)
        names = [name for name in self.source.columns if name not in self.flags.ignore]
        return names, label_column(names, self.flags, self.known, need=self.need_label, source=self.source)

    def _binding(self, label: str | None, classes: Labels | None, score: Score) -> Binding:
        flags, known = self.flags, self.known
        weight_kind = flags.weight_kind or ("importance" if known is None else known.weight_kind)
        binding = Binding(
            label=label,
            label_type="float" if classes is None else classes.type,
            classes=() if classes is None else classes.values,
            positive=known.positive if known else self._positive(classes),
            score=score,
            weight=self._weight(),
            weight_kind=weight_kind,
            trials=None if label is None else self._trials(),
            normalise=flags.normalise or (known is not None and known.normalise),
            node_id=None if score is NO_SCORE else self._node_id(),
        )
        _check_roles(binding)
        if binding.trials is not None and binding.weight is not None and weight_kind == "counts":
            raise UsageError("--trials counts rows, and so do weights of the kind counts", hint="leave out one of them")
        if flags.normalise and (score.kind == "logit" or len(score.columns) == 1):
            raise UsageError(
                "--normalise divides the probabilities of the classes by their sum",
                hint=f"leave it out: {score.columns[0]!r} is no column of several" if score.columns else None,
            )
        return binding

    def _trials(self) -> str | None:
        """The column that counts the trials of a row, if there is one."""
        if self.flags.trials is not None:
            return self.source.named(self.flags.trials, "--trials")
        known = self.known
        return None if known is None or self.flags.label not in (None, known.label) else known.trials

    def _class_spec(self, seen: Labels | None) -> ClassSpec:
        """The classes of the artifact, of the flags, or of the labels that were seen."""
        if self.known is not None:
            frozen = Labels(self.known.label_type, self.known.classes)
            check_seen(seen, frozen)
            return ClassSpec(frozen, fixed=True)
        if self.flags.classes is not None:
            return ClassSpec(parse_classes(self.flags.classes, seen), fixed=True)
        return ClassSpec(seen, fixed=False)

    def _classes_or_none(self, label: str, task: Task | None) -> Labels | None:
        """The classes, or None if the label is an amount."""
        if task is None and self.flags.classes is None and self.flags.positive is None:
            task = self._guess_task(label)
        if task == "regression":
            return None
        try:
            seen = distinct_labels(self.source, label)
        except DataError as error:
            if self.source.schema[label].is_float():
                raise DataError(error.message, hint="try: --task regression") from None
            raise
        classes = self._class_spec(seen).labels or seen
        if len(classes.values) < 2:
            raise DataError(f"the label {label!r} has one class only: {classes.values[0]!r}")
        return classes

    def _guess_task(self, label: str) -> Task:
        """Whole numbers with few distinct values are classes, other numbers amounts; doubtful decisions are noted."""
        if not self.source.schema[label].is_numeric():
            return "class"
        whole, distinct = True, set[float]()
        with reading(self.source.name):
            for frame in self.source.typed([label]).collect_batches():
                values = frame[label].cast(pl.Float64).drop_nulls().drop_nans().unique()
                whole = whole and bool((values == values.floor()).all())
                distinct.update(values.to_list())
                if not whole or len(distinct) > MOST_CLASSES:
                    break
        if whole and len(distinct) <= MOST_CLASSES:
            if len(distinct) > 2:
                self.notes.append(
                    f"the label {label!r} holds {len(distinct)} different whole numbers: taken for classes; "
                    "if they are amounts: --task regression"
                )
            return "class"
        what = f"more than {MOST_CLASSES} different numbers" if whole else "numbers that are not whole"
        self.notes.append(f"the label {label!r} holds {what}, so this is a regression")
        return "regression"

    def _positive(self, classes: Labels | None) -> Label | None:
        if classes is not None:
            return positive_class(classes, self.flags.positive)
        if self.flags.positive is not None or self.flags.classes is not None:
            raise UsageError("--positive and --classes are for classes, and the label is a number here")
        return None

    def _weight(self) -> str | None:
        """The weight, if there is one; a note says if the artifact's is missing."""
        name = self.flags.weight
        if name is None and self.known is not None and self.need_label:
            name = self.known.weight
            if name is not None and name not in self.source.columns:
                self.notes.append(
                    f"the artifact was fitted with the weight {name!r}, which is not here: all rows count the same"
                )
                return None
        if name is not None and not self.source.holds_text(name) and not self.source.schema[name].is_numeric():
            dtype = self.source.schema[name]
            raise DataError(f"the weight {name!r} is {dtype}, not a number", hint="choose with --weight")
        return name

    def _node_id(self) -> str | None:
        name = self.flags.node_id or (None if self.known is None else self.known.node_id)
        if name is not None and name not in self.source.columns:
            raise DataError(f"--node-id: {unknown_name('column', name, self.source.columns)}")
        return name


def with_scale(binding: Binding, sums: WeightSums) -> Binding:
    """The binding with the scale of the weights that were summed, if they have one."""
    if binding.weight_kind == "importance":
        return replace(binding, weight_scale=sums.scale(str(binding.weight or binding.label)))
    sums.check_counts(str(binding.weight))
    return binding


def bind_score(source: Source, binding: Binding, stem: str) -> Binding:
    """The binding with another score: a column of probabilities, or a column ``<stem>_<class>`` for each class."""
    spec = ClassSpec(Labels(binding.label_type, binding.classes), fixed=True)
    source.find(stem)
    inside = score_inside(source, stem, "prob", spec)
    score = (inside or named_score(source.columns, stem, "prob", spec, flag="--score")).score
    other = replace(binding, score=score, features=(), dropped=(), notes=())
    _check_roles(other)
    _check_score_types(source, score)
    return other


def _calls(source: Source, prob: str | None) -> list[str | None]:
    """The column of probabilities; of ``percent(STEM)``, where STEM is no column, that of each ``STEM_<class>``."""
    call = None if prob is None else call_in(prob)
    if call is None or call[1] in source.columns:
        return [prob]
    return [f"{call[0]}({name})" for name in source.columns if name.startswith(f"{call[1]}_")] or [prob]


def _find_named(source: Source, flags: Flags, known: Binding | None) -> None:
    """Find all columns that are named; refuse flags that name no column, or classes other than the artifact's."""
    source.find(flags.label, flags.logit, flags.weight, flags.node_id, *flags.ignore, *flags.features or ())
    source.find(*_calls(source, flags.prob), flags.rank)
    if known is not None:
        features = (feature.name for feature in known.features)
        source.find(known.label, *known.score.columns, known.weight, known.node_id, *features, known=True)
    ignored = (("--ignore", value) for value in flags.ignore)
    for flag, value in (("--label", flags.label), ("--weight", flags.weight), *ignored):
        if value is not None:
            source.named(value, flag)
    if flags.weight_kind is not None and flags.weight is None and (known is None or known.weight is None):
        raise UsageError("--weight-kind gives the meaning of weights, and there are none", hint="add --weight COLUMN")
    if known is None:
        return
    labels = Labels(known.label_type, known.classes)
    if flags.classes is not None and tuple(as_class(text, labels.type) for text in flags.classes) != labels.values:
        raise UsageError(
            f"--classes: the artifact's classes are {', '.join(map(str, labels.values))}, and cannot change"
        )
    if flags.positive is not None and positive_class(labels, flags.positive) != known.positive:
        raise UsageError(f"--positive: the artifact's positive class is {known.positive}, and cannot change")


def _check_roles(binding: Binding) -> None:
    """Refuse a column with two roles."""
    parts = [("label", binding.label), ("weight", binding.weight), ("node id", binding.node_id)]
    parts += [("trials", binding.trials)]
    parts += [("score", name) for name in binding.score.columns]
    seen: dict[str, str] = {}
    for part, name in parts:
        if name is not None and name in seen:
            raise UsageError(f"{name!r} is the {seen[name]} and the {part}", hint="a column has one role")
        if name is not None:
            seen[name] = part


def _check_score_types(source: Source, score: Score) -> None:
    for column in score.columns:
        if not source.holds_text(column) and not ((dtype := source.schema[column]).is_numeric() or dtype == pl.Boolean):
            raise DataError(
                f"the score {column!r} is {dtype}, not a number",
                hint=hint_inside(column, dtype) or "choose with --logit or --prob, or cast it",
            )


def _check_agreement(source: Source, binding: Binding, other: Candidate) -> None:
    """Refuse logits and probabilities that disagree in some row."""
    bindings = (binding, replace(binding, score=other.score))
    row = 0
    for frame in source.chunks(*binding.score.columns, *other.score.columns):
        one, two = (encode(frame, bound, label=False, features=False) for bound in bindings)
        gap = np.abs(probabilities(one.batch.score) - probabilities(two.batch.score))
        gap = gap if gap.ndim == 1 else gap.max(axis=1)
        wrong = (gap > AGREEMENT) | (one.is_bad != two.is_bad)
        if wrong.any():
            row += int(wrong.argmax())
            raise DataError(
                f"{binding.score.columns[0]!r} and {other.score.columns[0]!r} disagree in row {row + 1}",
                hint=f"choose with --logit {binding.score.columns[0]} or --prob {other.score.columns[0]}",
            )
        row += len(frame)


def _notes_on_units(dropped: Sequence[Dropped]) -> list[str]:
    """Notes on columns that would be features but for their names."""
    names = [one.column for one in dropped if one.reason == UNIT]
    if not names:
        return []
    what = "looks like a group id and is" if len(names) == 1 else "look like group ids and are"
    return [f"{', '.join(map(repr, names))} {what} not used as a feature; name it in --features to use it"]


def _notes_on_words(words: Mapping[str, str]) -> list[str]:
    """A note on categories that are numbers but for a few words, in which the order of the numbers is lost."""
    listed = [f"{name!r} (because of {word!r})" for name, word in words.items()]
    if not listed:
        return []
    more = "" if len(listed) <= MOST_LISTED else f" and {len(listed) - MOST_LISTED} more"
    one, several = "is a category, though it mostly holds numbers", "are categories, though they mostly hold numbers"
    what = one if len(listed) == 1 else several
    return [f"{', '.join(listed[:MOST_LISTED])}{more} {what}; if the words mean missing, leave the cells empty"]
