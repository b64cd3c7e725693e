"""A partition as a formula: the same as `Partition.predict`."""

from __future__ import annotations

from calcli import expressions as terms
from calcli.expressions import Inputs, Number, Term, Terms
from calcli.methods.formula import formula_of, score_formula_of
from calcli.methods.heterogeneous.cell_calibrators import Cells
from calcli.methods.heterogeneous.conditions import CodeSet
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.heterogeneous.tree import Tree
from calcli.numeric.link_terms import probabilities, scores


def formula(fitted: Partition, score: Terms, features: Inputs) -> Terms:
    """The probability of the positive class, or of each class."""
    prob = formula_of(fitted.shared, score, {})
    if not fitted.trees:
        return prob
    shared = scores(prob)
    # Boosted trees: each calibrates the score of the one before.
    if fitted.nested:
        current = shared
        for tree, cells in zip(fitted.trees, fitted.cells, strict=True):
            current = _in_cells(fitted, tree, cells, current, current, features)
        return probabilities(current)
    # Otherwise the mean of the probabilities of all trees.
    by_tree = [
        probabilities(_in_cells(fitted, tree, cells, score, shared, features))
        for tree, cells in zip(fitted.trees, fitted.cells, strict=True)
    ]
    return tuple(terms.total(of_class) / float(len(by_tree)) for of_class in zip(*by_tree, strict=True))


def _in_cells(fitted: Partition, tree: Tree, cells: Cells, score: Terms, without: Terms, features: Inputs) -> Terms:
    """The score by the calibrator of a row's cell, shrunk to the score `without` it."""
    each = [
        (*score_formula_of(calibrator, score), Number(share))
        for calibrator, share in zip(cells.own, cells.share.tolist(), strict=True)
    ]
    *own, share = terms.at_place(_cell(fitted, tree, features), each)
    return tuple(base + share * (of_cell - base) for of_cell, base in zip(own, without, strict=True))


def _cell(fitted: Partition, tree: Tree, features: Inputs) -> Term:
    """The number of the cell that a row lies in, as nested conditions."""

    def below(node: int) -> Term:
        if tree.left[node] == node:
            return Number(float(tree.leaf_index[node]))
        feature = fitted.coding.features[int(tree.feature[node])]
        condition, goes_left = CodeSet(feature, tree.mask[node]).condition(features[feature.name])
        left, right = below(int(tree.left[node])), below(int(tree.left[node]) + 1)
        return terms.choose(condition, left, right) if goes_left else terms.choose(condition, right, left)

    return below(0)
