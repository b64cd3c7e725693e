"""Numbers at the ends of what a double can hold, beside sums that round once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.batch import Batch
from calcli.errors import FitError
from calcli.methods import calibrator, catalog
from calcli.methods.post_processing import PostProcessing
from calcli.methods.spec import MethodSpec
from tests.support.damage import LARGE

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("rows", [1_000_000, pytest.param(10_000_000, marks=LARGE)])
@pytest.mark.parametrize("method", ["platt", "isotonic", "histogram", "beta"])
def test_one_positive_in_millions(method: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(-14, 2, rows)
    label = np.zeros(rows, dtype=int)
    label[np.argmax(logit)] = 1
    frame = table(logit, label)
    done = calcli.fit(frame, method=method, holdout="none")
    assert done.model is not None
    prob = done.model.predict(frame)
    assert np.isfinite(prob).all()
    assert prob.mean() < 1e-4
    if method == "platt":  # the equation of its intercept, with the targets (1 + 1)/(1 + 2) and 1/(n - 1 + 2)
        assert prob.sum() == pytest.approx(2 / 3 + (rows - 1) / (rows + 1), rel=1e-9)


def test_platt_beside_fifty_digits() -> None:
    """Where its equations, in fifty digits, have their root: log-odds of 700 beside small ones, uneven weights."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(3)
    z = np.concatenate([rng.normal(0, 2, 60), [700.0, -700.0, 650.0, -699.0, 0.0]])
    y = (rng.random(len(z)) < 1 / (1 + np.exp(-np.clip(z, -5, 5)))).astype(int)
    w = 10.0 ** rng.uniform(-3, 1, len(z))
    y[[60, 61]], w[[60, 61]] = (0, 1), (1e-2, 1e-2)  # as wrong as can be
    state = calibrator.fit(catalog.find("platt"), Batch(z, y, w), {}).state
    with mpmath.workdps(50):
        rows = [(mpmath.mpf(one), label, mpmath.mpf(weight)) for one, label, weight in zip(z, y, w, strict=True)]
        positive = mpmath.fsum(weight for _, label, weight in rows if label)
        negative = mpmath.fsum(weight for _, label, weight in rows if not label)
        target = (1 / (negative + 2), (positive + 1) / (positive + 2))

        def equations(a: object, b: object) -> list[object]:
            off = [
                (weight * (1 / (1 + mpmath.exp(-(a * one + b))) - target[label]), one) for one, label, weight in rows
            ]
            return [mpmath.fsum(each for each, _ in off), mpmath.fsum(each * one for each, one in off)]

        a, b = mpmath.findroot(equations, (state.number("a"), state.number("b")))
        assert state.number("a") == pytest.approx(float(a), rel=1e-9)
        assert state.number("b") == pytest.approx(float(b), rel=1e-9)


@pytest.mark.parametrize("spread", [0, 15, 300])
def test_isotonic_beside_fractions(spread: int) -> None:
    """Pooled by exact fractions, one violation after another; weights over so many powers of ten either way."""
    rng = np.random.default_rng(spread)
    z = rng.integers(-20, 20, 300) / 4.0
    y = (rng.random(300) < 1 / (1 + np.exp(-z))).astype(int)
    w = 10.0 ** rng.uniform(-spread, 0, 300)
    w[w < np.finfo(float).eps * w.max()] = 0.0  # what is lost to rounding beside the greatest counts for nothing
    z, y, w = z[w > 0], y[w > 0], w[w > 0]
    pools = [
        (sum(Fraction(one) for one in w[z == place]), sum(Fraction(one) for one in w[(z == place) & (y == 1)]), 1)
        for place in np.unique(z)
    ]
    stack: list[tuple[Fraction, Fraction, int]] = []
    for mass, positive, count in pools:
        stack.append((Fraction(mass), Fraction(positive), count))
        while len(stack) > 1 and stack[-2][1] * stack[-1][0] >= stack[-1][1] * stack[-2][0]:
            last, before = stack.pop(), stack.pop()
            stack.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    expected = [float(positive / mass) for mass, positive, count in stack for _ in range(count)]
    fitted = calibrator.fit(catalog.find("isotonic"), Batch(z, y, w), {}).with_post_processing(
        PostProcessing(exact=True)
    )
    np.testing.assert_allclose(fitted.predict(Batch(np.unique(z))), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("method", [row.name for row in catalog.specs() if row.from_sums(2)])
def test_duplicated_rows_are_rows_of_twice_the_weight(method: str) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, 500)
    y = (rng.random(500) < 1 / (1 + np.exp(-0.6 * z))).astype(int)
    row = catalog.find(method)
    twice = calibrator.fit(row, Batch(np.tile(z, 2), np.tile(y, 2)), row.resolve())
    heavy = calibrator.fit(row, Batch(z, y, np.full(500, 2.0)), row.resolve())
    exact = PostProcessing(exact=True)  # without the mix, which counts rows
    found = [each.with_post_processing(exact).predict(Batch(z)) for each in (twice, heavy)]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-9)


FEATURE_METHODS = [row for row in catalog.specs() if row.needs_features]


@pytest.mark.parametrize("row", FEATURE_METHODS, ids=lambda row: row.name)
def test_constant_and_enormous_features(row: MethodSpec) -> None:
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
