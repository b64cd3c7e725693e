"""A fitted method, ready to be applied: the interface through which the rest of calcli uses methods.

It adds the steps that all methods share: a binary method on K > 2 classes is fitted one-vs-rest, and the output of
every method gets its `PostProcessing`. `formula_of` writes `FittedMethod.predict` as terms.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, Column, FloatArray, Group, Role, SideInputs, grouped
from calcli.errors import ArtifactError, DataError, FitError, UsageError
from calcli.methods import catalog, one_vs_rest, start
from calcli.methods.base import (
    READS,
    SETTINGS,
    WHOLE_TABLE,
    Chosen,
    Params,
    Section,
    Sums,
    of_classes,
)
from calcli.methods.one_vs_rest import bound_method, bound_sums, parts, rules_of
from calcli.methods.post_processing import PLAIN, PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.numeric.links import GREATEST, LEAST, log_odds
from calcli.numeric.seeded import Split
from calcli.state import (
    BROKEN,
    LARGEST,
    PROBED,
    Json,
    State,
    any_column,
    check_numbers,
    nest,
    unnest,
)

if TYPE_CHECKING:  # only exports need formulas
    from calcli.expressions import Inputs, Terms

IDENTITY = "identity"
_TOGETHER, _AS_MANY = 1 << 18, 1 << 14
"""Groups of about so many rows are fitted together; a group counts as so many at least, as it may need memory itself.
"""

_COUNTS = "rows and weight"
"""The key of the counts that are added to the sums of the method itself."""


@dataclass(frozen=True, slots=True)
class FittedMethod:
    """A fitted method."""

    spec: MethodSpec
    """The method's entry in the catalog."""

    classes: int
    """K, the number of classes."""

    rows: int
    """How many rows it was fitted on, as their weights count: they decide the weight of the mix (see `_mixed`)."""

    state: State
    """The method's own numbers."""

    post_processing: PostProcessing = PLAIN
    """The last steps of `predict`."""

    sides: SideInputs = NO_SIDE_INPUTS
    """The side inputs of the fit that `predict` needs too."""

    kept: bool = False
    """Whether it comes from an artifact, whose content may be at fault for errors."""

    start: State | None = None
    """The curve that turns numbers which only rank into log-odds; None where scores are log-odds."""

    @contextmanager
    def as_artifact_error(self) -> Iterator[None]:
        """Turn the errors of a broken state into an `ArtifactError` if the calibrator comes from an artifact."""
        try:
            yield
        except BROKEN as error:
            if not self.kept:
                raise
            raise ArtifactError(
                f"the artifact does not hold what one of {self.spec.name} holds: {type(error).__name__} {error}",
                hint="fit it anew",
            ) from error

    def predict(self, batch: Batch, sides: SideInputs = NO_SIDE_INPUTS) -> FloatArray:
        """Calibrated probabilities: of the positive class, or a row for each. `sides` come with these rows."""
        with self.as_artifact_error():
            method, batch = bound_method(self.spec, self.classes), self._started(batch)
            prob = method.predict(self.predicting, batch, self.sides | sides)
        prob = self.post_processing.apply(prob, self.rows, self.classes, reaches_ends=self.reaches_ends)
        if not math.isfinite(float(prob.sum())):
            raise ArtifactError("this calibrator gives no probability for some rows", hint="fit it anew")
        return prob

    def _started(self, batch: Batch) -> Batch:
        """The rows with log-odds as scores."""
        return batch if self.start is None else start.apply(self.start, batch)

    @property
    def predicting(self) -> State:
        """The state that predicts: outputs are held within what the rows of the fit support, unless they are exact."""
        return self.state.exact if self.post_processing.exact else self.state

    @property
    def reaches_ends(self) -> bool:
        """Whether the raw output can be exactly 0 or 1."""
        possible = self.spec.reaches_ends and bool(self.state.params.get("reaches_ends", True))
        return possible and not self.predicting.holds_back

    def probe(self, roles: Mapping[str, Role]) -> None:
        """Predict some rows with features of these roles, so that a broken state fails early."""
        score = np.sinh(np.linspace(-7.0, 7.0, PROBED))
        if self.classes > 2:  # each class has each score in some row
            score = score[np.add.outer(np.arange(PROBED), np.arange(self.classes)) % PROBED]
        features = {name: any_column(role) for name, role in roles.items()}
        node = None if self.sides.edges is None else any_column("category")
        with self.as_artifact_error():
            prob = self.predict(Batch(score, features=features, node=node))
            if prob.shape != score.shape:
                raise ValueError(f"it gives {prob.shape} numbers for {score.shape} scores")

    @property
    def extra_names(self) -> tuple[str, ...]:
        """The names of the extra columns; a calibrator of each class against the rest has none."""
        return () if self.spec.one_vs_rest(self.classes) else self.spec.extras

    def extras(self, batch: Batch, sides: SideInputs = NO_SIDE_INPUTS) -> Mapping[str, FloatArray]:
        """The extra columns of these rows, under the names of `extra_names`."""
        if not self.extra_names:
            return {}
        with self.as_artifact_error():
            return self.spec.load().extras(self.state, self._started(batch), self.sides | sides)

    def explain(self, classes: Sequence[str]) -> tuple[Section, ...]:
        """Tables of the fitted state; `classes` are the names of the classes in the order of their index."""
        if not self.spec.explains:
            return ()
        method = self.spec.load()
        with self.as_artifact_error():
            if not self.spec.one_vs_rest(self.classes):
                return method.explain(self.state)
            return tuple(
                replace(section, title=f"{name}: {section.title}")
                for name, part in zip(classes, of_classes(self.state, self.classes), strict=True)
                for section in method.explain(part)
            )

    def remarks(self, nodes: Column | None = None) -> tuple[str, ...]:
        """Sentences about the fit, or about applying it to rows with these ids."""
        if not self.spec.remarks:
            return ()
        with self.as_artifact_error():
            return self.spec.load().remarks(self.state, self.sides, nodes)

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The features that predicting reads; None for all that the fit had."""
        names = self.state.params.get(READS)
        return tuple(map(str, names)) if isinstance(names, list) else None

    @property
    def settings(self) -> Params:
        """The values that the fit chose for open parameters."""
        chosen = self.state.params.get(SETTINGS)
        return cast("Params", chosen) if isinstance(chosen, dict) else {}

    @property
    def whole_table(self) -> bool:
        """Whether a row's result depends on the other rows of its table, so that they are predicted all at once."""
        return self.state.params.get(WHOLE_TABLE) is True

    def interval(self, batch: Batch) -> tuple[FloatArray, FloatArray]:
        """The lower and upper probability of the method: of the positive class, or of each class."""
        method = self.spec.load()
        if self.classes > 2 and self.post_processing.prior_ratio is not None:
            raise UsageError(
                "intervals for more than two classes cannot be shifted to other base rates", hint="leave out --extra"
            )
        with self.as_artifact_error():
            ends = method.interval(self.state, self._started(batch))
        # Each class against the rest.
        lo, hi = (self.post_processing.apply(end, self.rows, 2, reaches_ends=True) for end in ends)
        return lo, hi

    def with_post_processing(self, post_processing: PostProcessing) -> FittedMethod:
        """The calibrator with other last steps."""
        return replace(self, post_processing=post_processing)

    def to_state(self) -> State:
        """Everything, for an artifact, which is refused here where it would be when it is read."""
        try:
            self.checked()
        except ValueError as error:
            raise FitError(
                f"{self.spec.name} gives numbers for these rows that no artifact holds: {error}",
                hint="take another method or, if the scores are no log-odds and only rank, --rank COLUMN",
            ) from error
        whole = nest({"method": self.state} | ({} if self.start is None else {"start": self.start}))
        prior_ratio: Json = None if self.post_processing.prior_ratio is None else list(self.post_processing.prior_ratio)
        facts: dict[str, Json] = {
            "classes": self.classes,
            "rows": self.rows,
            "exact": self.post_processing.exact,
            "tilt": prior_ratio,
        }
        return State({**whole.params, **facts}, whole.arrays, whole.blobs)

    @classmethod
    def from_state(cls, method: str, whole: State, sides: SideInputs = NO_SIDE_INPUTS) -> FittedMethod:
        """The inverse of `to_state`, for a method of the catalog; side inputs are kept separately."""
        state = unnest(whole, ["method"])["method"]
        prior_ratio = whole.params["tilt"]
        factors = tuple(float(str(factor)) for factor in prior_ratio) if isinstance(prior_ratio, list) else None
        post_processing = PostProcessing(bool(whole.params["exact"]), factors)
        found = cls(
            catalog.find(method), int(whole.number("classes")), int(whole.number("rows")), state, post_processing, sides
        )
        return replace(found, start=unnest(whole, ["start"])["start"] if "start" in whole.params else None).checked()

    def checked(self) -> FittedMethod:
        """The calibrator, if its numbers are those of its method; else a `ValueError`."""
        if self.classes < 2 or self.rows < 1:
            raise ValueError(f"it is of {self.classes} classes and {self.rows} rows")
        factors = self.post_processing.prior_ratio
        if factors is not None and (len(factors) != self.classes or not all(0 < one <= LARGEST for one in factors)):
            raise ValueError(f"its base rates have changed by {factors}")
        if self.start is not None:
            start.check(self.start)
        if self.spec.one_vs_rest(self.classes) and len(self.state.params) != self.classes:
            raise ValueError(f"it has {len(self.state.params)} parts, and not one for each of {self.classes} classes")
        check_numbers(self.state, rules_of(bound_method(self.spec, self.classes), self.classes), self.classes)
        return self


