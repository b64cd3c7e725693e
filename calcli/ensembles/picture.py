"""The picture of rejection curves: the loss as the most uncertain rows are rejected."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

from calcli.diagrams.curves import Curve
from calcli.diagrams.image import Format, image_format_of, render
from calcli.reports.schema import Report
from calcli.tables.sink import write_bytes

FORMATS: tuple[Format, ...] = get_args(Format)


def draw(report: Report, output: str | os.PathLike[str]) -> None:
    """All curves of the report in one picture."""
    label = str(report.binding["label"])
    write_bytes(render(list(_shown(report)), label, "none", image_format_of(output, FORMATS)), output)


def _shown(report: Report) -> Iterator[Curve]:
    """Every curve by its order, and one oracle; errors of amounts relative to that before anything is rejected."""
    amounts = "rmse" in report.definitions
    for curve in report.curves:
        name = f"{curve.score} by {curve.by}"
        if curve.by == "oracle":
            if curve.score != report.scores[0].name:
                continue
            name = "an oracle"
        shown = replace(curve, score=name)
        yield _relative(shown) if amounts else shown


def _relative(curve: Curve) -> Curve:
    first = curve.points[0].y or 1.0
    points = tuple(replace(point, y=math.sqrt(point.y / first)) for point in curve.points)
    return replace(curve, points=points, error=1.0, loss="relative RMSE")
