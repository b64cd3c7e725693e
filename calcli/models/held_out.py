"""Rows held out by chance, by unit or by time, and their predictions by calibrators that have not seen them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, IntArray, SamplingUnits, SideInputs
from calcli.errors import FitError, UsageError
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import FittedMethod
from calcli.methods.post_processing import PLAIN, PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics.base import Folds
from calcli.metrics.paired import LEAST_FOLDS, MOST_FOLDS, FoldFits
from calcli.numeric.seeded import Split, folds, group_folds, held_out, held_out_groups, last_in_time, stream, time_spans
from calcli.numeric.side_by_side import as_they_come
from calcli.numeric.threads import threads

Mask = NDArray[np.bool_]

CROSS_VALIDATED_ROWS = 1_000_000
"""Up to so many rows the default is 5-fold cross-validation, above that one 90/10 split."""

FEWER_FOLDS = ((20_000, 5), (50_000, 3))
"""Up to so many rows, so many folds: of many rows two thirds are enough to fit on."""


@dataclass(frozen=True, slots=True)
class Holdout:
    """How rows are held out: ``cv:5``, ``0.1``, ``none``, or ``others``: those outside a sample that is fitted on."""

    kind: Literal["cv", "share", "none", "others"]
    folds: int = 0
    share: float = 0.0
    refit_on_all: bool = True
    """Whether the artifact is fitted on all rows; otherwise it is the calibrator that was evaluated."""

    def __str__(self) -> str:
        return {"cv": f"cv:{self.folds}", "share": f"{self.share:g}", "none": "none", "others": "others"}[self.kind]

    @classmethod
    def parse(cls, text: str | None, rows: int) -> Holdout:
        """From ``--holdout``; None is the default for so many rows."""
        if text is None:
            return cls("cv", folds=5) if rows <= CROSS_VALIDATED_ROWS else cls("share", 0, 0.1, refit_on_all=False)
        if text == "none":
            return cls("none")
        if match := re.fullmatch(r"cv:(\d{1,12})", text):
            count = int(match[1])
            if count < 2:
                raise UsageError(f"--holdout {text}: cross-validation needs at least 2 folds")
            if count > max(rows, 5):
                raise UsageError(f"--holdout {text}: there are only {rows:,} rows")
            return cls("cv", folds=count)
        try:
            share = float(text)
        except ValueError:
            share = 0.0
        if not 0 < share < 1:
            raise UsageError(f"--holdout {text}: give cv:5 (folds), 0.1 (a share of the rows) or none")
        return cls("share", 0, share, refit_on_all=False)

    @classmethod
    def shared(cls, text: str | None, rows: int) -> Holdout:
        """The scheme whose predictions also choose settings, or among methods: then a prediction costs a whole fit.

        By default up to 20,000 rows are held out in five folds and up to 50,000 in three; of more, one fifth is enough.
        """
        if text is not None:
            return replace(cls.parse(text, rows), refit_on_all=True)
        folds = next((folds for most, folds in FEWER_FOLDS if rows <= most), 0)
        return cls("cv", folds=folds) if folds else cls("share", share=0.2)


@dataclass(frozen=True, slots=True)
class Splits:
    """Test and training rows, one mask each per split."""

    tests: tuple[Mask, ...]
    """The rows that are predicted; no row is in two of them."""

    trains: tuple[Mask, ...] | None = None
    """The rows that are fitted on; None for all that are not in the test."""

    def __len__(self) -> int:
        return len(self.tests)

    def train(self, index: int) -> Mask:
        return ~self.tests[index] if self.trains is None else self.trains[index]

    def __iter__(self) -> Iterator[Split]:
        return (Split(self.train(index), test) for index, test in enumerate(self.tests))

    @property
    def predicted(self) -> Mask:
        """The rows of all tests."""
        rows: Mask = np.logical_or.reduce(self.tests)
        return rows

    @property
    def folds(self) -> Folds | None:
        """Which test each predicted row is in, if there are several."""
        if len(self) < 2:
            return None
        place = np.zeros(len(self.tests[0]), dtype=np.int64)
        for index, test in enumerate(self.tests):
            place[test] = index
        return Folds(place[self.predicted], len(self))

    @property
    def partition(self) -> bool:
        """Whether these are the folds of a cross-validation: each is predicted from all others."""
        return self.trains is None and len(self.tests) > 1


@dataclass(frozen=True, slots=True)
class KeyedFolds:
    """Folds of rows on a cluster: a row's fold follows from its key, which is drawn from 0 .. `keys` - 1."""

    holdout: Holdout
    keys: int

    def of(self, key: NDArray[np.integer]) -> IntArray:
        """The fold of each row; those above `tests` are only fitted on."""
        wide = key.astype(np.int64)
        if self.holdout.kind == "cv":
            return wide * self.holdout.folds // self.keys
        return (wide >= self.holdout.share * self.keys).astype(np.int64)

    @property
    def tests(self) -> range:
        """The folds that are predicted, each from all other rows."""
        return range({"cv": self.holdout.folds, "share": 1, "none": 0}[self.holdout.kind])


