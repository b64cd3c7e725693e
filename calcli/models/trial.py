"""A trial: calibrators are learned on some rows of a table and measured on others, beside the score as it is.

`fit` is the trial of one method, `compare` of several, `refit` of the calibrator in place and a new one. The rows to
measure on are held out of those that are here; or they are on a cluster, where these are a sample of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from calcli.batch import Batch, FloatArray
from calcli.diagrams.curves import Kind
from calcli.listener import Listener, stage
from calcli.methods.calibrator import FittedMethod
from calcli.metrics.base import Folds, Options
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.paired import FoldFits
from calcli.models.learn import FitOutcome, Sampled
from calcli.models.recipe import Recipe
from calcli.models.side_inputs import LoadedSideInputs, SideFiles, load_side_inputs
from calcli.reports.groups import in_units
from calcli.reports.measuring import (
    Candidate,
    Measurements,
    class_names,
    data_facts,
    measure_all,
    raw_candidate,
)
from calcli.reports.schema import RAW, DataFacts, ScoreSource, Seconds
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import Loaded, load
from calcli.tables.request import BadRows, EngineRequest
from calcli.tables.source import Source

if TYPE_CHECKING:  # one method alone needs no choice
    from calcli.models.auto import Evidence


class Contender(NamedTuple):
    """A score of the trial."""

    name: str
    source: ScoreSource
    seconds: Seconds = Seconds()
    fitted: FittedMethod | None = None
    """The calibrator that predicts rows which are elsewhere; None for the score as it is."""

    prob: FloatArray | None = None
    """The predictions of the rows that were held out here; None for the score as it is."""

    fits: FoldFits | None = None
    """The predictions of all held-out rows by each of several calibrators, where several have predicted them."""

    @classmethod
    def learned(cls, learned: FitOutcome) -> Contender:
        """The calibrator that was learned."""
        return cls(learned.spec.name, learned.source, learned.seconds, learned.calibrator, learned.prob, learned.fits)

    def candidate(self, rows: Batch) -> Candidate:
        """The score on the rows that were held out here."""
        if self.prob is None:
            return replace(raw_candidate(rows, self.name, self.source), seconds=self.seconds)
        return Candidate(self.name, self.source, self.prob, self.seconds, fits=self.fits)


AS_IT_IS = Contender(RAW, ScoreSource("raw"))


class Judgement(NamedTuple):
    """How a trial's scores are measured."""

    metrics: Sequence[MetricSpec]
    options: Options
    against: tuple[str, ...] = (RAW,)
    """The scores that the others are compared with; the first is the one without calibration."""

    main: str | None = None
    """The score whose calibration is kept for later tests of drift, if there is one."""

    kinds: tuple[Kind, ...] = ("reliability",)


class Elsewhere(Protocol):
    """The measurements on rows that are not here."""

    def measured(self, sources: Sequence[tuple[str, ScoreSource, Seconds]]) -> Measurements:
        """The report's numbers."""
        ...

    def evidence(self, pair: tuple[int, int]) -> Evidence:
        """How many nats likelier the labels are with the one score than with the other, by their places."""
        ...

    def learned(self, learned: FitOutcome) -> FitOutcome:
        """A calibrator of the sample, with what these rows say of it."""
        ...

    def data(self, loaded: Loaded) -> DataFacts:
        """The report's `data`, of the whole table."""
        ...


@dataclass(frozen=True)
class TrialRows:
    """The rows that calibrators are learned on: a whole table, or a sample of one, as an engine draws it."""

    source: Source
    sampled: Sampled | None = None
    """How it was drawn; None for a whole table."""

    @property
    def has_others(self) -> bool:
        """Whether there are other rows, outside the sample."""
        return False

    def measures(self, recipe: Recipe) -> bool:
        """Whether a calibrator by this recipe can be measured on the other rows.

        These are of the same times as those of the sample, not later. The predictions of some methods depend on the
        rows beside a row.
        """
        alone = not any("edges" in spec.sides for spec in recipe.candidates)
        return self.has_others and recipe.order_by is None and recipe.holdout != "none" and alone

    def measure(
        self,
        calibrators: Mapping[str, FittedMethod],
        binding: Binding,
        judgement: Judgement,
        listener: Listener,
        *,
        bad_rows: BadRows,
    ) -> Elsewhere:
        """The metrics of the score as it is and of these calibrators on the other rows."""
        raise NotImplementedError


class TrialTable(EngineRequest, Protocol):
    """A request of a trial, whose rows may be a sample that a cluster hands over."""

    @property
    def sample(self) -> int | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def options(self) -> Options: ...


class TrialRequest(Protocol):
    """The fields that requests of trials and recipes share."""

    @property
    def flags(self) -> Flags: ...
    @property
    def resample_by(self) -> str | None: ...
    @property
    def order_by(self) -> str | None: ...
    @property
    def bad_rows(self) -> BadRows: ...


def bind_trial(source: Source, request: TrialRequest, listener: Listener, *, features: bool) -> Binding:
    """The columns of a first fit."""
    with stage(listener, "looking at the columns"):
        held_out_by = request.resample_by or request.order_by
        return bind(source, request.flags, features=features, held_out_by=held_out_by)


@dataclass(frozen=True, slots=True)
class Trial:
    """The rows of a trial, read, and what methods may use beside them."""

    rows: TrialRows
    loaded: Loaded
    sides: LoadedSideInputs
    bad_rows: BadRows
    listener: Listener

    @classmethod
    def read(
        cls,
        rows: TrialRows,
        binding: Binding,
        request: TrialRequest,
        files: SideFiles | LoadedSideInputs,
        listener: Listener,
        *,
        features: bool,
        check_scale: bool = True,
    ) -> Trial:
        """Read the rows, with their units, and the side inputs that are not here yet."""
        with stage(listener, "reading"):
            loaded = load(rows.source, binding, features=features, bad_rows=request.bad_rows, check_scale=check_scale)
            loaded = in_units(loaded, request.resample_by, request.order_by)
            sides = files if isinstance(files, LoadedSideInputs) else load_side_inputs(files, binding)
        return cls(rows, loaded, sides, request.bad_rows, listener)

    @property
    def batch(self) -> Batch:
        return self.loaded.batch

    @property
    def binding(self) -> Binding:
        return self.loaded.binding

    @property
    def classes(self) -> tuple[str, ...]:
        return class_names(self.binding)

    def here(
        self, contenders: Sequence[Contender], judgement: Judgement, held_out: Batch, folds: Folds | None
    ) -> tuple[Measurements, DataFacts]:
        """The contenders on the rows that were held out of those that are here, and the facts of all rows."""
        measured = measure_all(
            [contender.candidate(held_out) for contender in contenders],
            held_out,
            judgement.metrics,
            judgement.options,
            self.classes,
            against=judgement.against,
            folds=folds,
            kinds=judgement.kinds,
            halved=self.loaded.halved,
        )
        return measured, data_facts(self.loaded)

    def elsewhere(
        self, contenders: Sequence[Contender], judgement: Judgement
    ) -> tuple[Measurements, DataFacts, Elsewhere]:
        """The contenders on the rows outside the sample, the facts of all rows, and the sums over those."""
        fitted = {one.name: one.fitted for one in contenders if one.fitted is not None}
        found = self.rows.measure(fitted, self.binding, judgement, self.listener, bad_rows=self.bad_rows)
        sources = [(one.name, one.source, one.seconds) for one in contenders]
        return found.measured(sources), found.data(self.loaded), found
