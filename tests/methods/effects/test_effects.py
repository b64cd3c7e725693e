"""Effects beside what they must be: a mixed model in closed form, shrinkage to nothing, values that are names."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from calcli.batch import NO_SIDE_INPUTS, Batch, Column
from calcli.methods import calibrator, catalog
from calcli.methods.calibrator import FittedMethod
from calcli.methods.effects.coding import FIRST, MISSING, UNSEEN, learned
from calcli.methods.effects.fitting import Block, Fit, Rows
from calcli.methods.effects.kernels import PRIOR
from calcli.numeric.links import sigmoid
from calcli.numeric.losses import log_loss

EFFECTS = catalog.find("effects")


def fitted(batch: Batch, **params: float | bool) -> FittedMethod:
    return calibrator.fit(EFFECTS, batch, EFFECTS.resolve(params), seed=0)


def shops(rows: int, levels: int, deviation: float, seed: int = 0) -> tuple[Batch, np.ndarray]:
    """Rows whose true log-odds are the score and an effect of their shop, and the true probabilities."""
    rng = np.random.default_rng(seed)
    score, shop = rng.normal(-1.0, 1.0, rows), rng.integers(0, levels, rows)
    true = sigmoid(score + rng.normal(0.0, deviation, levels)[shop])
    shops = Column("category", shop.astype(np.int32), tuple(f"s{level}" for level in range(levels)))
    return Batch(score, (rng.random(rows) < true).astype(np.int64), features={"shop": shops}), true


def excess(model: FittedMethod, batch: Batch, true: np.ndarray) -> float:
    """The mean loss beyond that of the truth, in expectation over labels."""
    prob = model.predict(batch)
    found = true * np.log(true / prob) + (1 - true) * np.log((1 - true) / (1 - prob))
    return float(found.mean())


def test_of_many_features_the_most_important_have_effects() -> None:
    batch, _ = shops(4_000, 10, 1.0)
    rng = np.random.default_rng(1)
    noise = {f"x{place}": Column("number", rng.normal(size=len(batch))) for place in range(3)}
    wide = replace(batch, features={**noise, **batch.features})
    model = fitted(wide, features=1)
    others = {name: replace(column, values=-column.values) for name, column in noise.items()}
    np.testing.assert_array_equal(model.predict(replace(wide, features=wide.features | others)), model.predict(wide))
    assert len(np.unique(model.predict(replace(wide, score=np.zeros(len(wide)))))) == 10
    assert [EFFECTS.needs(EFFECTS.resolve(), count, ()) for count in (512, 513)] == [(), ("catboost",)]


@pytest.mark.parametrize("deviation", [0.3, 0.6, 1.0])
def test_the_variance_of_effects_is_found(deviation: float) -> None:
    batch, _ = shops(40_000, 400, deviation)
    model = fitted(batch, pairs=0, slopes=False)
    variance, kinds = model.state.array("variance"), model.state.arrays["slope"]
    of_shops = [float(each) for each, slope in zip(variance, kinds, strict=True) if not slope][-1]
    assert np.sqrt(of_shops) == pytest.approx(deviation, rel=0.15)


def test_a_step_is_that_of_the_mixed_model() -> None:
    """One step of one block from nothing: g / (h + 1/T), and T from it, by loops over the rows."""
    batch, _ = shops(300, 5, 0.5)
    coding = learned(batch, batch.score, 32, 32, ())[-1][0]
    codes = coding.of(batch, batch.score)
    weight = np.linspace(0.5, 2.0, len(batch))
    block = Block.nothing((0,), coding.codes, 2)
    start = float(block.variance)
    rows = Rows(batch.score, batch.labels, weight, np.empty(0))
    rows.begin()
    Fit(rows, 1.0, np.zeros(()), [coding], [codes], [block])._step(block)
    gradient, curvature = np.zeros(coding.codes), np.zeros(coding.codes)
    for row, code in enumerate(codes):
        prob = 1 / (1 + np.exp(-batch.score[row]))
        gradient[code] += weight[row] * (batch.labels[row] - prob)
        curvature[code] += weight[row] * prob * (1 - prob)
    step = np.clip(gradient / (curvature + 1 / start), -1, 1)
    np.testing.assert_allclose(block.values, step, rtol=1e-12)
    np.testing.assert_allclose(rows.total, batch.score + step[codes], rtol=1e-12)
    seen = curvature > 0
    expected = np.sum(step[seen] ** 2 + 1 / (curvature[seen] + 1 / start))
    assert float(block.variance) == pytest.approx(expected / (np.count_nonzero(seen) + PRIOR))


def test_features_that_say_nothing_have_no_effect() -> None:
    """Of twenty calibrated tables the mean excess is that of a few parameters, not that of hundreds of values."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        score = rng.normal(0.0, 1.5, 1000)
        features = {
            f"c{place}": Column("category", rng.integers(0, 20, 1000).astype(np.int32), tuple(map(str, range(20))))
            for place in range(8)
        }
        batch = Batch(score, (rng.random(1000) < sigmoid(score)).astype(np.int64), features=features)
        found.append(1000 * excess(fitted(batch), batch, sigmoid(score)))
    assert np.mean(found) < 6.0  # 160 values and 28 pairs of them unshrunk: over a hundred


