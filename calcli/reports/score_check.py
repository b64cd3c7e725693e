"""Whether a score is what it is taken for: it may be of the other class, or a decision in place of a probability."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calcli.batch import FloatArray
from calcli.reports.label_check import LabelCheck
from calcli.reports.schema import ReportWarning
from calcli.tables.binding_types import Binding
from calcli.tables.labels import class_text
from calcli.tables.scores import ENOUGH


def score_warnings(ranking: LabelCheck | None, prob: FloatArray, binding: Binding) -> Iterator[ReportWarning]:
    """What is doubtful about the raw score; `prob` are its probabilities, unclipped."""
    if ranking is not None and ranking.against_chance(4):
        yield ReportWarning("ranks-backwards", f"the score ranks backwards (auc {ranking.auc:.3f}): {_meant(binding)}")
    ends = _two_values(prob)
    if ends is not None:
        least, greatest = ends
        yield ReportWarning(
            "two-values",
            f"the score has only the values {least:.6g} and {greatest:.6g}: if these are predicted classes, name "
            "their probabilities with --prob COL",
        )


def _meant(binding: Binding) -> str:
    if not binding.binary:
        return "if its columns are not in the order of the classes, give that order with --classes A,B,..."
    other = next(class_text(label) for label in binding.classes if label != binding.positive)
    return f"if it predicts {other}, fit with --positive {other}"


def _two_values(prob: FloatArray) -> tuple[float, float] | None:
    """The only two values of a score, if there are enough rows to tell."""
    if len(prob) < ENOUGH:
        return None
    least, greatest = float(prob.min()), float(prob.max())
    return (least, greatest) if least < greatest and bool(np.isin(prob, (least, greatest)).all()) else None
