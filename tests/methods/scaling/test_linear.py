"""Identity, Platt and temperature scaling: beside scikit-learn's, peers and brute-force searches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from calcli.batch import Batch, Group
from calcli.methods import calibrator, catalog
from calcli.methods.scaling.linear import inverse_temperature
from calcli.numeric.links import log_softmax, probabilities
from tests.support.cases import ordinary
from tests.support.drawing import examples
from tests.support.methods import fitted


def test_it_gives_what_the_score_says() -> None:
    for classes in (2, 3):
        batch = ordinary(100, classes)
        prob = fitted("identity", batch).predict(batch)
        if classes == 2:
            np.testing.assert_allclose(prob, 1 / (1 + np.exp(-batch.score)), rtol=1e-15)
        else:
            raised = np.exp(batch.score)
            np.testing.assert_allclose(prob, raised / raised.sum(axis=1, keepdims=True), rtol=1e-12)


def peer(z: np.ndarray, label: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    """Slope and intercept by scikit-learn; it writes the sigmoid as 1 / (1 + exp(A z + B))."""
    from sklearn.calibration import _sigmoid_calibration

    slope, intercept = _sigmoid_calibration(z, label, weight)
    return -slope, -intercept


def target_loss(x: np.ndarray, z: np.ndarray, label: np.ndarray, weight: np.ndarray) -> float:
    """Platt's loss, written down from his paper."""
    positive, negative = weight @ label, weight @ (1 - label)
    target = np.where(label == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))
    u = x[0] * z + x[1]
    return float(weight @ (np.logaddexp(0, u) - target * u))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [30, 5000])
def test_scikit_learns_platt_scaling_agrees(rows: int, weighted: bool) -> None:
    batch = ordinary(rows, weighted=weighted)
    model = fitted("platt", batch)
    a, b = peer(batch.score, batch.labels, batch.weight)
    expected = 1 / (1 + np.exp(-(a * batch.score + b)))
    np.testing.assert_allclose(model.predict(batch), expected, atol=5e-6)  # its L-BFGS stops at a gradient of 1e-6
    weight = batch.weights
    ours = np.array([model.state.number("a"), model.state.number("b")])
    at_ours = target_loss(ours, batch.score, batch.labels, weight)
    assert at_ours <= target_loss(np.array([a, b]), batch.score, batch.labels, weight) + 1e-9


@examples(16)
@given(
    rows=st.integers(5, 300),
    slope=st.floats(0.01, 50),
    shift=st.floats(-20, 20),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
)
def test_the_minimum_is_the_minimum(rows: int, slope: float, shift: float, seed: int, weighted: bool) -> None:
    """A general-purpose optimiser on the exact loss, started at our answer, finds nothing better."""
    batch = ordinary(rows, seed=seed, weighted=weighted)
    z, weight = slope * batch.score + shift, batch.weights
    if weight.sum() == 0:
        return
    state = fitted("platt", Batch(z, batch.label, batch.weight)).state
    ours = np.array([state.number("a"), state.number("b")])
    here = target_loss(ours, z, batch.labels, weight)
    scale = np.array([1 / slope, 1.0])
    best = minimize(lambda x: target_loss(ours + x * scale, z, batch.labels, weight), np.zeros(2), tol=1e-13)
    assert here <= best.fun + 1e-8 * (1 + abs(here))


def test_a_step_that_overflows_is_too_long() -> None:
    """With weights as unlike as these the first steps of Newton's method go to slopes of 1e80 and more."""
    z, label, weight = np.array([30.0, 30, 40, 40]), np.array([0, 0, 1, 0]), np.array([1e-12, 1e12, 1e9, 1e-12])
    state = fitted("platt", Batch(z, label, weight)).state
    for of_rows in calibrator.fit_each(catalog.find("platt"), Batch(z, label), [Group(np.arange(4), weight)] * 2, {}):
        assert of_rows is not None
        assert of_rows.state == state
    u = state.number("a") * z + state.number("b")
    assert 1 / (1 + np.exp(-u[[0, 2]])) == pytest.approx([1e-12, 1.0], abs=1e-8)  # the targets


def test_groups_of_rows_have_the_minima_of_their_own_rows() -> None:
    """Groups that overlap, and some that are not solved in common: separable, of one score, of very near ones."""
    batch = ordinary(4000)
    z, label, rng = batch.score.copy(), batch.labels, np.random.default_rng(0)
    z[1000:1400], z[1400:1800] = 0.7, 2.0 + 1e-4 * z[1400:1800]
    sure = np.flatnonzero((z > 1.0) == (label == 1))
    near = np.concatenate([np.arange(100), np.arange(1400, 1800)])
    places = [np.arange(900), np.arange(500, 3000), sure, np.arange(1400, 1800), near]
    groups = [Group(rows, rng.uniform(0, 2, len(rows))) for rows in places]
    groups[0].weight[:3] = 1e-30
    spec = catalog.find("platt")
    found = calibrator.fit_each(spec, Batch(z, label), [*groups, Group(np.arange(1000, 1400), np.ones(400))], {})
    *ours, flat = [np.array([one.state.number("a"), one.state.number("b")]) for one in found if one is not None]
    for at, (rows, weight) in zip(ours, groups, strict=True):
        here = target_loss(at, z[rows], label[rows], weight)
        scale = 1.0 / np.array([z[rows].std(), 1.0])
        best = minimize(lambda x: target_loss(at + x * scale, z[rows], label[rows], weight), np.zeros(2), tol=1e-13)  # noqa: B023
        assert here <= best.fun + 1e-8 * (1 + abs(here))
    positive = label[1000:1400].sum()
    rate = (positive * (positive + 1) / (positive + 2) + (400 - positive) / (402 - positive)) / 400
    assert flat[0] * 0.7 + flat[1] == pytest.approx(np.log(rate / (1 - rate)))


