"""Randomised trees: beside a walk in plain Python, where they must do nothing, and what they have not seen."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from calcli.batch import NO_SIDE_INPUTS, Batch, Column
from calcli.methods import catalog
from calcli.methods.effects.coding import codings_of
from calcli.methods.forest import forest, growing
from calcli.numeric.links import sigmoid
from calcli.numeric.seeded import in_turn
from calcli.state import State, unprefixed
from tests.support import methods
from tests.support.methods import alone, loss_of

fitted = partial(methods.fitted, "forest")


def shops(rows: int = 3000, classes: int = 2, seed: int = 0, *, effect: float = 1.0) -> Batch:
    """Scores that are wrong where a number and a category meet."""
    rng = np.random.default_rng(seed)
    number, place = rng.normal(size=rows), rng.integers(-1, 4, rows).astype(np.int32)
    wrong = effect * np.sin(2 * number) * np.array([1.5, -1.7, 0.8, 1.9, -1.4])[place]
    z = rng.normal(0, 1.5, rows if classes == 2 else (rows, classes))
    if classes == 2:
        label = (rng.random(rows) < sigmoid(z + wrong)).astype(np.int64)
    else:
        label = (z + np.outer(wrong, np.arange(classes)) + rng.gumbel(size=z.shape)).argmax(axis=1).astype(np.int64)
    columns = {"number": Column("number", number), "place": Column("category", place, ("a", "b", "c", "d"))}
    return Batch(2 * z, label, rng.integers(1, 4, rows).astype(float), columns)


def walked(state: State, batch: Batch, classes: int) -> np.ndarray:
    """The mean of the rates of all classes, tree by tree and node by node."""
    codings = codings_of(unprefixed("features", state.arrays))
    order = state.arrays["order"]
    if classes == 2:
        held = np.clip(batch.score if order[0] == 0 else -batch.score, -15, 15)
    else:
        held = np.clip(batch.score - batch.score.mean(axis=1, keepdims=True), -15, 15)[:, order]
    codes = np.column_stack([coding.of(batch, held) for coding in codings])
    roots = np.cumsum(state.arrays["sizes"]) - state.arrays["sizes"]
    found = []
    for row in codes:
        total = np.zeros(classes)
        for root in roots:
            node = int(root)
            while (first := int(state.arrays["nodes"][node, 2])) != node:
                feature, cut = state.arrays["nodes"][node, :2]
                node = first + int(row[feature] > cut)
            rate = state.arrays["rate"][node].astype(np.float64)
            total += [1.0 - rate[0], rate[0]] if classes == 2 else rate
        found.append(total / total.sum())
    return np.array(found)[:, np.argsort(order)]


@pytest.mark.parametrize("classes", [2, 3])
def test_it_learns_what_the_score_does_not_know_as_a_walk_through_its_trees(classes: int) -> None:
    train, test = shops(classes=classes), shops(classes=classes, seed=1)
    model = fitted(train)
    assert loss_of(model, test) < 0.99 * loss_of(alone(train), test)
    some = test.take(slice(0, 40))
    weight, added = model.state.number("weight"), model.state.number("added")
    rates = (walked(model.state, some, classes) + added) / (1.0 + classes * added)
    expected = (1.0 - weight) * alone(train).predict(some) + weight * (rates[:, 1] if classes == 2 else rates)
    np.testing.assert_allclose(model.predict(some), expected, rtol=1e-9)


def test_codes_of_two_bytes_take_the_way_of_a_walk() -> None:
    """A category of more values than a byte tells apart, beside one of few and the score."""
    rows = shops()
    rng = np.random.default_rng(5)
    level = rng.integers(0, 400, len(rows)).astype(np.int32)
    label = (rng.random(len(rows)) < sigmoid(rows.score + 2.0 * (level % 7 - 3))).astype(np.int64)
    site = Column("category", level, tuple(f"{place:03}" for place in range(400)))
    batch = Batch(rows.score, label, None, {**rows.features, "site": site})
    model = fitted(batch, weight=1.0)
    assert max(coding.codes for coding in codings_of(unprefixed("features", model.state.arrays))) > 256
    some = batch.take(slice(0, 40))
    added = model.state.number("added")
    expected = (walked(model.state, some, 2)[:, 1] + added) / (1.0 + 2.0 * added)
    np.testing.assert_allclose(model.predict(some), expected, rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_features_that_say_nothing_leave_the_scaled_score(classes: int) -> None:
    train = shops(classes=classes, effect=0.0)
    model = fitted(train)
    assert "nodes" not in model.state.arrays
    np.testing.assert_allclose(model.predict(train), alone(train).predict(train), rtol=1e-8)
    assert "No trees" in model.explain(["0", "1", "2"])[0].note


@pytest.mark.parametrize("classes", [2, 3])
def test_a_node_has_the_rates_of_its_rows_and_parts_them_by_the_gain_of_its_split(classes: int) -> None:
    """Recounted from the codes, with none of the compiled loops."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, (3, 400)).astype(np.int32)
    label, weight, fold = rng.integers(0, classes, 400), rng.integers(1, 3, 400).astype(float), np.arange(400) % 5
    rows = growing.Rows(codes, label, weight, fold, classes)

    def impurity(mine: np.ndarray) -> float:
        of_class = np.bincount(label[mine], weight[mine], classes)
        return float(of_class.sum() - np.square(of_class).sum() / of_class.sum())

    for tree in growing.grown(rows, trees=4, tries=2, least=20.0, seed=0):
        assert len(tree.unseen) == 2
        inside, gains = {0: ~np.isin(fold, tree.unseen)}, np.zeros(3)
        for node, (feature, cut, first) in enumerate(tree.nodes.tolist()):
            mine = inside[node]
            assert weight[mine].sum() >= 20.0
            share = np.bincount(label[mine], weight[mine], classes) / weight[mine].sum()
            np.testing.assert_allclose(tree.rates[node], share, rtol=1e-9)
            if first != node:
                above = codes[feature] > cut
                inside[first], inside[first + 1] = mine & ~above, mine & above
                gains[feature] += impurity(mine) - impurity(mine & above) - impurity(mine & ~above)
        assert len(inside) == len(tree.nodes) > 3
        np.testing.assert_allclose(tree.gains, gains, rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_forest_of_a_split_has_not_seen_the_rows_that_it_holds_out(classes: int) -> None:
    """With other labels for these rows its trees are the same, and those of other splits are not."""
    train = replace(shops(1500, classes, effect=3.0), weight=None)
    splits = in_turn(np.arange(1500) % 5, 5)
    label = np.where(splits[1].test, (train.labels + 1) % classes, train.labels)
    params = catalog.find("forest").resolve()
    one, other = (
        forest.choose(rows, NO_SIDE_INPUTS, params, 0, splits) for rows in (train, replace(train, label=label))
    )
    for name in ("nodes", "rate", "sizes"):
        np.testing.assert_array_equal(one.states[1].arrays[name], other.states[1].arrays[name])
    assert not np.array_equal(one.states[0].arrays["nodes"], other.states[0].arrays["nodes"])
    assert one.whole is not None
    assert len(one.states[1].arrays["sizes"]) == 0.4 * len(one.whole.arrays["sizes"])
    test = shops(100, classes, seed=1)
    for state in (one.whole, *one.states.values()):
        kept = State(state.params, {name: array.copy() for name, array in state.arrays.items()})
        found = forest.predict(state, test, NO_SIDE_INPUTS)
        np.testing.assert_array_equal(found, forest.predict(kept, test, NO_SIDE_INPUTS))


def test_a_forest_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "MOST_BYTES", 60_000)
    arrays = fitted(shops(effect=3.0)).state.arrays
    assert arrays["nodes"].nbytes + arrays["rate"].nbytes <= 60_000
    assert (arrays["sizes"] > 1).all()


def test_what_the_trees_go_by_is_told() -> None:
    train = shops()
    columns = {**train.features, "noise": Column("number", np.random.default_rng(2).normal(size=len(train)))}
    (section,) = fitted(Batch(train.score, train.label, None, columns)).explain(["0", "1"])
    assert [row[0] for row in section.rows][-1] in {"noise", "score"}
    assert sum(float(str(row[1])) for row in section.rows) == pytest.approx(100)
