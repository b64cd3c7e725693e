"""Minimising smooth convex functions of a few variables, some of which may not be negative."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from calcli.batch import FloatArray
from calcli.numeric.solve import Expansion, newton

Expand = Callable[[FloatArray], Expansion]


def newton_nonnegative(expand: Expand, start: FloatArray, bounded: tuple[int, ...]) -> FloatArray:
    """The minimiser with ``x[i] >= 0`` for the few i in `bounded`.

    If the free minimum violates a bound, the answer lies on a face where some of the bounded variables are 0. With one
    or two of them there are at most three faces: each is minimised, and the lowest that violates nothing wins. The
    function is convex, so that no face with more zeros can be lower than a valid one with fewer.
    """
    for zeros in range(len(bounded) + 1):
        faces = itertools.combinations(bounded, zeros)
        valid = [x for x in (_on_face(expand, start, face) for face in faces) if (x[list(bounded)] >= 0).all()]
        if valid:
            return min(valid, key=lambda x: expand(x).value)
    return start  # unreachable: the face on which all are 0 violates nothing


def _on_face(expand: Expand, start: FloatArray, zero: tuple[int, ...]) -> FloatArray:
    """The minimiser with the variables `zero` held at 0."""
    free = np.setdiff1d(np.arange(len(start)), zero)

    def whole(part: FloatArray) -> FloatArray:
        x = np.zeros(len(start))
        x[free] = part
        return x

    def on_face(part: FloatArray) -> Expansion:
        value, gradient, hessian = expand(whole(part))
        return Expansion(value, gradient[free], hessian[np.ix_(free, free)])

    return whole(newton(on_face, start[free]))
