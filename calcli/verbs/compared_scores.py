"""The request to `evaluate`, and the scores that it compares: the raw one, those of artifacts, calibrated columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calcli.batch import Batch, Edges, FloatArray
from calcli.diagrams.curves import PAGE_KINDS, Kind
from calcli.errors import UsageError
from calcli.files import as_text, base_name
from calcli.listener import Listener
from calcli.metrics.base import Options
from calcli.models.base import Given, Model, name_of
from calcli.models.calibrator import CalibratorModel
from calcli.models.columns import link_remarks
from calcli.reports.measuring import raw_odds, raw_probabilities
from calcli.reports.schema import RAW, ReportWarning, ScoreSource
from calcli.tables.binding import bind, bind_score
from calcli.tables.binding_types import Binding, Feature, Flags
from calcli.tables.pairs import STAR
from calcli.tables.request import Engine, RowsRequest
from calcli.tables.scales import Scale
from calcli.tables.scores import NoScoreError
from calcli.tables.source import Data, Source

USUAL_SEGMENTS = 5
"""The segments that are looked for where no number is given."""


@dataclass(frozen=True, slots=True)
class ComparedScore:
    """A score that is measured."""

    name: str
    source: ScoreSource
    binding: Binding
    """The columns that the score is read from."""

    predict: Callable[[Batch], FloatArray]
    """The probabilities of rows of this binding."""

    whole_table: bool = False
    """Whether the score must see all rows at once."""

    odds: Callable[[Batch], FloatArray | None] = lambda batch: None
    """The numbers by which rows of this binding are ranked; None where the probabilities are."""

    @classmethod
    def of_columns(cls, name: str, source: ScoreSource, binding: Binding) -> ComparedScore:
        """A score that columns hold already."""
        return cls(name, source, binding, raw_probabilities, binding.score.kind == "rank", raw_odds)


@dataclass(frozen=True, slots=True)
class NamedScores:
    """The artifacts and columns to compare with the raw score, by their names in the report."""

    models: Mapping[str, CalibratorModel]
    columns: Mapping[str, str]

    @property
    def linked(self) -> bool:
        """Whether any of the artifacts was fitted with an edge list."""
        return any(model.calibrator.sides.edges is not None for model in self.models.values())

    def linked_by(self, edges: Edges) -> NamedScores:
        """The scores with these edges in each artifact that was fitted with an edge list."""
        return replace(self, models={name: model.linked_by(edges) for name, model in self.models.items()})

    def note_links(self, scores: Sequence[ComparedScore], source: Source, listener: Listener) -> None:
        """Note how many rows of the table no edge links, for each artifact that was fitted with an edge list."""
        of_artifacts = [score for score in scores if score.name in self.models]
        for score, model in zip(of_artifacts, self.models.values(), strict=True):
            for remark in link_remarks(model.calibrator, score.binding, source):
                listener.note(f"{score.name}: {remark}")


def split_names(artifacts: Sequence[Given], columns: Sequence[str]) -> tuple[dict[str, Given], dict[str, str]]:
    """The artifacts by name, as they are given or as ``DIR`` or ``NAME=DIR``, and the columns by name."""
    places: dict[str, str] = {}
    for flag, given in (("--with", artifacts), ("--score", columns)):
        for one in given:
            name, place = _split_name(flag, one)
            if name in places:
                raise UsageError(f"two scores are named {name!r}", hint=f"try: {flag} NAME={place}")
            places[name] = place
    pairs = zip(places.items(), artifacts, strict=False)  # columns follow
    named = {name: place if isinstance(one, str) else one for (name, place), one in pairs}
    return named, {name: place for name, place in places.items() if name not in named}


def _split_name(flag: str, given: Given) -> tuple[str, str]:
    """The name of a score, and its directory or column."""
    text = given if isinstance(given, str) else name_of(given)
    name, separator, place = text.partition("=")
    if not separator or text is not given:
        name, place = base_name(text) if flag == "--with" else text, text
    if not name or not place:
        raise UsageError(f"{flag} {text}: one side of = is empty; give NAME=VALUE or VALUE")
    if name == RAW:
        raise UsageError(f"'{RAW}' is the name of the uncalibrated score", hint=f"try: {flag} NAME={place}")
    return name, place


def bind_scores(
    source: Source, flags: Flags, named_scores: NamedScores, listener: Listener
) -> tuple[ComparedScore, ...]:
    """The raw score, then the named ones, bound to their columns of the same table.

    The raw score is what the flags say, else what the first artifact reads. An artifact is bound as `apply` binds it:
    flags, then its manifest; where artifacts read different scores, the flags speak of the raw one alone.
    """
    models, columns = named_scores.models, named_scores.columns
    # The raw score.
    flags = replace(flags, ignore=(*flags.ignore, *_score_columns(source, flags, named_scores)))
    known = next((model.binding for model in models.values()), None)
    raw = _bind_raw(source, flags, known, columns)
    notes = list(raw.notes)
    scores = [ComparedScore.of_columns(RAW, ScoreSource("raw"), raw)]
    # Artifacts: their classes must be those of the raw score.
    if len({model.binding.score for model in models.values()}) > 1:
        flags = replace(flags, prob=None, logit=None, rank=None)
    of_artifacts = replace(flags, features=None)  # it says what the clusters of CECE are of
    for name, model in models.items():
        _check_labels(name, model.binding, raw, flags)
        binding = bind(source, of_artifacts, known=model.binding, need_label=False, features=model.needs_features)
        column = None
        if binding.score != raw.score:
            column = _listed(binding.score.columns)
            notes.append(f"{name} reads the {binding.score.kind} in {column}")
        path, calibrator = None if model.path is None else as_text(model.path), model.calibrator
        artifact = ScoreSource("artifact", path, column, model.method, model.sha256, model.fitted)
        scores.append(ComparedScore(name, artifact, binding, calibrator.predict, calibrator.whole_table))
    # Columns that are calibrated already.
    for name, column in columns.items():
        binding = bind_score(source, raw, column)
        scores.append(ComparedScore.of_columns(name, ScoreSource("column", column=column), binding))
    for note in dict.fromkeys(notes):
        listener.note(note)
    return tuple(scores)


def all_features(scores: Iterable[ComparedScore]) -> tuple[Feature, ...]:
    """The features that any of them reads."""
    return tuple(dict.fromkeys(feature for score in scores for feature in score.binding.features))


def scale_checks(scores: Sequence[ComparedScore]) -> list[Scale | None]:
    """For each score a check of its scale; None where an artifact has said what the scale is."""
    known = any(score.source.kind == "artifact" for score in scores)
    return [
        Scale(score.binding.score, flags=score.name == RAW)
        if score.source.kind == "column" or (score.name == RAW and not known)
        else None
        for score in scores
    ]


def seen_before(source: Source, models: Mapping[str, Model]) -> tuple[ReportWarning, ...]:
    """Warnings of artifacts that were fitted on files that are measured here."""
    here = {file.sha256: file.path for file in source.files()}
    warnings = []
    for name, model in models.items():
        files: Any = model.manifest.data.get("files") or []
        same = [as_text(here[file["sha256"]] or "standard input") for file in files if file["sha256"] in here]
        if same:
            text = f"{name} was fitted on {', '.join(same)}, and is measured on the same rows"
            warnings.append(ReportWarning("seen-before", f"{text}: the results are too optimistic; use other rows"))
    return tuple(warnings)


def _score_columns(source: Source, flags: Flags, named_scores: NamedScores) -> Iterable[str]:
    """The columns that --score names, so that no other role takes them because of their names.

    Columns of logits are left out: --score wants probabilities, and the error about the scale says so.
    """
    bound = {flags.label, flags.weight, flags.prob, flags.logit, flags.rank, "logit"}
    bound |= {column for model in named_scores.models.values() for column in model.binding.score.columns}
    for stem in named_scores.columns.values():
        if stem not in bound:
            of_classes = [column for column in source.columns if column.startswith(f"{stem}_")]
            columns = [stem] if stem in source.columns else of_classes
            yield from (column for column in columns if column not in bound)


def _bind_raw(source: Source, flags: Flags, known: Binding | None, columns: Mapping[str, str]) -> Binding:
    try:
        return bind(source, flags, known=known, features=False)
    except NoScoreError as error:
        if known is not None or not columns:
            raise
        first = next(iter(columns.values()))
        raise NoScoreError(
            f"there is no raw score for {first!r} to compare it with",
            hint=f"to measure it alone, use --prob {first} instead of --score",
        ) from error


def _check_labels(name: str, fitted: Binding, raw: Binding, flags: Flags) -> None:
    for what, given, wanted in (
        ("label", str(fitted.label), str(raw.label if flags.label is None else fitted.label)),
        ("classes", _listed(fitted.classes), _listed(raw.classes)),
        ("positive class", str(fitted.positive), str(raw.positive)),
    ):
        if given != wanted:
            raise UsageError(f"{name} was fitted with the {what} {given}, not {wanted}", hint="evaluate it on its own")


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(str, names))


@dataclass(frozen=True, slots=True)
class EvaluateRequest(RowsRequest):
    """The request of `evaluate`.

    Attributes
    ----------
    scores
        Columns of probabilities that are calibrated already, each as ``COLUMN`` or ``NAME=COLUMN``; with more than two
        classes the stem of ``COLUMN_<class>``.
    versus
        A score; the differences of the others from it are in the report too, beside those from the raw one.
    ordered
        Whether the classes have an order: then `rps` and `cumulative_ece` are measured too.
    resample_by
        A column: rows that agree in it, those of one user, count as one in intervals and p-values, and are drawn
        together.
    by
        Columns; the metrics are shown within each of their values too.
    find_segments
        The greatest number of segments of each score, rows that fulfil a few conditions on features, in which it is
        more wrong than elsewhere; 0 looks for none.
    of_class
        The class whose segments are looked for; None is the positive one of two, the predicted one of more.
    audit
        Whether to look for segments, to trace curves of all kinds, and to measure on held-out rows what a calibrator by
        the default method would gain.
    clusters_from
        A column whose values are the clusters of CECE; None for those of a CCL artifact, or of the features.
    rejection
        Whether to add the error rates of the rows that are left when the least sure ones are rejected.
    baseline
        A report that `evaluate` wrote as JSON; every number is compared with it.
    drift
        One of the artifacts, or another: has its calibration moved since the fit?
    state
        The file in which `drift` keeps its log; None is ``<artifact>.drift.json``.
    edges
        Pairs of ids of linked rows: for `tv`, and for artifacts that were fitted with other ones.
    engine, master
        As for `apply`; on a cluster, what does not add up over parts of the rows is null.
    """

    data: Data
    artifacts: Sequence[Given] = ()
    scores: Sequence[str] = ()
    versus: str | None = None
    metrics: str | Sequence[str] = "default"
    options: Options = Options()
    bootstrap: int = 0
    resample_by: str | None = None
    by: Sequence[str] = ()
    find_segments: int = 0
    of_class: str | None = None
    clusters_from: str | None = None
    rejection: bool = False
    every_curve: bool = False
    baseline: str | Path | None = None
    drift: Given | None = None
    state: str | Path | None = None
    edges: Data | None = None
    fail_if: Sequence[str] = ()
    allow_null: bool = False
    seed: int = 0
    engine: Engine = "local"
    master: str | None = None
    ordered: bool = False
    audit: bool = False

    @property
    def all_artifacts(self) -> tuple[Given, ...]:
        """The artifacts to measure, and the one of `drift`."""
        more = () if self.drift is None or self.drift in self.artifacts else (self.drift,)
        return (*self.artifacts, *more)

    @property
    def sample(self) -> None:
        """The rows of a sample on a cluster: as many as it draws by itself."""
        return

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if self.every_curve:
            return PAGE_KINDS
        return ("reliability", "rejection") if self.rejection else ("reliability",)

    def whole_for(self, scores: Sequence[ComparedScore] = ()) -> str | None:
        """A flag or a score that needs all rows at once, if there is one."""
        needs: dict[str, object] = {
            "--bootstrap": self.bootstrap,
            "--by": self.by,
            "--find-segments": self.find_segments,
            "--drift": self.drift,
            "--resample-by": self.resample_by,
        }
        needs |= {score.name: score.whole_table for score in scores}
        return next((name for name, whole in needs.items() if whole), None)


def check_several(request: EvaluateRequest, models: Iterable[Model], columns: Mapping[str, str]) -> None:
    """Refuse, where several labels are measured, what is about one."""
    asked = {
        "--engine": request.engine != "local",
        "--drift": request.drift,
        "--baseline": request.baseline,
        "--audit": request.audit,
        "--find-segments": request.find_segments,
        "--rejection": request.rejection,
        "--edges": request.edges,
    }
    asked |= {f"--score {column}": column.count(STAR) != 1 for column in columns.values()}
    asked |= {f"--with {model.name}": model.manifest.kind != "multi" for model in models}
    if alone := next((flag for flag, given in asked.items() if given), None):
        raise UsageError(
            f"{alone} is about one label, and there are several",
            hint="evaluate one label: --label LABEL --prob SCORE, and of an artifact --with 'DIR#LABEL'",
        )
