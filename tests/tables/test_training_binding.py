"""Tables without a score: what the label is, and which columns are features."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calcli.errors import DataError, UsageError
from calcli.tables.binding import bind_unscored
from calcli.tables.binding_types import Flags
from calcli.tables.features import model_features
from calcli.tables.labels import MOST_CLASSES
from calcli.tables.load import load
from calcli.tables.source import open_source


def bound(frame: pl.DataFrame | str | Path, *flags: Flags, **more):
    with open_source(frame) as source:
        return bind_unscored(source, *flags, **more)


def labelled(values, **more) -> pl.DataFrame:
    return pl.DataFrame({"x": [0.5 * value for value in range(len(values))], "label": values, **more})


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([0, 1, 1], (0, 1)),
        ([3, 1, 2], (1, 2, 3)),
        ([1.0, 2.0, None], (1, 2)),
        (["no", "yes", "no"], ("no", "yes")),
        ([True, False, None], (False, True)),
        (list(range(MOST_CLASSES)), tuple(range(MOST_CLASSES))),
        (list(range(MOST_CLASSES + 1)), ()),
        ([0.5, 1.0, 2.0], ()),
        ([-1.0, math.nan, 2.5], ()),
    ],
)
def test_what_the_label_is_by_itself(values, classes):
    binding = bound(labelled(values))
    assert binding.classes == classes
    assert binding.regression == (not classes)
    assert binding.score.columns == ()
    assert [feature.name for feature in binding.features] == ["x"]


def test_what_can_be_doubted_is_said_and_the_user_decides():
    assert "3 different whole numbers" in bound(labelled([1, 2, 3])).notes[0]
    assert "regression" in bound(labelled([0.5, 2.0])).notes[0]
    assert bound(labelled([0, 1])).notes == ()
    assert bound(labelled([1, 2, 3]), task="class").notes == ()
    assert bound(labelled([0, 1, 1]), task="regression").regression
    assert len(bound(labelled(list(range(60))), task="class").classes) == 60


@pytest.mark.parametrize(
    ("values", "flags", "task", "error", "said"),
    [
        ([0.5, 1.5], Flags(), "class", DataError, r"looks like a regression target.*--task regression"),
        (["a", "b"], Flags(), "regression", DataError, "not a number: regression needs a number"),
        ([1, 1], Flags(), None, DataError, "one class only"),
        ([0.5, 1.5], Flags(positive="1"), "regression", UsageError, "the label is a number"),
    ],
)
def test_labels_that_do_not_fit_the_task(values, flags, task, error, said):
    with pytest.raises(error, match=said):
        bound(labelled(values), flags, task=task)


def test_text_files_are_read_as_they_are_meant(tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text("x,code,price\n1,007,1.5\n,008,2\n3,009,NA\n3,009,4\n")
    with open_source(path) as source:
        binding = bind_unscored(source, Flags(label="price"))
        loaded = load(source, binding, features=True, bad_rows="null")
    assert binding.regression
    assert {feature.name: feature.role for feature in binding.features} == {"x": "number", "code": "category"}
    assert loaded.batch.targets.tolist() == [1.5, 2.0, 4.0]
    assert loaded.tally.rows_bad == 1
    assert np.isnan(loaded.batch.features["x"].values[1])


def test_bad_amounts_are_bad_rows():
    frame = labelled([0.5, None, math.inf, math.nan, 2.0])
    with open_source(frame) as source:
        binding = bind_unscored(source)
        with pytest.raises(DataError, match=r"3 bad rows of 5 \(the label is missing: 2, the label is infinite: 1\)"):
            load(source, binding, features=True)
        kept = load(source, binding, features=True, bad_rows="null")
    assert kept.batch.targets.tolist() == [0.5, 2.0]
    assert kept.batch.take(np.array([1])).targets.tolist() == [2.0]


def test_features_are_those_of_calibration():
    frame = labelled(
        [0, 1, 1, 0],
        logit=[1.0, 2, 3, 4],
        id=[1, 2, 3, 4],
        uncertainty_mean=[0.1] * 4,
        w=[1.0, 2, 1, 2],
        z=["a", "b"] * 2,
    )
    binding = bound(frame, Flags(weight="w"))
    assert [feature.name for feature in binding.features] == ["x", "z"]
    assert {gone.column for gone in binding.dropped} == {"logit", "id", "uncertainty_mean"}
    with pytest.raises(DataError, match="has no features"):
        bound(frame, Flags(ignore=("x", "z", "w")))
    assert [f.name for f in bound(frame, Flags(features=("z", "logit"))).features] == ["z", "logit"]


def test_an_artifact_knows():
    known = bound(labelled(["no", "yes"], extra=[1, 1]))
    elsewhere = pl.DataFrame({"extra": [2, 3], "x": [0.0, 1.0]})
    again = bound(elsewhere, known=known, need_label=False)
    assert again.classes == ("no", "yes")
    assert [feature.name for feature in again.features] == ["x", "extra"]
    with pytest.raises(DataError, match="no column 'label', the label"):
        bound(elsewhere, known=known)
    with pytest.raises(DataError, match="'x', a feature of the artifact"):
        bound(elsewhere.drop("x"), known=known, need_label=False)
    with pytest.raises(DataError, match="'maybe' is not a class of"):
        bound(elsewhere.with_columns(label=pl.Series(["no", "maybe"])), known=known)
    amounts = bound(labelled([0.5, 1.5]))
    with pytest.raises(DataError, match="not a number"):
        bound(labelled(["a", "b"]), known=amounts)


def roles(names, categories, chosen=None):
    with open_source(pl.DataFrame({"b": ["x", "y"], "a": [0.5, 1.0], "c": [1, 2], "label": [0, 1]})) as source:
        flagged = bind_unscored(source, Flags(features=chosen)).features if chosen else None
        return [(f.name, f.role) for f in model_features(source, names, categories, flagged)]


def test_the_features_of_a_model_are_found_by_name_in_its_order_or_named():
    assert roles(["a", "b"], [1]) == [("a", "number"), ("b", "category")]
    assert roles(["c", "b"], [0, 1]) == [("c", "category"), ("b", "category")]  # whole numbers can be categories
    assert roles(["0", "1"], [], ("a", "c")) == [("a", "number"), ("c", "number")]


@pytest.mark.parametrize(
    ("error", "arguments", "said"),
    [
        (DataError, (["0", "1"], []), r"trained without names: its features are 0 to 1.*--features"),
        (UsageError, (["0", "1"], [], ("a",)), "names 1 columns, and the model has 2 features"),
        (DataError, (["bb", "a"], []), r"no column 'bb'.*did you mean 'b'"),
        (DataError, (["a"], [0]), "takes 'a' as a category, and the column is Float64"),
        (DataError, (["b"], []), "takes 'b' as a number, and the column is String"),
    ],
)
def test_features_of_a_model_that_are_absent_or_of_another_type(error, arguments, said):
    with pytest.raises(error, match=said):
        roles(*arguments)
