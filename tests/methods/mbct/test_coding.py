"""Features as codes: every value has the code that its words say, here and in another table."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.batch import Batch, Column, Role
from calcli.methods.mbct.coding import Coder, learn_codes
from calcli.methods.mbct.forest import code_words
from calcli.methods.trees.coding import quantile_gaps
from calcli.methods.trees.kernels import encode_numbers, only_read, scratch
from calcli.numeric.links import logit
from tests.support.drawing import examples


def batch_of(score: np.ndarray | None = None, weight: np.ndarray | None = None, **columns: Column) -> Batch:
    rows = len(next(iter(columns.values())).values)
    return Batch(np.linspace(-3, 3, rows) if score is None else score, None, weight, columns)


def coder_of(batch: Batch, least: float = 2, bins: int = 4) -> Coder:
    return learn_codes(batch, list(batch.features), least=least, bins=bins, score_bins=5, score_by="mass")


def codes_of(batch: Batch, **how: float) -> dict[str, list[int]]:
    coder = coder_of(batch, **how)
    codes = coder.encode(batch)
    return {feature.name: codes[:, place].tolist() for place, feature in enumerate(coder.features)}


def words_of(coder: Coder, codes: Iterable[int]) -> list[str]:
    """The words of codes of the first feature."""
    return [code_words(coder.features[0], int(code)) for code in codes]


def test_categories_by_value_the_frequent_first_and_the_rare_together() -> None:
    values = np.array([0, 1, 1, 1, 2, 2, -1, -1, 3], dtype=np.int32)
    batch = batch_of(place=Column("category", values, ("a", "b", "c", "d")))
    assert codes_of(batch)["place"] == [0, 2, 2, 2, 3, 3, 1, 1, 0]
    words = ["place is another value", "place is missing", "place is b", "place is c"]
    assert words_of(coder_of(batch), range(4)) == words


def test_other_levels_of_another_table_find_their_codes() -> None:
    coder = coder_of(batch_of(place=Column("category", np.array([0, 0, 1, 1, 1], dtype=np.int32), ("a", "b"))))
    other = batch_of(place=Column("category", np.array([2, 1, 0, -1], dtype=np.int32), ("b", "new", "a")))
    assert coder.encode(other)[:, 0].tolist() == [2, 0, 1, 0]


def test_a_missing_value_that_was_never_seen_is_another_value() -> None:
    number = Column("number", np.array([1.0, 1.0, 2.0, 2.0]))
    coder = coder_of(batch_of(number=number))
    assert coder.encode(batch_of(number=Column("number", np.array([np.nan, 1.0, 99.0]))))[:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("kind", "words"),
    [("boolean", ["x is missing", "x is false", "x is true"]), ("number", ["x is missing", "x <= 0.5", "0.5 < x"])],
)
def test_two_values_and_missing_ones(kind: Role, words: list[str]) -> None:
    batch = batch_of(x=Column(kind, np.array([0.0, 1.0, np.nan, 1.0, np.nan])))
    assert codes_of(batch)["x"] == [2, 3, 1, 3, 1]
    assert words_of(coder_of(batch), (1, 2, 3)) == words


def test_cuts_have_few_digits_and_separate_what_they_should() -> None:
    values = np.array([1.0, 1.0, 2.0, 2.0, 3.3333333, 3.3333334, 50.0, 50.0])
    coder = coder_of(batch_of(number=Column("number", values)))
    assert coder.features[0].cuts.tolist() == [1.5, 3.0, 30.0]
    assert words_of(coder, (1, 3)) == ["number <= 1.5", "3 < number <= 30"]


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=60), st.integers(2, 12)
)
@examples(40)
def test_bins_hold_about_equal_shares_and_never_split_equal_values(values: list[float], count: int) -> None:
    array = np.array(values)
    coding = coder_of(batch_of(number=Column("number", array)), bins=count).features[0]
    if coding.kind != "number":
        assert len(set(values)) == 1
        return
    assert (np.diff(coding.cuts) > 0).all()
    assert not np.isin(coding.cuts[:-1], np.inf).any()
    place = np.searchsorted(coding.cuts, array, side="left")
    held = np.bincount(place, minlength=len(coding.cuts) + 1)
    assert (held > 0).all()
    for bin_, rows in enumerate(held):
        heaviest = max(np.unique(array[place == bin_], return_counts=True)[1])
        assert rows <= len(array) / count + heaviest


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(2, 8), st.randoms())
def test_a_weight_is_so_many_rows_for_quantiles(values: list[int], count: int, chance) -> None:
    array = np.array(values, dtype=float)
    weight = np.array([chance.randint(0, 3) for _ in values], dtype=float)
    if not weight.sum():
        return
    repeated = np.repeat(array, weight.astype(int))
    for found, wanted in zip(quantile_gaps(array, weight, count), quantile_gaps(repeated, None, count), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_score_in_bins_of_equal_width_is_right_closed() -> None:
    prob = np.array([0.0, 0.2, 0.20001, 0.4, 0.99, 1.0])
    batch = batch_of(logit(prob), flag=Column("boolean", np.zeros(6)))
    coder = learn_codes(batch, [], least=1, bins=4, score_bins=5, score_by="width")
    assert coder.encode(batch)[:, 0].tolist() == [1, 1, 2, 2, 5, 5]
    assert code_words(coder.features[0], 2) == "0.2 < score <= 0.4"


def test_features_that_cannot_split_are_left_out() -> None:
    batch = batch_of(
        constant=Column("number", np.full(40, 3.0)),
        nothing=Column("number", np.full(40, np.nan)),
        one=Column("category", np.zeros(40, dtype=np.int32), ("a",)),
        own=Column("category", np.arange(40, dtype=np.int32), tuple(f"v{i:02}" for i in range(40))),
        good=Column("boolean", np.arange(40) % 2.0),
    )
    kept = [feature.name for feature in coder_of(batch).features]
    assert kept == ["good", ""]


def test_more_categories_than_codes_can_tell_apart() -> None:
    many = 70_000
    values = np.concatenate([np.arange(many), np.arange(many), np.zeros(5)]).astype(np.int32)
    batch = batch_of(place=Column("category", values, tuple(f"v{i:05}" for i in range(many))))
    coder = coder_of(batch)
    codes = coder.encode(batch)[:, 0]
    assert coder.features[0].codes == 65_001
    assert codes[0] == 1
    assert (codes[:many] > 0).sum() == 65_000
    assert len(np.unique(codes)) == 65_001


def test_arrays_and_back() -> None:
    batch = batch_of(
        place=Column("category", np.array([0, 0, 1, 1, -1, -1], dtype=np.int32), ("ä", "b, c")),
        number=Column("number", np.array([1.0, 2.0, np.nan, 4.0, 5.0, np.nan])),
    )
    coder = coder_of(batch)
    back = Coder.from_arrays(coder.to_arrays())
    np.testing.assert_array_equal(back.encode(batch), coder.encode(batch))
    assert [code_words(f, c) for f in back.features for c in range(f.codes)] == [
        code_words(f, c) for f in coder.features for c in range(f.codes)
    ]
    assert Coder.from_arrays(Coder(()).to_arrays()).features == ()


@pytest.mark.parametrize("count", [0, 1, 2, 99, 128, 129, 130, 257, 999])
def test_the_code_of_a_number_is_how_many_cuts_lie_below_it(count: int) -> None:
    rng = np.random.default_rng(count)
    cuts = np.sort(rng.normal(size=count))
    values = np.concatenate([rng.normal(size=500), cuts, [np.inf, -np.inf, np.nan]])
    codes = np.zeros((len(values), 2), dtype=np.uint16)
    for missing in (0, 1):
        encode_numbers(only_read(values), only_read(cuts), missing, 0, len(values), scratch(), codes, 1)
        expected = 1 + missing + np.searchsorted(cuts, values, side="left")
        np.testing.assert_array_equal(codes[:, 1], np.where(np.isnan(values), missing, expected))
        assert not codes[:, 0].any()


def test_chunks_with_the_same_levels_and_with_others() -> None:
    coder = coder_of(batch_of(place=Column("category", np.array([0, 0, 1, 1, -1, -1], dtype=np.int32), ("a", "b"))))
    known, other = ("a", "b", "new"), ("b", "c", "a")
    for levels in (known, known, other, known, (*known[:2], "other")):
        values = np.array([0, 1, 2, -1], dtype=np.int32)
        codes = coder.encode(Batch(np.zeros(4), None, None, {"place": Column("category", values, levels)}))
        said = words_of(coder, codes[:, 0])
        assert said[3] == "place is missing"
        for level, text in zip(levels, said, strict=False):
            assert text == (f"place is {level}" if level in ("a", "b") else "place is another value")
