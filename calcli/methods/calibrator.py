"""A fitted method, ready to be applied: the interface through which the rest of calcli uses methods.

It adds the steps that all methods share. A binary method on K > 2 classes is fitted one-vs-rest: each class's own
log-odds against the rest are calibrated, and the K results divided by their sum; a row in which all K are 0 keeps the
probabilities it came with. The output of every method gets its `PostProcessing`. `formula_of` writes
`FittedMethod.predict` as terms.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from calcli import expressions as terms
from calcli.batch import NO_SIDE_INPUTS, Batch, Column, FloatArray, Role, SideInputs
from calcli.errors import ArtifactError, DataError, FitError, UsageError
from calcli.expressions import Inputs, Term, Terms
from calcli.methods import catalog, start
from calcli.methods.base import (
    READS,
    SETTINGS,
    WHOLE_TABLE,
    Chosen,
    Method,
    Params,
    Section,
    Sums,
    SumsMethod,
    of_classes,
)
from calcli.methods.spec import MethodSpec
from calcli.numeric.links import GREATEST, LEAST, against_rest, log_odds, open_interval, probabilities
from calcli.numeric.pooled import Pooled
from calcli.numeric.seeded import Split
from calcli.state import (
    BROKEN,
    LARGEST,
    PROBED,
    Json,
    Numbers,
    Rules,
    State,
    any_column,
    check_numbers,
    nest,
    nested_rules,
    prefixed,
    unnest,
    unprefixed,
)

IDENTITY = "identity"
_COUNTS = "rows and weight"
"""The key of the counts that are added to the sums of the method itself."""


@dataclass(frozen=True, slots=True)
class PostProcessing:
    """The last steps for the output of every method, in this order."""

    exact: bool = False
    """Whether outputs may be exactly 0 or 1. Otherwise rates are held within what their rows support (an array
    `SUPPORTED` in the state), the outputs of other methods that can give 0 or 1 are mixed with the uniform
    distribution, and all are clipped to the open interval.
    """

    prior_ratio: tuple[float, ...] | None = None
    """For each class its rate in the target population over its rate among the calibration rows. Probabilities are
    multiplied by it and renormalised, which takes z to z + logit(target rate) - logit(calibration rate). That is right
    for calibrated scores, so it comes last.
    """

    def apply(self, prob: FloatArray, rows: int, classes: int, *, reaches_ends: bool) -> FloatArray:
        """The final probabilities of a calibrator that was fitted on so many rows."""
        if reaches_ends and not self.exact:
            prob = _mixed(prob, rows, classes)
        if self.prior_ratio is not None:
            prob = _prior_shifted(prob, np.array(self.prior_ratio))
        return prob if self.exact else open_interval(prob, out=prob)


PLAIN = PostProcessing()


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
        """Everything, for an artifact."""
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
        check_numbers(self.state, _rules(bound_method(self.spec, self.classes), self.classes), self.classes)
        return self


def _rules(method: Method, classes: int) -> Rules:
    """The rules for the numbers of a method's state; a module without `holds` has none."""
    return method.holds(classes) if hasattr(method, "holds") else {}


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
    each = {name: method.choose(part, sides, params, seed, splits) for name, part in _parts(batch)}
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


def bound_method(spec: MethodSpec, classes: int) -> Method:
    """The method, one-vs-rest if it needs that for this many classes."""
    method = spec.load()
    return OneVsRest(method) if spec.one_vs_rest(classes) else method


def bound_sums(spec: MethodSpec, classes: int) -> SumsMethod:
    """The method that is fitted from sums, one-vs-rest if it needs that for this many classes."""
    method = spec.load_sums(classes)
    if method is None:
        raise ValueError(f"{spec.name} is not fitted from sums for {classes} classes")
    return OneVsRestSums(method) if spec.one_vs_rest(classes) else method


def _parts(batch: Batch) -> Iterator[tuple[str, Batch]]:
    """Each class against the rest, as a binary problem."""
    for index, score in enumerate(np.asfortranarray(against_rest(batch.score)).T):
        label = None if batch.label is None else (batch.label == index).astype(np.int64)
        yield str(index), replace(batch, score=score, label=label)


@dataclass(frozen=True, slots=True)
class OneVsRest:
    """A method for K classes made of a binary one."""

    binary: Method

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        return nest({name: self.binary.fit(part, sides, params, seed) for name, part in _parts(batch)})

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        pairs = zip(of_classes(state, batch.classes), _parts(batch), strict=True)
        prob: FloatArray = np.column_stack([self.binary.predict(own, part, sides) for own, (_, part) in pairs])
        total = prob.sum(axis=1, keepdims=True)
        nothing = total[:, 0] == 0
        if nothing.any():
            prob[nothing] = probabilities(batch.score[nothing])
            total[nothing] = 1.0
        prob /= total
        return prob

    def holds(self, classes: int) -> Rules:
        rules: dict[str, Numbers] = {}
        for index in range(classes):
            rules |= nested_rules(str(index), _rules(self.binary, 2))
        return rules


