"""Rows as arrays, and the rows that cannot be."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from calcli.errors import DataError
from calcli.numeric.links import FARTHEST
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Feature, Flags, Label, Score
from calcli.tables.checks import Count, Encoded, bound_columns, encode, score_values
from calcli.tables.load import Loaded, load
from calcli.tables.scales import Scale
from calcli.tables.source import Source, open_source
from tests.support.tables import ordinary, put, put_text, table

INF = float("inf")
NAN = float("nan")


def binding(
    kind: str, *columns: str, classes: tuple[Label, ...] = (0, 1), positive: Label | None = 1, **more: Any
) -> Binding:
    return Binding("label", "int", classes, positive, Score(kind, columns), **more)  # type: ignore[arg-type]


def encoded(columns: dict[str, Any], bound: Binding, *, label: bool = False, features: bool = False) -> Encoded:
    return encode(pl.DataFrame(columns, strict=False), bound, label=label, features=features)


# -------------------------------------------------------------------------------------------------------- scores


def test_logits_are_taken_as_they_are() -> None:
    chunk = encoded({"logit": [0.5, -800.0, 0.0]}, binding("logit", "logit"))
    assert chunk.batch.score.tolist() == [0.5, -800.0, 0.0]
    assert chunk.bad is None
    assert chunk.why == {}


FIVE = np.random.default_rng(0).dirichlet(np.ones(5), size=500)
NAMES = ("a", "b", "c", "d", "e")


def of_five(prob: np.ndarray, **more: Any) -> Encoded:
    bound = binding("prob", *NAMES, classes=(0, 1, 2, 3, 4), positive=None, **more)
    return encoded(dict(zip(NAMES, prob.T, strict=True)), bound)


@pytest.mark.parametrize(
    ("given", "normalise"),
    [
        (FIVE.round(3), False),
        (0.999 * FIVE, False),
        (0.991 * FIVE, False),
        (FIVE * np.linspace(0.1, 1.0, 500)[:, None], True),
    ],
)
def test_rows_of_classes_are_divided_by_their_sum(given: np.ndarray, normalise: bool) -> None:
    chunk = of_five(given, normalise=normalise)
    assert chunk.bad is None
    assert chunk.normalised == (np.abs(given.sum(axis=1) - 1.0) > 1e-6).sum() > 100
    whole = of_five(given / given.sum(axis=1, keepdims=True))
    assert whole.normalised == 0
    np.testing.assert_allclose(chunk.batch.score, whole.batch.score, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.asarray(chunk.batch.prob), np.asarray(whole.batch.prob), rtol=1e-12)


def test_rows_that_are_not_near_1_are_divided_only_if_that_is_asked_for() -> None:
    given = np.vstack([FIVE[:3] * [[1.0], [0.98], [1.02]], np.zeros(5)])
    given[2] = [0.51, 0.51, 0.0, 0.0, 0.0]
    assert of_five(given).why == {"the probabilities do not add up to 1": 3}
    chunk = of_five(given, normalise=True)
    assert (chunk.why, chunk.normalised) == ({"the probabilities are all 0": 1}, 2)
    source = table({"label": [0, 1, 0, 1], **dict(zip(NAMES, given.T, strict=True))})
    with pytest.raises(DataError, match="add --normalise, which divides them by their sum"):
        load(source, binding("prob", *NAMES, classes=(0, 1, 2, 3, 4), positive=None), features=False)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Float32, pl.Decimal(10, 2), pl.String])
def test_scores_of_any_numeric_type(dtype: Any) -> None:
    chunk = encode(
        pl.DataFrame({"logit": pl.Series([0, 1, 3]).cast(dtype)}),
        binding("logit", "logit"),
        label=False,
        features=False,
    )
    assert chunk.batch.score.tolist() == [0.0, 1.0, 3.0]
    assert chunk.batch.score.dtype == np.float64


@pytest.mark.parametrize("p", [1e-12, 1e-6, 0.25, 0.5, 0.9])
def test_probabilities_become_log_odds(p: float) -> None:
    one = encoded({"prob": [p]}, binding("prob", "prob"))
    assert one.batch.score.tolist() == pytest.approx([special.logit(p)], rel=1e-12)
    two = encoded({"p_0": [1 - p], "p_1": [p]}, binding("prob", "p_0", "p_1"))
    assert two.batch.score.tolist() == pytest.approx([special.logit(p)], rel=1e-9, abs=1e-12)
    assert one.bad is None
    assert two.bad is None


def test_probabilities_far_out_keep_their_order() -> None:
    p = [0.0, 1e-300, 1e-299, 1e-13, 1e-12, 0.5, 1 - 1e-13, 1 - 2.0**-53, 1.0]
    score = encoded({"prob": p}, binding("prob", "prob")).batch.score
    assert (np.diff(score) > 0).all()
    assert np.abs(score).max() < 40
    small = [0.0, 1e-300, 1e-13]
    two = encoded({"p_0": [*small, 1.0, 1.0, 1.0], "p_1": [1.0, 1.0, 1.0, *small[::-1]]}, binding("prob", "p_0", "p_1"))
    assert (np.diff(two.batch.score) < 0).all()


def test_the_probabilities_of_the_table_stay_beside() -> None:
    p = [0.0, 1e-300, 0.1 + 0.2, 1.0]
    assert encoded({"prob": p}, binding("prob", "prob")).batch.prob.tolist() == p
    rough = {"p_0": [0.2, 0.7], "p_1": [0.2, 0.3], "p_2": [0.6005, 0.0]}
    three = encoded(rough, binding("prob", "p_0", "p_1", "p_2", classes=(0, 1, 2), positive=None)).batch.prob
    assert three[1].tolist() == [0.7, 0.3, 0.0]
    np.testing.assert_allclose(three[0], np.array([0.2, 0.2, 0.6005]) / 1.0005)


def test_two_logits_are_one_log_odds() -> None:
    columns = {"v_0": [1.0, 2.0], "v_1": [4.0, 1.5]}
    assert encoded(columns, binding("logit", "v_0", "v_1")).batch.score.tolist() == [3.0, -0.5]
    flipped = binding("logit", "v_0", "v_1", positive=0)
    assert encoded(columns, flipped).batch.score.tolist() == [-3.0, 0.5]
    # as far apart as logits are taken to be
    chunk = encoded({"l_0": [-1e308, 1e308, INF], "l_1": [1e308, -1e308, INF]}, binding("logit", "l_0", "l_1"))
    assert chunk.batch.score[:2].tolist() == [2.0 * FARTHEST, -2.0 * FARTHEST]
    assert chunk.is_bad.tolist() == [False, False, True]


def test_many_classes() -> None:
    three = {"classes": (0, 1, 2), "positive": None}
    v = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    names = ("c", "a", "b")
    frame = pl.DataFrame({name: v[:, place] for place, name in enumerate(names)})
    chunk = encode(frame, binding("logit", *names, **three), label=False, features=False)  # type: ignore[arg-type]
    np.testing.assert_array_equal(chunk.batch.score, v)
    p = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
    frame = pl.DataFrame({name: p[:, place] for place, name in enumerate(names)})
    chunk = encode(frame, binding("prob", *names, **three), label=False, features=False)  # type: ignore[arg-type]
    np.testing.assert_allclose(np.exp(chunk.batch.score), p, rtol=1e-14, atol=1e-12)
    assert chunk.bad is None


# -------------------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("values", "kind", "classes", "positive", "index"),
    [
        ([0, 1, 1], "int", (0, 1), 1, [0, 1, 1]),
        ([0, 1, 1], "int", (0, 1), 0, [1, 0, 0]),
        ([5, 7, 5], "int", (5, 7), 7, [0, 1, 0]),
        ([2, 0, 1], "int", (0, 1, 2), None, [2, 0, 1]),
        ([2.0, 0.0, 1.0], "float", (0, 1, 2), None, [2, 0, 1]),
        ([True, False, True], "bool", (False, True), True, [1, 0, 1]),
        ([1, 0, 1], "bool", (False, True), True, [1, 0, 1]),
        ([True, False, True], "int", (0, 1), 1, [1, 0, 1]),
        (["b", "a", "b"], "string", ("a", "b"), "b", [1, 0, 1]),
        (["b", "a", "b"], "string", ("b", "a"), "b", [1, 0, 1]),
        ([1, 2, 1], "string", ("1", "2"), "2", [0, 1, 0]),
        (["0", "1.0", "+1"], "int", (0, 1), 1, [0, 1, 1]),
        (["True", "false", "1"], "bool", (False, True), True, [1, 0, 1]),
        (["c", "a", "b"], "string", ("c", "a", "b"), None, [0, 1, 2]),
    ],
)
def test_class_indices(values: list[Any], kind: str, classes: Any, positive: Any, index: list[int]) -> None:
    columns = ("logit",) if len(classes) == 2 else tuple(f"v{k}" for k in range(len(classes)))
    bound = Binding("label", kind, classes, positive, Score("logit", columns))  # type: ignore[arg-type]
    scores = {name: [0.0] * len(values) for name in columns}
    for dtype in (None, pl.Categorical) if isinstance(values[0], str) else (None,):
        series = pl.Series("label", values, dtype=pl.String if dtype else None)
        chunk = encoded({"label": series.cast(dtype) if dtype else series, **scores}, bound, label=True)
        assert chunk.batch.labels.tolist() == index
        assert chunk.batch.labels.dtype == np.int64


@pytest.mark.parametrize(("values", "said"), [([0, 1, 2], "2"), ([0.0, 0.5], "0.5"), (["0", "x"], "'x'")])
def test_an_unseen_label_ends_it(values: list[Any], said: str) -> None:
    columns = {"label": values, "logit": [0.0] * len(values)}
    bound = binding("logit", "logit")
    with pytest.raises(DataError, match=f"the label {said} in row {len(values)} is not one of the classes 0, 1"):
        encoded(columns, bound, label=True)
    with pytest.raises(DataError, match=f"row {len(values) + 100} "):
        encode(pl.DataFrame(columns), bound, label=True, features=False, offset=100)
    assert encoded(columns, bound).batch.label is None


# ------------------------------------------------------------------------------------------------------ bad rows


@pytest.mark.parametrize(
    ("columns", "bound", "reason"),
    [
        ({"logit": [1.0, None]}, binding("logit", "logit"), "the score is missing"),
        ({"logit": [1.0, NAN]}, binding("logit", "logit"), "the score is missing"),
        ({"logit": [1.0, -INF]}, binding("logit", "logit"), "the score is infinite"),
        ({"logit": ["1", "high"]}, binding("logit", "logit"), "the score is not a number"),
        ({"logit": ["1", "NA"]}, binding("logit", "logit"), "the score is missing"),
        ({"logit": ["1", None]}, binding("logit", "logit"), "the score is missing"),
        ({"prob": [1.0, 1.1]}, binding("prob", "prob"), "the probability is outside [0, 1]"),
        ({"prob": [0.0, -0.1]}, binding("prob", "prob"), "the probability is outside [0, 1]"),
        ({"prob": [0.0, None]}, binding("prob", "prob"), "the score is missing"),
        ({"a": [0.5, 0.5], "b": [0.5, 0.6]}, binding("prob", "a", "b"), "the probabilities do not add up to 1"),
        ({"a": [0.5, 1.2], "b": [0.5, -0.2]}, binding("prob", "a", "b"), "a probability is outside [0, 1]"),
        ({"a": [0.5, None], "b": [0.5, 0.5]}, binding("logit", "a", "b"), "the score is missing"),
        ({"logit": [1.0, 1.0], "label": [1, None]}, binding("logit", "logit"), "the label is missing"),
        ({"logit": [1.0, 1.0], "label": [1.0, NAN]}, binding("logit", "logit"), "the label is missing"),
        ({"logit": ["1", "1"], "label": ["1", "null"]}, binding("logit", "logit"), "the label is missing"),
        ({"logit": [1.0, 1.0], "w": [1, None]}, binding("logit", "logit", weight="w"), "the weight is missing"),
        ({"logit": [1.0, 1.0], "w": [0, -1]}, binding("logit", "logit", weight="w"), "the weight is negative"),
        ({"logit": [1.0, 1.0], "w": [0.0, INF]}, binding("logit", "logit", weight="w"), "the weight is infinite"),
        ({"logit": ["1", "1"], "w": ["1", "x"]}, binding("logit", "logit", weight="w"), "the weight is not a number"),
    ],
)
def test_bad_rows(columns: dict[str, Any], bound: Binding, reason: str) -> None:
    columns = {"label": [1, 0], **columns}
    chunk = encoded(columns, bound, label=True)
    assert chunk.bad is not None
    assert chunk.bad.tolist() == [False, True]
    assert chunk.why == {reason: 1}
    assert chunk.first == (1, reason)
    assert chunk.batch.score[1] == 0.0
    assert np.isfinite(chunk.batch.score).all()
    source = table(columns)
    with pytest.raises(DataError, match="1 bad row of 2") as caught:
        load(source, bound, features=False, check_scale=False)
    assert f": {reason} (first in row 2)" in str(caught.value)
    assert "--bad-rows null" in str(caught.value)
    kept = load(source, bound, features=False, bad_rows="null", check_scale=False)
    assert (len(kept.batch), kept.tally.rows, kept.tally.rows_bad) == (1, 2, 1)
    assert kept.row_numbers is not None
    assert kept.row_numbers.tolist() == [0]


def test_labels_and_weights_do_not_matter_where_they_are_not_wanted() -> None:
    columns = {"logit": [1.0, 2.0], "label": [None, 7], "w": [None, -1]}
    assert encoded(columns, binding("logit", "logit", weight="w")).bad is None


@pytest.mark.parametrize("p", [1 + 1e-7, -1e-7, float(np.float32(1) + np.finfo(np.float32).eps)])
def test_rounding_is_no_reason(p: float) -> None:
    chunk = encoded({"prob": [p]}, binding("prob", "prob"))
    assert chunk.bad is None
    assert chunk.batch.prob.tolist() == [round(p)]
    assert chunk.batch.score == encoded({"prob": [float(round(p))]}, binding("prob", "prob")).batch.score


TWICE = pl.DataFrame({"logit": [None, 1.0, 2.0], "label": [None, None, 1]})


@pytest.mark.parametrize(
    ("frame", "bad_rows", "message"),
    [
        (TWICE, "fail", r"2 bad rows of 3 \(the label is missing: 2, the score is missing: 1\)"),
        (TWICE[:2], "null", "2 bad rows of 2"),
        (TWICE.clear(), "fail", "has no rows"),
    ],
)
def test_tables_without_good_rows_and_rows_with_two_reasons(frame: pl.DataFrame, bad_rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(open_source(frame.lazy()), binding("logit", "logit"), features=False, bad_rows=bad_rows)


# ------------------------------------------------------------------------------------------------------ features


ZYX = pl.Enum(["z", "y", "x"])
FEATURES = (Feature("c", "category", "String"), Feature("n", "number", "Float64"), Feature("b", "boolean", "Boolean"))


@pytest.mark.parametrize(
    "columns",
    [
        {"c": ["y", None, "x"], "n": [1.5, None, NAN], "b": [True, None, False]},
        {"c": ["y", None, "x"], "n": ["1.5", "", "NaN"], "b": ["True", "NA", "false"]},
        {"c": ["y", None, "x"], "n": ["1.5", "", "NaN"], "b": [1, None, 0]},
    ],
    ids=["typed", "text", "integers for booleans"],
)
def test_features_as_columns(columns: dict[str, Any]) -> None:
    chunk = encoded({"logit": [0.0] * 3, **columns}, binding("logit", "logit", features=FEATURES), features=True)
    c, n, b = (chunk.batch.features[name] for name in "cnb")
    assert (c.role, c.levels, c.values.tolist(), c.values.dtype) == ("category", ("x", "y"), [1, -1, 0], np.int32)
    assert n.role == "number"
    np.testing.assert_array_equal(n.values, [1.5, NAN, NAN])
    assert b.role == "boolean"
    np.testing.assert_array_equal(b.values, [1.0, NAN, 0.0])
    assert chunk.bad is None


@pytest.mark.parametrize(
    ("values", "levels", "codes"),
    [
        *((pl.Series(["y", None, "x"], dtype=dtype), ("x", "y"), [1, -1, 0]) for dtype in (pl.Categorical, ZYX)),
        *((pl.Series([None] * 2, dtype=dtype), (), [-1, -1]) for dtype in (pl.Null, pl.String, pl.Categorical)),
        ([10, 9], ("10", "9"), [0, 1]),
    ],
)
def test_categories_of_any_type(values: Any, levels: tuple[str, ...], codes: list[int]) -> None:
    """Beside a boolean that is taken for a number."""
    frame = {"logit": [0.0] * len(codes), "c": values, "n": [True, None, None][: len(codes)]}
    found = encoded(frame, binding("logit", "logit", features=FEATURES[:2]), features=True).batch.features
    assert (found["c"].levels, found["c"].values.tolist()) == (levels, codes)
    np.testing.assert_array_equal(found["n"].values, [1.0, NAN, NAN][: len(codes)])


@pytest.mark.parametrize(
    ("name", "message"),
    [("n", "the numeric feature 'n' is 'tall' in row 12"), ("b", "the boolean feature 'b' is 'tall' in row 12")],
)
def test_text_that_is_no_number(name: str, message: str) -> None:
    columns = {"logit": ["0", "0"], "c": ["x", "x"], "n": ["1", "1"], "b": ["true", ""], name: ["", "tall"]}
    with pytest.raises(DataError, match=message):
        encode(
            pl.DataFrame(columns), binding("logit", "logit", features=FEATURES), label=False, features=True, offset=10
        )


def test_bound_columns_are_each_read_once() -> None:
    bound = binding("logit", "a", "b", weight="w", features=(Feature("a", "number", "Float64"), *FEATURES))
    assert bound_columns(bound, label=True, features=True) == ["a", "b", "label", "w", "c", "n"]
    assert bound_columns(bound, label=False, features=False) == ["a", "b"]


# ---------------------------------------------------------------------------------------------------------- load


def in_chunks(frame: pl.DataFrame, sizes: list[int]) -> Source:
    starts = np.cumsum([0, *sizes])
    parts = [frame.slice(int(start), size).lazy() for start, size in zip(starts, sizes, strict=False)]
    rest = frame.slice(int(starts[-1]))
    return open_source(pl.concat([*parts, *([rest.lazy()] if len(rest) else [])]))


def assert_same(one: Loaded, two: Loaded) -> None:
    assert (one.tally.rows, one.tally.rows_bad) == (two.tally.rows, two.tally.rows_bad)
    for a, b in (
        (one.row_numbers, two.row_numbers),
        (one.batch.label, two.batch.label),
        (one.batch.weight, two.batch.weight),
    ):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.batch.score, two.batch.score)
    assert list(one.batch.features) == list(two.batch.features)
    for name, column in one.batch.features.items():
        other = two.batch.features[name]
        assert (column.role, column.levels) == (other.role, other.levels)
        np.testing.assert_array_equal(column.values, other.values)
        assert column.values.dtype == other.values.dtype


@given(st.lists(st.integers(1, 30), max_size=8), st.integers(0, 3), st.booleans())
def test_it_does_not_matter_where_chunks_end(sizes: list[int], seed: int, spoil: bool) -> None:
    frame = ordinary(80, seed).with_columns(w=pl.lit(2.0))
    whole = open_source(frame)
    bound = bind(whole, Flags(weight="w"))
    if spoil:
        frame = frame.with_columns(logit=pl.when(pl.int_range(pl.len()) % 7 == seed).then(None).otherwise("logit"))
    one = load(open_source(frame), bound, features=True, bad_rows="null")
    assert_same(load(in_chunks(frame, sizes), bound, features=True, bad_rows="null"), one)
    assert (one.tally.rows_bad > 0) == spoil


def test_loaded_rows_are_the_table_s(tmp_path: Path) -> None:
    frame = ordinary(300).with_columns(pl.when(pl.col("id") % 10 == 3).then(None).otherwise("label").alias("label"))
    good = frame.filter(pl.col("label").is_not_null())
    for suffix in ("parquet", "csv", "arrow", "ndjson"):
        with open_source(put(tmp_path / f"a.{suffix}", frame)) as source:
            loaded = load(source, bind(source), features=True, bad_rows="null")
        assert loaded.row_numbers is not None
        assert loaded.row_numbers.tolist() == good["id"].to_list()
        assert loaded.batch.score.tolist() == good["logit"].to_list()
        assert loaded.batch.labels.tolist() == good["label"].to_list()
        site = loaded.batch.features["site"]
        assert [None if code < 0 else site.levels[code] for code in site.values] == good["site"].to_list()
        assert site.levels == tuple(sorted(set(good["site"].drop_nulls())))
        age = loaded.batch.features["age"].values
        assert [None if math.isnan(value) else value for value in age] == good["age"].to_list()


def test_the_first_bad_row_is_counted_over_chunks() -> None:
    frame = ordinary(100).with_columns(logit=pl.when(pl.col("id").is_in([57, 80])).then(None).otherwise("logit"))
    source = in_chunks(frame, [20, 20, 20])
    with pytest.raises(DataError, match=r"2 bad rows of 100: the score is missing \(first in row 58\)"):
        load(source, bind(source), features=False)
    assert load(source, bind(source), features=False, bad_rows="null").batch.features == {}


# --------------------------------------------------------------------------------------------------------- scale


def scaled(kind: str, values: Any, *, check: bool = True) -> Loaded:
    columns = values if isinstance(values, dict) else {"x": values}
    rows = len(next(iter(columns.values())))
    classes = tuple(range(max(2, len(columns))))
    bound = binding(kind, *columns, classes=classes, positive=1 if len(classes) == 2 else None)
    return load(table({"label": [0] * rows, **columns}), bound, features=False, check_scale=check, bad_rows="null")


INSIDE = np.linspace(0, 1, 20)
SHARES = {f"v_{k}": [share] * 25 for k, share in enumerate((0.2, 0.3, 0.5))}


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("logit", INSIDE, r"'x' looks like probabilities, not logits: all 20 values .*; pass --prob x"),
        ("logit", SHARES, r"looks like probabilities.*--prob v"),
        ("prob", [-1.0, 2.0, 3.0, 0.5], r"'x' looks like logits, not probabilities: 3 of 4 rows .*; pass --logit x"),
        (
            "prob",
            [0.0, 20.0, 99.0, 100.0],
            r"'x' looks like percentages, .*; pass --percent x if it is one, --rank x if",
        ),
        ("prob", {"v_0": [1.0, -3.0], "v_1": [-5.0, 3.0], "v_2": [0.0, 0.0]}, r"--logit v"),
    ],
)
def test_scores_that_look_like_something_else(kind: str, values: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        scaled(kind, values)


def test_scores_that_may_be_what_they_are_called() -> None:
    assert scaled("logit", INSIDE, check=False).tally.rows == 20
    for logits in (INSIDE[:19], [*INSIDE, 1.5], [*INSIDE, -0.1]):
        assert scaled("logit", logits).tally.rows == len(logits)
    assert scaled("logit", {**SHARES, "v_0": [0.9] * 25}).tally.rows == 25
    assert scaled("prob", [0.5] * 19 + [1.1]).tally.rows_bad == 1


def test_text_scores_are_checked_too(tmp_path: Path) -> None:
    text = "label,logit\n" + "".join(f"{row % 2},{row / 40}\n" for row in range(40))
    with (
        open_source(put_text(tmp_path / "a.csv", text)) as source,
        pytest.raises(DataError, match=r"looks like probabilities"),
    ):
        load(source, bind(source), features=True)


def test_what_parts_count_adds_up() -> None:
    bound = binding("logit", "z")
    parts = [{"z": [1.0, None]}, {"z": [INF, None, 2.0]}]
    whole = Count("t", keep_going=False)
    for part in parts:
        count = Count("t", keep_going=False)
        count.see(encoded(part, bound))
        whole += count
    assert (whole.rows, whole.rows_bad) == (5, 3)
    reasons = r"the score is missing: 2, the score is infinite: 1"
    with pytest.raises(DataError, match=rf"^t has 3 bad rows of 5 \({reasons}\);"):
        whole.judge()


def test_what_parts_show_of_a_scale_adds_up() -> None:
    bound = binding("logit", "z")

    def seen(*values: float) -> Scale:
        scale = Scale(bound.score)
        scale.see(score_values(pl.DataFrame({"z": values}), bound))
        return scale

    suspicious = seen(*[0.1] * 10) + seen(*[0.9] * 10)
    with pytest.raises(DataError, match="all 20 values lie in"):
        suspicious.judge()
    (suspicious + seen(1.5)).judge()