def test_scores_far_from_zero_are_summed_exactly_enough() -> None:
    """Cells grow with the score: a slope that makes up for it leaves the same error."""
    batch = ordinary(4000)
    plain = fitted("platt", batch)
    stretched = Batch(batch.score * 300, batch.label)
    far = fitted("platt", stretched)
    np.testing.assert_allclose(far.predict(stretched), plain.predict(batch), atol=1e-7)


def test_separable_rows_stay_finite() -> None:
    z = np.linspace(-3, 3, 50)
    model = fitted("platt", Batch(z, (z > 0).astype(np.int64)))
    a, b = peer(z, (z > 0).astype(int), None)
    np.testing.assert_allclose(model.predict(Batch(z)), 1 / (1 + np.exp(-(a * z + b))), atol=1e-5)


def test_one_score_alone_gives_the_smoothed_rate() -> None:
    label = np.array([1, 0, 0, 0], dtype=np.int64)
    model = fitted("platt", Batch(np.full(4, 2.0), label))
    expected = (2 / 3 + 3 * 1 / 5) / 4  # (n1 + 1)/(n1 + 2) once and 1/(n0 + 2) three times
    np.testing.assert_allclose(model.predict(Batch(np.array([2.0]))), [expected])


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_kumars_platt_agrees_on_many_rows() -> None:
    """Its targets are not smoothed; on 200,000 rows that makes no difference at 1e-4."""
    pytest.importorskip("calibration")
    from calibration import utils

    batch = ordinary(200_000)
    prob = 1 / (1 + np.exp(-batch.score))
    peer = utils.get_platt_scaler(prob, batch.labels)
    np.testing.assert_allclose(fitted("platt", batch).predict(batch), peer(prob), atol=1e-4)


def beta(batch: Batch) -> float:
    return fitted("temperature", batch).state.number("inverse_temperature")


def loss(value: float, batch: Batch) -> float:
    V = batch.score if batch.score.ndim == 2 else np.column_stack([np.zeros(len(batch)), batch.score])
    chosen = log_softmax(value * V)[np.arange(len(batch)), batch.labels]
    return -float(np.average(chosen, weights=batch.weights))


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_bounded_search_finds_the_same(classes: int, weighted: bool) -> None:
    batch = ordinary(2000, classes, weighted=weighted)
    best = minimize_scalar(
        lambda t: loss(float(np.exp(t)), batch), bounds=(-3, 3), method="bounded", options={"xatol": 1e-12}
    )
    ours = beta(batch)
    assert ours == pytest.approx(float(np.exp(best.x)), rel=1e-6)
    assert loss(ours, batch) <= best.fun + 1e-14


def test_scikit_learns_temperature_agrees() -> None:
    calibration = pytest.importorskip("sklearn.calibration")
    if not hasattr(calibration, "_TemperatureScaling"):
        pytest.skip("this scikit-learn has no temperature scaling")
    batch = ordinary(3000, 5)
    peer = calibration._TemperatureScaling().fit(batch.score, batch.labels)
    assert beta(batch) == pytest.approx(float(peer.beta_), rel=1e-5)


def test_two_classes_as_one_column_or_two_give_the_same() -> None:
    batch = ordinary(1500)
    two = Batch(np.column_stack([np.zeros(len(batch)), batch.score]), batch.label)
    assert beta(batch) == pytest.approx(inverse_temperature(two), rel=1e-9)


@pytest.mark.parametrize("least", [0.06, 1e-4])
@pytest.mark.parametrize("classes", [2, 3])
def test_separable_rows_have_the_targets_of_one_more_row(least: float, classes: int) -> None:
    """The best temperature would be 0: certainty, from fifty rows."""
    z = np.concatenate([np.linspace(-3, -least, 25), np.linspace(least, 3, 25)])
    label = (z > 0).astype(np.int64)
    v = np.column_stack([np.zeros(50), z, *[np.full(50, -4.0)] * (classes - 2)])
    targets = (1 - 1 / 51) * np.eye(classes)[label] + 1 / 51 / classes
    found = minimize_scalar(lambda t: -(targets * log_softmax(np.exp(t) * v)).sum(), bounds=(-10, 10), method="bounded")
    ours = beta(Batch(z if classes == 2 else v, label))
    assert np.log(ours) == pytest.approx(found.x, abs=1e-4)


def test_upside_down_rows_stop_at_the_other_bound() -> None:
    z = np.linspace(-3, 3, 50)
    assert beta(Batch(z, (z < 0).astype(np.int64))) == pytest.approx(np.exp(-10))


def test_scores_without_information_keep_their_temperature() -> None:
    assert beta(Batch(np.zeros(10), np.arange(10) % 2)) == 1.0


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("classes", [2, 5])
def test_probmetrics_agrees(classes: int) -> None:
    pytest.importorskip("probmetrics")
    from probmetrics.calibrators import get_calibrator

    batch = ordinary(3000, classes)
    ours = fitted("temperature", batch).predict(batch)
    prob = probabilities(batch.score)
    table = prob if classes > 2 else np.column_stack([1 - prob, prob])
    peer = get_calibrator("temp-scaling").fit(table, batch.labels).predict_proba(table)
    np.testing.assert_allclose(ours, peer if classes > 2 else peer[:, 1], atol=1e-6)
