"""Several labels of a row, each with a score of its own: the columns that two patterns pair, and the table of a label.

In ``label_*`` and ``score_*`` the star stands for the name of a label, which pairs ``label_spam`` with ``score_spam``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from calcli.errors import DataError, UsageError, available, word
from calcli.listener import Listener
from calcli.tables.arrays import numbers
from calcli.tables.binding_types import NO_FLAGS, Binding, Flags, Score
from calcli.tables.labels import LOOKED_AT, class_text, distinct_labels
from calcli.tables.paths import reading
from calcli.tables.source import Computed, Source, call_in
from calcli.tables.text import is_present

STAR = "*"


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The rows that have one of several labels, and the flags by which its columns are found."""

    source: Source
    flags: Flags


def label_tables(
    source: Source, flags: Flags, listener: Listener, known: Mapping[str, Binding] | None = None, by: str | None = None
) -> dict[str, LabelTable]:
    """For each label, by its name, the rows that have it; the columns of all other labels and scores are ignored.

    `known` are the bindings of an artifact, by label: without patterns these columns are read. A label is left out if
    one of its columns is among those that the flags ignore. With `by` each table has a column of that name, which holds
    the name of the label.
    """
    known, ignored = known or {}, set(flags.ignore)
    named = flags_of_labels(source, flags, known, need_label=True)
    labels = {name: one.label or str(known[name].label) for name, one in named.items()}
    own = {name: {labels[name], *_scores(one, known.get(name))} for name, one in named.items()}
    all_own = {column for columns in own.values() for column in columns}.intersection(source.stored)
    labels = {name: label for name, label in labels.items() if not own[name] & ignored}
    if not labels:
        raise UsageError("--ignore leaves out all labels", hint="leave out fewer")
    tables: dict[str, LabelTable] = {}
    missing = _missing(source, [source.named(label, "--label") for label in labels.values()])
    for name, label in labels.items():
        # The same table again, which owns no files, and has none of the columns that were computed.
        rows = replace(source, raw=source.raw.select(source.stored), scanned=None)
        if missing[label]:
            present = rows.raw.filter(_is_there(source, label))
            rows = replace(rows, raw=present, name=f"{source.name}, rows with {label!r},")
        _check_classes(rows, label, flags)
        others = all_own - own[name] - set(flags.features or ())
        if by is not None:
            rows.compute(by, Computed(pl.lit(name), pl.String()))
            others.add(by)
        tables[name] = LabelTable(rows, replace(named[name], ignore=(*flags.ignore, *sorted(others))))
    if any(missing.values()):
        counts = ", ".join(f"{count:,} without {label!r}" for label, count in missing.items() if count)
        listener.note(f"rows without a label are left out for that label alone: {counts}")
    return tables


def name_of_labels(flags: Flags) -> str:
    """The name of all labels together: their pattern, but for a star alone, which polars takes for all columns."""
    pattern = "" if flags.multi is None else flags.multi[0]
    return "label *" if pattern == STAR else pattern


def flags_of_labels(
    source: Source, flags: Flags, known: Mapping[str, Binding], *, need_label: bool
) -> dict[str, Flags]:
    """The flags for each label, by its name, in the order of the names; those of an artifact are all `known`."""
    if flags.multi is None:
        if (flags.label, flags.prob, flags.logit, flags.rank) != (None, None, None, None):
            raise UsageError("one label or score is named, and the artifact has several", hint="--multi LABELS SCORES")
        return dict.fromkeys(sorted(known), flags)
    pairs = _pairs(source, *flags.multi, set(flags.ignore), known, need_label=need_label)
    kinds = {binding.score.kind for binding in known.values()}
    logits = "logit" in kinds if kinds else _below_zero(source, [score for _, score in pairs.values()])
    alone = replace(flags, multi=None)
    return {
        name: replace(alone, label=label, logit=score) if logits else replace(alone, label=label, prob=score)
        for name, (label, score) in pairs.items()
    }


def _scores(flags: Flags, known: Binding | None) -> Iterator[str]:
    """The columns that the score of a label is read from."""
    named = [flags.prob or flags.logit] if flags.prob or flags.logit or known is None else known.score.columns
    for column in map(str, named):
        call = call_in(column)
        yield column if call is None else call[1]


def joint_binding(pattern: str, bindings: Iterable[Binding]) -> Binding:
    """One binding that names the columns of all labels, for what reads or shows columns."""
    bindings = list(bindings)
    features = {feature.name: feature for binding in bindings for feature in binding.features}
    columns = dict.fromkeys(column for binding in bindings for column in binding.score.columns)
    return replace(
        bindings[0],
        label=pattern,
        score=Score(bindings[0].score.kind, tuple(columns)),
        features=tuple(features.values()),
        dropped=(),
        notes=tuple(dict.fromkeys(note for binding in bindings for note in binding.notes)),
    )


