"""What every method of the catalog promises. A new catalog row inherits the whole suite."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from calcli.artifacts import store
from calcli.batch import Batch, Column, SamplingUnits
from calcli.errors import CalcliError
from calcli.methods import calibrator, catalog, start
from calcli.methods.calibrator import FittedMethod
from calcli.methods.one_vs_rest import bound_method
from calcli.methods.spec import MethodSpec
from calcli.models.held_out import Holdout, predict_held_out, split_rows
from calcli.numeric.links import probabilities, scores, sigmoid
from tests.support.artifacts import draft
from tests.support.cases import HARD, RARE, class_with_one_row, every_method, ordinary, wrong_by_feature

EACH = pytest.mark.parametrize("row", every_method())
EACH_WAY = pytest.mark.parametrize(
    ("row", "classes"),
    [
        pytest.param(
            spec,
            classes,
            # Of those that are fitted for each class two show by default that this is so whatever the method.
            marks=[*marks, *[pytest.mark.slow] * (spec.one_vs_rest(classes) and name not in ("platt", "isotonic"))],
            id=f"{name}-{classes}",
        )
        for (spec,), marks, name in every_method()
        for classes in (2, 4)
    ],
)


def fitted(row: MethodSpec, batch: Batch, seed: int = 0) -> FittedMethod:
    return calibrator.fit(row, batch, row.resolve(), seed=seed)


@cache
def fitted_on_ordinary(row: MethodSpec, classes: int, weighted: bool = False) -> FittedMethod:
    """One fit for all tests that only look at what it predicts."""
    return fitted(row, ordinary(classes=classes, weighted=weighted))


def assert_probabilities(prob: np.ndarray, batch: Batch) -> None:
    assert prob.dtype == np.float64
    assert prob.shape == batch.score.shape
    assert np.isfinite(prob).all()
    assert (prob > 0).all()
    assert (prob < 1).all()
    if prob.ndim == 2:
        np.testing.assert_allclose(prob.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@EACH_WAY
@pytest.mark.parametrize("weighted", [False, True])
def test_outputs_are_probabilities(row: MethodSpec, classes: int, weighted: bool) -> None:
    batch = ordinary(classes=classes, weighted=weighted)
    assert_probabilities(fitted_on_ordinary(row, classes, weighted).predict(batch), batch)


@EACH_WAY
@pytest.mark.parametrize("case", HARD.values(), ids=HARD)
def test_hard_rows_give_a_result_or_a_named_error(row: MethodSpec, classes: int, case) -> None:
    batch = case(classes)
    try:
        model = fitted(row, batch)
    except CalcliError:
        return  # named
    assert_probabilities(model.predict(batch), batch)
    other = ordinary(50, classes, seed=9)
    assert_probabilities(model.predict(other), other)


@EACH_WAY
@pytest.mark.parametrize("case", RARE.values(), ids=RARE)
def test_a_class_with_few_rows_or_none_is_no_error(row: MethodSpec, classes: int, case) -> None:
    batch = case(classes)
    model = fitted(row, batch)
    for rows in (batch, ordinary(50, classes, seed=9)):
        assert_probabilities(model.predict(rows), rows)


@EACH_WAY
def test_a_class_that_a_fold_lacks_is_no_error(row: MethodSpec, classes: int) -> None:
    batch = class_with_one_row(classes)
    splits = split_rows(len(batch), Holdout("cv", 2), seed=0)
    held_out, _ = predict_held_out(row, batch, row.resolve(), splits, seed=0, done=lambda: None)
    assert_probabilities(held_out.prob, batch)


@EACH_WAY
def test_chunks_predict_what_the_whole_predicts(row: MethodSpec, classes: int) -> None:
    batch = ordinary(classes=classes)
    model = fitted_on_ordinary(row, classes)
    chunks = [model.predict(batch.take(slice(start, start + 97))) for start in range(0, len(batch), 97)]
    np.testing.assert_array_equal(np.concatenate(chunks), model.predict(batch))


@EACH_WAY
def test_permuting_rows_permutes_the_output(row: MethodSpec, classes: int) -> None:
    batch = ordinary(classes=classes)
    model = fitted_on_ordinary(row, classes)
    shuffled = np.random.default_rng(3).permutation(len(batch))
    np.testing.assert_array_equal(model.predict(batch.take(shuffled)), model.predict(batch)[shuffled])


@EACH_WAY
def test_neither_the_order_of_calibration_rows_matters_nor_that_of_columns(row: MethodSpec, classes: int) -> None:
    batch = ordinary(classes=classes, weighted=True)
    moved = batch.take(np.random.default_rng(3).permutation(len(batch)))
    moved = replace(moved, features=dict(reversed(moved.features.items())))
    one, other = fitted_on_ordinary(row, classes, weighted=True), fitted(row, moved)
    np.testing.assert_allclose(other.predict(batch), one.predict(batch), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    "row", [spec for (spec,), _, _ in every_method() if spec.needs_features], ids=lambda row: row.name
)
def test_the_order_of_columns_does_not_matter_where_they_tell(row: MethodSpec) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=(6, 900))
    score = rng.normal(size=900)
    label = rng.random(900) < sigmoid(score + values[:3].sum(axis=0) + values[3] * values[4])
    columns = {name: Column("number", one) for name, one in zip("fadcbe", values, strict=True)}
    batch = Batch(score, label.astype(np.int64), features=columns)
    moved = replace(batch, features=dict(reversed(columns.items())))
    np.testing.assert_array_equal(fitted(row, moved).predict(batch), fitted(row, batch).predict(batch))


@EACH_WAY
def test_predictions_need_no_labels_and_change_no_input(row: MethodSpec, classes: int) -> None:
    batch = ordinary(classes=classes)
    model = fitted_on_ordinary(row, classes)
    bare = Batch(batch.score.copy(), features=batch.features)
    np.testing.assert_array_equal(model.predict(bare), model.predict(batch))
    np.testing.assert_array_equal(bare.score, batch.score)


def drawn() -> tuple[object, ...]:
    """The states of the generators of Python and numpy."""
    kind, key, *rest = np.random.get_state()
    return random.getstate(), kind, key.tobytes(), *rest


@EACH_WAY
def test_a_fit_changes_no_input_and_no_state_of_chance(row: MethodSpec, classes: int) -> None:
    """Arrays that polars lends cannot be written to; the generators of the process are those of whoever seeded them."""
    batch = ordinary(160, classes, weighted=True)
    batch = batch.take(batch.weights > 0)
    for array in (batch.score, batch.labels, batch.weights, *(column.values for column in batch.features.values())):
        array.flags.writeable = False
    given = {"trees": 2, "depth": 2, "min_rows": 10} if row.name == "mbct" else {}  # else it chooses, on copies
    before = drawn()
    calibrator.fit(row, batch, row.resolve(given)).predict(batch)
    assert drawn() == before


@EACH_WAY
def test_the_same_seed_gives_the_same_bytes_on_disk_and_back(row: MethodSpec, classes: int, tmp_path: Path) -> None:
    batch = ordinary(classes=classes)
    models = {place: fitted(row, batch, seed=5) for place in ("one", "other")}
    names = []
    for place, model in models.items():
        written = store.write(tmp_path / place, draft(), {"state": model.to_state()})
        names.append([payload.name for payload in written.payloads])
    assert names[0] == names[1]
    back = FittedMethod.from_state(row.name, store.read(tmp_path / "one").states["state"])
    np.testing.assert_array_equal(back.predict(batch), models["other"].predict(batch))


@EACH
def test_the_promised_order_holds(row: MethodSpec) -> None:
    batch = ordinary(2000)
    model = fitted(row, batch)
    grid = Batch(np.linspace(-40, 40, 4001), features=ordinary(4001).features)
    steps = np.diff(model.predict(grid))
    if row.order == "kept":
        assert (steps >= 0).all()
    elif row.order == "kept or reversed":
        assert (steps >= 0).all() or (steps <= 0).all()


@EACH
def test_the_promised_top_class_holds(row: MethodSpec) -> None:
    if not row.keeps_top_class:
        pytest.skip("promises no top class")
    batch = ordinary(2000, 4)
    np.testing.assert_array_equal(fitted(row, batch).predict(batch).argmax(axis=1), batch.score.argmax(axis=1))


@EACH_WAY
def test_sums_of_chunks_are_the_sums_of_the_whole(row: MethodSpec, classes: int) -> None:
    if row.load_sums(classes) is None:
        pytest.skip("is not fitted from sums")
    batch, params = ordinary(1000, classes, weighted=True), row.resolve()
    chunks = [calibrator.gather(row, batch.take(slice(start, start + 130)), params) for start in range(0, 1000, 130)]
    model = calibrator.finish(row, sum(chunks[1:], start=chunks[0]), params, classes=classes)
    whole = calibrator.fit(row, batch, params)
    assert model.rows == whole.rows
    np.testing.assert_allclose(model.predict(batch), whole.predict(batch), rtol=1e-11, atol=1e-15)


@EACH_WAY
def test_a_weight_of_two_is_the_row_twice(row: MethodSpec, classes: int) -> None:
    """The law of weights; the mix, which counts rows, is left out by comparing the method itself."""
    if not row.weights:
        pytest.skip("takes no weights")
    if row.family == "graphs":
        pytest.skip("weighs rows in its loss; in its graph a row is a row")
    given = {"binning": "width"} if any(param.name == "binning" for param in row.params) else {}
    params = row.resolve(given)
    batch = ordinary(400, classes, weighted=True)
    repeated = batch.take(np.repeat(np.arange(400), batch.weights.astype(int)))
    plain = Batch(repeated.score, repeated.label, None, repeated.features)
    method = bound_method(row, classes)
    outputs = []
    for rows in (batch, plain):
        state = calibrator.fit(row, rows, params).state
        outputs.append(method.predict(state, batch, calibrator.NO_SIDE_INPUTS))
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-9, atol=1e-12)


@EACH
@pytest.mark.parametrize("quarters", [4, 1])
def test_a_soft_label_is_the_rows_that_its_share_is_of(row: MethodSpec, quarters: int) -> None:
    """Of each row two halves that are a unit: those of labels 0 and 1 are the row, of quarters they are four rows."""
    if not row.weights or row.family == "graphs":
        pytest.skip("takes no weights, or weighs rows in its loss; in its graph a row is a row")
    if quarters == 1 and row.name in ("ccl", "pool"):
        pytest.skip("the number of rows decides which numbers of clusters, or bins of equal mass, are tried")
    given = {"binning": "width"} if any(param.name == "binning" for param in row.params) else {}
    batch, params = ordinary(200), row.resolve(given)
    share = batch.labels * 4 if quarters == 4 else np.random.default_rng(1).integers(0, 5, 200)
    ones = (np.arange(4) < share[:, None]).astype(np.int64)[:, ::quarters].ravel()
    hard = replace(batch.take(np.repeat(np.arange(200), 4 // quarters)), label=ones)
    soft = replace(batch.take(np.repeat(np.arange(200), 2)), label=np.tile([1, 0], 200))
    soft = replace(soft, weight=np.column_stack([share, 4 - share]).ravel() / quarters)
    method, outputs = bound_method(row, 2), []
    for rows, each in ((soft, 2), (hard, 4 // quarters)):
        state = calibrator.fit(row, replace(rows, units=SamplingUnits(np.arange(len(rows)) // each)), params).state
        outputs.append(method.predict(state, batch, calibrator.NO_SIDE_INPUTS))
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-9, atol=1e-12)


@EACH
def test_a_score_that_only_ranks_has_a_start(row: MethodSpec) -> None:
    """The method works on the log-odds of the curve as on any; without a method there is the base rate."""
    batch = ordinary(160)
    ranks = replace(batch, score=np.exp(batch.score), ranks=True)
    model = fitted(row, ranks)
    assert model.start is not None
    started = start.apply(model.start, ranks)
    np.testing.assert_array_equal(model.predict(ranks), fitted(row, started).predict(started))
    kept = FittedMethod.from_state(row.name, model.to_state(), model.sides)
    np.testing.assert_array_equal(kept.predict(ranks), model.predict(ranks))
    if row.name == "identity":
        np.testing.assert_allclose(model.predict(ranks), batch.labels.mean(), rtol=1e-12)
    elif row.order == "kept":
        assert np.corrcoef(started.score.argsort().argsort(), batch.score.argsort().argsort())[0, 1] > 0.999


def written(batch: Batch) -> tuple[Batch, Batch]:
    """Rows with their scores given as p, and with the other class as the positive one, given as 1 - p."""
    prob = probabilities(batch.score)
    one, other = (replace(batch, score=scores(each)) for each in (prob, 1 - prob))
    return one, replace(other, label=1 - batch.labels)


def renamed(batch: Batch, order: np.ndarray) -> Batch:
    """The same rows with the classes in another order, and scores that another library might have computed."""
    rng = np.random.default_rng(5)
    score = batch.score[:, order] * (1 + rng.choice([-1e-15, 0, 1e-15], batch.score.shape))
    score += rng.normal(size=(len(score), 1))  # no probability changes
    return replace(batch, score=score, label=np.argsort(order)[batch.labels])


@EACH_WAY
def test_neither_which_class_is_which_matters_nor_the_last_digits(row: MethodSpec, classes: int) -> None:
    train, test = wrong_by_feature(600, classes), wrong_by_feature(100, classes, seed=1)
    if row.name == "recal" and classes == 2:
        pytest.skip("its network starts from random numbers, others for each class")
    if classes == 2:
        (train, train_other), (test, test_other) = written(train), written(test)
        other = 1 - fitted(row, train_other).predict(test_other)
    else:
        order = np.arange(4) if row.name == "recal" else np.array([2, 0, 3, 1])
        other = fitted(row, renamed(train, order)).predict(renamed(test, order))[:, np.argsort(order)]
    np.testing.assert_allclose(other, fitted(row, train).predict(test), rtol=0, atol=1e-6)


def in_few_steps(batch: Batch) -> Batch:
    """The rows with probabilities of two decimals, all of which occur; of more classes the shares of eight votes."""
    prob = probabilities(batch.score)
    if batch.classes == 2:
        prob = np.round(prob, 2).clip(0.01, 0.99)
        prob[:99] = np.arange(1, 100) / 100
        return replace(batch, score=scores(prob))
    votes = np.random.default_rng(6).multinomial(8, prob / prob.sum(axis=1, keepdims=True))
    return replace(batch, score=np.log((votes + 0.5) / (8 + 0.5 * batch.classes)))


@EACH_WAY
def test_nor_where_classes_take_the_same_scores(row: MethodSpec, classes: int) -> None:
    train, order = in_few_steps(wrong_by_feature(600, classes)), np.array([2, 0, 3, 1])
    if row.name in ("recal", "histogram") and classes == 2:
        pytest.skip("recal as above; the bins of histogram hold their upper edge, where many rows may lie")
    if row.name == "recal":
        order = np.arange(4)
    if classes == 2:
        train, turned = written(train)
        other = 1 - fitted(row, turned).predict(turned)
    else:
        turned = replace(train, score=train.score[:, order], label=np.argsort(order)[train.labels])
        other = fitted(row, turned).predict(turned)[:, np.argsort(order)]
    np.testing.assert_allclose(other, fitted(row, train).predict(train), rtol=0, atol=1e-6)


@EACH
def test_it_helps_where_the_scores_are_over_confident(row: MethodSpec) -> None:
    """Rows from the same source: everything but the identity must lower the log-loss of scores that shout."""
    train, test = ordinary(8000, seed=1), ordinary(8000, seed=2)
    prob = fitted(row, train).predict(test)

    def loss(p: np.ndarray) -> float:
        return float(-np.log(np.where(test.labels == 1, p, 1 - p)).mean())

    raw = loss(np.clip(probabilities(test.score), 1e-12, 1 - 1e-12))
    if row.name == "identity":
        assert loss(prob) == pytest.approx(raw, rel=1e-9)
    else:
        assert loss(prob) < 0.9 * raw


@pytest.mark.parametrize("row", [*map(catalog.find, ("boost", "heterogeneous"))])  # others: their own tests
@pytest.mark.parametrize(("classes", "rows", "weighted"), [(2, 900, True), (3, 600, False)])
def test_calibrators_that_a_choice_has_fitted_are_those_of_a_fit(
    row: MethodSpec, classes: int, rows: int, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With some rows without weight, and with units."""
    monkeypatch.setattr("calcli.methods.trees.held_out_choice.CROSS_VALIDATED_ROWS", 500)
    batch, each = wrong_by_feature(rows, classes), np.arange(rows)
    batch = replace(batch, weight=each % 3.0) if weighted else replace(batch, units=SamplingUnits(each // 3))
    splits = [*split_rows(rows, Holdout("cv", folds=3), 3, batch.units)]
    # The calibrators of a bag's splits are its models: one model is what a choice and a fit have in common.
    params = row.resolve({"bags": "false"} if row.name == "boost" else {})
    settled = calibrator.settle(row, batch, params, splits, seed=1)
    assert settled.params != params
    assert [*settled.of_splits] == [2]
    for known, part in ((settled.of_splits[2], batch.take(splits[2].train)), (settled.fitted, batch)):
        alone = calibrator.fit(row, part, settled.params, seed=1)
        assert known.rows == alone.rows
        np.testing.assert_array_equal(known.predict(batch), alone.predict(batch))


def test_no_name_stands_twice_in_the_catalog() -> None:
    assert len(set(catalog.names())) == len(catalog.specs())


@EACH
def test_a_row_names_its_method_and_its_test(row: MethodSpec) -> None:
    assert re.split("[.:]", row.target)[-1].lower() == row.name.replace("-", "")
    assert callable(row.load().fit)
    module = row.target.partition(":")[0].rpartition(".")[2]
    assert len(list(Path(__file__).parent.rglob(f"test_{module}.py"))) == 1