def test_columns_of_one_value_change_nothing() -> None:
    batch, _ = shops(1500, 20, 0.7)
    same = {"one": Column("number", np.full(1500, 3.0)), "none": Column("category", np.full(1500, -1, np.int32))}
    more = replace(batch, features={**batch.features, **same})
    np.testing.assert_array_equal(fitted(more).predict(more), fitted(batch).predict(batch))


def test_an_effect_of_a_pair_is_found() -> None:
    """An exclusive or of two features, of which neither says anything by itself."""
    rng = np.random.default_rng(1)
    one, other = rng.integers(0, 2, (2, 8000))
    true = sigmoid(0.8 * np.where(one == other, 1.0, -1.0))
    features = {
        name: Column("category", codes.astype(np.int32), ("a", "b")) for name, codes in (("x", one), ("y", other))
    }
    score = rng.normal(0.0, 0.1, 8000)
    batch = Batch(score, (rng.random(8000) < true).astype(np.int64), features=features)
    assert excess(fitted(batch), batch, true) < 0.002
    assert excess(fitted(batch, pairs=0), batch, true) > 0.05


def test_a_value_can_say_how_far_the_score_is_to_be_trusted() -> None:
    rng = np.random.default_rng(2)
    trusted = rng.integers(0, 2, 8000)
    score = rng.normal(0.0, 2.0, 8000)
    true = sigmoid(np.where(trusted == 1, score, 0.2 * score))
    batch = Batch(
        score,
        (rng.random(8000) < true).astype(np.int64),
        features={"source": Column("category", trusted.astype(np.int32), ("blog", "lab"))},
    )
    assert excess(fitted(batch, pairs=0), batch, true) < 0.003
    assert excess(fitted(batch, pairs=0, slopes=False), batch, true) > 0.02


def test_values_that_were_never_seen_and_missing_ones() -> None:
    batch, _ = shops(5000, 3, 1.0)
    codes = batch.features["shop"].values.copy()
    codes[:2000] = -1
    batch = Batch(batch.score, batch.labels, features={"shop": Column("category", codes, ("s0", "s1", "s2"))})
    model = fitted(batch, pairs=0, slopes=False)
    new = Batch(np.zeros(3), features={"shop": Column("category", np.array([0, 1, -1], dtype=np.int32), ("new", "s1"))})
    prob = model.predict(new)
    sign = 1.0 if model.state.arrays["order"][0] == 0 else -1.0  # effects are on the log-odds of one of the classes
    values = sign * model.state.array("value")[-5:]  # those of the shops come last
    assert values[UNSEEN] == 0.0
    base = np.log(prob / (1 - prob)) - [values[UNSEEN], values[FIRST + 1], values[MISSING]]
    order = sorted(range(3), key=lambda level: -int((codes == level).sum()))
    assert base[0] == pytest.approx(base[2], abs=1e-9)
    assert np.log(prob[1] / (1 - prob[1])) - base[0] == pytest.approx(values[FIRST + order.index(1)], abs=1e-9)