def fit(
    spec: MethodSpec, batch: Batch, params: Params, *, sides: SideInputs = NO_SIDE_INPUTS, seed: int = 0
) -> FittedMethod:
    """Fit a method on rows with labels."""
    rows = _rows(len(batch), float(batch.weights.sum()))
    if spec.lacks_columns(batch):
        raise no_features(spec)
    if batch.ranks:
        curve = start.fit(_counting(batch), flat=spec.name == IDENTITY)
        return replace(fit(spec, start.apply(curve, batch), params, sides=sides, seed=seed), start=curve)
    state = bound_method(spec, batch.classes).fit(_counting(batch), sides, params, seed)
    return FittedMethod(spec, batch.classes, rows, state, sides=sides.only(spec.keeps))


def scaled(rows: Batch) -> FittedMethod:
    """The calibrator of scores alone from which methods that read features start."""
    spec = catalog.find("platt" if rows.classes == 2 else "sms")
    return fit(spec, rows.bare, spec.resolve())


def fit_each(
    spec: MethodSpec, batch: Batch, groups: Sequence[Group], params: Params, *, seed: int = 0
) -> list[FittedMethod | None]:
    """Fit a method on each group of some rows, by their scores alone; None where a `FitError` stands in the way.

    Each group has rows of two labels.
    """
    states: list[State | None] = [None] * len(groups)
    side_by_side = getattr(spec.load(), "fit_each", None)
    if len(groups) > 1 and side_by_side is not None and not spec.one_vs_rest(batch.classes) and not batch.ranks:
        together = grouped(map(_counting_of, groups), lambda group: max(len(group.rows), _AS_MANY), _TOGETHER)
        states = [state for some in together for state in side_by_side(batch, some, params)]
    return [
        _fit_group(spec, batch, group, params, seed)
        if state is None
        else FittedMethod(spec, batch.classes, _rows(len(group.rows), float(group.weight.sum())), state)
        for group, state in zip(groups, states, strict=True)
    ]


