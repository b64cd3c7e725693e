"""Which scores stand side by side: the raw one, those of artifacts, and columns that are calibrated already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from calcli.batch import Batch, Edges, FloatArray
from calcli.engines.listener import Listener
from calcli.errors import UsageError
from calcli.fitting.model import Model, load
from calcli.reports.measuring import raw_probabilities
from calcli.reports.schema import RAW, ScoreSource
from calcli.tables.binding import Binding, Feature, Flags, bind, bind_score
from calcli.tables.scale import Scale
from calcli.tables.scores import NoScoreError
from calcli.tables.source import Source


@dataclass(frozen=True, slots=True)
class ComparedScore:
    """One of the scores.

    Attributes
    ----------
    binding
        Which columns it is read from.
    predict
        Its probabilities for rows of this binding.
    whole_table
        Whether it must see all rows at once.
    """

    name: str
    source: ScoreSource
    binding: Binding
    predict: Callable[[Batch], FloatArray]
    whole_table: bool = False


@dataclass(frozen=True, slots=True)
class NamedScores:
    """What shall stand beside the raw score: artifacts and columns, by the names they have in the report."""

    models: Mapping[str, Model]
    columns: Mapping[str, str]

    @property
    def linked(self) -> bool:
        """Whether any of the artifacts was fitted with an edge list."""
        return any(model.calibrator.sides.edges is not None for model in self.models.values())

    def linked_by(self, edges: Edges) -> NamedScores:
        """The same, where artifacts that were fitted with an edge list have this one instead."""
        return replace(self, models={name: model.linked_by(edges) for name, model in self.models.items()})

    @classmethod
    def parse(cls, artifacts: Sequence[str], columns: Sequence[str]) -> NamedScores:
        """From ``DIR`` or ``NAME=DIR``, and ``COLUMN`` or ``NAME=COLUMN``."""
        places: dict[str, str] = {}
        for flag, texts in (("--with", artifacts), ("--score", columns)):
            for text in texts:
                name, place = _split(flag, text)
                if name in places:
                    raise UsageError(f"two scores are named {name!r}", hint=f"try: {flag} NAME={place}")
                places[name] = place
        names = list(places)
        return cls(
            {name: load(places[name]) for name in names[: len(artifacts)]},
            {name: places[name] for name in names[len(artifacts) :]},
        )


def _split(flag: str, text: str) -> tuple[str, str]:
    """The name of a score, and where it is."""
    name, separator, place = text.partition("=")
    if not separator:
        name, place = Path(text).resolve().name if flag == "--with" else text, text
    if not name or not place:
        raise UsageError(f"{flag} {text}: a name and what it is of stand around the =")
    if name == RAW:
        raise UsageError(f"'{RAW}' is the name of the uncalibrated score", hint=f"try: {flag} NAME={place}")
    return name, place


def bind_scores(source: Source, flags: Flags, named: NamedScores, listener: Listener) -> tuple[ComparedScore, ...]:
    """The raw score and each one beside it, bound to their columns of the same table.

    The raw score is what the flags say, else what the first artifact reads. An artifact is bound as `apply` binds it:
    flags, then its manifest, then names; where artifacts read different scores, the flags speak of the raw one alone.
    """
    models = named.models
    flags = replace(flags, ignore=(*flags.ignore, *_other_scores(source, flags, named)))
    first = next(iter(models.values())).binding if models else None
    raw = _bind_raw(source, flags, first, named.columns)
    notes = list(raw.notes)
    entrants = [ComparedScore(RAW, ScoreSource("raw"), raw, partial(raw_probabilities, binding=raw))]
    if len({model.binding.score for model in models.values()}) > 1:
        flags = replace(flags, prob=None, logit=None)
    for name, model in models.items():
        _check_classes(name, model.binding, raw)
        own = bind(source, flags, known=model.binding, need_label=False, features=model.needs_features)
        column = None
        if own.score != raw.score:
            column = _listed(own.score.columns)
            notes.append(f"{name} reads the {own.score.kind} in {column}")
        kept = ScoreSource("artifact", str(model.path), column, model.method, model.sha256, model.fitted)
        calibrator = model.calibrator
        entrants.append(ComparedScore(name, kept, own, calibrator.predict, calibrator.whole_table))
    for name, column in named.columns.items():
        own = bind_score(source, raw, column)
        as_it_is = partial(raw_probabilities, binding=own)
        entrants.append(ComparedScore(name, ScoreSource("column", column=column), own, as_it_is))
    for note in dict.fromkeys(notes):
        listener.note(note)
    return tuple(entrants)


def all_features(entrants: Iterable[ComparedScore]) -> tuple[Feature, ...]:
    """What any of them reads besides scores."""
    return tuple(dict.fromkeys(feature for one in entrants for feature in one.binding.features))


def scale_checks(entrants: Sequence[ComparedScore]) -> list[Scale | None]:
    """For each score, what looks at its scale, where nothing else vouches for it."""
    vouched = any(one.source.kind == "artifact" for one in entrants)
    return [
        Scale(one.binding.score, flags=one.name == RAW)
        if one.source.kind == "column" or (one.name == RAW and not vouched)
        else None
        for one in entrants
    ]


def _other_scores(source: Source, flags: Flags, named: NamedScores) -> Iterable[str]:
    """The columns that --score names, which are then not taken for anything else because of their names.

    But for logits: they are no probabilities, which is what shall be said of them.
    """
    spoken = {flags.label, flags.weight, flags.prob, flags.logit, "logit"}
    spoken |= {column for model in named.models.values() for column in model.binding.score.columns}
    for stem in named.columns.values():
        if stem not in spoken:
            own = [stem] if stem in source.columns else [each for each in source.columns if each.startswith(f"{stem}_")]
            yield from (column for column in own if column not in spoken)


def _bind_raw(source: Source, flags: Flags, known: Binding | None, columns: Mapping[str, str]) -> Binding:
    try:
        return bind(source, flags, known=known, features=False)
    except NoScoreError as error:
        if known is not None or not columns:
            raise
        first = next(iter(columns.values()))
        raise NoScoreError(
            f"there is no raw score for {first!r} to stand beside",
            hint=f"to measure it by itself, say --prob {first} in place of --score",
        ) from error


def _check_classes(name: str, theirs: Binding, ours: Binding) -> None:
    for what, its, here in (
        ("classes", _listed(theirs.classes), _listed(ours.classes)),
        ("positive class", str(theirs.positive), str(ours.positive)),
    ):
        if its != here:
            raise UsageError(f"{name} was fitted with the {what} {its}, not {here}", hint="evaluate it on its own")


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(str, names))