def test_a_value_with_more_rows_than_a_bin_has_an_effect_of_its_own() -> None:
    """Nine of ten rows are 0; the others' effect must not be averaged with theirs."""
    rng = np.random.default_rng(3)
    amount = np.where(rng.random(20_000) < 0.9, 0.0, rng.exponential(1.0, 20_000))
    true = sigmoid(np.where(amount == 0.0, -1.0, -1.0 + amount))
    score = np.full(20_000, -1.0)
    batch = Batch(score, (rng.random(20_000) < true).astype(np.int64), features={"x": Column("number", amount)})
    model = fitted(batch)
    assert excess(model, batch, true) < 0.002
    zero = model.predict(Batch(score[:1], features={"x": Column("number", np.zeros(1))}))
    assert zero[0] == pytest.approx(sigmoid(np.array([-1.0]))[0], abs=0.01)


def test_more_classes_have_effects_of_their_own() -> None:
    rng = np.random.default_rng(4)
    score, place = rng.normal(0.0, 1.0, (6000, 3)), rng.integers(0, 4, 6000)
    moved = score + rng.normal(0.0, 1.0, (4, 3))[place]
    prob = np.exp(moved) / np.exp(moved).sum(axis=1, keepdims=True)
    label = (rng.random(6000)[:, None] > prob.cumsum(axis=1)).sum(axis=1)
    features = {"place": Column("category", place.astype(np.int32), ("n", "e", "s", "w"))}
    batch = Batch(score, label.astype(np.int64), features=features)
    half = slice(0, 3000), slice(3000, None)
    found = fitted(batch.take(half[0])).predict(batch.take(half[1]))
    assert log_loss(found, label[half[1]]).mean() < log_loss(prob[half[1]], label[half[1]]).mean() + 0.01


def test_a_boolean_is_true_or_false_in_the_rules() -> None:
    rng = np.random.default_rng(2)
    paid, score = rng.random(4000) < 0.4, rng.normal(size=4000)
    label = (rng.random(4000) < sigmoid(score + np.where(paid, 1.2, -1.2))).astype(np.int64)
    batch = Batch(score, label, features={"paid": Column("boolean", paid * 1.0)})
    for model in (fitted(batch), FittedMethod.from_state("effects", fitted(batch).to_state())):
        shown = {str(row[0]): row[1] for row in model.explain(())[1].rows if row[4] == "log-odds"}
        assert shown["paid is true"] > 0 > shown["paid is false"]
        assert not any("0.5" in name for name in shown if "score" not in name)


def test_the_rules_name_the_largest_effects() -> None:
    batch, _ = shops(20_000, 3, 1.0, seed=5)
    first, largest = fitted(batch, pairs=0).explain(())
    assert first.rows[0][0] == "shop"
    assert largest.moves == tuple(sorted((abs(row[1]) for row in largest.rows), reverse=True))  # type: ignore[arg-type]
    names = [str(row[0]) for row in largest.rows[:3]]
    assert all(name.startswith("shop = s") for name in names)
    assert all(row[2] < row[1] < row[3] for row in largest.rows)  # type: ignore[operator]
    shop = batch.features["shop"]
    rates = {level: batch.labels[shop.values == code].mean() for code, level in enumerate(shop.levels)}
    shown = {str(row[0]): row[1] for row in largest.rows if row[4] == "log-odds"}
    assert max(rates, key=lambda level: rates[level]) == max(rates, key=lambda level: shown[f"shop = {level}"])
    assert min(rates, key=lambda level: rates[level]) == min(rates, key=lambda level: shown[f"shop = {level}"])


