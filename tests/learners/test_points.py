"""Distances beside long arithmetic, and the same whatever stands beside a row."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.learners.points import nearest, on_grid, step_of

sizes = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(st.tuples(sizes, sizes, sizes), min_size=2, max_size=8), st.integers(1, 4))
def test_distances_are_exact(rows: list[tuple[float, float, float]], count: int) -> None:
    points = np.array(rows)
    placed = on_grid(points, step_of(points))
    found = nearest(placed, placed[:5], count)
    for row, point in enumerate(placed):
        exact = [sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(point, c, strict=True)) for c in placed[:5]]
        best = sorted(range(len(exact)), key=lambda place: (exact[place], place))[:count]
        assert found.place[row].tolist() == best
        assert [Fraction(value) for value in found.distance[row]] == [exact[place] for place in best]


@pytest.mark.parametrize("columns", [1, 30, 1000])
def test_a_row_has_its_distance_whatever_stands_beside_it(columns: int) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(500, columns)) * rng.lognormal(0, 3, columns)
    step = step_of(points)
    placed, centroids = on_grid(points, step), on_grid(points[:40], step)
    whole = nearest(placed, centroids, 5)
    for size in (1, 7, 64):
        parts = [nearest(placed[start : start + size], centroids, 5) for start in range(0, 500, size)]
        np.testing.assert_array_equal(np.concatenate([part.place for part in parts]), whole.place)
        np.testing.assert_array_equal(np.concatenate([part.distance for part in parts]), whole.distance)


@pytest.mark.parametrize("columns", [1, 7, 64, 5000])
def test_the_largest_sums_are_whole_numbers_that_floats_can_hold(columns: int) -> None:
    points = np.full((1, columns), 1.0)
    step = step_of(points)
    far = on_grid(np.full((2, columns), 1e300) * [[1.0], [-1.0]], step)
    assert nearest(far[:1], far[1:], 1).distance[0, 0] == columns * int(2 * far[0, 0]) ** 2 <= 2**53
    assert abs(on_grid(points / 3, step)[0, 0] * step - 1 / 3) < 1e-5


def test_points_that_are_all_zero_have_a_step() -> None:
    points = np.zeros((3, 2))
    assert on_grid(points, step_of(points)).tolist() == points.tolist()
