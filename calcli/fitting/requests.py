"""What `fit` is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from calcli.engines.local import BadRows
from calcli.engines.options import Engine
from calcli.fitting.model import Model
from calcli.fitting.recipe import AUTO, BUDGET, Recipe
from calcli.fitting.side_inputs import NO_SIDE_FILES, SideFiles
from calcli.methods.base import ParamValue
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.metrics.catalog import MetricSpec
from calcli.reports.guard import Guard
from calcli.reports.schema import Report
from calcli.tables.binding import Binding, Flags
from calcli.tables.source import Data


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What `fit` is asked.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame.
    method
        A name of the catalog, or ``auto`` for the one that does best on held-out rows, no calibration among them.
    output
        The artifact's directory. None is ``<input stem>.<method>`` in the current one; frames are then kept nowhere.
    params
        Parameters that differ from the defaults or the preset, as ``KEY`` or ``METHOD.KEY``.
    holdout
        ``cv:5``, ``0.1``, ``none``; None is 5-fold up to a million rows and one 90/10 split above.
    exact
        Let outputs be exactly 0 or 1 where the method says so.
    sides
        What the method may use beside the rows.
    prior_shift
        The positives' share where the scores will be used; for more classes ``a=0.5,b=0.3,c=0.2``.
    guard
        A metric; if it is worse than without calibration on held-out rows, nothing is kept.
    criterion
        The metric by which ``auto`` chooses: a mean over rows, never a calibration error.
    budget
        Seconds that ``auto`` may compare methods.
    engine, master
        As for `apply`; on a cluster the method must be fitted from sums, and `output` must be given.
    dry_run
        Find out what would be bound to what, and stop.
    """

    data: Data
    method: str = AUTO
    output: str | Path | None = None
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    preset: str | None = None
    holdout: str | None = None
    exact: bool = False
    prior_shift: str | None = None
    guard: str | None = None
    criterion: str = "nll"
    budget: float = BUDGET
    metrics: str = "default"
    options: Options = Options()
    flags: Flags = Flags()
    sides: SideFiles = NO_SIDE_FILES
    input_format: str | None = None
    bad_rows: BadRows = "fail"
    seed: int = 0
    engine: Engine = "local"
    master: str | None = None
    dry_run: bool = False

    @property
    def recipe(self) -> Recipe:
        """The settings that a refit repeats."""
        return Recipe(**{name: getattr(self, name) for name in Recipe.__match_args__})

    def check(self) -> tuple[tuple[MetricSpec, ...], Guard | None]:
        """The metrics and the guard; refuses, before any rows are read, what cannot be."""
        chosen = metrics.choose(self.metrics)
        self.recipe.check(self.sides)
        return chosen, None if self.guard is None else Guard.of(self.guard, chosen)


@dataclass(frozen=True, slots=True)
class FitResult:
    """What was learned.

    Attributes
    ----------
    binding
        Which column plays which part.
    path
        The artifact, if it was kept; after a dry run, where it would be.
    model
        The calibrator, ready to predict; None after a dry run.
    report
        Before and after, on held-out rows; None after a dry run.
    refused
        Why the guard kept it from being kept, if it did.
    """

    binding: Binding
    path: Path | None
    model: Model | None = None
    report: Report | None = None
    refused: str | None = None