@pytest.mark.parametrize("flipped", [False, True])
def test_what_is_drawn_is_what_the_rules_say(flipped: bool) -> None:
    """Names and bins in their order, whichever class comes first; the effect of a number rises with it."""
    batch, _ = shops(20_000, 3, 1.0, seed=5)
    rng = np.random.default_rng(6)
    amount = rng.normal(size=len(batch))
    label = (rng.random(len(batch)) < sigmoid(batch.score + amount)).astype(np.int64)
    way = -1.0 if flipped else 1.0
    features = {**batch.features, "amount": Column("number", amount)}
    fit = fitted(Batch(way * batch.score, 1 - label if flipped else label, features=features), pairs=0)
    drawn, rules = fit.explain(())
    said = {str(row[0]): row[1:4] for row in rules.rows if row[4] == "log-odds"}
    pictures = {picture.title: picture for picture in drawn.pictures}
    shop, number = pictures["shop"], pictures["amount"]
    assert {f"shop = {name}": row for name, row in zip(shop.names, shop.series[""], strict=True)} == {
        name: row for name, row in said.items() if name.startswith("shop")
    }
    effects = way * np.array([point[0] for point in number.series[""]])
    cuts = [float(name.split()[1]) for name in number.names]
    assert cuts == sorted(cuts)
    assert np.corrcoef(effects, np.arange(len(effects)))[0, 1] > 0.95


def test_equal_rows_are_one_with_their_weight() -> None:
    """Scores of few values: the rows three times are the rows with weight three."""
    batch, _ = shops(6000, 5, 0.8)
    rows = Batch(batch.score.round(1), batch.labels, features=batch.features)
    thrice = fitted(rows.take(np.tile(np.arange(6000), 3))).predict(rows)
    weighted = fitted(Batch(rows.score, rows.label, np.full(6000, 3.0), rows.features)).predict(rows)
    np.testing.assert_allclose(thrice, weighted, rtol=1e-9)


@pytest.mark.parametrize("flipped", [False, True])
def test_contributions_are_shapley_values_over_all_orders(flipped: bool) -> None:
    """By definition: the mean over all orders of the columns of what a column adds when it becomes known."""
    rng = np.random.default_rng(7)
    one, amount, score = rng.integers(0, 3, 4000), rng.normal(size=4000), rng.normal(-1.0, 1.0, 4000)
    true = sigmoid(score * (1 + 0.5 * (one == 1)) + np.where(one == 2, amount, 0.3))
    features = {"one": Column("category", one.astype(np.int32), ("a", "b", "c")), "amount": Column("number", amount)}
    label = (rng.random(4000) < true).astype(np.int64)
    batch = Batch(-score, 1 - label, None, features) if flipped else Batch(score, label, None, features)
    model = fitted(batch)
    assert {
        (int(count), bool(slope))
        for count, slope in zip(model.state.arrays["parts"], model.state.arrays["slope"], strict=True)
    } == {(1, False), (1, True), (2, False)}
    rows, background = np.arange(5), np.arange(100, 130)
    found = EFFECTS.load().contributions(model.state, batch, rows, background)
    assert found is not None
    players = ("score", "one", "amount")

    def worth(row: int, known: set[str]) -> float:
        def part(name: str, values: np.ndarray) -> np.ndarray:
            return np.full(len(background), values[row]) if name in known else values[background]

        columns = {
            name: Column(column.role, part(name, column.values), column.levels) for name, column in features.items()
        }
        mixed = Batch(part("score", batch.score), features=columns)
        prob = EFFECTS.load().predict(model.state, mixed, NO_SIDE_INPUTS)
        return float((np.log(prob / (1 - prob)) - mixed.score).mean())

    for row in rows:
        shares = dict.fromkeys(players, 0.0)
        for order in permutations(players):
            for place, name in enumerate(order):
                shares[name] += (worth(row, {*order[: place + 1]}) - worth(row, {*order[:place]})) / 6
        assert dict(zip(found.names, found.values[row], strict=True)) == pytest.approx(shares, abs=1e-9)
    assert found.base == pytest.approx(worth(0, set()), abs=1e-9)
