"""Multinomial regression: derivatives beside differences, and both solvers beside each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calcli.numeric import multinomial
from calcli.numeric.multinomial import Multinomial, linear, with_constant


def problem(classes: int = 3, rows: int = 200, seed: int = 0) -> Multinomial:
    rng = np.random.default_rng(seed)
    shape = (classes, classes + 1)
    free = rng.random(shape) < 0.8
    return Multinomial(
        with_constant(rng.normal(size=(rows, classes))),
        rng.integers(0, classes, rows),
        rng.uniform(0, 2, rows),
        free,
        rng.uniform(0.01, 0.1, shape),
        np.where(free, rng.normal(size=shape), 0.0),
        0.05,
    )


def test_derivatives_are_those_of_the_value() -> None:
    expand = problem()._expander()
    at = np.random.default_rng(1).normal(size=int(problem().free.sum()))
    _, gradient, hessian = expand(at)
    for index, step in enumerate(1e-5 * np.eye(len(at))):
        ahead, behind = expand(at + step), expand(at - step)
        assert (ahead.value - behind.value) / 2e-5 == pytest.approx(gradient[index], abs=1e-8)
        np.testing.assert_allclose((ahead.gradient - behind.gradient) / 2e-5, hessian[index], atol=1e-8)


def test_the_value_is_the_mean_loss_and_the_penalty() -> None:
    given = problem()
    whole = np.where(given.free, 0.3, 0.0)
    u = given.x @ whole.T
    log_p = u - np.log(np.exp(u).sum(axis=1, keepdims=True))
    target = 0.95 * np.eye(3)[given.label] + 0.05 / 3
    expected = np.average(-(target * log_p).sum(axis=1), weights=given.weight)
    expected += (given.penalty * (whole - given.centre) ** 2).sum()
    assert given._expander()(whole[given.free]).value == pytest.approx(expected, rel=1e-12)


def test_both_solvers_end_at_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    given = problem(4)
    exact = given.minimise(np.zeros((4, 5)))
    monkeypatch.setattr(multinomial, "EXACT", 0)
    np.testing.assert_allclose(given.minimise(np.zeros((4, 5))), exact, atol=1e-6)
    assert (exact[~given.free] == 0).all()


@pytest.mark.parametrize("labels", [4, 3])
def test_few_steps_lead_there_where_features_are_nearly_the_same(monkeypatch: pytest.MonkeyPatch, labels: int) -> None:
    """Each is a common number and a little of its own, and a class may have no row."""
    rng = np.random.default_rng(2)
    x = with_constant(30.0 * rng.normal(size=(400, 1)) + rng.normal(size=(400, 4)) * [1.0, 0.1, 1.0, 3.0])
    label = rng.integers(0, labels, 400)
    given = replace(problem(4), x=x, label=label, weight=np.ones(400), penalty=np.full((4, 5), 1e-3))
    exact = given.minimise(np.zeros((4, 5)))
    monkeypatch.setattr(multinomial, "EXACT", 0)
    evaluations = 0
    loss = Multinomial._loss

    def counted(*given: Any) -> Any:
        nonlocal evaluations
        evaluations += 1
        return loss(*given)

    monkeypatch.setattr(Multinomial, "_loss", counted)
    np.testing.assert_allclose(given.minimise(np.zeros((4, 5))), exact, atol=1e-5)
    assert evaluations <= 80


def test_blocks_of_rows_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    given = problem(rows=1000)
    at = np.zeros(int(given.free.sum()))
    whole = given._expander()(at).hessian
    monkeypatch.setattr(multinomial, "_BLOCK", 1)
    monkeypatch.setattr(multinomial, "_ROWS", 7)
    np.testing.assert_allclose(given._expander()(at).hessian, whole, atol=1e-14)


def test_linear_is_the_matrix_product_and_knows_no_neighbours() -> None:
    rng = np.random.default_rng(0)
    x, coefficients = rng.normal(size=(101, 4)), rng.normal(size=(3, 5))
    whole = linear(x, coefficients)
    np.testing.assert_allclose(whole, x @ coefficients[:, :4].T + coefficients[:, 4], atol=1e-13)
    np.testing.assert_array_equal(np.concatenate([linear(x[:7], coefficients), linear(x[7:], coefficients)]), whole)
