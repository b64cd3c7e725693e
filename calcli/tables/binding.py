"""Finding the role of each column: flags decide first, then the artifact; names only where there is none.

Binding a table without a score: the rows that a model is trained on, or applied to.

Labels, weights and features are found as in `binding.bind`. Besides, this decides between classes and regression.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from calcli.batch import Role
from calcli.errors import DataError, UsageError, available, nearest, unknown_name
from calcli.numeric.links import probabilities
from calcli.tables.arrays import numbers
from calcli.tables.binding_types import NO_FLAGS, NO_SCORE, Binding, Dropped, Feature, Flags, Score
from calcli.tables.checks import encode
from calcli.tables.features import UNIT, find_features, known_features, role_of
from calcli.tables.io_errors import reading
from calcli.tables.labels import Labels, as_class, check_seen, distinct_labels, parse_classes, positive_class
from calcli.tables.scores import DOUBTFUL, Candidate, OtherTableError, Wanted, find_scores, fitted_score, named_score
from calcli.tables.source import Source, hint_inside
from calcli.tables.weights import WeightKind, WeightSums

LABEL_NAMES = ("label", "y", "target", "class", "y_true", "actual", "labels")
AGREEMENT = 1e-6

LOOKED_AT = 10_000
"""So many rows tell whether a column holds predicted classes."""


def bind(
    source: Source,
    flags: Flags = NO_FLAGS,
    *,
    known: Binding | None = None,
    need_label: bool = True,
    features: bool = True,
    held_out_by: str | None = None,
) -> Binding:
    """Find the label, score, weight, node id and features of a table.

    Parameters
    ----------
    source
        The table.
    flags
        They take precedence.
    known
        The binding of an artifact: its classes are fixed. Where a flag names no other, its label and its score are
        the only ones that are taken; its features always are.
    need_label
        Whether a table without labels is refused. If not, the labels are not read when `known` is given.
    features
        Whether features are wanted. If not, passes over the rows are saved: the ones that tell ids from features, and
        for text files the one that infers the types. An artifact's features are looked up by name.
    held_out_by
        A column of groups or times: it is no feature unless ``--features`` names it.
    """
    # 1. label and classes
    check_flags(source, flags, known)
    names = [name for name in source.columns if name not in flags.ignore]
    label = label_column(names, flags, known, need=need_label)
    seen = distinct_labels(source, label) if label is not None and (need_label or known is None) else None
    wanted = classes_of(seen, flags, known)
    # 2. score; its columns may name classes that no label has
    numeric = partial(_numeric, source, [name for name in names if name != label])
    if known is not None and flags.prob is None and flags.logit is None:
        candidates = [fitted_score(names, known.score, wanted, numeric)]
    else:
        candidates = find_scores(names, flags, wanted, numeric)
    chosen = candidates[0]
    classes = chosen.classes or wanted.labels or Labels("int", (0, 1))
    if len(classes.values) < 2:
        raise DataError(
            f"the label {label!r} has one class only: {classes.values[0]!r}",
            hint="if there is another one, name both: --classes A,B",
        )
    # 3. weight and node id; a column has one role, scores are numbers, two scores agree
    notes: list[str] = []
    binding = Binding(
        label=label,
        label_type=classes.type,
        classes=classes.values,
        positive=known.positive if known else positive_class(classes, flags.positive),
        score=chosen.score,
        weight=weight_column(source, flags, known, notes, need=need_label),
        weight_kind=weight_kind(flags, known),
        node_id=_node_column(source, flags, known),
    )
    check_parts(binding)
    for candidate in candidates:
        _check_score_types(source, candidate.score)
        if candidate.stem in DOUBTFUL and (known, flags.prob, flags.logit) == (None, None, None):
            _refuse_decisions(source, candidate)
    for other in candidates[1:]:
        _check_agreement(source, binding, other)
        notes.append(f"{chosen} and {other} agree: using {chosen}")
    # 4. features
    if features and known is not None:
        binding = replace(binding, features=known_features(source, known, flags))
    elif features:
        columns, dropped = find_features(source, flags, binding, held_out_by)
        notes += [*label_like(columns), *left_out(dropped)]
        binding = replace(binding, features=columns, dropped=dropped)
    if need_label:
        binding = weighed(source, binding, flags, known, notes)
    return replace(binding, notes=tuple(notes))


def _numeric(source: Source, names: Sequence[str]) -> list[str]:
    """The columns of numbers among these; a pass over a text file."""
    return [name for name in names if source.schema[name].is_numeric()]


def weighed(source: Source, binding: Binding, flags: Flags, known: Binding | None, notes: list[str]) -> Binding:
    """The binding with the scale of this table's weights, in a pass over them; `notes` say what they are taken for."""
    if binding.weight is None:
        return binding
    sums = WeightSums()
    with reading(source.name):
        for frame in source.raw.select(binding.weight).collect_batches():
            sums.add(numbers(frame[binding.weight]))
    if flags.weight_kind is None and (known is None or known.weight is None):
        text = f"{binding.weight!r} holds importance weights (only their ratios matter)"
        notes.append(f"{text}; if it holds numbers of rows, add --weight-kind counts" if sums.whole else text)
    return with_scale(binding, sums)


