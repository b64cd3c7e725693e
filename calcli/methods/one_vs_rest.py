"""A binary method on K > 2 classes: each class against all others, renormalised.

Each class's own log-odds against the rest are calibrated by the binary method; the K results are divided by their sum.
A row in which all K are 0 keeps the probabilities it came with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import Batch, FloatArray, SideInputs
from calcli.methods.base import Method, Params, Sums, SumsMethod
from calcli.numeric.links import against_rest, probabilities
from calcli.numeric.pooled import Pooled
from calcli.state import State, nest, prefixed, unnest, unprefixed


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
        states = unnest(state, [str(index) for index in range(batch.classes)])
        prob: FloatArray = np.column_stack(
            [self.binary.predict(states[name], part, sides) for name, part in _parts(batch)]
        )
        total = prob.sum(axis=1, keepdims=True)
        nothing = total[:, 0] == 0
        if nothing.any():
            prob[nothing] = probabilities(batch.score[nothing])
            total[nothing] = 1.0
        prob /= total
        return prob


@dataclass(frozen=True, slots=True)
class OneVsRestSums(OneVsRest):
    """The same for a method that is fitted from sums."""

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
