"""The requests of `fit` and `refit`, and the artifact that a fit makes: where it goes, and what its manifest says."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.errors import UsageError
from calcli.files import as_text
from calcli.homes import Brief
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.metrics.catalog import MetricSpec
from calcli.models.base import Given
from calcli.models.calibrator import CalibratorModel
from calcli.models.learn import FitOutcome
from calcli.models.manifests import manifest_of
from calcli.models.multi import MultiModel
from calcli.models.recipe import AUTO, Recipe
from calcli.models.side_inputs import NO_SIDE_FILES, NOTHING_LOADED, LoadedSideInputs, SideFiles
from calcli.places import Url, folder
from calcli.reports.conditions import Guard
from calcli.reports.schema import RAW, Report
from calcli.tables.binding_types import Binding
from calcli.tables.request import BadRows, ColumnsRequest, Engine, Request
from calcli.tables.source import Data, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest(ColumnsRequest, Recipe):
    """The request of `fit`: a recipe, the rows, and settings that a refit does not repeat.

    Attributes
    ----------
    output
        The artifact's directory. None is ``<input stem>.<method>`` in the current one; frames are then kept nowhere.
    engine, master
        As for `apply`; on a cluster `output` must be given.
    sample
        How many rows of a cluster are fitted on, where a method needs more than sums; None for a million at most.
    check_scale
        Whether logits that look like probabilities are refused, and the reverse.
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


@dataclass(frozen=True, slots=True, repr=False)
class FitResult(Brief):
    """The result of `fit`.

    Attributes
    ----------
    binding
        Which column plays which part.
    path
        The artifact, if it was kept; after a dry run, where it would be.
    model
        The calibrator, ready to predict, or those of several labels; None after a dry run.
    report
        Before and after, on held-out rows; None after a dry run.
    refused
        Why the guard kept it from being kept, if it did.
    """

    binding: Binding
    path: Path | Url | None
    model: CalibratorModel | MultiModel | None = None
    report: Report | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class RefitRequest(Request):
    """The request of `refit`.

    Attributes
    ----------
    artifact
        The directory to renew, or a model that is kept in one; its recipe is repeated.
    data
        The new rows: paths, globs, directories, ``-``, or a frame.
    guard
        The metric in which the new calibrator must not be worse.
    pool_nights
        Of the files so many, the last ones, are used; None for all. Globs and directories are sorted by name.
    bad_rows, resample_by, order_by
        As for `fit`; None are those of the recipe.
    sides
        What the method may use beside the rows; what the artifact keeps need not be named again.
    engine, master, sample
        As for `fit`; of a cluster a sample of the rows is fitted on, and all others are compared on.
    """

    artifact: Given
    data: Data
    guard: str = "nll"
    pool_nights: int | None = None
    resample_by: str | None = None
    order_by: str | None = None
    options: Options = Options()
    sides: SideFiles = NO_SIDE_FILES
    input_format: str | None = None
    delimiter: str | None = None
    bad_rows: BadRows | None = None
    seed: int = 0
    engine: Engine = "local"
    master: str | None = None
    sample: int | None = None


def target_of(source: Source, output: str | Path | Url | None, suffix: str) -> Path | Url | None:
    """Where the artifact goes; by default ``<input stem>.<suffix>``, and nowhere for a frame."""
    if output is None and source.format is None:  # a frame
        return None
    if output is None and source.stem is None:
        raise UsageError(
            "the artifact has no default name, because the input is not one file",
            hint=f"try: -o NAME.{suffix}",
        )
    target = folder(f"{source.stem}.{suffix}" if output is None else output)
    store.check_target(target)
    return target


def keep(
    request: FitRequest,
    learned: FitOutcome,
    binding: Binding,
    report: Report,
    guard: Guard | None,
    target: Path | Url | None,
    side_inputs: LoadedSideInputs = NOTHING_LOADED,
) -> FitResult:
    """Write the artifact of a fit, unless the guard refuses it or there is no target."""
    refused = None if guard is None else _refusal(guard, report, learned.spec.name)
    path = target if refused is None else None
    report = report if path is None else replace(report, artifact=as_text(path))
    manifest = write(path, request, learned, binding, report, side_inputs)
    return FitResult(
        binding, path, CalibratorModel.of(path, manifest, binding, None, learned.calibrator), report, refused
    )


def _refusal(guard: Guard, report: Report, score: str) -> str | None:
    if not report.differences:
        raise UsageError("--guard needs held-out rows", hint="leave out --holdout none")
    worse = guard.violation(report, score)
    if worse is None:
        return None
    change = f"({worse.metric} {worse.value:+.6f})"
    return f"on held-out rows {worse.score} is worse than {report.base} {change}: nothing was saved"


def write(
    path: Path | Url | None,
    recipe: Recipe,
    learned: FitOutcome,
    binding: Binding,
    report: Report,
    side_inputs: LoadedSideInputs,
) -> Manifest:
    """The manifest of a calibrator's artifact, which is written if there is a path for it."""
    spec, choice = learned.spec, learned.choice
    manifest = manifest_of(
        report.data,
        binding,
        kind="calibrator",
        task="binary" if binding.binary else "multiclass",
        method=spec.name,
        requested=recipe.method,
        preset=recipe.preset,
        params=learned.params,
        seed=report.seed,
        recipe=recipe.to_json() | {"selection": None if choice is None else asdict(choice)},
        fit=_fit_facts(report, learned),
        definitions={name: asdict(definition) for name, definition in report.definitions.items()},
        sides=side_inputs.facts_of(spec),
        contains_rows=spec.contains_rows,
    )
    if path is None:
        return manifest
    return store.write(path, manifest, {store.STATE: learned.calibrator.to_state(), **side_inputs.kept(spec)})


def _fit_facts(report: Report, learned: FitOutcome) -> dict[str, object]:
    """The holdout, every metric before, after and their difference, and what refits and drift tests compare with."""
    values = {score.name: {name: metric.value for name, metric in score.metrics.items()} for score in report.scores}
    floors = {
        score.name: {name: metric.floor for name, metric in score.metrics.items() if metric.floor is not None}
        for score in report.scores
    }
    name, holdout = learned.spec.name, learned.holdout
    differences = {
        each.metric: {"value": each.value, "lo": each.lo, "hi": each.hi, "p": each.p}
        for each in report.differences
        if (each.score, each.versus) == (name, RAW)
    }
    label_check, drift, units = learned.label_check, learned.drift_baseline, report.data.units
    rows = learned.held_out_rows // (2 if report.binding.get("soft") else 1)  # each of the table was two
    scheme = {"scheme": str(holdout), "rows": rows, "refit_on_all": holdout.refit_on_all}
    sampled = learned.sampled
    return {
        **({} if sampled is None else {"rows": sampled.rows, "sample": asdict(sampled)}),
        **({} if learned.planned is None else {"planned": asdict(learned.planned)}),
        "holdout": scheme if units is None else {**scheme, "units": units},
        "before": values.get(RAW, {}),
        "after": values.get(name, {}),
        "difference": differences,
        "floors": {"before": floors.get(RAW, {}), "after": floors.get(name, {})},
        "ranking": None if label_check is None else label_check.to_json(),
        "residuals": None if drift is None else drift.to_json(),
    }