def with_scale(binding: Binding, sums: WeightSums) -> Binding:
    """The binding with the scale of the weights that were summed, if they have one."""
    if binding.weight_kind == "importance":
        return replace(binding, weight_scale=sums.scale(str(binding.weight)))
    sums.check_counts(str(binding.weight))
    return binding


def bind_score(source: Source, binding: Binding, stem: str) -> Binding:
    """The binding with another score: a column of probabilities, or a column ``<stem>_<class>`` for each class."""
    wanted = Wanted(Labels(binding.label_type, binding.classes), fixed=True)
    source.find(stem)
    score = named_score(source.columns, stem, "prob", wanted, flag="--score").score
    other = replace(binding, score=score, features=(), dropped=(), notes=())
    check_parts(other)
    _check_score_types(source, score)
    return other


def check_flags(source: Source, flags: Flags, known: Binding | None) -> None:
    """Find the columns that are paths; refuse flags that name no column, or classes other than the artifact's."""
    source.find(flags.label, flags.prob, flags.logit, flags.weight, flags.node_id, *flags.ignore, *flags.features or ())
    if known is not None:
        features = (feature.name for feature in known.features)
        source.find(known.label, *known.score.columns, known.weight, known.node_id, *features, known=True)
    names = source.columns
    ignored = (("--ignore", value) for value in flags.ignore)
    for flag, value in (("--label", flags.label), ("--weight", flags.weight), *ignored):
        if value is not None and value not in names:
            raise DataError(f"{flag}: {unknown_name('column', value, names)}")
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


def label_column(names: Sequence[str], flags: Flags, known: Binding | None, *, need: bool) -> str | None:
    """The label: the flag's, the artifact's, or where there is no artifact a column with one of the usual names."""
    if flags.label is not None:
        return flags.label
    if known is not None and known.label is not None:
        if known.label in names or not need:
            return known.label if known.label in names else None
        other = next((name for name in LABEL_NAMES if name in names), nearest(known.label, names) or "COL")
        raise OtherTableError(
            f"no column {known.label!r}, the label that the artifact was fitted with; {available(names)}",
            hint=f"if it has another name here, use --label {other}",
        )
    usual = [name for name in LABEL_NAMES if name in names]
    if len(usual) == 1:
        return usual[0]
    if not need:
        return None
    if usual:
        raise DataError(f"the label could be {' or '.join(map(repr, usual))}", hint=f"choose with --label {usual[0]}")
    meant = [match for name in LABEL_NAMES if (match := nearest(name, names)) is not None]
    hint = f"did you mean {meant[0]!r}? use --label {meant[0]}" if meant else "name it with --label COL"
    raise DataError(f"no label column; {available(names)}", hint=hint)


def classes_of(seen: Labels | None, flags: Flags, known: Binding | None) -> Wanted:
    """The classes of the artifact, of the flags, or of the labels that were seen."""
    if known is not None:
        frozen = Labels(known.label_type, known.classes)
        check_seen(seen, frozen)
        return Wanted(frozen, fixed=True)
    if flags.classes is not None:
        return Wanted(parse_classes(flags.classes, seen), fixed=True)
    return Wanted(seen, fixed=False)


def weight_column(source: Source, flags: Flags, known: Binding | None, notes: list[str], *, need: bool) -> str | None:
    """The weight, if there is one; `notes` say if the artifact's is missing."""
    name = flags.weight
    if name is None and known is not None and need:
        name = known.weight
        if name is not None and name not in source.columns:
            notes.append(
                f"the artifact was fitted with the weight {name!r}, which is not here: all rows count the same"
            )
            return None
    if name is not None and not source.holds_text(name) and not source.schema[name].is_numeric():
        raise DataError(f"the weight {name!r} is {source.schema[name]}, not a number", hint="choose with --weight")
    return name


