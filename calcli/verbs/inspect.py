"""`inspect`: the description of an artifact, the data of its fit, its held-out metrics.

With `--explain`, the columns that move the calibrated score away from the raw one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calcli import extras
from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.artifacts.strictjson import as_json
from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.diagrams.image import FORMATS, PAGE_FORMATS, image_format_of
from calcli.errors import DataError, UsageError
from calcli.files import as_text
from calcli.homes import Brief
from calcli.listener import SILENT, Listener, stage
from calcli.methods.base import Section
from calcli.models.base import Given, Model, artifact_of, model_in, name_of
from calcli.models.calibrator import CalibratorModel, load
from calcli.numeric.links import logit, sigmoid
from calcli.numeric.seeded import stream
from calcli.places import Url
from calcli.state import Json
from calcli.tables.binding import bind
from calcli.tables.load import load as load_rows
from calcli.tables.request import Request
from calcli.tables.source import Data, open_source

if TYPE_CHECKING:  # of explanations
    from calcli.learners.tree_models import Contributions


@dataclass(frozen=True, slots=True, repr=False)
class Inspection(Brief):
    """An artifact, read and checked."""

    path: Path | Url
    manifest: Manifest
    numbers: dict[str, Json]
    """The fitted parameters, for methods that have a handful."""

    arrays: dict[str, tuple[int, ...]]
    """Shape of each fitted array."""

    sections: tuple[Section, ...] = ()
    """The learned rules, if they were requested."""

    def draw(self, output: str | os.PathLike[str]) -> None:
        """Draw what can be drawn of the rules."""
        form = image_format_of(output, PAGE_FORMATS)
        extras.require("matplotlib", f"a picture as {form}")
        pictures = [picture for section in self.sections for picture in section.pictures]
        if not pictures:
            raise UsageError(
                f"{name_of(self.path)} has no effects of features to draw", hint="--method effects has some"
            )
        from calcli.diagrams import page
        from calcli.diagrams.learned import render_intervals
        from calcli.tables.sink import write_bytes

        drawn = render_intervals(pictures, "svg" if form == "html" else form)
        if form == "html":
            picture = drawn.decode()
            body = f'<figure class="wide">{picture[picture.index("<svg") :]}</figure>\n'
            about = f"{self.manifest.method}, calcli {self.manifest.calcli}"
            drawn = page.document(f"Effects: {name_of(self.path)}", about, body).encode()
        write_bytes(drawn, output)

    def to_json(self) -> dict[str, Json]:
        """The manifest, and the fitted state."""
        shapes: dict[str, Json] = {name: list(shape) for name, shape in self.arrays.items()}
        plain: dict[str, Json] = {
            "schema": "calcli.inspection/1",
            "artifact": as_text(self.path),
            "manifest": self.manifest.as_dict(),
            "fitted": {"params": self.numbers, "arrays": shapes},
        }
        if self.sections:
            plain["labels" if self.manifest.kind == "multi" else "rules"] = [
                {
                    "title": section.title,
                    "note": section.note,
                    "rows": [dict(zip(section.columns, row, strict=True)) for row in section.rows],
                }
                for section in self.sections
            ]
        return plain


def inspect(path: Given, *, rules: bool = False, output: str | os.PathLike[str] | None = None) -> Inspection:
    """Read an artifact, check every hash, and describe it; with `rules`, with all that was learned.

    What can be drawn of it is drawn in the file `output`: ``.png``, ``.svg``, ``.pdf``, or a page, ``.html``.
    """
    artifact = artifact_of(path)
    model = _ensemble(artifact) if artifact.manifest.kind == "ensemble" else model_in(artifact)
    numbers, arrays, sections = model.contents(rules=rules)
    inspection = Inspection(artifact.path, model.manifest, dict(numbers), dict(arrays), tuple(sections))
    if output is not None:
        inspection.draw(output)
    return inspection


def _ensemble(artifact: Artifact) -> Model:
    from calcli.models.ensemble import EnsembleModel

    return EnsembleModel.read(artifact)


SCHEMA = "calcli.explanation/1"

MOST_ROWS = 200
"""So many rows at most are explained, drawn by chance."""

BACKGROUND = 50
"""So many rows, drawn by chance, stand for what a column can be."""


@dataclass(frozen=True, slots=True)
class ExplainRequest(Request):
    """The request of `explain`.

    Attributes
    ----------
    artifact
        The directory of a calibrator of two classes, or the model itself.
    data
        The rows: paths, globs, directories, ``-``, or a frame; their labels are not read.
    row
        The number of the one row to explain, from 1; None is the whole table.
    output
        A file in which to draw it: ``.png``, ``.svg`` or ``.pdf``.
    """

    artifact: Given
    data: Data
    row: int | None = None
    output: str | os.PathLike[str] | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Brief):
    """The share of each column in the log-odds of the calibrated probability minus those of the raw one."""

    request: ExplainRequest
    columns: tuple[str, ...]
    """The score and the features, the one that moves most first."""

    data: tuple[tuple[Json, ...], ...]
    """The values of these columns in each row that is explained."""

    base: float
    values: FloatArray
    """`base`, `values`: the difference that is expected before any column is known, and what each column adds to it in
    each row, shape (rows, columns).
    """

    raw: FloatArray
    calibrated: FloatArray
    """`raw`, `calibrated`: the probabilities of these rows."""

    @property
    def row(self) -> int | None:
        """The number of the one row that is explained, from 1."""
        return self.request.row

    @property
    def title(self) -> str:
        """A line that names the artifact, the rows and, for one row, the change of its probability."""
        name = name_of(self.request.artifact)
        if self.row is None:
            return f"{name}: calibrated minus raw log-odds of {len(self.values)} rows"
        change = self.base + float(self.values.sum())
        return f"{name}, row {self.row}: from {self.raw[0]:.3f} to {self.calibrated[0]:.3f}, {change:+.3f} in log-odds"

    def to_json(self) -> dict[str, Json]:
        """The mean contributions; of one row its own, with its values and probabilities."""
        means = zip(self.columns, np.abs(self.values).mean(axis=0), self.values.mean(axis=0), strict=True)
        columns: list[dict[str, object]] = [
            {"column": name, "mean_absolute": size, "mean": mean} for name, size, mean in means
        ]
        one: dict[str, object] = {}
        if self.row is not None:
            columns = [{**entry, "value": value} for entry, value in zip(columns, self.data[0], strict=True)]
            one = {"raw": self.raw[0], "calibrated": self.calibrated[0]}
        return as_json(
            {
                "schema": SCHEMA,
                "artifact": name_of(self.request.artifact),
                "row": self.row,
                "rows": len(self.values),
                "base": self.base,
                "contributions": columns,
                **one,
            }
        )


def explain(request: ExplainRequest, listener: Listener = SILENT) -> Explanation:
    """Say which columns move the calibrated score away from the raw one, by Shapley values."""
    form = None if request.output is None else image_format_of(request.output, FORMATS)
    if form is not None:
        extras.require("shap", f"a picture as {form}")
    model = load(request.artifact)
    _check(model, request)
    with open_source(request.data) as source:
        binding = bind(source, known=model.binding, need_label=False)
        if binding.score.kind == "rank":
            raise UsageError(f"{model.name} reads a number that only ranks, which has no raw score to move away from")
        with stage(listener, "reading"):
            batch = load_rows(source, binding, features=True, label=False).batch
    rows, background = _drawn(request, len(batch))
    with stage(listener, "explaining"):
        found = _contributions(model, batch, rows, background, request.seed)
    order = np.argsort(-np.abs(found.values).mean(axis=0), kind="stable")
    columns = {found.names[0]: Column("number", batch.score), **batch.features}
    shown = [_readable(columns[found.names[place]].take(rows)) for place in order]
    explanation = Explanation(
        request,
        tuple(found.names[place] for place in order),
        tuple(zip(*shown, strict=True)),
        found.base,
        found.values[:, order],
        sigmoid(batch.score[rows]),
        model.calibrator.predict(batch.take(rows)),
    )
    if form is not None and request.output is not None:
        from calcli.diagrams.learned import render_contributions
        from calcli.tables.sink import write_bytes

        names, data = explanation.columns, explanation.data
        write_bytes(
            render_contributions(names, data, found.base, explanation.values, explanation.title, form), request.output
        )
    return explanation


def _check(model: CalibratorModel, request: ExplainRequest) -> None:
    name = name_of(request.artifact)
    if model.calibrator.classes > 2:
        raise UsageError(f"--explain is for two classes, and {name} has {model.calibrator.classes}")
    if not model.needs_features:
        raise UsageError(
            f"{model.method} reads no features: only the score itself decides how it is moved",
            hint=f"try: calcli diagram DATA --with {name}",
        )
    if model.calibrator.whole_table or model.calibrator.sides.edges is not None:
        raise UsageError(f"{name} moves a row by the rows around it, which --explain cannot take apart")


def _drawn(request: ExplainRequest, count: int) -> tuple[IntArray, IntArray]:
    """The rows to explain, and those of the background."""
    if count < 2:
        raise DataError("--explain holds a row against others, and there is one", hint="give it the table, and --row N")
    order = stream(request.seed, "explained rows").permutation(count)
    if request.row is None:
        return np.sort(order[:MOST_ROWS]), np.sort(order[-BACKGROUND:])
    if not 1 <= request.row <= count:
        raise UsageError(f"--row {request.row}: the table has rows 1 to {count:,}")
    return np.array([request.row - 1]), np.sort(order[-BACKGROUND:])


def _contributions(
    model: CalibratorModel, batch: Batch, rows: IntArray, background: IntArray, seed: int
) -> Contributions:
    """The contributions, by the method itself where it can give them, else by trying orders of the columns."""
    from calcli.learners.tree_models import Contributions, of_function

    calibrator, score = model.calibrator, "score"
    while score in batch.features:
        score += "_"

    def moved(columns: Mapping[str, Column]) -> FloatArray:
        raw = columns[score].values.astype(np.float64)
        rest = {name: column for name, column in columns.items() if name != score}
        return logit(calibrator.predict(Batch(raw, features=rest))) - logit(sigmoid(raw))

    columns = {score: Column("number", batch.score), **batch.features}
    if calibrator.spec.contributes:
        found = calibrator.spec.load().contributions(calibrator.state, batch, rows, background)
        if found is not None:  # a shift of the prior is the same in all rows
            whole = moved({name: column.take(rows) for name, column in columns.items()})
            rest = float((whole - found.base - found.values.sum(axis=1)).mean())
            return Contributions((score, *found.names[1:]), found.base + rest, found.values)
    return of_function(moved, columns, rows, background, seed)


def _readable(column: Column) -> Sequence[Json]:
    """The values of a column as people read them; None for a missing one."""
    if column.role == "category":
        return [None if code < 0 else column.levels[code] for code in column.values.tolist()]
    return [None if value != value else value for value in column.values.tolist()]  # noqa: PLR0124 NaN
