"""The request to `evaluate`, on one machine and on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from calcli.diagrams.curves import Kind
from calcli.evaluation.compared_scores import ComparedScore
from calcli.metrics.base import Options
from calcli.tables.binding_types import Flags
from calcli.tables.request import BadRows, Engine
from calcli.tables.source import Data


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """The request of `evaluate`.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame.
    artifacts
        Directories, each as ``DIR`` or ``NAME=DIR``.
    scores
        Columns of probabilities that are calibrated already, each as ``COLUMN`` or ``NAME=COLUMN``; with more than two
        classes the stem of ``COLUMN_<class>``.
    versus
        A score; the differences of the others from it are in the report too, beside those from the raw one.
    metrics
        ``default``, ``all``, or names separated by commas.
    bootstrap
        Replicates for intervals; 0 for none.
    resample_by
        A column: rows that agree in it, those of one user, count as one in intervals and p-values, and are drawn
        together.
    by
        Columns; the metrics are shown within each of their values too.
    clusters_from
        A column whose values are the clusters of CECE; None for those of a CCL artifact, or of the features.
    rejection
        Whether to add the error rates of the rows that are left when the least sure ones are rejected.
    every_curve
        Whether the report's `curves` are of all kinds, as a page shows them.
    baseline
        A report that `evaluate` wrote as JSON; every number is compared with it.
    drift
        An artifact: has its calibration moved since the fit?
    state
        The file in which `drift` keeps its log; None is ``<artifact>.drift.json``.
    edges
        Pairs of ids of linked rows: for `tv`, and for artifacts that were fitted with other ones.
    fail_if
        Gates: expressions that must not be true of any number.
    allow_null
        Let a gate pass where its number is not defined.
    engine, master
        As for `apply`; on a cluster, what does not add up over parts of the rows is null.
    """

    data: Data
    artifacts: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    versus: str | None = None
    metrics: str = "default"
    options: Options = Options()
    bootstrap: int = 0
    resample_by: str | None = None
    by: tuple[str, ...] = ()
    clusters_from: str | None = None
    rejection: bool = False
    every_curve: bool = False
    baseline: str | Path | None = None
    drift: str | None = None
    state: str | Path | None = None
    edges: Data | None = None
    fail_if: tuple[str, ...] = ()
    allow_null: bool = False
    flags: Flags = Flags()
    input_format: str | None = None
    delimiter: str | None = None
    bad_rows: BadRows = "fail"
    seed: int = 0
    engine: Engine = "local"
    master: str | None = None

    @property
    def all_artifacts(self) -> tuple[str, ...]:
        """The artifacts to measure, and the one of `drift`."""
        more = () if self.drift is None or self.drift in self.artifacts else (self.drift,)
        return (*self.artifacts, *more)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The curves of the report."""
        if self.every_curve:
            return get_args(Kind)
        return ("reliability", "rejection") if self.rejection else ("reliability",)

    def whole_for(self, scores: Sequence[ComparedScore] = ()) -> str | None:
        """A flag or a score that needs all rows at once, if there is one."""
        needs: dict[str, object] = {
            "--bootstrap": self.bootstrap,
            "--by": self.by,
            "--drift": self.drift,
            "--resample-by": self.resample_by,
        }
        needs |= {score.name: score.whole_table for score in scores}
        return next((name for name, whole in needs.items() if whole), None)