def _fit_group(spec: MethodSpec, batch: Batch, group: Group, params: Params, seed: int) -> FittedMethod | None:
    try:
        return fit(spec, replace(batch.bare.take(group.rows), weight=group.weight), params, seed=seed)
    except FitError:
        return None


class Settled(NamedTuple):
    """The calibrator of all rows, and all parameters with the settings that it chose."""

    fitted: FittedMethod
    params: Params
    of_splits: Mapping[int, FittedMethod]
    """Calibrators with these settings, fitted on the training rows of some splits, by the place of the split."""

    seconds: float
    """How long the choice took, which has fitted these."""

    by_splits: bool
    """Whether the settings were chosen by the rows that the splits hold out."""


def settle(
    spec: MethodSpec,
    batch: Batch,
    params: Params,
    splits: Sequence[Split],
    *,
    sides: SideInputs = NO_SIDE_INPUTS,
    seed: int = 0,
) -> Settled:
    """Fit a method on all rows; it chooses its open parameters by these splits if it can.

    A score that only ranks has a start, which has seen the rows of all splits: no calibrators of splits are kept.
    """
    if batch.ranks and len(batch):
        _rows(len(batch), float(batch.weights.sum()))
        curve = start.fit(_counting(batch), flat=spec.name == IDENTITY)
        found = settle(spec, start.apply(curve, batch), params, splits, sides=sides, seed=seed)
        return found._replace(fitted=replace(found.fitted, start=curve), of_splits={})
    started, chosen = time.perf_counter(), Chosen()
    if spec.chooses and not spec.lacks_columns(batch) and len(_counting(batch)) == len(batch) > 0:
        chosen = _chosen(spec, batch, sides, params, seed, splits)
    seconds = time.perf_counter() - started
    if chosen.whole is None:
        fitted = fit(spec, batch, {**params, **chosen.settings}, sides=sides, seed=seed)
    else:
        rows = _rows(len(batch), float(batch.weights.sum()))
        fitted = FittedMethod(spec, batch.classes, rows, chosen.whole, sides=sides.only(spec.keeps))
    of_splits = {}
    for place, state in chosen.states.items():
        weight = batch.weights[splits[place].train]
        of_splits[place] = replace(fitted, rows=_rows(len(weight), float(weight.sum())), state=state)
    by_splits = bool(chosen.settings or chosen.states)
    return Settled(fitted, {**params, **chosen.settings, **fitted.settings}, of_splits, seconds, by_splits)


