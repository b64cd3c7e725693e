"""Columns of members: which they are, and which of their rows can be used."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from calcli.errors import DataError
from calcli.tables.side_tables import MemberColumns, encode_members, find_members, refuse_bad_members
from calcli.tables.source import open_source


def found(names, stem="m", variances=None):
    with open_source(pl.DataFrame({name: [0.5] for name in names})) as source:
        return find_members(source, stem, variances)


def test_members_stand_in_the_order_of_their_numbers_and_classes():
    assert found(["m_10", "x", "m_2", "m_x", "mm_1"]) == MemberColumns((("m_2",), ("m_10",)))
    by_class = MemberColumns((("m_0_a", "m_0_b"), ("m_1_a", "m_1_b")), (), ("a", "b"))
    assert found(["m_1_b", "m_0_a", "m_0_b", "m_1_a"]) == by_class
    assert found(["m_0_0", "m_0_1", "m_1_0", "m_1_1"]).classes == ("0", "1")
    with_variances = found(["v_1", "mu_0", "v_0", "mu_1"], "mu", "v")
    assert with_variances == MemberColumns((("mu_0",), ("mu_1",)), ("v_0", "v_1"))
    assert with_variances.names == ["mu_0", "mu_1", "v_0", "v_1"]


@pytest.mark.parametrize(
    ("names", "arguments", "said"),
    [
        (["member_0", "member_1"], ("membr",), "did you mean --members member"),
        (["x"], ("m",), "no columns m_0, m_1"),
        (["m_3"], ("m",), "only member 3"),
        (["m_0", "m_1_a", "m_1_b"], ("m",), "'m_0' has no class and 'm_1_a' has one"),
        (["m_0_a", "m_0_b", "m_1_a", "m_1_c"], ("m",), "member 1 predicts the classes a, c, and member 0 a, b"),
        (["m_0_a", "m_1_a"], ("m",), "one class only: 'a'"),
        (["m_0", "m_1", "v_0"], ("m", "v"), "there is no 'v_1'"),
        (["m_0", "m_1", "v_0", "v_1", "v_2"], ("m", "v"), "there is no 'm_2'"),
        (["m_0_a", "m_0_b", "m_1_a", "m_1_b", "v_0"], ("m", "v"), "--variances is for regression"),
    ],
)
def test_what_is_no_ensemble(names, arguments, said):
    with pytest.raises(DataError, match=said):
        found(names, *arguments)


def refused(frame: pl.DataFrame, variances=None) -> str:
    with open_source(frame) as source, pytest.raises(DataError) as error:
        refuse_bad_members(source, find_members(source, "m", variances))
    return str(error.value)


def test_bad_rows_are_counted_and_do_no_harm():
    frame = pl.DataFrame({"m_0": [0.5, None, math.nan, 0.1], "m_1": [0.5, 0.5, math.inf, 1.0000001]})
    encoded = encode_members(frame, found(frame.columns))
    assert encoded.bad.tolist() == [False, True, True, False]
    assert encoded.first == (1, "a prediction is missing")
    assert np.isfinite(encoded.mean).all()
    assert encoded.mean[3, 1] == 1.0
    assert "2 bad rows of 4 (a prediction is missing: 2, a prediction is infinite: 1)" in refused(frame)
    frame = pl.DataFrame({"m_0": ["0.5", "high"], "m_1": ["0.25", "0.5"]})
    assert "1 bad row of 2: a prediction is not a number" in refused(frame)


def test_logits_are_not_taken_for_probabilities():
    frame = pl.DataFrame({"m_0": np.linspace(-3, 3, 50), "m_1": np.linspace(-2, 4, 50)})
    assert "look like logits or regression predictions, not probabilities" in refused(frame)
    few = pl.DataFrame({"m_0": [0.5] * 49 + [1.2], "m_1": [0.5] * 50})
    assert "1 bad row of 50: a probability is outside [0, 1] (first in row 50)" in refused(few)


def test_probabilities_of_a_member_add_up_to_one():
    frame = pl.DataFrame(
        {"m_0_a": [0.5, 0.3, 0.5], "m_0_b": [0.5, 0.3, 0.5004], "m_1_a": [0.1] * 3, "m_1_b": [0.9] * 3}
    )
    encoded = encode_members(frame, found(frame.columns))
    assert encoded.bad.tolist() == [False, True, False]
    np.testing.assert_allclose(encoded.mean.sum(axis=2), 1.0, rtol=1e-15)


def test_variances_are_positive():
    frame = pl.DataFrame({"m_0": [7.0, 8.0], "m_1": [7.5, 8.0], "v_0": [1.0, 0.0], "v_1": [2.0, 2.0]})
    assert "1 bad row of 2: a variance is not positive" in refused(frame, "v")
    encoded = encode_members(frame.head(1), found(frame.columns, "m", "v"))
    assert encoded.bad is None
    assert encoded.mean.tolist() == [[7.0, 7.5]]
    assert encoded.variance.tolist() == [[1.0, 2.0]]
