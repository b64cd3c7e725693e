"""Effects: a correction of the log-odds for each value of each feature, and of each pair, shrunk by empirical Bayes.

A mixed model, as a generalised additive model with pairs: see `fitting` for its formula. The score itself is one of the
features. Slopes are corrections of the trust in the score, for each value of a feature. Where features say nothing, the
variances of their effects vanish, and scaling by a and b is left.

The share of each column in what the sum of effects adds to the log-odds is an exact Shapley value: a column that is not
known yet takes its values from background rows. An effect of one column is the share of that column. Of an effect of
two, each has half of what it adds when it is known first, and half of what it adds when it comes second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from calcli import expressions as terms
from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, IntArray, SideInputs
from calcli.expressions import Inputs, Number, Switch, Term, Terms
from calcli.learners.catboost import differs, most_important
from calcli.learners.tree_models import Contributions
from calcli.methods.base import READS, Intervals, Params, Section, number
from calcli.methods.effects.coding import FIRST, Coding, centred_scores, centred_terms, codings_of, learned
from calcli.methods.effects.fitting import ALONE, TOGETHER, Block, Fit, Rows, blocks_of, joined, size_of
from calcli.methods.scaling.matrix import Sms
from calcli.methods.trees.coding import pack_features, unpacked_once
from calcli.methods.trees.held_out_choice import distinct
from calcli.numeric.links import probabilities
from calcli.numeric.seeded import class_order, ordered
from calcli.state import Json, Numbers, Rules, State, nested_rules, prefixed, unnest, unprefixed

PAIRED = (4, 16)
"""The bins of numbers in pairs of two classes; of more only the first."""

MOST_PAIRED = 128
"""At most so many features are paired, those with the largest effects."""

LOOKED_AT = 5_000
"""By so many rows it is seen whether rows repeat."""

ENOUGH = 10
"""So many rows for each of the K^2 numbers of matrix scaling are enough to begin with it."""

LEAST = 1e-12
"""A scaled probability is held above this before its logarithm is taken."""

MOST_DRAWN, MOST_NAMED = 12, 12
"""The features that are drawn, and the values of a category."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    if _repeat(batch.score):
        batch = distinct(batch, seed)
    most = int(number(params, "features"))
    # A column of one value says nothing, not even of how little others may say.
    batch = replace(batch, features={name: column for name, column in batch.features.items() if differs(column)})
    names = most_important(batch.features, batch.labels, batch.weight, count=most, seed=seed)
    others = len(batch.features) - len(names)
    batch = replace(batch, features={name: batch.features[name] for name in sorted(names)})
    order = class_order(batch.score, batch.weight)
    start = _start(batch, sides, seed)
    classes, score = batch.classes, np.ascontiguousarray(_scores(start, batch, order))
    binary = classes == 2
    coarse = PAIRED if binary else PAIRED[:1]
    each = learned(batch, score, int(number(params, "bins")) if binary else 16, 32 if binary else 8, coarse)
    codings = [of_feature[0] for of_feature in each]
    singles = len(codings)
    weight = batch.weights.astype(np.float64)
    mean, spread = _moments(score, weight)
    label = np.argsort(order).astype(np.min_scalar_type(classes))[batch.labels]
    held = Rows(score, label, weight, (score - mean) / spread if binary else np.empty(0))
    made = Fit(
        held,
        1.0,
        np.zeros(() if binary else classes),
        list(codings),
        [coding.of(batch, score) for coding in codings],
        list(blocks_of(range(singles), codings, classes, slopes=binary and params["slopes"] is True)),
    )
    made.leave_out(others)
    wide = [made.place_of(group[1], batch) for group in each]
    wider = [place for place in wide if place >= singles and made.codings[place].kind != "category"]
    made.blocks = [*blocks_of(wider, made.codings, classes, slopes=False), *made.blocks]
    made.sweep(ALONE)
    if (most := int(number(params, "pairs"))) > 0 and len(codings) > 1:
        paired = [each[place] for place in made.telling(singles, MOST_PAIRED)]
        groups = [[made.place_of(coding, batch) for coding in group] for group in zip(*paired, strict=True)][1:]
        for pair in made.pairs(groups, most if binary else min(most, 60)):
            made.blocks.append(Block.nothing(pair, size_of(pair, made.codings), classes))
        made.sweep(TOGETHER - ALONE)
    shift = np.atleast_1d(made.intercept)
    return _Model(order, made.slope, shift, mean, spread, tuple(made.codings), tuple(made.blocks), start).to_state()


