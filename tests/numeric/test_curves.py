"""The log-loss of a curve summed in cells, beside the same row by row and beside differences of its own value."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.numeric import curves
from calcli.numeric import solve as jets
from calcli.numeric.curves import Sample


def basis(z: np.ndarray, order: int) -> np.ndarray:
    """z, ln(1 + e^z) and z^3/50: nothing linear about the last two."""
    u = jets.variable(z, order)
    return np.stack([u, jets.softplus(u), jets.product(u, jets.product(u, u)) / 50])


def rows(count: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(0.3, 2.0, count)
    return z, (rng.random(count) < 1 / (1 + np.exp(-z))).astype(np.int64), rng.uniform(0, 3, count)


THETA = np.array([0.6, -0.4, 0.3])


@pytest.mark.parametrize("smooth", [False, True])
def test_cells_sum_what_rows_sum(smooth: bool) -> None:
    z, y, w = rows()
    cells = Sample.of_cells(curves.gather(z, y, w))
    u = THETA @ np.stack([z, np.logaddexp(0, z), z**3 / 50])
    positive, total = w @ y, w.sum()
    target = np.where(y == 1, (positive + 1) / (positive + 2), 1 / (total - positive + 2)) if smooth else y
    expected = w @ (np.logaddexp(0, u) - target * u) / total
    for sample in (cells, cells.by_rows(z, y, w)):
        value, gradient, hessian = sample.log_loss(basis, smooth=smooth)(THETA)
        assert value == pytest.approx(expected, rel=1e-9)
        by_rows = cells.by_rows(z, y, w).log_loss(basis, smooth=smooth)(THETA)
        np.testing.assert_allclose(gradient, by_rows.gradient, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(hessian, by_rows.hessian, rtol=1e-6, atol=1e-9)


def test_derivatives_are_those_of_the_value() -> None:
    loss = Sample.of_cells(curves.gather(*rows())).log_loss(basis, smooth=False)
    _, gradient, hessian = loss(THETA)
    for index, step in enumerate(1e-5 * np.eye(3)):
        ahead, behind = loss(THETA + step), loss(THETA - step)
        assert (ahead.value - behind.value) / 2e-5 == pytest.approx(gradient[index], abs=1e-8)
        np.testing.assert_allclose((ahead.gradient - behind.gradient) / 2e-5, hessian[index], atol=1e-8)


def test_parts_add_up() -> None:
    z, y, w = rows()
    whole = curves.gather(z, y, w)
    one, other = (curves.gather(z[part], y[part], w[part]) for part in (slice(0, 1000), slice(1000, None)))
    for name in whole:
        np.testing.assert_allclose(one[name] + other[name], whole[name], atol=1e-10)


def test_classes_that_do_not_overlap_are_noticed() -> None:
    z = np.array([-1.0, 0.0, 1.0, 2.0])

    def separated(label: list[int]) -> bool:
        return Sample.of_cells(curves.gather(z, np.array(label, dtype=np.int64), None)).separated

    assert separated([0, 0, 1, 1])
    assert separated([0, 0, 0, 0])
    assert separated([1, 1, 1, 1])
    assert not separated([0, 1, 0, 1])
    assert not separated([1, 1, 0, 0])  # upside down: a monotone map does not separate them


def test_coarse_cells_are_noticed() -> None:
    z, y, w = rows()
    sample = Sample.of_cells(curves.gather(5 + z / 10_000, y, w))
    assert sample.coarseness(basis, THETA) < 0.01
    assert sample.coarseness(basis, THETA * 1000) > 0.1
    assert sample.by_rows(z, y, w).coarseness(basis, THETA * 1000) == 0
