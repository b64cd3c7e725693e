"""Effects of values beside those of their order: what is taken off, what chance makes of none, what is found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from calcli.batch import Batch, FloatArray
from calcli.numeric.level_effects import KNOTS, LevelEffects, Residuals, _knots, _order
from calcli.numeric.links import sigmoid

Z99 = 2.326
"""The 99 % quantile of the normal distribution."""

Column = Callable[[np.random.Generator, int], tuple[FloatArray, FloatArray]]


def names(levels: int, sd: float) -> Column:
    """Numbers with effects of their own."""

    def drawn(rng: np.random.Generator, rows: int) -> tuple[FloatArray, FloatArray]:
        values = rng.integers(0, levels, rows)
        return values.astype(float), rng.normal(0.0, sd, levels)[values]

    return drawn


def quantity(draw: Column | Callable[..., FloatArray], effect: Callable[[FloatArray], FloatArray]) -> Column:
    """Numbers whose effect is a function of their size."""

    def drawn(rng: np.random.Generator, rows: int) -> tuple[FloatArray, FloatArray]:
        values = np.asarray(draw(rng, rows), dtype=float)
        return values, effect(values)

    return drawn


def rows_of(rng: np.random.Generator, effect: FloatArray) -> Batch:
    """Rows whose score lacks an effect, and is out of scale."""
    score = rng.normal(-1.5, 1.0, len(effect))
    return Batch(score, (rng.random(len(effect)) < sigmoid(0.7 * score + 0.3 + effect)).astype(np.int64))


def found(column: Column, rows: int, seed: int) -> LevelEffects:
    rng = np.random.default_rng(seed)
    values, effect = column(rng, rows)
    effects = Residuals.of(rows_of(rng, effect), counts=False).effects(values)
    assert effects is not None
    return effects


def test_the_order_is_taken_off_as_least_squares_do() -> None:
    rng = np.random.default_rng(0)
    v, r = rng.gamma(0.5, 20.0, 300), rng.normal(0.0, 3.0, 300)
    v[100] = v.sum()
    hats = np.stack([np.interp(np.arange(300), _knots(v), one) for one in np.eye(len(_knots(v)))], axis=1)
    half = np.sqrt(v)[:, None] * hats  # sums over their standard deviation, on hats
    projection = half @ np.linalg.pinv(half)
    effect, free = _order(r, v)
    np.testing.assert_allclose(np.sqrt(v) * effect, projection @ (r / np.sqrt(v)), atol=1e-8)
    np.testing.assert_allclose(free, 1.0 - np.diag(projection), atol=1e-8)
    assert {99, 100, 101} <= set(_knots(v).tolist())
    assert len(_knots(v)) <= KNOTS + 5


@pytest.mark.parametrize("levels", [5, 600])
def test_no_effects_are_chance(levels: int) -> None:
    z = np.array([found(names(levels, 0.0), 2_000, seed).z for seed in range(150)])
    assert abs(z.mean()) < 0.25  # three standard errors
    assert z.std() < 1.2
    assert np.mean(z > Z99) < 0.035  # 1 % and three standard errors


def test_the_variance_of_effects_is_found_and_its_order_says_no_more() -> None:
    several = [found(names(200, 0.5), 20_000, seed) for seed in range(5)]
    assert np.mean([one.variance for one in several]) == pytest.approx(0.25, rel=0.2)
    assert all(one.z > 5.0 and one.beside_order for one in several)


QUANTITIES = {
    "age": quantity(lambda rng, rows: rng.integers(18, 91, rows), lambda x: (x - 45.0) / 20.0),
    "curved": quantity(lambda rng, rows: rng.integers(18, 91, rows), lambda x: ((x - 45.0) / 25.0) ** 2),
    "step": quantity(lambda rng, rows: rng.integers(0, 60, rows), lambda x: 1.0 * (x > 30.0)),
    "counts": quantity(lambda rng, rows: rng.poisson(3.0, rows), np.log1p),
    "few": quantity(lambda rng, rows: rng.integers(0, 16, rows), lambda x: 0.02 * (x - 8.0) ** 2),
    "mostly zero": quantity(
        lambda rng, rows: np.where(rng.random(rows) < 0.9, 0, rng.lognormal(6.0, 1.0, rows).astype(int)),
        lambda x: 0.2 * np.log1p(x) + 0.5 * (x > 0.0),
    ),
    "amounts": quantity(lambda rng, rows: rng.lognormal(6.0, 1.0, rows).astype(int), lambda x: np.log1p(x) - 6.0),
}


@pytest.mark.parametrize("column", QUANTITIES.values(), ids=QUANTITIES)
def test_quantities_are_no_names(column: Column) -> None:
    several = [found(column, 10_000, seed) for seed in range(10)]
    assert not any(one.z > Z99 and one.beside_order for one in several)


def test_classes_weights_counts_and_units() -> None:
    rng = np.random.default_rng(1)
    values, effect = names(30, 0.6)(rng, 4_000)
    rows = rows_of(rng, effect)
    alone = Residuals.of(rows, counts=False).effects(values)
    counts = rng.integers(1, 4, len(rows))
    many = Residuals.of(rows.take(np.repeat(np.arange(len(rows)), counts)), counts=False)
    weighed = Batch(rows.score, rows.labels, counts.astype(float))
    # A count says as much as rows written so often; importance has no scale.
    repeated = many.effects(np.repeat(values, counts))
    counted = Residuals.of(weighed, counts=True).effects(values)
    assert alone is not None
    assert repeated is not None
    assert counted is not None
    assert counted.variance == pytest.approx(repeated.variance, rel=0.1)  # quantiles of scores differ a little
    scaled = [Residuals.of(Batch(rows.score, rows.labels, np.full(len(rows), w)), counts=False) for w in (1.0, 7.0)]
    assert [one.effects(values) for one in scaled] == [pytest.approx(alone), pytest.approx(alone)]
    # Copies of rows that a unit has in common tell nothing new.
    copies = rows.take(np.repeat(np.arange(len(rows)), 4))
    units = np.repeat(np.arange(len(rows)), 4)
    of_units = Residuals.of(copies, counts=False, units=units).effects(np.repeat(values, 4))
    assert of_units is not None
    assert of_units.z == pytest.approx(alone.z, rel=0.15)
    # Three classes, the third of which has no effects.
    three = Batch(np.column_stack([rows.score, -rows.score, np.zeros(len(rows))]), rows.labels)
    of_classes = Residuals.of(three, counts=False).effects(values)
    assert of_classes is not None
    assert of_classes.z > Z99
    assert Residuals.of(rows, counts=False).effects(values % 3) is None
