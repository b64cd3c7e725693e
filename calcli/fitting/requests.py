"""What `fit` is asked and answers, and what it does alike on one machine and on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from calcli.artifacts import store
from calcli.engines.local import BadRows
from calcli.engines.options import Engine
from calcli.errors import UsageError
from calcli.fitting.auto import candidates_for
from calcli.fitting.learn import Learned
from calcli.fitting.manifest import manifest_of
from calcli.fitting.model import Model
from calcli.fitting.model_selection import choice_warnings, criterion
from calcli.fitting.recipe import AUTO, BUDGET, Recipe
from calcli.fitting.side_inputs import NO_SIDE_FILES, NOTHING_LOADED, LoadedSideInputs, SideFiles
from calcli.methods import catalog
from calcli.methods.base import ParamValue
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.guard import Guard
from calcli.reports.label_check import LabelCheck
from calcli.reports.schema import Difference, Report, ReportWarning
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
        """What of it a refit repeats."""
        return Recipe(
            method=self.method,
            params=self.params,
            preset=self.preset,
            holdout=self.holdout,
            exact=self.exact,
            prior_shift=self.prior_shift,
            guard=self.guard,
            criterion=self.criterion,
            budget=self.budget,
            metrics=self.metrics,
            flags=self.flags,
            bad_rows=self.bad_rows,
        )


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


def checked(request: FitRequest) -> tuple[tuple[metrics.MetricSpec, ...], Guard | None]:
    """The metrics and the guard; refuses, before any rows are read, what cannot be."""
    recipe, chosen = request.recipe, metrics.choose(request.metrics)
    recipe.check()
    request.sides.check(contenders(recipe), recipe.flags)
    criterion(recipe.criterion)
    return chosen, None if request.guard is None else Guard.of(request.guard, chosen)


def contenders(recipe: Recipe) -> tuple[MethodSpec, ...]:
    """The methods that the recipe may come to."""
    if recipe.method != AUTO:
        return (catalog.find(recipe.method),)
    return tuple(row for classes in (2, 3) for row in candidates_for(classes))


def needs_features(recipe: Recipe) -> bool:
    """Whether any method that the recipe may come to reads features."""
    return any(row.needs_features for row in contenders(recipe))


def warnings_on(learned: Learned, differences: Sequence[Difference]) -> tuple[ReportWarning, ...]:
    """What to say of the choice, and of a method that does not help."""
    found = [] if learned.choice is None else list(choice_warnings(learned.choice))
    found += [
        ReportWarning(
            "not-better", f"on held-out rows {each.score} has a log-loss {each.value:+.6f} beside no calibration"
        )
        for each in differences
        if each.metric == "nll" and Guard(metrics.find("nll")).worse(each)
    ]
    return tuple(found)


def keep(
    request: FitRequest,
    learned: Learned,
    binding: Binding,
    report: Report,
    guard: Guard | None,
    target: Path | None,
    held_out: int,
    ranking: LabelCheck | None,
    residuals: DriftBaseline | None,
    beside: LoadedSideInputs = NOTHING_LOADED,
) -> FitResult:
    """Write the artifact, unless the guard is against it or there is nowhere to."""
    refused = None if guard is None else _refusal(guard, report)
    path = target if refused is None else None
    kept = report if path is None else replace(report, artifact=str(path))
    facts = beside.facts_of(learned.row)
    manifest = manifest_of(request.recipe, learned, binding, kept, held_out, ranking, residuals, facts)
    if path is not None:
        states = {store.STATE: learned.calibrator.to_state(), **beside.kept(learned.row)}
        manifest = store.write(path, manifest, states)
    return FitResult(binding, path, Model.of(path, manifest, binding, None, learned.calibrator), kept, refused)


def _refusal(guard: Guard, report: Report) -> str | None:
    """Why nothing is kept; None where the guard lets it pass."""
    if not report.differences:
        raise UsageError("--guard needs rows that are held out", hint="leave out --holdout none")
    for each in report.differences:
        if each.metric == guard.metric.name and guard.worse(each):
            return (
                f"on held-out rows {each.score} changes {each.metric} by {each.value:+.6f} beside no calibration, "
                "for the worse: nothing was kept"
            )
    return None
