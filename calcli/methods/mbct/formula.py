"""Trees in terms: the codes of a row as numbers, and each tree as the pattern that these lead to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calcli import expressions as terms
from calcli.expressions import Function, Inputs, Missing, Number, Switch, Term
from calcli.methods.mbct import kernels
from calcli.methods.mbct.coding import Coder, Coding
from calcli.methods.mbct.forest import Forest


def calibrated(coder: Coder, forest: Forest, score: Term, start: Term, features: Inputs) -> Term:
    """The probability of a row with this score, which the first tree takes as `start`, a log-odds."""
    codes = [code_of(feature, score, features) for feature in coder.features]
    trees = [_pattern(forest, int(root), codes) for root in forest.roots]
    if forest.link == kernels.ODDS:
        return terms.sigmoid(terms.total([start, *trees]))
    prob = terms.sigmoid(start)
    for tree in trees:
        prob = Function("least", (prob * tree, Number(1.0)))
    return prob


def code_of(coding: Coding, score: Term, features: Inputs) -> Term:
    """The code that `Coder.encode` gives."""
    first = 1 + coding.missing
    numbers = np.arange(first, coding.codes, dtype=np.float64)
    if coding.kind == "score":
        return terms.steps(score, coding.cuts, numbers, "left")
    column = features[coding.name]
    if coding.kind == "category":
        values = tuple(Number(value) for value in numbers.tolist())
        found: Term = Switch(column, coding.levels, values, Number(0.0)) if values else Number(0.0)
    else:
        found = terms.steps(column, coding.cuts, numbers, "left")
    return terms.choose(Missing(column), float(coding.missing), found)


def _pattern(forest: Forest, node: int, codes: Sequence[Term]) -> Term:
    """The pattern of the leaf below `node` that the codes lead to."""
    feature, first = int(forest.feature[node]), int(forest.first[node])
    if feature < 0:
        return Number(float(forest.pattern[node]))
    children = range(first + 1, first + int(forest.branches[node]))
    values = tuple(_pattern(forest, child, codes) for child in children)
    return Switch(
        codes[feature], tuple(int(forest.code[child]) for child in children), values, _pattern(forest, first, codes)
    )
