"""`diagram`: predicted probabilities against observed rates, as a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from calcli import extras
from calcli.artifacts.strictjson import as_json
from calcli.diagrams.captions import caption
from calcli.diagrams.charts import MOST_OVERLAID
from calcli.diagrams.curve_builder import CurveBuilder
from calcli.diagrams.curves import PAGE_KINDS, Bands, Binning, Curve, Kind, amount, by_kind, percent
from calcli.diagrams.image import PAGE_FORMATS, PageFormat, image_format_of, render
from calcli.errors import UsageError, unknown_name
from calcli.homes import Brief
from calcli.listener import SILENT, Listener, stage
from calcli.models.base import Given
from calcli.models.calibrator import load
from calcli.models.side_inputs import read_edges
from calcli.numeric.bins import BINS, BinCount
from calcli.reports.measuring import class_names, facts_of
from calcli.reports.schema import DataFacts
from calcli.state import Json
from calcli.tables.binding_types import Binding
from calcli.tables.passes import Table
from calcli.tables.request import Engine, RowsRequest, check_master
from calcli.tables.source import Data, Source
from calcli.verbs.clusters import by_column
from calcli.verbs.compared_scores import ComparedScore, NamedScores, all_features, bind_scores, split_names
from calcli.verbs.engine import grouped, needs_all_rows, opened
from calcli.verbs.score_passes import CurvePass
from calcli.version import VERSION

if TYPE_CHECKING:
    from calcli.decisions.costs import Costs

SCHEMA = "calcli.diagram/1"

AROUND = 4.0
"""Thresholds are drawn at which the odds are up to so many times those of the costs, and down to such a part."""

MOST_GROUPS = 30
"""More pictures than these are too many to look at."""


@dataclass(frozen=True, slots=True)
class DiagramRequest(RowsRequest):
    """The request of `diagram`.

    Attributes
    ----------
    scores
        Columns of probabilities that are calibrated already, each as ``COLUMN`` or ``NAME=COLUMN``.
    output
        A file, or ``-`` for standard output; None draws nothing. What it is follows from its suffix, or from
        `output_format`: ``png``, ``svg``, ``pdf`` or ``html``. A page has curves of all kinds.
    kind
        ``reliability``: bars; ``corp``: an isotonic curve in their place, without bins; ``smooth``: a smooth one;
        ``rejection``: the error rate of what is left when the least sure rows are rejected; ``benefit``: the net
        benefit of decisions by each threshold; ``murphy``: the cost of their mistakes.
    bins, binning
        How many bars, and whether they are of equal width or hold equal weight. ``auto`` is the cube root of the number
        of rows in the picture.
    least, most
        The least and the greatest threshold of ``benefit`` and ``murphy``; of both None, all that matter.
    cost_fp, cost_fn
        The costs of a false positive and of a false negative, for ``benefit``: the curve is then in money, at the
        threshold that follows from the costs and at those around it.
    classes
        Whose probability: names of classes, ``all``, or ``top`` for the class that is predicted. None given: the
        positive class of two, ``top`` of more.
    axis
        The scale of the axes: ``prob``, ``logit`` or ``log``; ``auto`` takes ``log`` where nearly all scores are in the
        lowest tenth, and ``logit`` where they are in the highest.
    overlay
        Whether the curves of several scores are drawn over each other, without bands.
    by
        Columns; there is a picture for each of their values, and none of all rows.
    bands
        ``consistency``: where 95 % of a calibrated score's points would be; ``bootstrap``: where those of as many rows
        drawn anew would be; ``none``.
    edges
        Pairs of ids of linked rows, for artifacts that were fitted with other ones.
    """

    data: Data
    artifacts: Sequence[Given] = ()
    scores: Sequence[str] = ()
    output: str | os.PathLike[str] | None = None
    output_format: str | None = None
    kind: Kind = "reliability"
    bins: BinCount = BINS
    binning: Binning = "width"
    least: float | None = None
    most: float | None = None
    cost_fp: float | str | None = field(default=None, kw_only=True)
    cost_fn: float | str | None = field(default=None, kw_only=True)
    axis: Literal["auto", "prob", "logit", "log"] = "auto"
    overlay: bool = False
    classes: Sequence[str] = field(default=(), kw_only=True)
    by: Sequence[str] = ()
    bands: Bands = "consistency"
    edges: Data | None = None
    engine: Engine = "local"
    master: str | None = None

    def check(self, form: str | None) -> None:
        """Refuse what the kind of diagram does not have; a page in HTML has diagrams of other kinds too."""
        if self.kind == "rejection" and self.axis != "auto":
            raise UsageError("--kind rejection has no axis of probabilities", hint="leave --axis out")
        if self.kind not in {"benefit", "murphy"} and self.span is not None:
            raise UsageError(f"--kind {self.kind} has no thresholds", hint="leave --from and --to out")
        if not (self.kind == "reliability" or form == "html") and (self.bins, self.binning) != (BINS, "width"):
            raise UsageError(f"--kind {self.kind} has no bins", hint="leave --bins and --binning out")
        if self.kind != "benefit" and self.costs is not None:
            raise UsageError(
                "--cost-fp and --cost-fn are of --kind benefit", hint="leave them out, or add --kind benefit"
            )

    @property
    def costs(self) -> Costs | None:
        """The costs of mistakes, if they were given."""
        given = {"--cost-fp": self.cost_fp, "--cost-fn": self.cost_fn}
        if all(cost is None for cost in given.values()):
            return None
        for flag, cost in given.items():
            if cost is None:
                raise UsageError(f"{flag} is not given", hint="both errors have a cost: --cost-fp 1 --cost-fn 20")
            if isinstance(cost, str):
                raise UsageError(f"{flag} {cost}: a curve is of costs that are the same for all rows: give a number")
            if not cost > 0.0:
                raise UsageError(f"{flag} {cost:g}: a threshold between 0 and 1 follows from costs above 0")
        from calcli.decisions.costs import Costs

        return Costs(*(float(cost) for cost in given.values() if cost is not None))

    @property
    def span(self) -> tuple[float, ...] | None:
        """The ends of the thresholds that were asked for, and that of the costs between them; None for all."""
        costs = self.costs
        if (self.least, self.most, costs) == (None, None, None):
            return None
        ends, at = (0.01, 0.99), [] if costs is None else [costs.threshold]
        if costs is not None:
            odds = float(costs.fp) / float(costs.fn)
            ends = odds / (odds + AROUND), odds / (odds + 1.0 / AROUND)
        least, most = (
            end if given is None else given for given, end in zip((self.least, self.most), ends, strict=True)
        )
        if not 0.0 < least < most < 1.0:
            raise UsageError(f"thresholds from {least:g} to {most:g}: they rise, between 0 and 1")
        if at and not least < at[0] < most:
            raise UsageError(
                f"thresholds from {least:g} to {most:g}: {at[0]:.3g}, which follows from the costs, is not among them",
                hint="leave --from and --to out",
            )
        return least, *at, most


@dataclass(frozen=True, slots=True, repr=False)
class DiagramResult(Brief):
    """The curves, and the name of the label for their captions."""

    request: DiagramRequest = field(repr=False)
    curves: tuple[Curve, ...]
    """By class, then by score; in a page by kind first."""

    label: str
    """The label column, for the captions of axes."""

    data: DataFacts
    binding: Binding

    @property
    def shown(self) -> tuple[Curve, ...]:
        """The curves of the requested kind; a page has the others too."""
        return tuple(curve for curve in self.curves if curve.kind == self.request.kind)

    def to_json(self) -> dict[str, Json]:
        """The numbers of the picture, and captions of its curves."""
        bars = self.request.kind == "reliability"
        return as_json(
            {
                "schema": SCHEMA,
                "version": VERSION,
                "kind": self.request.kind,
                "bins": self.request.bins if bars and self.request.bins != "auto" else None,
                "binning": self.request.binning if bars else None,
                "bands": self.request.bands,
                "costs": None if (costs := self.request.costs) is None else {"fp": costs.fp, "fn": costs.fn},
                "data": asdict(self.data),
                "binding": self.binding.to_json(),
                "curves": by_kind(self.shown),
                "readings": [
                    {
                        "score": curve.score,
                        "class": curve.of,
                        "bins": curve.bins or None,
                        "error": curve.error,
                        "chance": curve.chance,
                        "diagnosis": None if curve.diagnosis is None else asdict(curve.diagnosis),
                        "text": caption(curve).text,
                    }
                    for curve in self.shown
                    if not curve.plain
                ],
            }
        )


def diagram(request: DiagramRequest, listener: Listener = SILENT) -> DiagramResult:
    """Trace the curves of the raw score, of each artifact and of each column; draw them if there is a place for it."""
    check_master(request.engine, request.master)
    form = form_of(request.output, request.output_format)
    request.check(form)
    if form not in (None, "html"):
        extras.require("matplotlib", f"a picture as {form}")
    given, columns = split_names(request.artifacts, request.scores)
    named = NamedScores({name: load(artifact) for name, artifact in given.items()}, columns)
    needs = {
        "--binning mass": request.binning == "mass",
        "--bins auto": request.bins == "auto",
        "--edges": request.edges is not None,
    }
    if request.engine != "local" and (flag := next((flag for flag, given in needs.items() if given), None)):
        raise needs_all_rows(flag, "draw")
    if request.edges is not None:
        if not named.linked:
            raise UsageError("--edges is used by artifacts fitted with --edges", hint="leave it out")
        named = named.linked_by(read_edges(request.edges)[0])
    with opened(request) as table:
        known = next((model.binding for model in named.models.values()), None)
        request = replace(request, by=grouped(table, request.by, listener))
        example = table.example(request.flags, known, request.by)
        tracing = _tracing(request, named, table, example, listener, every_kind=form == "html")
        with stage(listener, "reading" if request.engine == "local" else "reading on Spark"):
            passed = table.run(tracing)
        binding, count = tracing.scores[0].binding, passed.count
        data = facts_of(example, binding, count.facts, passed.total.share)
    curves = passed.total.builder.curves()
    if request.overlay:
        curves = tuple(replace(curve, overlaid=True) for curve in curves)
    if request.axis != "auto":
        curves = tuple(replace(curve, scale=request.axis) for curve in curves)
    if (costs := request.costs) is not None:
        curves = tuple(curve.in_money(costs) if curve.kind == "benefit" else curve for curve in curves)
    if request.by:
        curves = tuple(curve for curve in curves if curve.points) or curves
    binding = replace(binding, features=all_features(tracing.scores))
    result = DiagramResult(request, curves, binding.label or "label", data, binding)

    # Draw.
    if form is not None and request.output is not None:
        from calcli.tables.sink import write_bytes

        with stage(listener, "drawing"):
            drawn = _page(result, example) if form == "html" else render(curves, result.label, request.bands, form)
            write_bytes(drawn, request.output)
    return result


def _tracing(
    request: DiagramRequest, named: NamedScores, table: Table, example: Source, listener: Listener, *, every_kind: bool
) -> CurvePass:
    """The pass that sums up the curves, with columns bound to roles, once for each score."""
    scores = bind_scores(example, request.flags, named, listener)
    if request.engine == "local":
        named.note_links(scores, example, listener)
    binding = scores[0].binding
    if binding.score.kind == "rank":
        scores = _without_raw(scores)
    kinds: list[Kind] = [request.kind]
    if every_kind:
        kinds += [kind for kind in PAGE_KINDS if kind != request.kind]
    parts = [by_column(example, binding, column, "--by", MOST_GROUPS) for column in request.by]
    names = [score.name for score in scores]
    groups = [
        f"{column} = {value}"
        for column, (values, clusters) in zip(request.by, parts, strict=True)
        for value in (*values, "null")[: clusters.count]  # the missing one last, if there is one
    ]
    if request.overlay and (count := len(names) * max(1, len(groups))) > MOST_OVERLAID:
        raise UsageError(f"{count} curves are too many for one axis", hint=f"overlay up to {MOST_OVERLAID}")
    builder = CurveBuilder(
        names,
        class_names(binding),
        kinds,
        request.classes,
        groups=groups or ("",),
        bins=request.bins,
        binning=request.binning,
        bands=request.bands,
        span=request.span,
        halved=binding.soft,
    )
    first, *others = scores
    scores = (replace(first, binding=table.with_weight_scale(scores[0].binding)), *others)
    return CurvePass(scores, [part for _, part in parts], builder)


def _without_raw(scores: tuple[ComparedScore, ...]) -> tuple[ComparedScore, ...]:
    """The scores but the raw one, which only ranks; the first reads labels and weights in its place."""
    raw, *others = scores
    if not others:
        raise UsageError(
            "--rank names a number that only ranks: it has no probabilities to draw",
            hint="fit a calibrator, and add --with DIR",
        )
    kept = ("label", "weight", "weight_kind", "weight_scale", "trials", "soft")
    binding = replace(others[0].binding, **{name: getattr(raw.binding, name) for name in kept})
    return (replace(others[0], binding=binding), *others[1:])


def form_of(output: str | os.PathLike[str] | None, given: str | None) -> PageFormat | None:
    """The format of the file; None for no file."""
    if output is None:
        return None
    listed = ", ".join(PAGE_FORMATS)
    if given is None:
        if str(output) == "-":
            raise UsageError(
                "a stream has no suffix that gives its format", hint=f"name it: --output-format {PAGE_FORMATS[0]}"
            )
        return image_format_of(output, PAGE_FORMATS, hint=f"name it with --output-format: {listed}")
    if (form := given.lower()) in PAGE_FORMATS:
        return form
    raise UsageError(f"--output-format: {unknown_name('picture format', given, PAGE_FORMATS)}")


def _page(result: DiagramResult, source: Source) -> bytes:
    """The picture of the rows of a table as a page."""
    from calcli.diagrams import page

    body = page.switches(result.curves) + page.figures(result.curves, result.label, result.request.bands)
    about = [f"{amount(result.data.rows - result.data.rows_bad)} rows"]
    if isinstance(result.data.label_rate, float):
        positive = class_names(result.binding)[1]
        about.append(f"{percent(result.data.label_rate)} of them {result.label} = {positive}")
    return page.document(f"Predicted and happened: {source.name}", ", ".join(about), body).encode()
