"""`diagram`: what was predicted, and what came true, in a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from calcli.artifacts.strictjson import as_json
from calcli.diagrams.captions import amount, caption, percent
from calcli.diagrams.curves import BINS, Bands, Binning, Curve, Kind, by_kind
from calcli.diagrams.suffixes import promised
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import BadRows
from calcli.errors import UsageError, unknown_name
from calcli.evaluation.compared_scores import ComparedScore, NamedScores, all_features, bind_scores, scale_checks
from calcli.metrics.base import Scored
from calcli.reports.curves import CurveBuilder
from calcli.reports.measuring import class_names, class_weights, facts_of
from calcli.reports.schema import DataFacts
from calcli.state import Json
from calcli.tables.binding import Binding, Flags
from calcli.tables.load import read_batches
from calcli.tables.row_counts import Tally
from calcli.tables.source import Data, Source, open_source
from calcli.version import VERSION

Form: TypeAlias = Literal["png", "svg", "pdf", "html"]

FORMS: tuple[Form, ...] = get_args(Form)

SCHEMA = "calcli.diagram/1"


@dataclass(frozen=True, slots=True)
class DiagramRequest:
    """What `diagram` is asked.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame.
    artifacts
        Directories, each as ``DIR`` or ``NAME=DIR``.
    scores
        Columns of probabilities that are calibrated already, each as ``COLUMN`` or ``NAME=COLUMN``.
    output
        A file, or ``-`` for standard output; None draws nothing. What it is follows from its suffix, or from
        `output_format`: ``png``, ``svg``, ``pdf`` or ``html``. A page has curves of all kinds.
    kind
        ``reliability``: bars; ``smooth``: a curve in their place; ``rejection``: the error rate of what is left when
        the least sure rows are rejected.
    bins, binning
        How many bars, and whether they are of equal width or hold equal weight.
    classes
        Whose probability: names of classes, ``all``, or ``top`` for the class that is predicted. None given: the
        positive class of two, ``top`` of more.
    bands
        ``consistency``: where 95 % of a calibrated score's points would be; ``bootstrap``: where those of as many rows
        drawn anew would be; ``none``.
    """

    data: Data
    artifacts: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    output: str | os.PathLike[str] | None = None
    output_format: str | None = None
    kind: Kind = "reliability"
    bins: int = BINS
    binning: Binning = "width"
    classes: tuple[str, ...] = ()
    bands: Bands = "consistency"
    flags: Flags = Flags()
    input_format: str | None = None
    bad_rows: BadRows = "fail"

    def __post_init__(self) -> None:
        for name, known in (("kind", Kind), ("binning", Binning), ("bands", Bands)):
            if getattr(self, name) not in get_args(known):
                raise UsageError(unknown_name(name, getattr(self, name), get_args(known)))
        if self.bins < 1:
            raise UsageError(f"bins is {self.bins}; there must be one at least")


@dataclass(frozen=True, slots=True)
class DiagramResult:
    """What there is to see.

    Attributes
    ----------
    curves
        By class, then by score; in a page by kind first.
    label
        The column that axes speak of.
    """

    request: DiagramRequest = field(repr=False)
    curves: tuple[Curve, ...]
    label: str
    data: DataFacts
    binding: Binding

    @property
    def shown(self) -> tuple[Curve, ...]:
        """The curves of the kind that was asked for; a page has the others too."""
        return tuple(curve for curve in self.curves if curve.kind == self.request.kind)

    def to_json(self) -> dict[str, Json]:
        """The numbers of the picture, and what to see in it."""
        return as_json(
            {
                "schema": SCHEMA,
                "version": VERSION,
                "kind": self.request.kind,
                "bins": self.request.bins if self.request.kind == "reliability" else None,
                "binning": self.request.binning if self.request.kind == "reliability" else None,
                "bands": self.request.bands,
                "data": asdict(self.data),
                "binding": self.binding.to_json(),
                "curves": by_kind(self.shown),
                "readings": [
                    {
                        "score": curve.score,
                        "class": curve.of,
                        "error": curve.error,
                        "chance": curve.chance,
                        "text": caption(curve).text,
                    }
                    for curve in self.shown
                ],
            }
        )


def diagram(request: DiagramRequest, listener: Listener = SILENT) -> DiagramResult:
    """Trace the curves of the raw score, of each artifact and of each column; draw them if there is a place for it."""
    form = form_of(request.output, request.output_format)
    named = NamedScores.parse(request.artifacts, request.scores)
    with open_source(request.data, format=request.input_format) as source:
        entrants = bind_scores(source, request.flags, named, listener)
        with stage(listener, "reading"):
            traced = _traced(request, source, entrants, every_kind=form == "html")
        binding = replace(entrants[0].binding, features=all_features(entrants))
        name = source.name
    result = DiagramResult(request, traced.curves, binding.label or "label", traced.data, binding)
    if form is not None and request.output is not None:
        from calcli.tables.sink import write_bytes

        with stage(listener, "drawing"):
            write_bytes(rendered(result, form, name), request.output)
    return result


def form_of(output: str | os.PathLike[str] | None, given: str | None) -> Form | None:
    """What kind of file is asked for; None for no file."""
    if output is None:
        return None
    listed = ", ".join(FORMS)
    if given is None:
        if str(output) == "-":
            raise UsageError(
                "a stream has no suffix that tells its format", hint=f"name it: --output-format {FORMS[0]}"
            )
        return promised(output, FORMS, hint=f"name it with --output-format: {listed}")
    for form in FORMS:
        if given.lower() == form:
            return form
    raise UsageError(unknown_name("picture format", given, FORMS), hint=f"--output-format takes one of {listed}")


@dataclass(frozen=True, slots=True)
class _Traced:
    curves: tuple[Curve, ...]
    data: DataFacts


def _traced(request: DiagramRequest, source: Source, entrants: Sequence[ComparedScore], *, every_kind: bool) -> _Traced:
    """All rows go by once; none is kept, unless bins of equal weight want to know them all."""
    binding = entrants[0].binding
    kinds: list[Kind] = [request.kind]
    if every_kind:
        kinds += [kind for kind in ("reliability", "smooth", "rejection") if kind != request.kind]
    tracing = CurveBuilder(
        [one.name for one in entrants],
        class_names(binding),
        kinds,
        request.classes,
        bins=request.bins,
        binning=request.binning,
        bands=request.bands,
    )
    tally = Tally(source.name, keep_going=request.bad_rows == "null")
    share = np.zeros(len(binding.classes))
    for batches in read_batches(source, [one.binding for one in entrants], tally, scale_checks(entrants)):
        label, weight = batches[0].labels, batches[0].weight
        share += class_weights(label, weight, len(share))
        tracing.add([Scored(label, one.predict(batch), weight) for one, batch in zip(entrants, batches, strict=True)])
    return _Traced(tracing.curves(), facts_of(source, binding, tally.rows, tally.rows_bad, share))


def rendered(result: DiagramResult, form: Form, name: str) -> bytes:
    """The picture as the content of a file; `name` is that of the table."""
    if form == "html":
        return _page(result, name).encode()
    from calcli.diagrams import image

    return image.render(result.curves, result.label, result.request.bands, form)


def _page(result: DiagramResult, name: str) -> str:
    from calcli.diagrams import page

    body = page.switches(result.curves) + page.figures(result.curves, result.label, result.request.bands)
    about = [f"{amount(result.data.rows - result.data.rows_bad)} rows"]
    if isinstance(result.data.label_rate, float):
        positive = class_names(result.binding)[1]
        about.append(f"{percent(result.data.label_rate)} of them {result.label} = {positive}")
    return page.document(f"Predicted and happened: {name}", ", ".join(about), body)