def holds(classes: int) -> Rules:
    moments = {"mean": Numbers(), "spread": Numbers(low=1e-12)}
    cells = {"value": Numbers(("n",)), "information": Numbers(("n",), low=0.0, high=np.inf)}
    of_each = {"variance": Numbers(("v",), low=0.0)}
    start = {name: replace(rule, optional=True) for name, rule in nested_rules("start", Sms().holds(classes)).items()}
    return {
        "a": Numbers(),
        "intercept": Numbers(("1" if classes == 2 else "K",)),
        **moments,
        **cells,
        **of_each,
        **start,
    }


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    return _unpacked(state).predict(batch)


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return _unpacked(state).formula(score, features)


def explain(state: State) -> tuple[Section, ...]:
    return _unpacked(state).sections()


def _repeat(score: FloatArray) -> bool:
    """Whether scores repeat, so that rows may do so: of some thousands half at least."""
    some = score[:: max(1, len(score) // LOOKED_AT)]
    return 2 * len(np.unique(some, axis=0)) < len(some)


def contributions(state: State, batch: Batch, rows: IntArray, background: IntArray) -> Contributions | None:
    """Exact Shapley values, of two classes."""
    return _unpacked(state).contributions(batch, rows, background) if batch.classes == 2 else None


def _start(batch: Batch, sides: SideInputs, seed: int) -> State | None:
    """Matrix scaling of more than two classes, where there are rows enough for its numbers."""
    enough = batch.classes > 2 and batch.weights.sum() >= ENOUGH * batch.classes**2
    return Sms().fit(batch.bare, sides, {}, seed) if enough else None


def _scores(start: State | None, batch: Batch, order: IntArray) -> FloatArray:
    """The log-odds of two classes, or centred logits of more, with the classes in this order, as they are or scaled."""
    if start is None:
        return centred_scores(batch.score, order)
    prob = Sms().predict(start, batch.bare, NO_SIDE_INPUTS)
    return centred_scores(np.log(np.maximum(prob, LEAST)), order)


def _moments(score: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """The mean and the standard deviation of the scores, 1 where they are all the same."""
    if score.ndim > 1:
        return 0.0, 1.0
    mean = float(np.average(score, weights=weight))
    spread = float(np.sqrt(np.average(np.square(score - mean), weights=weight)))
    return mean, spread if spread > 1e-9 else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """An unpacked state."""

    order: IntArray
    """The classes in `class_order`, in which all else is: so it does not matter which class is which."""

    slope: float
    intercept: FloatArray
    mean: float
    spread: float
    codings: tuple[Coding, ...]
    blocks: tuple[Block, ...]
    start: State | None = None
    """The state of the calibrator that scales the logits of more than two classes."""

    def predict(self, batch: Batch) -> FloatArray:
        score = _scores(self.start, batch, self.order)
        binary = score.ndim == 1
        total = self.slope * score + (self.intercept[0] if binary else self.intercept)
        along = (score - self.mean) / self.spread
        codes = {place: self.codings[place].of(batch, score) for block in self.blocks for place in block.parts}
        for block in self.blocks:
            place = joined(block.parts, codes, self.codings)
            total += block.values[place] * along if block.slope else block.values[place]
        return probabilities(ordered(total, np.argsort(self.order)))

    def contributions(self, batch: Batch, rows: IntArray, background: IntArray) -> Contributions:
        """The shares of the score, first, and of the features in the log-odds minus those of the raw score."""
        places, rows = np.concatenate([rows, background]), np.arange(len(rows))
        background = np.arange(len(rows), len(places))
        batch = batch.take(places)
        sign = -1.0 if self._negated else 1.0
        score = centred_scores(batch.score, self.order)
        along = (score - self.mean) / self.spread
        names = ["score", *batch.features]
        base, moved = _of_one(sign * (self.slope * score + self.intercept[0]) - batch.score, rows, background)
        values = np.zeros((len(rows), len(names)))
        values[:, 0] = moved
        for block in self.blocks:
            codings = [self.codings[place] for place in block.parts]
            codes = [coding.of(batch, score) for coding in codings]
            columns = [0 if coding.kind == "score" else names.index(coding.name, 1) for coding in codings]
            effects = sign * block.values
            if block.slope:
                columns.append(0)
                two = _of_two(lambda a, b: effects[codes[0][a]] * along[b], rows, background)  # noqa: B023 called here
            elif len(columns) == 2:
                table = effects.reshape([coding.codes for coding in codings])
                two = _of_two(lambda a, b: table[codes[0][a], codes[1][b]], rows, background)  # noqa: B023 called here
            else:
                mean, added = _of_one(effects[codes[0]], rows, background)
                two = (mean, added, np.zeros(len(rows)))
            base += two[0]
            for column, added in zip(columns, two[1:], strict=False):
                values[:, column] += added
        return Contributions(tuple(names), base, values)

    def formula(self, score: Terms, features: Inputs) -> Terms:
        if self.start is not None:
            scaled = Sms().formula(self.start, score, {})
            score = tuple(terms.ln(terms.clip(prob, LEAST, 1.0)) for prob in scaled)
        held = centred_terms(score, self.order)
        along = (held[0] - self.mean) / self.spread
        codes = {
            place: self.codings[place].term(held, features)
            for place in sorted({place for block in self.blocks for place in block.parts})
        }
        totals = [[self.slope * one + float(shift)] for one, shift in zip(held, self.intercept, strict=True)]
        for block in self.blocks:
            place = codes[block.parts[0]]
            if len(block.parts) == 2:
                place = place * float(self.codings[block.parts[1]].codes) + codes[block.parts[1]]
            values = block.values.reshape(len(block.values), -1)
            for total, of_class in zip(totals, values.T, strict=True):
                known = np.flatnonzero(of_class)
                keys, numbers = tuple(known.tolist()), tuple(Number(float(of_class[key])) for key in known)
                found: Term = Switch(place, keys, numbers, Number(0.0)) if keys else Number(0.0)
                total.append(found * along if block.slope else found)
        sums = [terms.total(total) for total in totals]
        if len(sums) == 1:
            return terms.probabilities((sums[0] if self.order[0] == 0 else -1.0 * sums[0],))
        return terms.probabilities(tuple(sums[place] for place in np.argsort(self.order)))

    def sections(self) -> tuple[Section, ...]:
        return (self._features(), self._largest())

    def _features(self) -> Section:
        rows: list[tuple[Json, ...]] = []
        for block in self.blocks:
            names = " x ".join(self._name(place) for place in block.parts)
            kind = "slope" if block.slope else "pair" if len(block.parts) == 2 else "value"
            rows.append((names, kind, int((block.information > 0).sum()), float(np.sqrt(block.variance).max())))
        rows.sort(key=lambda row: (-cast(float, row[3]), cast(str, row[0])))
        note = "The standard deviation of the effects of each feature or pair, in log-odds; those left out have none."
        columns = ("feature", "effect of", "values", "deviation")
        sizes = tuple(cast(float, row[3]) for row in rows)
        return Section("effects", columns, tuple(rows), note, sizes, pictures=tuple(self._pictures()))

    def _pictures(self) -> Iterator[Intervals]:
        """The effects of each feature's own values, first those that the most rows feel the most."""
        own = [block for block in self.blocks if len(block.parts) == 1]
        for block in sorted(own, key=lambda one: -float((one.information * one.values**2).sum()))[:MOST_DRAWN]:
            coding, (place,) = self.codings[block.parts[0]], block.parts
            wide = [one for one in own if self._wider(one, block)]
            if any(self._wider(block, one) for one in own):
                continue
            turned, score = self._negated and not block.slope, coding.kind == "score"
            sizes = block.values.reshape(len(block.values), -1) * (-1.0 if turned else 1.0)
            errors = 1.96 * block.error.reshape(sizes.shape)
            for one in wide:  # the bins of one of them are within those of the other, but for a few at the ends
                within = FIRST + np.searchsorted(self.codings[one.parts[0]].cuts, np.append(coding.cuts, np.inf))
                at = np.concatenate([np.arange(FIRST), within])
                sizes = sizes + one.values.reshape(-1, sizes.shape[1])[at] * (-1.0 if turned else 1.0)
                errors = np.hypot(errors, 1.96 * one.error.reshape(-1, sizes.shape[1])[at])
            known = np.flatnonzero((block.information.reshape(sizes.shape) > 0.0).any(axis=1))
            if coding.kind == "category":
                largest = np.argsort(-np.abs(sizes / errors)[known].max(axis=1), kind="stable")[:MOST_NAMED]
                known = known[largest][np.argsort(-sizes[known[largest], 0], kind="stable")]
            elif score and self._negated:
                known = known[::-1]
            series = {
                "" if self._binary else f"class {name}": tuple(zip(size, size - error, size + error, strict=True))
                for name, size, error in sorted(
                    zip(self.order, sizes[known].T, errors[known].T, strict=False), key=lambda one: one[0]
                )
            }
            what = "trust in the score by " if block.slope else ""
            names = tuple(coding.mark(code, negated=score and self._negated) for code in known.tolist())
            yield Intervals(f"{what}{self._name(place)}", names, series, self._unit(block), coding.kind != "category")

    def _largest(self) -> Section:
        found: list[tuple[float, tuple[Json, ...]]] = []
        for block in self.blocks:
            turned = self._negated and not block.slope  # a slope of the negated score is that of the score
            values, error = -block.values if turned else block.values, 1.96 * block.error
            unit = self._unit(block)
            for index in np.argsort(-np.abs(values), axis=None, kind="stable").tolist():
                code, *of_class = np.unravel_index(index, values.shape)
                value, around = float(values.flat[index]), float(error.flat[index])
                if value != 0.0:
                    words = self._words(block, int(code))
                    words += f", class {self.order[of_class[0]]}" if of_class else ""
                    found.append((abs(value), (words, value, value - around, value + around, unit)))
        found.sort(key=lambda one: (-one[0], str(one[1][0])))
        note = "The effects with their 95 % intervals, from lo to hi."
        sizes, rows = tuple(size for size, _ in found), tuple(row for _, row in found)
        return Section("largest effects", ("if", "effect", "lo", "hi", "in"), rows, note, sizes)

    def _wider(self, block: Block, other: Block) -> bool:
        """Whether a block has wider bins of what another block is of."""
        one, two = self.codings[block.parts[0]], self.codings[other.parts[0]]
        alike = (one.name, one.kind, block.slope) == (two.name, two.kind, other.slope)
        return alike and one.kind != "category" and len(one.cuts) < len(two.cuts)

    @staticmethod
    def _unit(block: Block) -> str:
        return "per standard deviation of the score" if block.slope else "log-odds"

    @property
    def _binary(self) -> bool:
        return len(self.order) == 2

    @property
    def _negated(self) -> bool:
        """Whether all is about the log-odds of the other class."""
        return self._binary and self.order[0] == 1

    def _name(self, place: int) -> str:
        coding = self.codings[place]
        if coding.kind != "score":
            return coding.name
        return "score" if self._binary else f"score of class {self.order[int(coding.name)]}"

    def _words(self, block: Block, code: int) -> str:
        codes = (code,) if len(block.parts) == 1 else divmod(code, self.codings[block.parts[1]].codes)
        return " and ".join(self._value(*each) for each in zip(block.parts, codes, strict=True))

    def _value(self, place: int, code: int) -> str:
        coding = self.codings[place]
        return coding.words(code, self._name(place), negated=coding.kind == "score" and self._negated)

    def to_state(self) -> State:
        used = sorted({place for block in self.blocks for place in block.parts})
        place_of = {place: index for index, place in enumerate(used)}
        codings = [self.codings[place] for place in used]
        empty = np.empty(0)
        arrays = prefixed("coding", pack_features(codings)) | {
            "order": self.order,
            "intercept": self.intercept,
            "part": np.array([place_of[place] for block in self.blocks for place in block.parts], dtype=np.int64),
            "parts": np.array([len(block.parts) for block in self.blocks], dtype=np.int64),
            "slope": np.array([block.slope for block in self.blocks], dtype=np.bool_),
            "variance": np.concatenate([empty, *(block.variance.ravel() for block in self.blocks)]),
            "value": np.concatenate([empty, *(block.values.ravel() for block in self.blocks)]),
            "information": np.concatenate([empty, *(block.information.ravel() for block in self.blocks)]),
        }
        reads: list[Json] = list(dict.fromkeys(coding.name for coding in codings if coding.kind != "score"))
        params: dict[str, Json] = {"a": self.slope, "mean": self.mean, "spread": self.spread, READS: reads}
        if self.start is None:
            return State(params, arrays)
        return State({**params, "start": dict(self.start.params)}, {**arrays, **prefixed("start", self.start.arrays)})


@unpacked_once("value")
def _unpacked(state: State) -> _Model:
    codings = codings_of(unprefixed("coding", state.arrays))
    intercept, part = state.array("intercept"), state.arrays["part"].astype(np.int64)
    classes = len(intercept) if len(intercept) > 1 else 2
    width = () if classes == 2 else (classes,)
    each = 1 if classes == 2 else classes
    blocks, at, cell = [], 0, 0
    for index, (parts, slope) in enumerate(zip(state.arrays["parts"].tolist(), state.arrays["slope"], strict=True)):
        places = tuple(part[at : at + parts].tolist())
        if len(places) != parts or not 1 <= parts <= 2 or min(places) < 0:
            raise ValueError("its blocks are not of one or two features")
        shape = (size_of(places, codings), *width)
        end = cell + int(np.prod(shape))
        values, known = (state.array(name)[cell:end].reshape(shape) for name in ("value", "information"))
        variance = state.array("variance")[index * each : (index + 1) * each].reshape(width)
        blocks.append(Block(places, bool(slope), values, variance, known))
        at, cell = at + parts, end
    if cell != len(state.array("value")):
        raise ValueError("its effects are not one number for each value")
    order = state.arrays["order"].astype(np.int64)
    if sorted(order.tolist()) != list(range(classes)):
        raise ValueError(f"it does not name each of its {classes} classes once")
    start = unnest(state, ["start"])["start"] if "start" in state.params else None
    numbers = state.number("a"), intercept, state.number("mean"), state.number("spread")
    return _Model(order, *numbers, tuple(codings), tuple(blocks), start)


def _of_one(value: FloatArray, rows: IntArray, background: IntArray) -> tuple[float, FloatArray]:
    """The expected value, and what the column adds to it in each row."""
    base = float(value[background].mean())
    return base, value[rows] - base


def _of_two(
    value: Callable[[IntArray, IntArray], FloatArray], rows: IntArray, background: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    """The expected value, and what each of the columns adds to it in each row.

    `value` is that of the effect where the columns are as in these two rows.
    """
    base, whole = float(value(background, background).mean()), value(rows, rows)
    first_known = value(rows[:, None], background[None, :]).mean(axis=1)
    second_known = value(background[None, :], rows[:, None]).mean(axis=1)
    first = (whole - second_known + first_known - base) / 2.0
    return base, first, whole - base - first