def weight_kind(flags: Flags, known: Binding | None) -> WeightKind:
    """What weights stand for: the flag's, the artifact's, or importance."""
    if flags.weight_kind is not None:
        return flags.weight_kind
    return "importance" if known is None else known.weight_kind


def _node_column(source: Source, flags: Flags, known: Binding | None) -> str | None:
    name = flags.node_id or (None if known is None else known.node_id)
    if name is not None and name not in source.columns:
        raise DataError(f"--node-id: {unknown_name('column', name, source.columns)}")
    return name


def check_parts(binding: Binding) -> None:
    """Refuse a column with two roles."""
    parts = [("label", binding.label), ("weight", binding.weight), ("node id", binding.node_id)]
    parts += [("score", name) for name in binding.score.columns]
    seen: dict[str, str] = {}
    for part, name in parts:
        if name is not None and name in seen:
            raise UsageError(f"{name!r} is the {seen[name]} and the {part}", hint="a column has one role")
        if name is not None:
            seen[name] = part


def _check_score_types(source: Source, score: Score) -> None:
    for column in score.columns:
        if not source.holds_text(column) and not (dtype := source.schema[column]).is_numeric():
            raise DataError(
                f"the score {column!r} is {dtype}, not a number",
                hint=hint_inside(column, dtype) or "choose with --logit or --prob, or cast it",
            )


def _refuse_decisions(source: Source, candidate: Candidate) -> None:
    """Refuse predicted classes in a column that was found by a name which libraries give to them too."""
    with reading(source.name):
        rows = source.raw.select(candidate.score.columns).head(LOOKED_AT).collect(engine="streaming")
    values = np.concatenate([numbers(column) for column in rows])
    if np.isin(values, (0.0, 1.0)).any() and np.isin(values[~np.isnan(values)], (0.0, 1.0)).all():
        raise DataError(
            f"{candidate} holds 0 and 1 only: predicted classes, not probabilities",
            hint=f"name the probabilities with --prob COL; if there are no others, use {candidate.flag}",
        )


def _check_agreement(source: Source, binding: Binding, other: Candidate) -> None:
    """Refuse logits and probabilities that disagree in some row."""
    bindings = (binding, replace(binding, score=other.score))
    row = 0
    with reading(source.name):
        for frame in source.raw.select(*binding.score.columns, *other.score.columns).collect_batches():
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


def left_out(dropped: Sequence[Dropped]) -> list[str]:
    """Notes on columns that could be features, and that only their names keep from being so."""
    names = [one.column for one in dropped if one.reason == UNIT]
    if not names:
        return []
    what = "looks like a group id and is" if len(names) == 1 else "look like group ids and are"
    return [f"{', '.join(map(repr, names))} {what} not used as a feature; name it in --features to use it"]


def label_like(features: Sequence[Feature]) -> list[str]:
    """Notes on features that are named like labels."""
    return [
        f"{feature.name!r} is named like a label but used as a feature; if it is one: --ignore {feature.name}"
        for feature in features
        if feature.name in LABEL_NAMES
    ]


Task: TypeAlias = Literal["class", "regression"]

MOST_CLASSES = 50
"""Whole numbers with more distinct values than this are amounts, unless flags say otherwise."""


def bind_unscored(
    source: Source,
    flags: Flags = NO_FLAGS,
    *,
    task: Task | None = None,
    known: Binding | None = None,
    need_label: bool = True,
) -> Binding:
    """Find the label, weight and features of a table without a score.

    Parameters
    ----------
    source
        The table.
    flags
        They take precedence.
    task
        Whether the label is a class or an amount; None decides by its values.
    known
        The binding of an artifact: its task and classes are fixed, and its columns are looked for.
    need_label
        Whether a table without labels is refused. If not, the labels are not read.
    """
    # 1. label, and its classes or None for a regression
    check_flags(source, flags, known)
    names = [name for name in source.columns if name not in flags.ignore]
    label = label_column(names, flags, known, need=need_label)
    notes: list[str] = []
    if known is not None and known.regression:
        classes = None
    elif known is not None:
        seen = distinct_labels(source, label) if need_label and label is not None else None
        classes = classes_of(seen, flags, known).labels
    else:
        classes = _classes_or_none(source, str(label), flags, task, notes)
    if classes is None and need_label and label is not None and not source.schema[label].is_numeric():
        raise DataError(
            f"the label {label!r} is {source.schema[label]}, not a number: regression needs a number",
            hint="leave out --task, or name another label with --label",
        )
    # 2. weight; a column has one role
    binding = Binding(
        label=label,
        label_type="float" if classes is None else classes.type,
        classes=() if classes is None else classes.values,
        positive=_positive(classes, flags, known),
        score=NO_SCORE,
        weight=weight_column(source, flags, known, notes, need=need_label),
        weight_kind=weight_kind(flags, known),
    )
    check_parts(binding)
    if need_label:
        binding = weighed(source, binding, flags, known, notes)
    # 3. features
    if known is not None:
        return replace(binding, features=known_features(source, known), notes=tuple(notes))
    features, dropped = find_features(source, flags, binding)
    if not features:
        raise DataError(
            f"{source.name} has no features: all of its columns are labels, scores, ids, dates or named by --ignore",
            hint="name some with --features A,B",
        )
    return replace(
        binding, features=features, dropped=dropped, notes=(*notes, *label_like(features), *left_out(dropped))
    )


