"""Models that other libraries wrote, beside what these libraries and SHAP's own explainer say of them."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

from calcli.batch import Column
from calcli.errors import DataError, MissingExtraError
from calcli.learners.tree_models import CatBoostTrees, read_model
from calcli.methods import calibrator, catalog
from calcli.methods.calibrator import FittedMethod
from tests.support.cases import ordinary

catboost = pytest.importorskip("catboost")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
THREE = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
NAMES = ("a", "b", "c", "d")
FEATURES = {name: Column("number", X[:, place]) for place, name in reversed(list(enumerate(NAMES)))}


def of_catboost(label: np.ndarray, names: tuple[str, ...] | None = NAMES):
    model = catboost.CatBoostClassifier(iterations=8, depth=3, verbose=0, allow_writing_files=False, thread_count=1)
    model.fit(catboost.Pool(X, label, feature_names=None if names is None else list(names)))
    return model


def of_lightgbm(label: np.ndarray, names: tuple[str, ...] = NAMES):
    lightgbm = pytest.importorskip("lightgbm")
    classes = len(set(label.tolist()))
    more = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
    data = lightgbm.Dataset(X, label, feature_name=list(names))
    return lightgbm.train({"num_leaves": 6, "verbose": -1, "num_threads": 1, **more}, data, 5)


def of_xgboost(label: np.ndarray, names: tuple[str, ...] | None = NAMES):
    xgboost = pytest.importorskip("xgboost")
    classes = len(set(label.tolist()))
    more = {"objective": "binary:logistic"} if classes == 2 else {"objective": "multi:softprob", "num_class": classes}
    data = xgboost.DMatrix(X, label, feature_names=None if names is None else list(names))
    return xgboost.train({"max_depth": 3, "nthread": 1, **more}, data, 5)


def saved(model, tmp_path, suffix: str) -> bytes:
    path = tmp_path / f"model.{suffix}"
    model.save_model(str(path))
    return path.read_bytes()


MAKERS = {"cbm": of_catboost, "txt": of_lightgbm, "json": of_xgboost, "ubj": of_xgboost}
EACH = pytest.mark.parametrize("suffix", list(MAKERS))


@EACH
@pytest.mark.parametrize("label", [Y, THREE], ids=["two", "three"])
@pytest.mark.filterwarnings("ignore")  # of shap itself
def test_shap_values_are_those_of_shaps_explainer(suffix, label, tmp_path):
    """For CatBoost and XGBoost it delegates to the library, or repeats it; the sum to the output does not."""
    shap = pytest.importorskip("shap")
    model = MAKERS[suffix](label)
    found = read_model(saved(model, tmp_path, suffix)).shap(FEATURES)
    expected = np.asarray(shap.TreeExplainer(model).shap_values(X))
    if expected.ndim == 3:
        expected = np.moveaxis(expected, 2, 1).reshape(300, -1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@EACH
def test_shap_values_add_up_to_the_score(suffix, tmp_path):
    model = MAKERS[suffix](Y)
    if suffix == "cbm":
        raw = model.predict(X, prediction_type="RawFormulaVal")
    elif suffix == "txt":
        raw = model.predict(X, raw_score=True)
    else:
        import xgboost

        raw = model.predict(xgboost.DMatrix(X, feature_names=list(NAMES)), output_margin=True)
    found = read_model(saved(model, tmp_path, suffix)).shap(FEATURES).sum(axis=1)
    np.testing.assert_allclose(found - found.mean(), raw - raw.mean(), atol=1e-5)


@EACH
def test_rows_of_one_leaf_in_every_tree_have_one_score(suffix, tmp_path):
    model = MAKERS[suffix](Y)
    read = read_model(saved(model, tmp_path, suffix))
    leaves = read.leaves(FEATURES)
    assert leaves.shape == (300, 8 if suffix == "cbm" else 5)
    _, first, place = np.unique(leaves, axis=0, return_index=True, return_inverse=True)
    score = read.shap(FEATURES).sum(axis=1)
    np.testing.assert_allclose(score, score[first][place.ravel()], atol=1e-5)
    assert len(first) < 300


@EACH
def test_importances_name_the_features_that_matter(suffix, tmp_path):
    read = read_model(saved(MAKERS[suffix]((X[:, 2] > 0).astype(int)), tmp_path, suffix))
    assert read.names == NAMES
    assert read.importances().argmax() == 2


@pytest.mark.parametrize("suffix", ["cbm", "txt", "json"])
def test_models_without_names_know_features_by_their_places(suffix, tmp_path):
    names = tuple(f"Column_{place}" for place in range(4)) if suffix == "txt" else None
    read = read_model(saved(MAKERS[suffix](Y, names), tmp_path, suffix))
    in_order = {name: FEATURES[name] for name in NAMES}
    named = read_model(saved(MAKERS[suffix](Y), tmp_path, suffix))
    np.testing.assert_array_equal(read.shap(in_order), named.shap(in_order))
    with pytest.raises(DataError, match="was trained on the feature"):
        read.shap(in_order | {"e": FEATURES["a"]})


@EACH
def test_an_absent_feature_is_named_with_the_nearest(suffix, tmp_path):
    read = read_model(saved(MAKERS[suffix](Y, ("age", "b", "c", "d")), tmp_path, suffix))
    features = FEATURES | {"agee": FEATURES["a"]}
    with pytest.raises(DataError, match=r"trained on the feature 'age'.*did you mean 'agee'"):
        read.shap(features)


@EACH
def test_a_category_in_place_of_a_number_is_refused(suffix, tmp_path):
    read = read_model(saved(MAKERS[suffix](Y), tmp_path, suffix))
    text = Column("category", np.zeros(300, dtype=np.int32), ("x",))
    with pytest.raises(DataError, match=r"'b' is a number in the model|trained on 0 categories"):
        read.shap(FEATURES | {"b": text})


LETTERS = np.where(X[:, 3] > 0, "u", "v")


def test_catboost_takes_texts_and_whole_numbers_for_categories(tmp_path):
    """What CatBoost says of the table that it was trained on is said of the columns that the table became."""
    import pandas as pd

    whole = np.rint(X[:, 1]).astype(int)
    frame = pd.DataFrame({"a": X[:, 0], "letter": LETTERS, "whole": whole})
    model = catboost.CatBoostClassifier(iterations=8, depth=3, verbose=0, allow_writing_files=False, one_hot_max_size=9)
    model.fit(frame, Y, cat_features=["letter", "whole"])
    read = read_model(saved(model, tmp_path, "cbm"))
    codes = (LETTERS == "v").astype(np.int32)
    features = {
        "whole": Column("number", whole.astype(float)),
        "letter": Column("category", codes, ("u", "v")),
        "a": Column("number", X[:, 0]),
    }
    pool = catboost.Pool(frame, cat_features=["letter", "whole"])
    expected = model.get_feature_importance(pool, type="ShapValues")[:, :-1]
    np.testing.assert_allclose(read.shap(features), expected, rtol=0, atol=1e-12)
    missing = whole.astype(float)
    missing[0] = np.nan
    assert np.isfinite(read.shap(features | {"whole": Column("number", missing)})).all()
    with pytest.raises(DataError, match="'whole' is a category in the model and has fractions"):
        read.shap(features | {"whole": Column("number", X[:, 1])})


def test_lightgbm_knows_its_categories_again(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    import pandas as pd

    frame = pd.DataFrame({"a b": X[:, 0], "letter": pd.Categorical(LETTERS)})
    model = lightgbm.train({"verbose": -1, "num_threads": 1}, lightgbm.Dataset(frame, X[:, 3]), 5)
    read = read_model(saved(model, tmp_path, "txt"))
    other_order = Column("category", (LETTERS == "u").astype(np.int32), ("v", "u"))
    features = {"letter": other_order, "a b": Column("number", X[:, 0])}
    np.testing.assert_array_equal(read.shap(features), model.predict(frame, pred_contrib=True)[:, :-1])


def test_xgboost_categories_are_refused(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    import pandas as pd

    frame = pd.DataFrame({"letter": pd.Categorical(LETTERS)})
    data = xgboost.DMatrix(frame, Y, enable_categorical=True)
    model = xgboost.train({"max_depth": 2, "nthread": 1}, data, 2)
    with pytest.raises(DataError, match=r"has categories.*leave out --model"):
        read_model(saved(model, tmp_path, "json"))


@pytest.mark.parametrize("content", [pickle.dumps({"a": 1}), b"PK\x03\x04 a zip", b"\x1f\x8b gzip"])
def test_pickles_are_never_loaded(content):
    with pytest.raises(DataError, match=r"is a pickle.*never loaded"):
        read_model(content)


@pytest.mark.parametrize(
    "content", [b"", b"CBM1 and then nonsense", b"tree\nfeature_names=a\nnonsense", b"{'learner'", b"abc"]
)
def test_what_is_no_model_is_a_named_error(content):
    if content.startswith(b"tree"):
        pytest.importorskip("lightgbm")
    if b"learner" in content:
        pytest.importorskip("xgboost")
    with pytest.raises(DataError):
        read_model(content)


@pytest.mark.parametrize(
    ("content", "package"), [(b'{"learner":{}}', "xgboost"), (b"tree\nfeature_names=a\n", "lightgbm")]
)
def test_a_library_that_is_not_there_is_named(content, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=f"pip install {package}"):
        read_model(content)


@EACH
def test_ccl_keeps_the_model_and_predicts_again(suffix, tmp_path):
    from calcli.batch import Batch, SideInputs

    rows = Batch(ordinary(300).score, Y, None, FEATURES)
    sides = SideInputs(blobs={"model": saved(MAKERS[suffix](Y), tmp_path, suffix)})
    ccl = catalog.find("ccl")
    for embedding in ("shap", "leaves", "top"):
        hard = ccl.resolve({"clusters": 4, "embedding": embedding, "temperature": 0, "tau": 0})
        model = calibrator.fit(ccl, rows, hard, sides=sides)
        back = FittedMethod.from_state("ccl", model.to_state(), model.sides)
        assert not model.state.blobs
        np.testing.assert_array_equal(back.predict(rows), model.predict(rows))
        chunks = [model.predict(rows.take(slice(start, start + 70))) for start in range(0, 300, 70)]
        np.testing.assert_array_equal(np.concatenate(chunks), model.predict(rows))


def test_leaves_of_a_model_of_many_trees_are_a_choice_of_them(tmp_path):
    model = catboost.CatBoostClassifier(iterations=40, depth=2, verbose=0, allow_writing_files=False).fit(X, Y)
    from calcli.methods.clusters.partition import TREES, Leaves

    in_order = {str(place): FEATURES[name] for place, name in enumerate(NAMES)}
    leaves = Leaves.of(CatBoostTrees(model), None, in_order)
    assert len(set(leaves.tree.tolist())) == TREES
    points = leaves.points(in_order)
    assert points.shape[1] <= 4 * TREES
    np.testing.assert_array_equal(points.sum(axis=1), TREES)
