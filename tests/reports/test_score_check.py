"""Scores that are not what they are taken for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from calcli.batch import Batch
from calcli.numeric.links import scores
from calcli.reports.checks import LabelCheck, score_warnings
from calcli.tables.binding_types import Binding, Score

BINARY = Binding("label", "int", (0, 1), 1, Score("prob", ("prob",)))
THREE = Binding("label", "int", (0, 1, 2), None, Score("prob", ("p_0", "p_1", "p_2")))


def said(prob: np.ndarray, label: np.ndarray, binding: Binding = BINARY) -> list[str]:
    ranking = LabelCheck.of(Batch(scores(prob), label))
    return [warning.code for warning in score_warnings(ranking, prob, binding)]


def test_only_scores_that_rank_backwards_are_said_to() -> None:
    """By the test of Mann and Whitney: four standard errors are a one-sided p of 3.2e-5."""
    rng = np.random.default_rng(0)
    flagged = 0
    for shift in np.linspace(-1.0, 1.0, 41):
        prob = rng.uniform(size=300)
        label = (rng.uniform(size=300) < 0.5 + 0.9 * shift * (prob - 0.5)).astype(int)
        p = mannwhitneyu(prob[label == 1], prob[label == 0], alternative="less", method="asymptotic").pvalue
        if 0.5 < p / 3.17e-5 < 2.0:  # the continuity correction moves the border a little
            continue
        assert said(prob, label) == (["ranks-backwards"] if p < 3.17e-5 else [])
        flagged += p < 3.17e-5
    assert flagged > 3


def test_columns_in_another_order_are_noticed() -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 300)
    prob = rng.dirichlet([1, 1, 1], 300) * 0.5 + 0.5 * np.eye(3)[label]
    assert said(prob, label, THREE) == []
    assert said(prob[:, [1, 2, 0]], label, THREE) == ["ranks-backwards"]


@pytest.mark.parametrize(
    ("values", "rows", "codes"),
    [
        ((0.0, 1.0), 20, ["two-values"]),
        ((0.3, 0.7), 20, ["two-values"]),
        ((0.0, 1.0), 19, []),
        ((0.0, 0.5, 1.0), 300, []),
        ((0.5,), 300, []),
    ],
)
def test_two_values_are_no_probabilities(values: tuple[float, ...], rows: int, codes: list[str]) -> None:
    rng = np.random.default_rng(1)
    prob = rng.permutation(np.resize(values, rows))
    assert said(prob, np.resize([0, 1], rows)) == codes


def test_decisions_among_more_classes_are_no_probabilities() -> None:
    label = np.resize([0, 1, 2], 30)
    assert said(np.eye(3)[label], label, THREE) == ["two-values"]