def model_features(
    source: Source, names: Sequence[str], categories: Collection[int], chosen: Sequence[Feature] | None
) -> tuple[Feature, ...]:
    """The features of a user's model, as columns of the table, in the order of the model.

    Parameters
    ----------
    source
        The table.
    names
        The names of its features; their numbers if it was trained without names.
    categories
        The indices of those that are categories.
    chosen
        The features that ``--features`` names, in the order of the model; None matches them by name.
    """
    columns = [feature.name for feature in chosen] if chosen is not None else list(names)
    if len(columns) != len(names):
        raise UsageError(
            f"--features names {len(columns)} columns, and the model has {len(names)} features",
            hint="name one for each, in the order of the model",
        )
    source.find(*columns)
    for name in columns:
        if name in source.schema:
            continue
        if all(each.isdecimal() for each in names):
            raise DataError(
                f"the model was trained without names: its features are {names[0]} to {names[-1]}",
                hint="name the columns in its order: --features A,B,...",
            )
        raise DataError(f"the model's features: {unknown_name('column', name, source.columns)}")
    return tuple(_as_the_model_takes(source, name, place in categories) for place, name in enumerate(columns))


def _as_the_model_takes(source: Source, name: str, category: bool) -> Feature:
    dtype = source.schema[name]
    own_role = role_of(dtype)
    fits = (own_role == "category" or dtype.is_integer()) if category else own_role in ("number", "boolean")
    if own_role is None or not fits:
        words = "a category" if category else "a number"
        raise DataError(f"the model takes {name!r} as {words}, and the column is {dtype}", hint="cast the column")
    role: Role = "category" if category else own_role
    return Feature(name, role, str(dtype))


def _positive(classes: Labels | None, flags: Flags, known: Binding | None) -> bool | int | str | None:
    if known is not None:
        return known.positive
    if classes is None:
        if flags.positive is not None or flags.classes is not None:
            raise UsageError("--positive and --classes are for classes, and the label is a number here")
        return None
    return positive_class(classes, flags.positive)


def _classes_or_none(source: Source, label: str, flags: Flags, task: Task | None, notes: list[str]) -> Labels | None:
    """The classes, or None if the label is an amount."""
    if task is None and flags.classes is None and flags.positive is None:
        task = _guess(source, label, notes)
    if task == "regression":
        return None
    try:
        seen = distinct_labels(source, label)
    except DataError as error:
        if source.schema[label].is_float():
            raise DataError(error.message, hint="try: --task regression") from None
        raise
    classes = classes_of(seen, flags, None).labels or seen
    if len(classes.values) < 2:
        raise DataError(f"the label {label!r} has one class only: {classes.values[0]!r}")
    return classes


def _guess(source: Source, label: str, notes: list[str]) -> Task:
    """Whole numbers with few distinct values are classes, other numbers amounts; doubtful decisions are noted."""
    dtype = source.schema[label]
    if not dtype.is_numeric():
        return "class"
    whole, distinct = True, set[float]()
    with reading(source.name):
        for frame in source.typed([label]).collect_batches():
            values = frame[label].cast(pl.Float64).drop_nulls().drop_nans().unique()
            whole = whole and bool((values == values.floor()).all())
            distinct.update(values.to_list())
            if not whole or len(distinct) > MOST_CLASSES:
                break
    if whole and len(distinct) <= MOST_CLASSES:
        if len(distinct) > 2:
            notes.append(
                f"the label {label!r} holds {len(distinct)} different whole numbers: taken for classes; "
                "if they are amounts: --task regression"
            )
        return "class"
    what = f"more than {MOST_CLASSES} different numbers" if whole else "numbers that are not whole"
    notes.append(f"the label {label!r} holds {what}, so this is a regression")
    return "regression"
