"""The requests of `fit` and `refit`, and the result of `fit`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from calcli.fitting.recipe import AUTO, Recipe
from calcli.fitting.side_inputs import NO_SIDE_FILES, SideFiles
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.metrics.catalog import MetricSpec
from calcli.models.calibrator import CalibratorModel
from calcli.places import Url
from calcli.reports.conditions import Guard
from calcli.reports.schema import Report
from calcli.tables.binding_types import Binding
from calcli.tables.request import Engine
from calcli.tables.source import Data


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest(Recipe):
    """The request of `fit`: a recipe, the rows, and settings that a refit does not repeat.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame.
    output
        The artifact's directory. None is ``<input stem>.<method>`` in the current one; frames are then kept nowhere.
    sides
        What the method may use beside the rows.
    engine, master
        As for `apply`; on a cluster `output` must be given.
    sample
        How many rows of a cluster are fitted on, where a method needs more than sums; None for a million at most.
    check_scale
        Whether logits that look like probabilities are refused, and the reverse.
    dry_run
        Find out what would be bound to what, and stop.
    """

    method: str = AUTO
    data: Data = field(kw_only=False)
    output: str | Path | None = None
    options: Options = Options()
    sides: SideFiles = NO_SIDE_FILES
    input_format: str | None = None
    delimiter: str | None = None
    seed: int = 0
    engine: Engine = "local"
    master: str | None = None
    sample: int | None = None
    check_scale: bool = True
    dry_run: bool = False

    def check(self) -> tuple[tuple[MetricSpec, ...], Guard | None]:
        """The metrics and the guard; refuses, before any rows are read, what cannot be."""
        chosen = metrics.choose(self.metrics)
        self.check_settings(self.sides)
        self.check_installed(self.sides.roles)
        return chosen, None if self.guard is None else Guard.of(self.guard, chosen)


@dataclass(frozen=True, slots=True)
class FitResult:
    """The result of `fit`.

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
    path: Path | Url | None
    model: CalibratorModel | None = None
    report: Report | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class RefitRequest:
    """The request of `refit`.

    Attributes
    ----------
    artifact
        The directory to renew; its recipe is repeated.
    data
        The new rows: paths, globs, directories, ``-``, or a frame.
    guard
        The metric in which the new calibrator must not be worse.
    pool_nights
        Of the files so many, the last ones, are used; None for all. Globs and directories are sorted by name.
    resample_by, order_by
        As for `fit`; None are those of the recipe.
    sides
        What the method may use beside the rows; what the artifact keeps need not be named again.
    engine, master, sample
        As for `fit`; of a cluster a sample of the rows is fitted on, and all others are compared on.
    """

    artifact: str | Path
    data: Data
    guard: str = "nll"
    pool_nights: int | None = None
    resample_by: str | None = None
    order_by: str | None = None
    options: Options = Options()
    sides: SideFiles = NO_SIDE_FILES
    input_format: str | None = None
    delimiter: str | None = None
    seed: int = 0
    engine: Engine = "local"
    master: str | None = None
    sample: int | None = None
