"""Boosting from the scaled score: beside CatBoost told the same, where it must do nothing, and hard tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import catboost
import numpy as np
import pandas as pd
import pytest

from calcli.batch import NO_SIDE_INPUTS, Batch, Column
from calcli.methods import calibrator, catalog
from calcli.methods.boost import boost, correction, growing
from calcli.methods.calibrator import FittedMethod
from calcli.methods.trees.held_out_choice import distinct, held_out_splits
from calcli.numeric.links import logit, probabilities, scores, sigmoid
from calcli.numeric.seeded import Split, class_order, in_turn
from calcli.state import unnest
from tests.support import methods
from tests.support.cases import ordinary
from tests.support.methods import alone, log_loss, loss_of

ROW = catalog.find("boost")


fitted = partial(methods.fitted, "boost")


def shops(rows: int = 3000, classes: int = 2, seed: int = 0, *, effect: float = 1.0) -> Batch:
    """Scores that are wrong by a number, a category, and how high they are."""
    rng = np.random.default_rng(seed)
    number, place = rng.normal(size=rows), rng.integers(-1, 4, rows).astype(np.int32)
    z = rng.normal(0, 1.5, rows if classes == 2 else (rows, classes))
    first = z if classes == 2 else z[:, 0]
    wrong = effect * (np.sin(2 * number) + np.array([0.5, -0.7, 0.0, 0.9, -0.4])[place] * (first > 0))
    if classes == 2:
        label = (rng.random(rows) < sigmoid(z + wrong)).astype(np.int64)
    else:
        label = (z + np.outer(wrong, np.arange(classes)) + rng.gumbel(size=z.shape)).argmax(axis=1).astype(np.int64)
    columns = {"number": Column("number", number), "place": Column("category", place, ("a", "b", "c", "d"))}
    return Batch(2 * z, label, rng.integers(1, 4, rows).astype(float), columns)


@pytest.mark.parametrize("classes", [2, 3])
def test_it_learns_what_the_score_does_not_know(classes: int) -> None:
    train, test = shops(classes=classes), shops(classes=classes, seed=1)
    model = fitted(train, rate=0.3)
    assert model.state.params["rounds"] % 10 == 0
    assert loss_of(model, test) < 0.93 * loss_of(alone(train), test)
    np.testing.assert_array_equal(FittedMethod.from_state("boost", model.to_state()).predict(test), model.predict(test))


@pytest.mark.parametrize("rounds", ["auto", 60])
def test_of_very_many_features_trees_read_those_that_tell_the_most(rounds: str | int, monkeypatch) -> None:
    train, rng = replace(shops(), weight=None), np.random.default_rng(1)
    noise = {name: Column("number", rng.normal(size=len(train))) for name in ("m", "q", "x")}
    wide = replace(train, features={**noise, **train.features})
    monkeypatch.setattr(growing, "MOST_FEATURES", 2)
    model = fitted(wide, rounds=rounds, rate=0.3)
    others = {name: replace(column, values=-column.values) for name, column in noise.items()}
    np.testing.assert_array_equal(model.predict(replace(wide, features=wide.features | others)), model.predict(wide))
    assert loss_of(model, shops(seed=2)) < 0.95 * loss_of(alone(train), shops(seed=2))


@pytest.mark.parametrize("classes", [2, 3])
def test_features_that_say_nothing_leave_the_scaled_score(classes: int) -> None:
    train = shops(1500, classes, effect=0.0)
    model = fitted(train)
    assert model.state.params["rounds"] == 0
    assert not model.state.blobs
    np.testing.assert_allclose(model.predict(train), alone(train).predict(train), rtol=1e-8)
    np.testing.assert_array_equal(fitted(shops(), rounds=0).state.params["rounds"], 0)


def told_to_catboost(batch: Batch, start: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """What 30 trees add to a baseline, on numbers, which CatBoost treats the same in any order of the rows."""
    table = pd.DataFrame(np.column_stack([batch.features["number"].values, start]))
    theirs = catboost.CatBoost(
        {
            "iterations": 30,
            "depth": 3,
            "learning_rate": 0.1,
            "l2_leaf_reg": 5,
            "border_count": 64,
            "boosting_type": "Plain",
            "bootstrap_type": "No",
            "random_strength": 0,
            "random_seed": 0,
            "leaf_estimation_iterations": 5 if baseline.ndim == 1 else 1,
            "rsm": 1.0 if baseline.ndim == 1 else 0.5,
            "verbose": False,
            "allow_writing_files": False,
            "loss_function": "Logloss" if baseline.ndim == 1 else "MultiClass",
        }
    )
    theirs.fit(catboost.Pool(table, batch.labels, weight=batch.weight, baseline=baseline))
    return np.asarray(theirs.predict(table, prediction_type="RawFormulaVal"))


def numbers_only(batch: Batch) -> Batch:
    return Batch(batch.score, batch.label, batch.weight, {"number": batch.features["number"]})


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_catboost_with_a_baseline(classes: int) -> None:
    train = numbers_only(shops(classes=classes))
    start = scores(alone(train).predict(train))
    if classes == 2:
        raw = told_to_catboost(train, start, start)
    else:
        order = class_order(train.score, train.weight)
        in_order = replace(train, label=np.argsort(order)[train.labels])
        raw = told_to_catboost(in_order, start[:, order], start[:, order])[:, np.argsort(order)]
    found = fitted(train, rounds=30, depth=3, rate=0.1, l2=5).predict(train)
    np.testing.assert_allclose(found, probabilities(start + raw), rtol=1e-3)
    assert np.abs(logit(found) - (start if classes == 2 else logit(probabilities(start)))).max() > 0.3


@pytest.mark.parametrize("absent", [0, 1, 3])
def test_a_class_without_rows_keeps_its_probability_and_trees_are_those_of_the_others(absent: int) -> None:
    train = shops(classes=4)
    train = numbers_only(train.take(train.labels != absent))
    others = np.array([of for of in class_order(train.score, train.weight) if of != absent])
    start = alone(train).predict(train)
    ranked = replace(train, label=np.array([np.flatnonzero(others == label)[0] for label in train.labels]))
    raw = told_to_catboost(ranked, scores(start)[:, others], scores(start)[:, others])
    found = fitted(train, rounds=30, depth=3, rate=0.1, l2=5).predict(train)
    np.testing.assert_allclose(found[:, absent], start[:, absent], rtol=1e-9)
    among = found[:, others] / found[:, others].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(among, probabilities(scores(start)[:, others] + raw), rtol=1e-3)
    assert log_loss(found, train.labels) < 0.99 * log_loss(start, train.labels)


@pytest.mark.slow
def test_rounds_are_those_of_least_held_out_loss() -> None:
    """The loss of the folds, recomputed with models of just so many rounds."""
    train = distinct(shops(1200), 0)
    rounds = [0, 10, 50, 150, 300]
    losses = dict.fromkeys(rounds, 0.0)
    for split in held_out_splits(train):
        seen, unseen = train.take(split.train), train.take(split.test)
        for count in rounds:
            params = ROW.resolve({"rounds": count, "rate": 0.1})
            prob = boost.predict(boost.fit(seen, NO_SIDE_INPUTS, params, 0), unseen, NO_SIDE_INPUTS)
            losses[count] += float(-(unseen.weights * np.log(np.where(unseen.labels == 1, prob, 1 - prob))).sum())
    chosen = int(str(fitted(train, rate=0.1).settings["rounds"]))
    assert 0 < chosen < 300
    least = min(losses, key=losses.__getitem__)
    assert abs(rounds.index(least) - np.searchsorted(rounds, chosen)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_folds_are_kept_as_the_mean_of_their_log_odds(classes: int) -> None:
    """Beside models that are fitted on the rows of each fold alone, with the rounds that were chosen, or those that it
    had when it stopped early.
    """
    train, test = shops(1500, classes), shops(300, classes, seed=1)
    model = fitted(train)
    counts = [one.params["rounds"] for one in unnest(model.state, map(str, range(5))).values()]
    assert max(counts) == model.settings["rounds"]
    rows = distinct(train, 0)
    states = [
        boost.fit(rows.take(split.train), NO_SIDE_INPUTS, ROW.resolve({"rounds": count}), 0)
        for split, count in zip(held_out_splits(rows), counts, strict=True)
    ]
    mean = np.mean([scores(boost.predict(state, test, NO_SIDE_INPUTS)) for state in states], axis=0)
    assert len(states) == 5
    np.testing.assert_allclose(model.predict(test), probabilities(mean), rtol=1e-9)
    (section,) = model.explain([str(index) for index in range(classes)])
    assert sum(float(str(row[1])) for row in section.rows) == pytest.approx(100)
    one = fitted(train, bags=False)
    np.testing.assert_array_equal(one.predict(test), fitted(train, rounds=model.settings["rounds"]).predict(test))


def test_chosen_by_given_folds_each_is_judged_by_rounds_that_the_others_prefer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fitted again: the model of a split is a fit on its rows, and that of all rows is their mean.

    Of more rows than trees are grown on, both draw the same ones.
    """
    for name, value in (("MOST_ROWS", 1000), ("OF_LEVEL", 1), ("OF_CLASS", 1)):
        monkeypatch.setattr(growing, name, value)
    train = shops(1500)
    splits = in_turn(np.arange(len(train)) % 5, 5)
    found = boost.choose(train, NO_SIDE_INPUTS, ROW.resolve({"rate": 0.3}), 0, splits)
    assert found.whole is not None
    assert sorted(found.states) == [0, 1, 2, 3, 4]
    for place, state in found.states.items():
        params = ROW.resolve({"rounds": state.params["rounds"], "rate": 0.3})
        alone_fitted = boost.fit(train.take(splits[place].train), NO_SIDE_INPUTS, params, 0)
        expected = boost.predict(alone_fitted, train, NO_SIDE_INPUTS)
        np.testing.assert_allclose(boost.predict(state, train, NO_SIDE_INPUTS), expected, rtol=1e-9)
    each = [
        scores(boost.predict(part, train, NO_SIDE_INPUTS)) for part in unnest(found.whole, map(str, range(5))).values()
    ]
    np.testing.assert_allclose(
        boost.predict(found.whole, train, NO_SIDE_INPUTS), probabilities(np.mean(each, axis=0)), rtol=1e-9
    )
    forward = [Split(np.arange(1500) < 300 * index, np.arange(1500) // 300 == index) for index in range(1, 5)]
    assert boost.choose(train, NO_SIDE_INPUTS, ROW.resolve(), 0, forward).whole is None


def test_a_fold_of_no_weight_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    train, fold = shops(400), np.arange(400) % 5
    train = replace(train, weight=np.where(fold == 0, 0.0, train.weights))
    params, known = ROW.resolve({"rate": 0.3}), np.flatnonzero(fold)
    found = boost.choose(train, NO_SIDE_INPUTS, params, 0, in_turn(fold, 5))
    others = boost.choose(train.take(known), NO_SIDE_INPUTS, params, 0, in_turn(fold[known], 5))
    assert found.settings == others.settings
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("classes", [2, 3])
def test_a_model_of_few_rounds_is_the_beginning_of_one_of_many(classes: int) -> None:
    """Else the number of rounds would be chosen for other trees than those that are grown."""
    train = distinct(shops(600, classes), 0)
    course = growing.Course.of(ROW.resolve(), train)
    boosting, start = growing.Boosting.of(ROW.resolve(), course, train, 0), alone(train)
    few, many = (boosting.train(train, start, rounds) for rounds in (20, 260))
    assert few is not None
    assert many is not None
    order = boosting.of_labels(train)
    data = correction.pool(train, start, order)
    expected, found = (model.predict(data, prediction_type="RawFormulaVal", ntree_end=20) for model in (few, many))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_the_number_of_threads_changes_no_prediction(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    train = shops(1000)
    expected = fitted(train, rounds=40).predict(train)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    np.testing.assert_array_equal(fitted(train, rounds=40).predict(train), expected)


def test_levels_are_known_by_name_and_unseen_ones_are_alike() -> None:
    train = shops()
    model = fitted(train, rounds=60)

    def at(code: int, levels: tuple[str, ...]) -> np.ndarray:
        columns = {"number": Column("number", np.zeros(5)), "place": Column("category", np.full(5, code), levels)}
        return model.predict(Batch(np.linspace(-2, 2, 5), None, None, columns))

    np.testing.assert_array_equal(at(0, ("d", "a")), at(3, ("a", "b", "c", "d")))
    np.testing.assert_array_equal(at(0, ("unheard of",)), at(1, ("b", "never")))
    assert not np.array_equal(at(0, ("a",)), at(-1, ("a",)))


def test_a_feature_may_be_named_as_the_score_is() -> None:
    train = shops(500)
    columns = {"calibrated score": train.features["number"], "calibrated score_": train.features["place"]}
    rows = Batch(train.score, train.label, None, columns)
    names = [row[0] for row in fitted(rows, rounds=20).explain(["0", "1"])[0].rows]
    assert len(set(names)) == 3
    assert set(columns) < set(names)


def test_what_the_trees_go_by_is_told() -> None:
    train = shops(effect=2.0)
    columns = {**train.features, "noise": Column("number", np.random.default_rng(2).normal(size=len(train)))}
    model = fitted(Batch(train.score, train.label, None, columns), rounds=60)
    (section,) = model.explain(["0", "1"])
    assert [row[0] for row in section.rows][-1] == "noise"
    assert sum(float(str(row[1])) for row in section.rows) == pytest.approx(100)
    (nothing,) = fitted(train, rounds=0).explain(["0", "1"])
    assert "No trees" in nothing.note


@pytest.mark.parametrize("rounds", ["auto", 20])
def test_nothing_at_all_to_learn_from(rounds: object) -> None:
    rows = Batch(np.full(300, 0.3), np.arange(300) % 2, None, {"constant": Column("number", np.full(300, 3.0))})
    model = fitted(rows, rounds=rounds)
    assert model.state.params["rounds"] == 0
    np.testing.assert_allclose(model.predict(rows), 0.5)


@pytest.mark.slow
def test_seventy_thousand_categories() -> None:
    batch = ordinary(70_000)
    column = Column("category", np.arange(70_000, dtype=np.int32), tuple(f"level {i}" for i in range(70_000)))
    rows = Batch(batch.score, batch.label, None, {"id": column})
    assert loss_of(fitted(rows, rounds=10), rows) < 1.01 * loss_of(alone(rows), rows)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    fitted(shops(500), rounds=20).predict(shops(500))
    fitted(shops(500))
    assert capfd.readouterr() == ("", "")


def test_of_very_many_rows_the_heaviest_and_the_first_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = distinct(replace(shops(), weight=None), 0)
    rows = replace(rows, weight=np.where(np.arange(len(rows)) % 100 == 99, 50.0, rows.weights))
    assert growing.drawn(rows) is rows
    monkeypatch.setattr(growing, "MOST_ROWS", 1000)
    assert growing.drawn(rows) is rows  # of four levels some may be rare
    monkeypatch.setattr(growing, "OF_LEVEL", 100)
    assert growing.drawn(rows) is rows  # few of the thousand would be of one label
    monkeypatch.setattr(growing, "OF_CLASS", 700)
    rarer = np.bincount(rows.labels).min()
    assert len(growing.drawn(rows)) == np.ceil(700 * len(rows) / rarer) > 1000
    monkeypatch.setattr(growing, "OF_CLASS", 400)
    drawn = growing.drawn(rows)
    assert len(drawn) == 1000
    assert drawn.weights.sum() == pytest.approx(rows.weights.sum())
    np.testing.assert_array_equal(drawn.score[drawn.weights == 50.0], rows.score[rows.weights == 50.0])
    np.testing.assert_array_equal(drawn.score[:99], rows.score[:99])
    light = drawn.weights[drawn.weights < 50.0]
    np.testing.assert_allclose(light, (len(rows) - 30) / 970, rtol=1e-12)
    assert loss_of(fitted(shops()), shops(seed=1)) < 0.95 * loss_of(alone(shops()), shops(seed=1))


def test_of_many_rows_a_part_is_fitted_at_the_rate_of_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the rounds would be chosen for longer steps than those of the trees that are grown."""
    monkeypatch.setattr(growing, "FEW", 900)
    monkeypatch.setattr("calcli.methods.trees.held_out_choice.CROSS_VALIDATED_ROWS", 500)
    train = shops(1000)
    (split,) = in_turn(np.arange(1000) % 5, 1)
    settled = calibrator.settle(ROW, train, ROW.resolve(), [split], seed=0)
    assert 0 < settled.params["rounds"] <= 300
    assert settled.params["rate"] == 0.1
    for known, rows in ((settled.of_splits[0], train.take(split.train)), (settled.fitted, train)):
        given = ROW.resolve({"rounds": settled.params["rounds"], "rate": 0.1})
        alone_fitted = calibrator.fit(ROW, rows, given, seed=0)
        np.testing.assert_allclose(known.predict(train), alone_fitted.predict(train), rtol=1e-9)
