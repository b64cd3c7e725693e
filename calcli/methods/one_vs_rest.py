"""Methods for two classes on more of them, each class against the rest.

Each class's own log-odds against the rest are calibrated, and the K results divided by their sum; a row in which all K
are 0 keeps the probabilities it came with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calcli.batch import Batch, FloatArray, SideInputs
from calcli.methods.base import ExtendedMethod, Method, Params, Sums, SumsMethod, of_classes
from calcli.methods.spec import MethodSpec
from calcli.numeric.links import against_rest, probabilities
from calcli.state import Numbers, Rules, State, nest, nested_rules, prefixed, unprefixed

if TYPE_CHECKING:  # only exports need formulas
    from calcli.expressions import Inputs, Terms
    from calcli.numeric.pooled import Pooled


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


def parts(batch: Batch) -> Iterator[tuple[str, Batch]]:
    """Each class against the rest, as a binary problem."""
    for index, score in enumerate(np.asfortranarray(against_rest(batch.score)).T):
        label = None if batch.label is None else (batch.label == index).astype(np.int64)
        yield str(index), replace(batch, score=score, label=label)


@dataclass(frozen=True, slots=True)
class OneVsRest:
    """A method for K classes made of a binary one."""

    binary: Method

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        return nest({name: self.binary.fit(part, sides, params, seed) for name, part in parts(batch)})

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        pairs = zip(of_classes(state, batch.classes), parts(batch), strict=True)
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
            rules |= nested_rules(str(index), rules_of(self.binary, 2))
        return rules


@dataclass(frozen=True, slots=True)
class OneVsRestSums(OneVsRest):
    """`OneVsRest` of a method that is fitted from sums."""

    binary: SumsMethod

    def gather(self, batch: Batch, params: Params) -> Sums:
        arrays: dict[str, FloatArray] = {}
        scores: dict[str, Pooled] = {}
        for name, part in parts(batch):
            sums = self.binary.gather(part, params)
            arrays |= prefixed(name, sums.arrays)
            scores |= prefixed(name, sums.scores)
        return Sums(arrays, scores)

    def finish(self, sums: Sums, params: Params) -> State:
        names = sorted({key.split("/", 1)[0] for key in (*sums.arrays, *sums.scores)}, key=int)
        parts = {name: Sums(unprefixed(name, sums.arrays), unprefixed(name, sums.scores)) for name in names}
        return nest({name: self.binary.finish(part, params) for name, part in parts.items()})


def rules_of(method: Method, classes: int) -> Rules:
    """The rules for the numbers of a method's state; a module without `holds` has none."""
    return method.holds(classes) if hasattr(method, "holds") else {}


def formula_of(method: ExtendedMethod, state: State, score: Terms, features: Inputs) -> Terms:
    """`OneVsRest.predict` as terms."""
    from calcli import expressions as terms

    each = [
        method.formula(part, (terms.one_against_rest(score, index),), features)[0]
        for index, part in enumerate(of_classes(state, len(score)))
    ]
    whole, raw = terms.total(each), terms.softmax(score)
    return tuple(terms.choose(whole > 0, one / whole, other) for one, other in zip(each, raw, strict=True))
