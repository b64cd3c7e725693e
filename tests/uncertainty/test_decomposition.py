"""Decomposition beside CatBoost's own, beside the definitions written out, and its laws."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calcli.uncertainty.decomposition import Members, decompose, expected_kl, reverse_information
from tests.support.drawing import examples
from tests.support.ensembles import ensemble, table

catboost = pytest.importorskip("catboost")

briefly = examples(20)
probability = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300, 1 - 1e-16])


def entropy(p):
    return -sum(one * math.log(one) for one in p if one > 0)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_what_catboost_says_of_the_same_virtual_ensemble(task):
    """Its columns are data and total uncertainty, of amounts the mean, knowledge and data uncertainty."""
    from calcli.learners.catboost import pool
    from calcli.tables.load import load
    from calcli.tables.source import open_source

    found = ensemble(task, ensemble="virtual", members=5)
    with open_source(table(task, seed=1)) as source:
        rows = load(source, found.binding, features=True, label=False).batch
    model = found.model.ensemble
    theirs = model.models[0].virtual_ensembles_predict(
        pool(rows.features), prediction_type="TotalUncertainty", virtual_ensembles_count=5
    )
    parts = decompose(model.members(rows.features))
    ours = [parts.mean, parts.knowledge, parts.data] if task == "regression" else [parts.data, parts.total]
    for column, values in zip(theirs.T, ours, strict=True):
        np.testing.assert_allclose(values, column, rtol=1e-12, atol=1e-12)


def test_classes_by_the_definition():
    rng = np.random.default_rng(0)
    members = rng.dirichlet([1, 1, 1, 1], size=(20, 6))
    parts = decompose(Members(members))
    for row, found in enumerate(parts.mean):
        mean = members[row].sum(axis=0) / 6
        np.testing.assert_allclose(found, mean, rtol=1e-14)
        data = sum(entropy(one) for one in members[row]) / 6
        assert parts.data[row] == pytest.approx(data, rel=1e-12)
        assert parts.knowledge[row] == pytest.approx(entropy(mean) - data, rel=1e-9)


def test_two_classes_are_a_case_of_several():
    p = np.random.default_rng(1).random((30, 5))
    two, several = decompose(Members(p)), decompose(Members(np.stack([1 - p, p], axis=2)))
    np.testing.assert_allclose(two.mean, several.mean[:, 1], rtol=1e-12)
    np.testing.assert_allclose(two.data, several.data, rtol=1e-12)
    np.testing.assert_allclose(two.knowledge, several.knowledge, rtol=1e-9, atol=1e-15)
    both = [expected_kl(Members(p), two), expected_kl(Members(np.stack([1 - p, p], axis=2)), several)]
    np.testing.assert_allclose(*both, rtol=1e-9)


def test_amounts_by_the_law_of_total_variance():
    """The total is the variance of a draw from a member drawn at random."""
    rng = np.random.default_rng(2)
    mean, variance = rng.normal(size=(3, 4)), rng.gamma(2, size=(3, 4))
    parts = decompose(Members(mean, variance))
    for row in range(3):
        draws = rng.normal(mean[row], np.sqrt(variance[row]), size=(200_000, 4))
        assert parts.total[row] == pytest.approx(draws.var(), rel=0.02)
        assert parts.mean[row] == pytest.approx(draws.mean(), abs=0.02)


@briefly
@given(arrays(float, (3, 4), elements=probability))
def test_nothing_is_negative_and_parts_add_up(p):
    parts = decompose(Members(p))
    divergence = expected_kl(Members(p), parts)
    for values in (parts.data, parts.knowledge, parts.total, divergence, reverse_information(parts, divergence)):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
    assert (parts.total == parts.data + parts.knowledge).all()
    assert (parts.total <= math.log(2) + 1e-12).all()


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2)])
def test_members_that_agree_know(shape):
    p = np.full(shape, 0.5)
    parts = decompose(Members(p))
    assert (parts.knowledge == 0).all()
    assert (expected_kl(Members(p), parts) == 0).all()


def test_the_expected_divergence_of_pairs_of_classes():
    rng = np.random.default_rng(3)
    members = rng.dirichlet([2, 2, 2], size=(5, 4))
    parts = decompose(Members(members))
    found = expected_kl(Members(members), parts)
    for row in range(5):
        pairs = [
            sum(p * math.log(p / q) for p, q in zip(a, b, strict=True)) for a in members[row] for b in members[row]
        ]
        assert found[row] == pytest.approx(sum(pairs) / 16, rel=1e-9)
    np.testing.assert_allclose(reverse_information(parts, found), found - parts.knowledge, rtol=1e-12)


def test_the_expected_divergence_of_pairs_of_amounts():
    rng = np.random.default_rng(4)
    mean, variance = rng.normal(size=(5, 4)), rng.gamma(2, size=(5, 4))
    found = expected_kl(Members(mean, variance), decompose(Members(mean, variance)))
    for row in range(5):
        pairs = []
        for m, l in permutations(range(4), 2):  # noqa: E741 as in the formula
            away = (mean[row, m] - mean[row, l]) ** 2 + variance[row, m]
            pairs.append(away / (2 * variance[row, l]) - 0.5 + math.log(variance[row, l] / variance[row, m]) / 2)
        assert found[row] == pytest.approx(sum(pairs) / len(pairs), rel=1e-9)
