"""Distances beside long arithmetic, and the same whatever stands beside a row.

Clusters beside a search through all of them, and the laws that make a fit repeatable.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import KMeans

from calcli.learners.encoding import centroids, nearest, on_grid, step_of
from calcli.learners.k_means import k_means

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


BOTH = pytest.mark.parametrize("clustering", ["kmeans", "ward"])


def blobs(rows: int = 60, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.rint(100 * (np.array([[0, 0], [20, 0], [0, 30]])[np.arange(rows) % 3] + rng.normal(size=(rows, 2))))


def in_order(found: np.ndarray) -> list[list[float]]:
    return sorted(found.tolist())


@BOTH
def test_blobs_are_found(clustering: str) -> None:
    points = blobs()
    expected = [np.rint(points[np.arange(60) % 3 == blob].mean(axis=0)) for blob in range(3)]
    assert in_order(centroids(points, np.ones(60), [3], clustering, 0)[3]) == in_order(np.array(expected))


def test_k_means_of_seven_weighted_points_is_the_best_of_all_splits() -> None:
    rng = np.random.default_rng(1)
    points, weight = np.rint(rng.normal(0, 10, (7, 1))), rng.integers(1, 5, 7).astype(float)
    points[3:] += 100
    best = (np.inf, None)
    for split in product([0, 1], repeat=7):
        place = np.array(split)
        if not 0 < place.sum() < 7:
            continue
        means = [np.average(points[place == side], axis=0, weights=weight[place == side]) for side in (0, 1)]
        loss = (weight * ((points - np.array(means)[place]) ** 2).sum(axis=1)).sum()
        best = min(best, (loss, in_order(np.rint(np.array(means)))), key=lambda pair: pair[0])
    assert in_order(centroids(points, weight, [2], "kmeans", 0)[2]) == best[1]


@pytest.mark.parametrize(("rows", "columns", "count"), [(60, 1, 1), (300, 2, 12), (2_000, 9, 40)])
def test_k_means_is_scikit_learns(rows: int, columns: int, count: int) -> None:
    rng = np.random.default_rng(rows)
    points = np.rint(1e5 * np.exp(rng.normal(size=(rows, columns)))) - 2e5
    weight = rng.integers(1, 4, rows).astype(float)
    peer = KMeans(count, n_init=1, random_state=rows).fit(points, sample_weight=weight).cluster_centers_
    np.testing.assert_allclose(k_means(points, weight, count, rows), peer, rtol=1e-9)


def test_ward_is_scipys_on_distinct_points() -> None:
    points = blobs()
    place = fcluster(linkage(points, "ward"), 5, "maxclust")
    expected = np.array([np.rint(points[place == each].mean(axis=0)) for each in range(1, 6)])
    found = centroids(points, np.ones(60), [3, 5], "ward", 0)
    assert in_order(found[5]) == in_order(expected)
    assert len(found[3]) == 3


@BOTH
def test_order_copies_and_rows_without_weight_do_not_matter(clustering: str) -> None:
    points, rng = blobs(), np.random.default_rng(2)
    times = rng.integers(0, 4, 60)
    weighted = centroids(points, times.astype(float), [4], clustering, 0)[4]
    copied = np.repeat(points, times, axis=0)[rng.permutation(times.sum())]
    np.testing.assert_array_equal(centroids(copied, np.ones(len(copied)), [4], clustering, 0)[4], weighted)


@BOTH
def test_there_are_no_more_clusters_than_points(clustering: str) -> None:
    points = np.repeat(blobs(3), 5, axis=0)
    for distinct in (1, 3):
        found = centroids(points[: 5 * distinct], np.ones(5 * distinct), [8], clustering, 0)[8]
        assert in_order(found) == in_order(points[: 5 * distinct : 5])


def test_another_seed_may_find_others_and_the_same_finds_the_same() -> None:
    points = np.rint(1000 * np.random.default_rng(0).normal(size=(400, 2)))
    one, other = (centroids(points, np.ones(400), [9], "kmeans", seed)[9] for seed in (0, 1))
    assert in_order(one) != in_order(other)
    np.testing.assert_array_equal(centroids(points, np.ones(400), [9], "kmeans", 0)[9], one)


@pytest.mark.slow
def test_of_very_many_points_a_sample_is_clustered() -> None:
    """Ward's method on all pairs of 30,000 rows would hold 3.6 GB."""
    rng = np.random.default_rng(0)
    points = np.rint(1000 * (np.array([[0.0], [30.0]])[rng.integers(0, 2, 30_000)] + rng.normal(size=(30_000, 1))))
    found = centroids(points, np.ones(30_000), [2], "ward", 0)[2]
    np.testing.assert_allclose(np.sort(found.ravel()), [0, 30_000], atol=100)
