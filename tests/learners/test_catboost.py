"""CatBoost's files depend on the fit alone, and predict what they predicted.

The stand-in repeats the score, and has never seen a label.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from calcli.artifacts import store
from calcli.batch import Batch, Column
from calcli.learners.catboost import most_important, normalise_cbm, pool, surrogate, to_bytes, train
from calcli.numeric.links import log_softmax
from calcli.numeric.seeded import class_order, ordered
from calcli.state import State
from tests.support.artifacts import draft
from tests.support.cases import features, ordinary
from tests.support.shell import ROOT

catboost = pytest.importorskip("catboost")

X = np.random.default_rng(0).normal(size=(300, 3))
CATEGORIES = np.random.default_rng(1).choice(["a", "b", "c"], 300)
TABLE = [[*row, category] for row, category in zip(X.tolist(), CATEGORIES.tolist(), strict=True)]


def fit(path, *, thread_count=1, **params):
    model = catboost.CatBoostClassifier(
        iterations=5, depth=2, random_seed=1, thread_count=thread_count, verbose=0, allow_writing_files=False, **params
    )
    model.fit(TABLE, (X[:, 0] + (CATEGORIES == "a") > 0.5).astype(int), cat_features=[3])
    model.save_model(str(path))
    return Path(path).read_bytes()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    return fit(directory / "a.cbm"), fit(directory / "b.cbm")


def test_two_fits_have_the_same_bytes(models):
    one, other = models
    assert one != other, "CatBoost no longer stamps its files: this module has done its work"
    assert normalise_cbm(one) == normalise_cbm(other)
    assert normalise_cbm(normalise_cbm(one)) == normalise_cbm(one)


@pytest.mark.slow  # of models of an ensemble `tests/verbs/test_uncertainty_fit.py` says so too
def test_another_process_gives_the_same_bytes(models, tmp_path):
    code = f"from tests.learners.test_catboost import fit; fit({str(tmp_path / 'c.cbm')!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert normalise_cbm((tmp_path / "c.cbm").read_bytes()) == normalise_cbm(models[0])


def test_the_number_of_threads_leaves_no_mark(models, tmp_path):
    two = fit(tmp_path / "two.cbm", thread_count=2)
    assert two != models[0]
    assert normalise_cbm(two) == normalise_cbm(models[0])


@pytest.mark.parametrize("params", [{}, {"posterior_sampling": True}, {"loss_function": "MultiClass"}])
def test_predictions_and_other_metadata_are_untouched(params, tmp_path):
    before = catboost.CatBoost().load_model(blob=fit(tmp_path / "a.cbm", **params))
    after = catboost.CatBoost().load_model(blob=normalise_cbm((tmp_path / "a.cbm").read_bytes()))
    assert np.array_equal(before.predict(TABLE), after.predict(TABLE))
    expected = dict(before.get_metadata().items()) | {"model_guid": "", "train_finish_time": ""}
    assert dict(after.get_metadata().items()) == expected


def test_the_store_does_it_to_what_calcli_trained_and_not_to_what_users_hand_in(models, tmp_path):
    side = {"role": "model", "name": "theirs.cbm", "sha256": "0" * 64}
    for number, model in enumerate(models):
        states = {"state": State(blobs={"ours.cbm": model}), "model": State(blobs={"theirs.cbm": models[0]})}
        store.write(tmp_path / str(number), draft(sides=(side,)), states)
        kept = store.read(tmp_path / str(number)).states
        assert kept["state"].blobs["ours.cbm"] == normalise_cbm(model)
        assert kept["model"].blobs["theirs.cbm"] == models[0]
    names = [{path.name for path in (tmp_path / str(number)).iterdir()} for number in (0, 1)]
    assert names[0] == names[1]


@pytest.mark.parametrize("classes", [(0, 1), (0, 2), (0, 2, 3)])
def test_the_most_important_feature_is_the_one_that_tells_the_classes_apart(classes):
    label = np.digitize(X[:, 1], np.linspace(-1, 1, len(classes) - 1) if len(classes) > 2 else [0.0])
    columns = {name: Column("number", values) for name, values in zip("abc", X.T, strict=True)}
    assert most_important(columns, np.array(classes)[label], None, count=1, seed=0) == ("b",)


def test_of_very_many_features_those_are_ranked_that_tell_the_most_by_themselves(monkeypatch):
    label = (X[:, 1] + X[:, 2] > 0).astype(np.int64)
    columns = {name: Column("number", values) for name, values in zip("abc", X.T, strict=True)}
    ranked = []

    def counted(features, *rest):
        ranked.append(list(features))
        return pool(features, *rest)

    monkeypatch.setattr("calcli.learners.catboost.pool", counted)
    monkeypatch.setattr("calcli.learners.catboost._MANY", 2)
    assert most_important(columns, label, None, count=1, seed=0)[0] in ("b", "c")
    assert [sorted(names) for names in ranked] == [["b", "c"]]


@pytest.mark.parametrize("alike", ["label", "weighted label", "features"])
def test_where_none_can_tell_anything_the_first_features_are_the_most_important(alike):
    numbers = np.zeros_like(X) if alike == "features" else X
    values = {name: Column("number", column) for name, column in zip("abc", numbers.T, strict=True)}
    label = np.zeros(300, dtype=np.int64) if alike == "label" else (X[:, 1] > 0).astype(np.int64)
    weight = (label == 1).astype(float) if alike == "weighted label" else None
    assert most_important(values, label, weight, count=2, seed=0) == ("a", "b")


@pytest.mark.parametrize(("rarer", "drawn"), [(0.3, 5000), (0.08, 6250), (0.02, 10_000)])
def test_which_features_are_important_is_told_by_a_sample_with_enough_rows_of_each_class(rarer, drawn, monkeypatch):
    rng, label = np.random.default_rng(0), (np.arange(10_000) < rarer * 10_000).astype(np.int64)
    columns = {name: Column("number", rng.normal(size=10_000)) for name in "abc"}
    columns["b"] = Column("number", columns["b"].values + label)
    seen = []

    def counted(data, params, *, seed):
        seen.append(data.num_row())
        return train(data, params, seed=seed)

    monkeypatch.setattr("calcli.learners.catboost.train", counted)
    monkeypatch.setattr("calcli.learners.catboost._RANKED_ROWS", 5000)
    monkeypatch.setattr("calcli.learners.catboost._RANKED_OF_CLASS", 500)
    assert most_important(columns, label, None, count=1, seed=0) == ("b",)
    assert seen == [drawn]


def test_what_catboost_says_is_logged_and_not_shown(capfd, monkeypatch):
    """Three classes promised and two there: it warns, on its own stream, each time."""
    data = pool({"a": Column("number", X[:, 0])}, (X[:, 1] > 0).astype(np.int64))
    logger, said = logging.getLogger("calcli"), StringIO()
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(said)])
    monkeypatch.setattr(logger, "propagate", False)
    logger.setLevel(logging.DEBUG)
    for _ in range(20):
        train(data, {"loss_function": "MultiClass", "classes_count": 3, "iterations": 1}, seed=0)
    logger.setLevel(logging.NOTSET)
    assert said.getvalue().count("Found only 2 unique classes") == 20
    assert capfd.readouterr() == ("", "")


def scored(rows: int = 2000, classes: int = 2, seed: int = 0) -> Batch:
    """Scores that follow from the features."""
    rng = np.random.default_rng(seed)
    columns = features(rows, rng)
    number = np.nan_to_num(columns["number"].values, nan=-1.0)
    z = 2 * number + columns["flag"].values - (columns["place"].values == 1)
    score = z if classes == 2 else np.column_stack([z, -z, np.zeros(rows)])
    return Batch(score, rng.integers(0, classes, rows), None, columns)


@pytest.mark.parametrize("classes", [2, 3])
def test_it_repeats_the_score(classes: int) -> None:
    train, test = scored(classes=classes), scored(500, classes, seed=1)
    said = surrogate(train, 0).predict(pool(test.features))
    expected = test.score
    if classes > 2:
        log_prob = np.maximum(log_softmax(test.score), -10)
        expected = log_prob - log_prob.mean(axis=1, keepdims=True)
    expected = ordered(expected, class_order(train.score, train.weight))
    assert np.square(said - expected).mean() < 0.05 * expected.var()


def test_it_has_not_seen_the_labels() -> None:
    batch = scored()
    other = replace(batch, label=1 - batch.labels)
    assert to_bytes(surrogate(batch, 0)) == to_bytes(surrogate(other, 0))


def test_neither_order_nor_copies_matter() -> None:
    batch = ordinary(300, weighted=True)
    rng = np.random.default_rng(0)
    copied = batch.take(np.repeat(np.arange(300), batch.weight.astype(int)))
    copied = replace(copied, weight=None).take(rng.permutation(len(copied)))
    held = batch.take(batch.weight > 0)
    assert to_bytes(surrogate(held, 0)) == to_bytes(surrogate(copied, 0))


def test_where_nothing_differs_there_is_none() -> None:
    batch = scored()
    assert surrogate(replace(batch, score=np.ones(len(batch))), 0) is None
    same = {
        "x": Column("number", np.full(len(batch), np.nan)),
        "c": Column("category", np.zeros(2000, np.int32), ("a",)),
    }
    assert surrogate(replace(batch, features=same), 0) is None
