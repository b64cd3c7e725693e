"""The parts of an audit that read features: in which segments scores are wrong, and what recalibration would gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calcli.errors import CalcliError, UsageError, unknown_name
from calcli.listener import Listener
from calcli.reports.measuring import class_names
from calcli.reports.schema import Report, ReportWarning
from calcli.reports.segments import Coded, Judged, Segments, find_segments
from calcli.tables.binding_types import Feature
from calcli.tables.checks import Tally
from calcli.tables.names import note_on_names, with_names
from calcli.tables.source import Source
from calcli.verbs.clusters import free_features
from calcli.verbs.compared_scores import ComparedScore, EvaluateRequest, all_features
from calcli.verbs.score_passes import BufferedScores


def segments_of(
    request: EvaluateRequest, rows: BufferedScores, tally: Tally, scores: Sequence[ComparedScore], listener: Listener
) -> Segments:
    """The segments of each score: of the features of artifacts, and of all other columns that can be features."""
    binding = scores[0].binding
    features, names = _features(request, tally.source, scores)
    for note in note_on_names(names):
        listener.note(note)
    classes, of = class_names(binding), None
    if request.of_class is not None:
        if request.of_class not in classes:
            raise UsageError(f"--class: {unknown_name('class', request.of_class, classes)}")
        of = Judged(classes.index(request.of_class), request.of_class)
    if not features and request.audit:
        listener.note("no segments are looked for: the table has no features")
        return Segments()
    if not features:
        raise UsageError("--find-segments: the table has no features", hint="name some: --features A,B,...")
    coded = Coded.of(tally, features)
    return find_segments(rows.candidates, rows, coded, request.find_segments, request.seed, of, halved=tally.halved)


def _features(
    request: EvaluateRequest, source: Source, scores: Sequence[ComparedScore]
) -> tuple[tuple[Feature, ...], list[str]]:
    """The features of segments, and the names of the integers among them that are read as categories."""
    flags, unit = request.flags, request.resample_by
    known = () if flags.features is not None else all_features(scores)
    taken = {feature.name for feature in known}
    others = [one for one in free_features(source, scores, flags, unit) if one.name not in taken]
    named, names = with_names(source, scores[0].binding, others, flags, unit)
    return (*known, *named), names


def with_recalibration(
    report: Report, request: EvaluateRequest, source: Source, scores: Sequence[ComparedScore], listener: Listener
) -> Report:
    """The report with that of a fit of the raw score by the default method, which is kept nowhere.

    Where no calibrator can be fitted, a warning says why.
    """
    from calcli.models.requests import FitRequest
    from calcli.models.trial import TrialRows
    from calcli.verbs.fit import tried

    features, _ = _features(request, source, scores)
    binding = replace(scores[0].binding, features=features)
    fit = FitRequest(
        data=request.data,
        resample_by=request.resample_by,
        flags=request.flags,
        bad_rows=request.bad_rows,
        seed=request.seed,
        check_scale=False,
    )
    try:
        _, _, found = tried(fit, TrialRows(source), binding, listener)
    except CalcliError as error:
        warning = ReportWarning("recalibration", f"what recalibration would gain is not known: {error}")
        return replace(report, warnings=(*report.warnings, warning))
    return replace(report, recalibration=found)