@dataclass(frozen=True, slots=True)
class OneVsRestSums(OneVsRest):
    """`OneVsRest` of a method that is fitted from sums."""

    binary: SumsMethod

    def gather(self, batch: Batch, params: Params) -> Sums:
        arrays: dict[str, FloatArray] = {}
        scores: dict[str, Pooled] = {}
        for name, part in _parts(batch):
            sums = self.binary.gather(part, params)
            arrays |= prefixed(name, sums.arrays)
            scores |= prefixed(name, sums.scores)
        return Sums(arrays, scores)

    def finish(self, sums: Sums, params: Params) -> State:
        names = sorted({key.split("/", 1)[0] for key in (*sums.arrays, *sums.scores)}, key=int)
        parts = {name: Sums(unprefixed(name, sums.arrays), unprefixed(name, sums.scores)) for name in names}
        return nest({name: self.binary.finish(part, params) for name, part in parts.items()})


def _mixed(prob: FloatArray, rows: int, classes: int) -> FloatArray:
    """The Laplace mix (1 - 1/(n+1)) p + 1/((n+1) K): n rows never quite exclude a class."""
    share = 1.0 / (rows + 1)
    return (1.0 - share) * prob + share / classes


def _prior_shifted(prob: FloatArray, prior_ratio: FloatArray) -> FloatArray:
    """The probability of each class times its ratio, renormalised."""
    if prob.ndim == 2:
        shifted: FloatArray = prob * prior_ratio
        shifted /= shifted.sum(axis=1, keepdims=True)
        return shifted
    positive: FloatArray = prob * prior_ratio[1]
    total: FloatArray = positive + (1.0 - prob) * prior_ratio[0]
    return positive / total


def _counting(batch: Batch) -> Batch:
    """The rows whose weight is not lost to rounding beside the greatest: solvers stumble over such rows."""
    if batch.weight is None or not len(batch):
        return batch
    lost = (batch.weight > 0) & (batch.weight < np.finfo(np.float64).eps * batch.weight.max())
    return batch.take(~lost) if lost.any() else batch


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
        prob = _formula(calibrator, score, features)
        if len(prob) != len(score):
            raise ValueError(f"it has formulas of {len(prob)} numbers for {len(score)} scores")
        return prob


def score_formula_of(calibrator: FittedMethod, score: Terms) -> Terms:
    """The score that a calibrator of scores gives; for Platt scaling a z + b, with no detour through probabilities."""
    if calibrator.spec.name == "platt" and len(score) == 1:
        state = calibrator.state
        if calibrator.start is not None:
            score = (start.formula(calibrator.start, score[0]),)
        moved = state.number("a") * score[0] + state.number("b")
        return (terms.drawn_in(terms.clip(moved, _LEAST, _MOST)),)
    return terms.scores(formula_of(calibrator, score, {}))


def _formula(calibrator: FittedMethod, score: Terms, features: Inputs) -> Terms:
    method, classes = calibrator.spec.load(), calibrator.classes
    if calibrator.spec.one_vs_rest(classes):
        each = [
            method.formula(part, (terms.one_against_rest(score, index),), features)[0]
            for index, part in enumerate(of_classes(calibrator.predicting, classes))
        ]
        prob = _renormalised(each, score)
    else:
        prob = method.formula(calibrator.predicting, score, features)
    return _post_processed(
        calibrator.post_processing, prob, calibrator.rows, classes, reaches_ends=calibrator.reaches_ends
    )


def _renormalised(prob: list[Term], score: Terms) -> Terms:
    """The probabilities divided by their sum; where all are 0, those of the score."""
    whole = terms.total(prob)
    raw = terms.softmax(score)
    return tuple(terms.choose(whole > 0, one / whole, other) for one, other in zip(prob, raw, strict=True))


def _post_processed(
    post_processing: PostProcessing, prob: Terms, rows: int, classes: int, *, reaches_ends: bool
) -> Terms:
    """`PostProcessing.apply` as terms."""
    if reaches_ends and not post_processing.exact:
        share = 1.0 / (rows + 1)
        prob = tuple((1.0 - share) * one + share / classes for one in prob)
    if post_processing.prior_ratio is not None:
        prob = _prior_shifted_terms(prob, post_processing.prior_ratio)
    return prob if post_processing.exact else tuple(terms.clip(one, LEAST, GREATEST) for one in prob)


def _prior_shifted_terms(prob: Terms, prior_ratio: tuple[float, ...]) -> Terms:
    if len(prob) == 1:
        positive = prior_ratio[1] * prob[0]
        return (positive / (positive + prior_ratio[0] * (1.0 - prob[0])),)
    shifted = [ratio * one for ratio, one in zip(prior_ratio, prob, strict=True)]
    whole = terms.total(shifted)
    return tuple(one / whole for one in shifted)
