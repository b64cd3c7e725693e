"""Spline calibration beside its limits, a general-purpose optimiser, and a spline from scikit-learn's parts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods.scaling import spline
from calcli.numeric.links import logit
from tests.support.cases import HARD, RARE, ordinary
from tests.support.methods import fitted, log_loss


def truth(z: np.ndarray) -> np.ndarray:
    """Log-odds that no straight line or parabola follows: steep, flat, steep."""
    return z - 0.9 * np.tanh(z)


def winding(rows: int, seed: int = 0, *, weighted: bool = False) -> Batch:
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2.0, rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-truth(z)))).astype(np.int64)
    return Batch(z, label, rng.uniform(0, 3, rows) if weighted else None)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_penalty_without_limit_is_platt_scaling(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spline, "STRENGTHS", (np.inf,))
    batch = winding(500, weighted=weighted)
    platt = fitted("platt", batch).predict(batch)
    np.testing.assert_allclose(fitted("spline", batch).predict(batch), platt, atol=1e-8)


def test_the_penalty_that_was_chosen_gives_the_same_curve_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = winding(2000)
    chosen = fitted("spline", batch)
    assert chosen.settings["penalty"] in spline.STRENGTHS
    monkeypatch.setattr(spline, "_held_out", None)
    again = fitted("spline", batch, **chosen.settings)
    np.testing.assert_array_equal(again.state.array("pieces"), chosen.state.array("pieces"))


def test_a_given_penalty_is_raised_until_the_curve_is_monotone() -> None:
    z = np.linspace(-3, 3, 4000)
    batch = Batch(z, (np.random.default_rng(0).random(4000) < 0.5 + 0.3 * np.sin(2 * z)).astype(np.int64))
    free = fitted("spline", batch, penalty=0.001)
    assert free.settings["penalty"] in spline.STRENGTHS[1:-1] or free.settings["penalty"] == "inf"
    slope = np.diff(free.predict(Batch(np.linspace(-3, 3, 500))))
    assert (slope >= -1e-12).all() or (slope <= 1e-12).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("strength", [1.0, 0.01])
def test_no_other_spline_is_better(strength: float, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The penalised log-loss of scipy's natural spline through any values, its roughness by quadrature."""
    monkeypatch.setattr(spline, "STRENGTHS", (np.inf, strength))
    monkeypatch.setattr(spline, "_chosen", lambda *_: strength)
    batch = winding(300, weighted=weighted)
    model = fitted("spline", batch, knots=5)
    knots = model.state.array("knots")
    weight, length = batch.weights, np.ptp(knots)
    positive = weight @ batch.labels
    target = np.where(batch.labels == 1, (positive + 1) / (positive + 2), 1 / (weight.sum() - positive + 2))

    def curve(values: np.ndarray, z: np.ndarray) -> np.ndarray:
        inside = CubicSpline(knots, values, bc_type="natural")
        held = np.clip(z, knots[0], knots[-1])
        return inside(held) + (z - held) * inside(held, 1)

    def roughness(values: np.ndarray) -> float:
        inside = CubicSpline(knots, values, bc_type="natural")
        return sum(quad(lambda z: inside(z, 2) ** 2, a, b)[0] for a, b in itertools.pairwise(knots))

    def loss(values: np.ndarray) -> float:
        u = curve(values, batch.score)
        fit = float(weight @ (np.logaddexp(0, u) - target * u)) / weight.sum()
        return fit + strength / weight.sum() * length**3 * roughness(values)

    ours = logit(model.predict(Batch(knots)))
    best = minimize(loss, ours, tol=1e-9)
    assert loss(ours) <= best.fun + 1e-8
    np.testing.assert_allclose(logit(model.predict(batch)), curve(ours, batch.score), atol=1e-7)


def test_it_follows_what_a_line_cannot() -> None:
    train, test = winding(8000, 1), winding(20_000, 2)
    best = log_loss(1 / (1 + np.exp(-truth(test.score))), test.labels)
    platt = log_loss(fitted("platt", train).predict(test), test.labels) - best
    ours = log_loss(fitted("spline", train).predict(test), test.labels) - best
    assert ours < 0.25 * platt


def test_where_the_truth_is_a_line_it_costs_next_to_nothing() -> None:
    test, costs = ordinary(20_000, seed=99), []
    for seed in range(8):
        train = ordinary(1000, seed=seed)
        platt = log_loss(fitted("platt", train).predict(test), test.labels)
        costs.append(log_loss(fitted("spline", train).predict(test), test.labels) - platt)
    assert np.mean(costs) < 1e-3
    assert max(costs) < 5e-3


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_is_monotone(seed: int) -> None:
    """Few noisy rows, many knots: without the rule the curve would turn."""
    prob = fitted("spline", winding(150, seed), knots=12).predict(Batch(np.linspace(-30, 30, 6001)))
    steps = np.diff(prob)
    assert (steps >= 0).all() or (steps <= 0).all()


@pytest.mark.parametrize("case", ["constant_score", "single_row", "one_class_absent", "separable", "upside_down"])
def test_rows_that_cannot_bend_a_curve_give_platt_scaling(case: str) -> None:
    batch = (HARD | RARE)[case](2)
    platt = fitted("platt", batch).predict(batch)
    if case in {"separable", "upside_down"}:  # can, but it need not help
        assert log_loss(fitted("spline", batch).predict(batch), batch.labels) < log_loss(platt, batch.labels) + 0.01
    else:
        np.testing.assert_allclose(fitted("spline", batch).predict(batch), platt, atol=1e-7)


def test_held_out_loss_beside_a_regularised_spline_of_scikit_learn() -> None:
    """The idea of splinecalib from library parts: spline features, logistic regression, penalty by cross-validation."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer, StandardScaler

    train, test = winding(3000, 1), winding(20_000, 2)
    newer = {"l1_ratios": (0.0,), "use_legacy_attributes": False}  # without them, newer releases warn
    if "use_legacy_attributes" not in LogisticRegressionCV().get_params():
        newer = {}
    peer = make_pipeline(
        SplineTransformer(8, knots="quantile", extrapolation="linear"),
        StandardScaler(),
        LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", solver="newton-cholesky", **newer),
    )
    peer.fit(train.score[:, None], train.labels)
    expected = log_loss(peer.predict_proba(test.score[:, None])[:, 1], test.labels)
    assert log_loss(fitted("spline", train).predict(test), test.labels) < expected + 1e-3


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_splinecalib_is_not_better_on_held_out_rows() -> None:
    pytest.importorskip("splinecalib")
    from splinecalib import SplineCalib

    train, test = winding(3000, 1), winding(20_000, 2)
    peer = SplineCalib()
    peer.fit(1 / (1 + np.exp(-train.score)), train.labels)
    expected = log_loss(np.asarray(peer.predict(1 / (1 + np.exp(-test.score)))), test.labels)
    assert log_loss(fitted("spline", train).predict(test), test.labels) < expected + 1e-3
