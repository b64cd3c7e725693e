"""Numbers at the ends of what a double can hold, beside sums that round once."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import FitError
from calcli.methods import catalog
from calcli.methods.row import Row

CLIP = 1e-12
"""The log-loss is of probabilities no nearer to 0 and 1 than that."""


def table(logit: np.ndarray, label: np.ndarray, **more: object) -> pl.DataFrame:
    return pl.DataFrame({"label": label.astype(int), "logit": logit, **more})


def loss(logit: float, label: int, scale: float = 1.0) -> float:
    """Of one row, in the way that loses no digits."""
    signed = logit * scale if label else -logit * scale
    exact = math.log1p(math.exp(-signed)) if signed > -30 else -signed + math.log1p(math.exp(signed))
    return min(exact, -math.log(CLIP))


def test_log_odds_of_700() -> None:
    logit = np.array([700.0, -700.0, 700.0, -700.0, 0.0, 1e-300, -1e-300, 36.0, -36.0])
    label = np.array([1, 0, 0, 1, 1, 1, 0, 1, 0])
    expected = math.fsum(loss(*row) for row in zip(logit.tolist(), label.tolist(), strict=True)) / len(logit)
    found = calcli.evaluate(table(logit, label), metrics="nll,auc,brier,ece")
    assert found.value("raw", "nll") == pytest.approx(expected, rel=1e-13)
    assert all(score.value is not None for score in found.score("raw").metrics.values())


@pytest.mark.parametrize("order", ["given", "rising", "falling", "large first"])
def test_sums_in_any_order(order: str) -> None:
    """Weights over thirty powers of ten, in the orders that sums like least."""
    rng = np.random.default_rng(0)
    logit = rng.normal(0, 3, 20_000)
    label = (rng.random(len(logit)) < 1 / (1 + np.exp(-logit))).astype(int)
    weight = 10.0 ** rng.uniform(-15, 15, len(logit))
    places = {
        "given": np.arange(len(logit)),
        "rising": np.argsort(weight),
        "falling": np.argsort(-logit),
        "large first": np.argsort(-weight),
    }[order]
    losses = [loss(*row) for row in zip(logit.tolist(), label.tolist(), strict=True)]
    expected = math.fsum(w * one for w, one in zip(weight.tolist(), losses, strict=True)) / math.fsum(weight.tolist())
    rows = table(logit[places], label[places], w=weight[places])
    found = calcli.evaluate(rows, metrics="nll", flags=calcli.Flags(weight="w"))
    assert found.value("raw", "nll") == pytest.approx(expected, rel=1e-12)


def test_subnormal_weights() -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(0, 2, 400)
    label = (rng.random(400) < 1 / (1 + np.exp(-logit))).astype(int)
    metrics = "nll,brier,auc,ece,mvce"
    plain = calcli.evaluate(table(logit, label), metrics=metrics)
    tiny = calcli.evaluate(table(logit, label, w=np.full(400, 5e-324)), metrics=metrics, flags=calcli.Flags(weight="w"))
    for name in metrics.split(","):
        assert tiny.value("raw", name) == pytest.approx(plain.value("raw", name), rel=1e-9), name


@pytest.mark.parametrize("method", ["platt", "isotonic", "histogram", "beta"])
def test_one_positive_in_a_million(method: str) -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(-14, 2, 1_000_000)
    label = np.zeros(len(logit), dtype=int)
    label[np.argmax(logit)] = 1
    rows = table(logit, label)
    done = calcli.fit(rows, method=method, holdout="none")
    assert done.model is not None
    prob = done.model.predict(rows)
    assert np.isfinite(prob).all()
    assert prob.mean() < 1e-4
    if method == "platt":  # the equation of its intercept, with the targets (1 + 1)/(1 + 2) and 1/(n + 2)
        assert prob.sum() == pytest.approx(2 / 3 + 999_999 / 1_000_001, rel=1e-9)


FEATURE_METHODS = [row for row in catalog.rows() if row.needs_features]


@pytest.mark.parametrize("row", FEATURE_METHODS, ids=lambda row: row.name)
def test_constant_and_enormous_features(row: Row) -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(0, 1, 1_500)
    x = rng.normal(size=1_500)
    label = (rng.random(1_500) < 1 / (1 + np.exp(-logit - x))).astype(int)
    rows = table(
        logit,
        label,
        same=np.zeros(1_500),
        enormous=1e15 * x,
        tiny=1e-300 * x,
        ends=np.where(x > 0, 1e308, -1e308),
        nothing=pl.Series([None] * 1_500, dtype=pl.Float64),
        one=["a"] * 1_500,
    )
    try:
        done = calcli.fit(rows, method=row.name, holdout="none")
    except FitError:
        return
    assert done.model is not None
    prob = done.model.predict(rows)
    assert np.isfinite(prob).all()
    assert -np.log(np.where(label == 1, prob, 1 - prob)).mean() < 0.7