def split_rows(rows: int, holdout: Holdout, seed: int, units: SamplingUnits | None = None) -> Splits:
    """Random splits of rows or of whole units; or, where these are moments, the later ones from the earlier."""
    if rows < 2:
        raise FitError("there is one row, which cannot be both held out and fitted on", hint="give more rows")
    if units is not None and np.ptp(units.rank) == 0:
        what, flag = "of one group: none can be held out", "--resample-by"
        if units.in_order:
            what, flag = "of one time: none is earlier than another", "--order-by"
        raise FitError(f"all rows are {what}", hint=f"give rows of several, or leave out {flag}")
    if units is not None and units.in_order and holdout.kind == "cv":
        return _forward(units.rank, holdout.folds)
    if holdout.kind == "cv":
        count = min(holdout.folds, rows)
        if units is None:
            fold = folds(rows, count, stream(seed, "folds"))
        else:
            fold = group_folds(units.rank, min(count, len(np.unique(units.rank))), stream(seed, "groups"))
        return Splits(tuple(fold == index for index in range(int(fold.max()) + 1)))
    if units is None:
        mask = held_out(rows, holdout.share, stream(seed, "split"))
    elif units.in_order:
        mask = last_in_time(units.rank, holdout.share)
    else:
        mask = held_out_groups(units.rank, holdout.share, stream(seed, "groups"))
    if not mask.any() or mask.all():
        raise FitError(
            f"a share of {holdout.share:g} of {rows:,} rows leaves nothing on one side",
            hint="try: --holdout cv:5",
        )
    return Splits((mask,))


def _forward(moment: IntArray, count: int) -> Splits:
    """Forward validation: of `count` + 1 time spans, each but the first is predicted from all earlier ones.

    `moment` is the rank of each row's time; rows with equal times stay together.
    """
    span = time_spans(moment, count)
    later = range(1, int(span.max()) + 1)
    return Splits(tuple(span == index for index in later), tuple(span < index for index in later))


NONE_KNOWN: Mapping[int, FittedMethod] = {}

SAID = 500_000
"""About so many predictions of the folds' calibrators for rows of other folds are kept."""


@dataclass(frozen=True, slots=True)
class HeldOutPredictions:
    """Calibrated probabilities of the held-out rows, in order, and the time that all splits took."""

    prob: FloatArray
    fit_seconds: float
    apply_seconds: float
    fits: FoldFits | None = None
    """The predictions of each fold's calibrator for the rows of the other folds, where they were asked for."""


@dataclass(frozen=True, slots=True)
class FoldPredictions:
    """Calibrated probabilities of the test rows of one split, in order, and those of `FoldFits`."""

    split: int
    prob: FloatArray
    fit_seconds: float
    apply_seconds: float
    said: FloatArray | None = None


def predict_held_out(
    spec: MethodSpec,
    batch: Batch,
    params: Params,
    splits: Splits,
    *,
    seed: int,
    done: Callable[[], None],
    sides: SideInputs = NO_SIDE_INPUTS,
    post_processing: PostProcessing = PLAIN,
    known: Mapping[int, FittedMethod] = NONE_KNOWN,
) -> tuple[HeldOutPredictions, FittedMethod]:
    """Fit and predict in each split; `done` is called after each. The calibrator is that of the last split.

    `known` are calibrators of splits that need not be fitted again.
    """
    parts: dict[int, FoldPredictions] = {}
    step = step_of(batch, splits)
    every = range(len(splits))
    made = predict_splits(spec, batch, params, splits, every, seed, sides, post_processing, step, known)
    for part, fitted in made:
        parts[part.split], last = part, fitted
        done()
    return join_folds(parts, batch, splits), last


