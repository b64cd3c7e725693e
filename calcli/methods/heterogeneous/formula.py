"""A partition as a formula: what `Partition.predict` does, said in terms."""

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
"""The greatest log-odds that a probability is given."""


def formula(fitted: Partition, score: Terms, features: Inputs) -> Terms:
    """The probability of the positive class, or of each class."""
    prob = formula_of(fitted.shared, score, {})
    if not fitted.trees:
        return prob
    shared = _scores(prob)
    if fitted.nested:
        now = shared
        for tree, cells in zip(fitted.trees, fitted.cells, strict=True):
            now = _in_cells(fitted, tree, cells, now, now, features)
        return _probabilities(now)
    each = [
        _probabilities(_in_cells(fitted, tree, cells, score, shared, features))
        for tree, cells in zip(fitted.trees, fitted.cells, strict=True)
    ]
    return tuple(terms.total(own) / float(len(each)) for own in zip(*each, strict=True))


def _in_cells(fitted: Partition, tree: Tree, cells: Cells, score: Terms, without: Terms, features: Inputs) -> Terms:
    """What the calibrator of a row's cell makes of its score, mixed with what it would be without it."""
    own = _by_cell(fitted, tree, [_own(calibrator, score) for calibrator in cells.own], features)
    (share,) = _by_cell(fitted, tree, [(terms.term(float(value)),) for value in cells.share], features)
    return tuple(out + share * (mine - out) for mine, out in zip(own, without, strict=True))


def _by_cell(fitted: Partition, tree: Tree, values: Sequence[Terms], features: Inputs) -> Terms:
    """Those of the cell that a row lies in."""
    leaf_index = tree.leaf_index

    def below(node: int) -> Terms:
        if tree.left[node] == node:
            return values[int(leaf_index[node])]
        coded = fitted.coding.features[int(tree.feature[node])]
        condition, fulfils = CodeSet(coded, tree.mask[node]).condition(features[coded.name])
        left, right = below(int(tree.left[node])), below(int(tree.left[node]) + 1)
        then, otherwise = (left, right) if fulfils else (right, left)
        return tuple(terms.choose(condition, one, other) for one, other in zip(then, otherwise, strict=True))

    return below(0)


def _own(calibrator: Calibrator, score: Terms) -> Terms:
    """The score that a cell's calibrator gives; of Platt scaling a z + b, without the way there and back."""
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
