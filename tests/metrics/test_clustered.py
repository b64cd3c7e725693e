"""CECE and total variation beside their definitions written out, and the floor of a calibrated score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from calcli.metrics import catalog
from calcli.metrics.base import Clusters, Measured, Options, Scored
from calcli.metrics.bootstrap import bootstrap
from calcli.metrics.clustered import NO_CLUSTERS, tv
from tests.support.strategies import any_rows, binary_rows

FORMS = ("cece", "cece_ada", "cece_mce")


def measured(rows: Scored) -> dict[str, Measured]:
    return catalog.measure([catalog.find(name) for name in FORMS], rows, Options())


def values(rows: Scored) -> list[float]:
    return [one.value for one in measured(rows).values()]


def written_out(rows: Scored) -> list[float]:
    """Equation 1 and its two variants over the bins of equation 4, row by row; K > 2: the mean over classes."""
    classes = [1] if rows.binary else range(rows.classes)
    found = []
    for index in classes:
        gaps, shares = [], []
        for cluster in set(rows.clusters.cluster_of.tolist()):
            inside = [i for i in range(len(rows)) if rows.clusters.cluster_of[i] == cluster]
            w = [1.0 if rows.weight is None else rows.weight[i] for i in inside]
            if sum(w) == 0:
                continue
            p = [rows.prob[i] if rows.binary else rows.prob[i, index] for i in inside]
            y = [float(rows.label[i] == index) for i in inside]
            mean_p = sum(a * b for a, b in zip(w, p, strict=True)) / sum(w)
            mean_y = sum(a * b for a, b in zip(w, y, strict=True)) / sum(w)
            gaps.append(abs(mean_y - mean_p))
            shares.append(sum(w))
        total = sum(shares)
        ece = sum(s * g for s, g in zip(shares, gaps, strict=True)) / total
        ada = (sum(s * g * g for s, g in zip(shares, gaps, strict=True)) / total) ** 0.5
        found.append((ece, ada, max(gaps)))
    return np.mean(found, axis=0).tolist()


@given(any_rows())
def test_the_definition(rows: Scored) -> None:
    assert values(rows) == pytest.approx(written_out(rows), rel=1e-9, abs=1e-12)


@given(any_rows())
def test_the_forms_are_in_order(rows: Scored) -> None:
    ece, ada, mce = values(rows)
    assert ece <= ada + 1e-12
    assert ada <= mce + 1e-12


@given(binary_rows())
def test_one_cluster_is_the_mean_error_and_merging_clusters_never_raises_the_mean_gap(rows: Scored) -> None:
    one = replace(rows, clusters=Clusters(np.zeros(len(rows), dtype=np.int64), 1, "all"))
    gap = abs(np.average(rows.prob - rows.label, weights=rows.weight))
    assert values(one) == pytest.approx([gap] * 3, abs=1e-12)
    half = replace(rows, clusters=Clusters(rows.clusters.cluster_of // 2, 2, "merged"))
    assert measured(half)["cece"].value <= measured(rows)["cece"].value + 1e-12


def test_more_than_two_classes_are_the_mean_over_them() -> None:
    rng = np.random.default_rng(0)
    rows = Scored(rng.integers(0, 3, 90), rng.dirichlet(np.ones(3), 90), None, Clusters(rng.integers(0, 4, 90), 4, "x"))
    for name, one in measured(rows).items():
        each = [measured(rows.one_vs_rest(index))[name].value for index in range(3)]
        assert one.per_class == pytest.approx(each)
        assert one.value == pytest.approx(np.mean(each))


def test_without_clusters_there_is_a_reason() -> None:
    rows = Scored(np.array([0, 1]), np.array([0.3, 0.4]))
    for one in measured(rows).values():
        assert (one.value, one.reason, one.definition.clusters) == (None, NO_CLUSTERS, None)


def test_the_definition_says_which_clusters() -> None:
    clusters = Clusters(np.array([0, 2]), 5, "column site", "ab")
    found = measured(Scored(np.array([0, 1]), np.array([0.3, 0.4]), clusters=clusters))["cece"].definition
    assert found.clusters == {"source": "column site", "k": 5, "sha256": "ab"}


@pytest.mark.parametrize("classes", [2, 3])
def test_the_floor_is_what_a_calibrated_score_shows(classes: int) -> None:
    """Labels drawn from the score itself, 400 times; the largest gap has no closed form."""
    rng = np.random.default_rng(1)
    prob = rng.beta(2, 5, 6000) if classes == 2 else rng.dirichlet(np.ones(3) * 2, 6000)
    place = rng.choice(30, 6000, p=rng.dirichlet(np.ones(30) * 4))
    rows = Scored(np.zeros(6000, dtype=np.int64), prob, rng.integers(1, 4, 6000) * 1.0, Clusters(place, 30, "x"))
    forms, found = [catalog.find(name) for name in FORMS], measured(rows)
    drawn = bootstrap([rows], forms, Options(), 400)
    shown = {name: drawn.calibrated[name][0] for name in FORMS}
    assert found["cece"].floor == pytest.approx(shown["cece"].mean(), rel=0.02)
    assert found["cece_ada"].floor == pytest.approx(np.sqrt(np.square(shown["cece_ada"]).mean()), rel=0.02)
    assert found["cece_mce"].floor is None
    completed = drawn.complete(0, "cece_mce", found["cece_mce"])
    assert completed.floor == pytest.approx(shown["cece_mce"].mean())
    assert completed.p is not None


EDGES = np.array([[0, 1], [1, 2], [4, 0]])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_differences_of_confidence_are_added_up(classes: int) -> None:
    rng = np.random.default_rng(classes)
    prob = rng.random(5) if classes == 2 else rng.dirichlet(np.ones(3), 5)
    top = [max(p, 1 - p) for p in prob] if classes == 2 else [max(row) for row in prob]
    expected = sum(abs(top[one] - top[other]) for one, other in EDGES)
    rows = Scored(np.zeros(5, np.int64), prob, np.full(5, 1e200), edges=EDGES)
    assert tv(rows, Options()).value == pytest.approx(expected, rel=1e-12)


def test_rows_of_weight_zero_have_no_edges() -> None:
    prob = np.array([0.5, 0.6, 0.8, 0.9])
    weight = np.array([1.0, 2.0, 0.0, 1.0])
    rows = Scored(np.zeros(4, np.int64), prob, weight, edges=np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))
    assert tv(rows, Options()).value == pytest.approx(0.1 + 0.4)


def test_a_score_and_its_opposite_are_equally_confident() -> None:
    rows = Scored(np.zeros(2, np.int64), np.array([0.9, 0.1]), edges=np.array([[0, 1]]))
    assert tv(rows, Options()).value == pytest.approx(0, abs=1e-15)


def test_rows_of_a_group_are_all_linked() -> None:
    """Beside each pair by itself, with tied confidences, groups of one row and none, and rows of weight 0."""
    rng = np.random.default_rng(0)
    group, prob, weight = rng.integers(0, 9, 60) * 3, rng.integers(0, 20, 60) / 20, rng.integers(0, 3, 60).astype(float)
    pairs = np.array([(i, j) for i in range(60) for j in range(i) if group[i] == group[j]])
    rows = Scored(np.zeros(60, np.int64), prob, weight, edges=pairs)
    expected = tv(rows, Options()).value
    assert expected > 1
    assert tv(replace(rows, edges=group), Options()).value == pytest.approx(expected, rel=1e-12)
    assert tv(replace(rows, edges=np.arange(60)), Options()).reason == "no edge links two of these rows"


@pytest.mark.parametrize(
    ("edges", "reason"), [(None, "no edges are given"), (np.empty((0, 2), np.int64), "no edge links")]
)
def test_without_edges_there_is_no_number(edges: np.ndarray | None, reason: str) -> None:
    found = tv(Scored(np.zeros(2, np.int64), np.array([0.9, 0.1]), edges=edges), Options())
    assert found.value is None
    assert reason in str(found.reason)
