"""Axes on their scales, the choice of a scale, and text in lines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.diagrams.axis import Axis, Scale
from calcli.diagrams.curves import Curve, axis_of, legend
from calcli.diagrams.image import _columns, _wide
from calcli.diagrams.layout import lines
from calcli.metrics.base import Scored
from tests.support.curves import sample, traced

AXES = (Axis(0.4, 0.05), Axis(1.0, 1e-5, "log"), Axis(0.999, 1e-4, "logit"), Axis(0.2, -0.1))


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.scale)
def test_places_and_values_are_inverse_and_rise(axis: Axis) -> None:
    shares = np.linspace(0, 1, 21)
    values = [axis.value(share) for share in shares]
    assert [axis.share(value) for value in values] == pytest.approx(shares, abs=1e-9)
    assert values[0] == pytest.approx(axis.begin)
    assert values[-1] == pytest.approx(axis.end)
    assert (np.diff(values) > 0).all()
    assert (axis.share(axis.begin - 1), axis.share(axis.end + 1)) == (0.0, 1.0)


def test_scales() -> None:
    assert Axis(1.0, 1e-4, "log").share(0.01) == pytest.approx(0.5)
    assert Axis(0.99, 0.01, "logit").share(0.5) == pytest.approx(0.5)
    assert list(Axis(1.0, 1e-4, "log").labels().values()) == ["1e-4", "1e-3", "0.01", "0.1", "1"]
    assert list(Axis(0.99, 0.01, "logit").labels().values()) == ["0.01", "0.1", "0.5", "0.9", "0.99"]
    assert list(Axis(0.4, 0.05).labels().values()) == ["0.1", "0.2", "0.3", "0.4"]


def moved(shift: float) -> Curve:
    """An isotonic curve of calibrated scores whose log-odds are `shift` on average."""
    rng = np.random.default_rng(0)
    prob = 1 / (1 + np.exp(-rng.normal(shift, 1.0, 20_000)))
    return traced(Scored((rng.random(20_000) < prob).astype(np.int64), prob), "corp")


@pytest.mark.parametrize(("shift", "scale"), [(-6.0, "log"), (-0.5, "prob"), (6.0, "logit")])
def test_the_scale_follows_from_where_the_scores_are_and_is_said(shift: float, scale: Scale) -> None:
    curve = moved(shift)
    assert axis_of([curve]).scale == scale
    said = [text for mark, text in legend([curve], "none") if mark == "scale"]
    word = {"log": "logarithmic axes", "logit": "axes of log-odds"}
    assert [text.partition(":")[0] for text in said] == ([] if scale == "prob" else [word[scale]])


def test_bars_of_equal_width_keep_even_axes() -> None:
    rare = sample(3000)
    assert axis_of([traced(Scored(rare.label, rare.prob / 100))]).scale == "prob"
    assert axis_of([traced(Scored(rare.label, rare.prob**12), binning="mass")]).scale == "log"


WORDS = st.lists(st.sampled_from(["p", "< 0.005", "observed", "0.68;", "5 %", "over-confident:", "a"]), min_size=1)


@given(WORDS, st.integers(10, 40))
def test_lines_keep_all_words_within_the_width(words: list[str], width: int) -> None:
    text = " ".join(words)
    found = lines(text, width, len)
    assert " ".join(found) == text
    for one in found:
        assert len(one) <= width or " " not in one or "0" in one  # a number and its word


def test_a_number_stays_with_its_word_and_no_line_is_one_word() -> None:
    text = "Over-confident: predicted 0.85, observed 0.68; predicted 0.12, observed 0.24 (p < 0.005)."
    for width in range(22, 90):
        found = lines(text, width, len)
        assert not any(line.endswith((" <", "predicted", "observed", "(p")) for line in found)
    assert lines("one two three four", 13, len) == ["one two", "three four"]


def test_the_columns_of_a_legend_fit_and_fill_its_rows() -> None:
    texts = ["observed rate", "as predicted", "predicted too high", "not significant", "95 % range"]
    for width in (1.0, 4.0, 6.0, 8.0, 20.0):
        columns = _columns(texts, width)
        down = -(-len(texts) // columns)
        wide = [max(_wide(text, 9.0) for text in texts[at : at + down]) for at in range(0, len(texts), down)]
        assert columns == 1 or sum(wide) < width
    assert _columns(texts, 20.0) == 5
