"""A partition as a formula: the same as `Partition.predict`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calcli import expressions as terms
from calcli.expressions import Inputs, Terms
from calcli.methods.calibrator import Calibrator
from calcli.methods.formula import formula_of
from calcli.methods.heterogeneous.cell_calibrators import Cells
from calcli.methods.heterogeneous.conditions import CodeSet
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.heterogeneous.tree import Tree
from calcli.numeric.links import CLIP, logit

_MOST = float(logit(np.ones(1))[0])
"""The log-odds of the greatest probability, which scores are clipped to."""


def formula(fitted: Partition, score: Terms, features: Inputs) -> Terms:
    """The probability of the positive class, or of each class."""
    prob = formula_of(fitted.shared, score, {})
    if not fitted.trees:
        return prob
    shared = _scores(prob)
    # Boosted trees: each calibrates the score of the one before.
    if fitted.nested:
        current = shared
        for tree, cells in zip(fitted.trees, fitted.cells, strict=True):
            current = _in_cells(fitted, tree, cells, current, current, features)
        return _probabilities(current)
    # Otherwise the mean of the probabilities of all trees.
    by_tree = [
        _probabilities(_in_cells(fitted, tree, cells, score, shared, features))
        for tree, cells in zip(fitted.trees, fitted.cells, strict=True)
    ]
    return tuple(terms.total(of_class) / float(len(by_tree)) for of_class in zip(*by_tree, strict=True))


def _in_cells(fitted: Partition, tree: Tree, cells: Cells, score: Terms, without: Terms, features: Inputs) -> Terms:
    """The score by the calibrator of a row's cell, shrunk to the score `without` it."""
    own = _by_cell(fitted, tree, [_own(calibrator, score) for calibrator in cells.own], features)
    (share,) = _by_cell(fitted, tree, [(terms.term(float(value)),) for value in cells.share], features)
    return tuple(base + share * (of_cell - base) for of_cell, base in zip(own, without, strict=True))


def _by_cell(fitted: Partition, tree: Tree, values: Sequence[Terms], features: Inputs) -> Terms:
    """The values of the cell that a row lies in, as nested conditions."""
    leaf_index = tree.leaf_index

    def below(node: int) -> Terms:
        if tree.left[node] == node:
            return values[int(leaf_index[node])]
        feature = fitted.coding.features[int(tree.feature[node])]
        condition, goes_left = CodeSet(feature, tree.mask[node]).condition(features[feature.name])
        left, right = below(int(tree.left[node])), below(int(tree.left[node]) + 1)
        then, otherwise = (left, right) if goes_left else (right, left)
        return tuple(terms.choose(condition, one, other) for one, other in zip(then, otherwise, strict=True))

    return below(0)


def _own(calibrator: Calibrator, score: Terms) -> Terms:
    """The score that a cell's calibrator gives; for Platt scaling a z + b, with no detour through probabilities."""
    if calibrator.spec.name == "platt" and len(score) == 1:
        state = calibrator.state
        return (terms.clip(state.number("a") * score[0] + state.number("b"), -_MOST, _MOST),)
    return _scores(formula_of(calibrator, score, {}))


def _scores(prob: Terms) -> Terms:
    if len(prob) == 1:
        return (terms.logit(prob[0], CLIP),)
    return tuple(terms.ln(terms.clip(one, CLIP, 1.0)) for one in prob)


def _probabilities(score: Terms) -> Terms:
    return (terms.sigmoid(score[0]),) if len(score) == 1 else terms.softmax(score)