def _pairs(
    source: Source, labels: str, scores: str, ignored: Collection[str], known: Collection[str], *, need_label: bool
) -> dict[str, tuple[str | None, str]]:
    """The column of each label and that of its score, by what the star stands for."""
    call = call_in(scores)
    inner = scores if call is None else call[1]
    for pattern in (labels, inner):
        if pattern.count(STAR) != 1:
            raise UsageError(f"--multi {pattern!r}: one * in each pattern pairs the columns", hint="try: 'label_*'")
    of_labels, of_scores = _like(labels, source.columns), _like(inner, source.columns)
    # A column that both patterns fit is of the longer one; a star alone fits all columns, and means those of pairs.
    looser, closer = sorted((of_labels, of_scores), key=lambda found: len(labels if found is of_labels else inner))
    for name in [name for name, column in looser.items() if column in closer.values()]:
        del looser[name]
    if STAR in (labels, inner):
        for name in looser.keys() - closer.keys():
            del looser[name]
    for pattern, found in ((labels, of_labels if need_label else {"": ""}), (inner, of_scores)):
        if not found:
            raise DataError(f"--multi: no column is like {pattern!r}; {available(source.columns)}")
    for what, one, other, pattern in (("score", of_labels, of_scores, inner), ("label", of_scores, of_labels, labels)):
        for name in sorted(one.keys() - other.keys()) if need_label else ():
            if one[name] in ignored:
                del one[name]
                continue
            raise DataError(
                f"--multi: {one[name]!r} has no {what}: there is no column {pattern.replace(STAR, name)!r}",
                hint=f"leave it out: --ignore {word(one[name])}",
            )
    names = sorted(of_scores)
    if unknown := [name for name in names if known and name not in known]:
        raise UsageError(f"--multi: the artifact has no label {unknown[0]!r}; {available(sorted(known))}")
    full = {name: of_scores[name] if call is None else f"{call[0]}({of_scores[name]})" for name in names}
    return {name: (of_labels.get(name), score) for name, score in full.items()}


def _like(pattern: str, columns: Iterable[str]) -> dict[str, str]:
    """The columns that fit a pattern, by what its star stands for."""
    start, _, end = pattern.partition(STAR)
    fit = (name for name in columns if name.startswith(start) and name.endswith(end) and len(name) >= len(pattern))
    return {name[len(start) : len(name) - len(end)]: name for name in fit}


def _below_zero(source: Source, scores: Collection[str]) -> bool:
    """Whether any of the first numbers is negative, as log-odds are and probabilities are not."""
    source.find(*scores)
    with reading(source.name):
        rows = source.raw.select(scores).head(LOOKED_AT).collect(engine="streaming")
    return any((numbers(column) < 0.0).any() for column in rows)


def _missing(source: Source, labels: Sequence[str]) -> dict[str, int]:
    """How many rows have no value in each of these columns."""
    with reading(source.name):
        counts = source.raw.select((~_is_there(source, label)).sum().alias(label) for label in labels)
        return {label: int(count) for label, count in counts.collect(engine="streaming").row(0, named=True).items()}


def _is_there(source: Source, label: str) -> pl.Expr:
    column = pl.col(label)
    if source.text:
        return is_present(column)
    return column.is_not_null() & column.is_not_nan() if source.schema[label].is_float() else column.is_not_null()


def _check_classes(source: Source, label: str, flags: Flags) -> None:
    """Refuse a label that is constant, or has other classes than 0 and 1 where no flag names them."""
    found = distinct_labels(source, label, may_be_soft=True)
    shown = ", ".join(map(class_text, found.values[:4])) + (", …" if len(found.values) > 4 else "")
    if len(found.values) < 2:
        raise DataError(f"the label {label!r} is {shown} in every row", hint=f"leave it out: --ignore {word(label)}")
    named = (flags.classes, flags.positive) != (NO_FLAGS.classes, NO_FLAGS.positive)
    if len(found.values) > 2 or (not named and tuple(map(class_text, found.values)) not in _USUAL):
        raise DataError(
            f"the label {label!r} holds {shown}: each of several labels is 0 or 1, true or false, or a share",
            hint="if all have two other classes: --positive CLASS" if len(found.values) == 2 else None,
        )


_USUAL = (("0", "1"), ("false", "true"))