def _chosen(
    spec: MethodSpec, batch: Batch, sides: SideInputs, params: Params, seed: int, splits: Sequence[Split]
) -> Chosen:
    """The choice of a method; one-vs-rest that of each class, if all of them are calibrators of every split."""
    method = spec.load()
    if not spec.one_vs_rest(batch.classes):
        return method.choose(batch, sides, params, seed, splits)
    each = {name: method.choose(part, sides, params, seed, splits) for name, part in parts(batch)}
    wholes = {name: one.whole for name, one in each.items() if one.whole is not None}
    if len(wholes) < len(each) or any(len(one.states) < len(splits) for one in each.values()):
        return Chosen()
    states = {place: nest({name: one.states[place] for name, one in each.items()}) for place in range(len(splits))}
    return Chosen({}, states, nest(wholes))


def no_features(spec: MethodSpec) -> DataError:
    """The error of a table with nothing but a score and a label."""
    return DataError(
        f"{spec.name} needs features, and the table has no columns that can be features",
        hint="name some with --features, or try: --method auto",
    )


def gather(spec: MethodSpec, batch: Batch, params: Params) -> Sums:
    """The sums of some of the rows, for a method that is fitted from sums."""
    sums = bound_sums(spec, batch.classes).gather(_counting(batch), params)
    return replace(sums, arrays={**sums.arrays, _COUNTS: np.array([float(len(batch)), float(batch.weights.sum())])})


def finish(spec: MethodSpec, sums: Sums, params: Params, *, classes: int) -> FittedMethod:
    """The calibrator that `fit` gives on all the rows that the sums are of."""
    rows = _rows(*sums.arrays[_COUNTS].tolist())
    own = replace(sums, arrays={name: array for name, array in sums.arrays.items() if name != _COUNTS})
    return FittedMethod(spec, classes, rows, bound_sums(spec, classes).finish(own, params))


def _counting(batch: Batch) -> Batch:
    """The rows whose weight is not lost to rounding beside the greatest: solvers stumble over such rows."""
    if batch.weight is None or not len(batch):
        return batch
    lost = (batch.weight > 0) & (batch.weight < np.finfo(np.float64).eps * batch.weight.max())
    return batch.take(~lost) if lost.any() else batch


def _counting_of(group: Group) -> Group:
    """The rows of a group that `_counting` leaves."""
    counts = group.weight >= np.finfo(np.float64).eps * group.weight.max()
    return group if counts.all() else Group(group.rows[counts], group.weight[counts])


def _rows(rows: float, weight: float) -> int:
    """The number of rows as the weights count them; no rows, or none of any weight, are refused."""
    if rows == 0:
        raise FitError("there are no rows to fit on")
    if not weight > 0:
        raise FitError("all rows have weight 0: there is nothing to fit on")
    return max(1, round(weight))


_LEAST, _MOST = (float(end) for end in log_odds(np.array([LEAST, GREATEST])))
"""The log-odds of the least and the greatest probability."""


def formula_of(calibrator: FittedMethod, score: Terms, features: Inputs) -> Terms:
    """The calibrated probability of the positive class, or of each class, if the method has a closed form.

    `score` is the log-odds, or a logit for each class; `features` are the columns of the fit by name.
    """
    spec = calibrator.spec
    if not spec.closed_form:
        known = ", ".join(each.name for each in catalog.specs() if each.closed_form)
        raise UsageError(
            f"{spec.name} has no closed form", hint=f"try: calcli fit --for sql, or a method of these: {known}"
        )
    with calibrator.as_artifact_error():
        if calibrator.start is not None:
            score = (start.formula(calibrator.start, score[0]),)
        method, state = spec.load(), calibrator.predicting
        if spec.one_vs_rest(calibrator.classes):
            prob = one_vs_rest.formula_of(method, state, score, features)
        else:
            prob = method.formula(state, score, features)
        prob = calibrator.post_processing.formula(
            prob, calibrator.rows, calibrator.classes, reaches_ends=calibrator.reaches_ends
        )
        if len(prob) != len(score):
            raise ValueError(f"it has formulas of {len(prob)} numbers for {len(score)} scores")
        return prob


def score_formula_of(calibrator: FittedMethod, score: Terms) -> Terms:
    """The score that a calibrator of scores gives; for Platt scaling a z + b, with no detour through probabilities."""
    from calcli import expressions as terms

    if calibrator.spec.name == "platt" and len(score) == 1:
        state = calibrator.state
        if calibrator.start is not None:
            score = (start.formula(calibrator.start, score[0]),)
        moved = state.number("a") * score[0] + state.number("b")
        return (terms.drawn_in(terms.clip(moved, _LEAST, _MOST)),)
    return terms.scores(formula_of(calibrator, score, {}))
