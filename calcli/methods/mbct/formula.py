"""MBCT as a formula: the codes of a row as numbers, and each tree as a switch over codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calcli import expressions as terms
from calcli.batch import FloatArray
from calcli.expressions import Function, Inputs, Missing, Number, Switch, Term
from calcli.methods.mbct import kernels
from calcli.methods.mbct.coding import Coder
from calcli.methods.mbct.forest import Forest
from calcli.methods.trees.coding import CodedFeature


def calibrated(coder: Coder, forest: Forest, score: Term, start: Term, features: Inputs) -> Term:
    """The probability of a row with this score, which the first tree takes as `start`, a log-odds."""
    codes = [code_of(feature, score, features) for feature in coder.features]
    roots = forest.roots.tolist()
    if forest.link == kernels.ODDS:
        trees = [_of_leaf(forest, forest.pattern, root, codes) for root in roots]
        return terms.sigmoid(terms.total([start, *trees]))
    prob = terms.sigmoid(start)
    held = bool(((forest.bound > 0.0) & (forest.bound < 1.0)).any())
    for root in roots:
        product = prob * _of_leaf(forest, forest.pattern, root, codes)
        if held:
            low, high = Function("least", (prob, product)), Function("greatest", (prob, product))
            within = Function("least", (high, _of_leaf(forest, forest.bound, root, codes)))
            prob = Function("greatest", (low, within))
        else:
            prob = Function("least", (product, Number(1.0)))
    return prob


def code_of(feature: CodedFeature, score: Term, features: Inputs) -> Term:
    """The code that `Coder.encode` gives."""
    codes = np.arange(1 + feature.missing, feature.codes, dtype=np.float64)  # of the bins or levels
    if feature.kind == "score":
        return terms.steps(score, feature.cuts, codes, "left")
    column = features[feature.name]
    if feature.kind == "category":
        values = tuple(Number(value) for value in codes.tolist())
        known: Term = Switch(column, feature.levels, values, Number(0.0)) if values else Number(0.0)
    else:
        known = terms.steps(column, feature.cuts, codes, "left")
    return terms.choose(Missing(column), float(feature.missing), known)


def _of_leaf(forest: Forest, values: FloatArray, node: int, codes: Sequence[Term]) -> Term:
    """The value, one for each node, of the leaf below `node` that the codes lead to."""
    feature, first = int(forest.feature[node]), int(forest.first[node])
    if feature < 0:
        return Number(float(values[node]))
    children = range(first + 1, first + int(forest.branches[node]))
    known = tuple(_of_leaf(forest, values, child, codes) for child in children)
    rest = _of_leaf(forest, values, first, codes)
    return Switch(codes[feature], tuple(int(forest.code[child]) for child in children), known, rest)