def step_of(batch: Batch, splits: Splits) -> int:
    """Which rows each fold's calibrator predicts for `FoldFits`: each so many-th, none where it is 0."""
    if not splits.partition or not LEAST_FOLDS <= len(splits) <= MOST_FOLDS:
        return 0
    return max(1, batch.score.size * len(splits) // SAID)


def join_folds(parts: Mapping[int, FoldPredictions], batch: Batch, splits: Splits) -> HeldOutPredictions:
    """The predictions of all splits in the order of the rows."""
    prob = np.empty(batch.score.shape)
    for part in parts.values():
        prob[splits.tests[part.split]] = part.prob
    said = [parts[split].said for split in range(len(splits))]
    known = tuple(one for one in said if one is not None)
    return HeldOutPredictions(
        prob[splits.predicted],
        sum(part.fit_seconds for part in parts.values()),
        sum(part.apply_seconds for part in parts.values()),
        FoldFits(known, step_of(batch, splits)) if len(known) == len(splits) else None,
    )


def predict_splits(
    spec: MethodSpec,
    batch: Batch,
    params: Params,
    splits: Splits,
    which: Sequence[int],
    seed: int,
    sides: SideInputs = NO_SIDE_INPUTS,
    post_processing: PostProcessing = PLAIN,
    step: int = 0,
    known: Mapping[int, FittedMethod] = NONE_KNOWN,
) -> Iterator[tuple[FoldPredictions, FittedMethod]]:
    """The predictions and the calibrator of each of the splits `which`, as they come; `step` is that of `step_of`.

    `known` are calibrators of splits that need not be fitted again.
    """
    if not spec.needs_features:
        batch = replace(batch, features={})  # no fold has to take them
    sums: list[Sums] = []
    if gathers_once(spec, batch, splits):
        sums = [calibrator.gather(spec, batch.take(part), params) for part in splits.tests]

    def predict(split: int) -> tuple[FoldPredictions, FittedMethod]:
        started = time.perf_counter()
        if split in known:
            fitted = known[split]
        elif sums:
            fitted = _from_others(spec, sums, split, params, batch.classes)
        else:
            fitted = calibrator.fit(spec, batch.take(splits.train(split)), params, sides=sides, seed=seed)
        fitted = fitted.with_post_processing(post_processing)
        middle = time.perf_counter()
        prob = fitted.predict(batch.take(splits.tests[split]))
        apply_seconds = time.perf_counter() - middle
        said = _said(fitted, batch, splits.tests[split], prob, step) if step else None
        return FoldPredictions(split, prob, middle - started, apply_seconds, said), fitted

    if spec.needs_features and len(which) > 1 and threads() > 1:
        yield from (part for _, part in as_they_come(predict, which))
    else:
        yield from map(predict, which)


def _said(fitted: FittedMethod, batch: Batch, test: Mask, prob: FloatArray, step: int) -> FloatArray:
    """The predictions of a calibrator for each `step`-th row; for the rows of its test they are `prob`."""
    if fitted.whole_table:
        return fitted.predict(batch.take(slice(None, None, step)))
    others = ~test
    others[np.arange(len(batch)) % step > 0] = False
    said = np.empty(batch.score.shape)
    said[test], said[others] = prob, fitted.predict(batch.take(others))
    return said[::step]


def gathers_once(spec: MethodSpec, batch: Batch, splits: Splits) -> bool:
    """Whether each fold's sums are gathered once, so that every split fits from those of the other folds.

    Sums do not know of units, by which methods choose settings inside.
    """
    return splits.partition and batch.units is None and not batch.ranks and spec.from_sums(batch.classes)


def _from_others(spec: MethodSpec, sums: list[Sums], index: int, params: Params, classes: int) -> FittedMethod:
    first, *others = (part for place, part in enumerate(sums) if place != index)
    return calibrator.finish(spec, sum(others, start=first), params, classes=classes)
