from __future__ import annotations

import itertools
import operator
import re

import numpy as np
import pytest

from calcli.batch import Column
from calcli.learners.conditions import Axis, Condition, rows_of
from calcli.learners.segments import MORE, Search
from calcli.numeric.links import log_odds, sigmoid

RNG = np.random.default_rng(7)
ROWS = 600
COLUMNS = {
    "age": Column("number", np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.integers(0, 12, ROWS))),
    "price": Column("number", RNG.lognormal(size=ROWS)),
    "huge": Column("number", 1e9 + np.where(RNG.random(ROWS) < 0.05, np.inf, RNG.normal(size=ROWS))),
    "flag": Column("boolean", RNG.choice([0.0, 1.0, np.nan], ROWS)),
    "device": Column("category", RNG.integers(-1, 3, ROWS).astype(np.int32), ("phone", "tablet", "tv")),
    "constant": Column("number", np.ones(ROWS)),
}


def fulfilled(text: str, column: Column) -> np.ndarray:
    """The rows for which a text is true, as a reader takes it."""
    words = column.role == "category"
    values = np.array([*column.levels, "missing"])[column.values] if words else column.values
    if text.endswith(" is missing"):
        return values == "missing" if words else np.isnan(values)
    if between := re.fullmatch(r"(\S+) < \w+ <= (\S+)", text):
        return (values > float(between[1])) & (values <= float(between[2]))
    _, sign, value = text.split(" ")
    number = {"false": 0.0, "true": 1.0}.get(value, value)
    compare = {"=": operator.eq, ">": operator.gt, "<=": operator.le}[sign]
    return compare(values, number if words else float(number))


@pytest.mark.parametrize("name", COLUMNS)
def test_a_condition_holds_where_its_text_is_true(name: str) -> None:
    column = COLUMNS[name]
    axis = Axis.of(name, column)
    codes = axis.codes(column)[None]
    choices = axis.choices()
    texts = []
    for lo, hi in zip(choices.lo.tolist(), choices.hi.tolist(), strict=True):
        condition = Condition(0, lo, hi)
        texts.append(axis.text(condition))
        assert (rows_of(codes, (condition,)) == fulfilled(texts[-1], column)).all(), texts[-1]
    assert len(set(texts)) == len(texts)
    assert bool(texts) == (name != "constant")


def brute_force(columns: dict[str, Column], label, prob, weight) -> dict[frozenset[str], float]:
    """The worth of each conjunction of up to three conditions on different features, by the definition."""
    w = weight / weight.mean()
    axes = {name: Axis.of(name, column) for name, column in columns.items()}
    single = {}
    for name, axis in axes.items():
        for lo, hi, bounds in zip(*(part.tolist() for part in axis.choices()), strict=True):
            text = axis.text(Condition(0, lo, hi))
            single[name, text] = (fulfilled(text, columns[name]), bounds)
    # The shift of all rows, by bisection.
    low, high = -5.0, 5.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if w @ (label - sigmoid(log_odds(prob) + middle)) > 0 else (low, middle)
    residual, gap = w * (label - sigmoid(log_odds(prob) + low)), w * (label - prob)
    search = Search(list(axes.values()), np.stack([axes[n].codes(c) for n, c in columns.items()]), label, prob, weight)
    variance = search.variance
    assert (variance >= w**2 * prob * (1 - prob) - 1e-12).all()
    worth = {}
    for count in (1, 2, 3):
        for chosen in itertools.combinations(single, count):
            if len({name for name, _ in chosen}) < count:
                continue
            rows = np.logical_and.reduce([single[one][0] for one in chosen])
            of_rows, share = variance[rows].sum(), variance[rows].sum() / variance.sum()
            if of_rows < search.least or share > 1 - 1e-9 or residual[rows].sum() * gap[rows].sum() <= 0:
                continue
            square = min(residual[rows].sum() ** 2 / (of_rows * (1 - share)), gap[rows].sum() ** 2 / of_rows)
            bounds = sum(single[one][1] for one in chosen)
            worth[frozenset(text for _, text in chosen)] = square - search.cost * (1 + MORE * (bounds - 1))
    return worth


@pytest.mark.parametrize("weighted", [False, True])
def test_the_first_segment_is_the_best_of_all(weighted: bool) -> None:
    rng = np.random.default_rng(3)
    rows = 3000
    columns = {
        "flag": Column("boolean", rng.choice([0.0, 1.0, np.nan], rows)),
        "device": Column("category", rng.integers(0, 3, rows).astype(np.int32), ("phone", "tablet", "tv")),
        "rooms": Column("number", rng.integers(1, 5, rows).astype(np.float64)),
    }
    prob = sigmoid(rng.normal(-1.0, 1.0, rows))
    wrong = (columns["flag"].values == 1.0) & (columns["device"].values == 1)
    label = (rng.random(rows) < np.where(wrong, np.minimum(prob + 0.3, 1.0), prob)).astype(np.float64)
    weight = rng.integers(1, 4, rows).astype(np.float64) if weighted else np.ones(rows)
    axes = [Axis.of(name, column) for name, column in columns.items()]
    codes = np.stack([axis.codes(column) for axis, column in zip(axes, columns.values(), strict=True)])
    search = Search(axes, codes, label, prob, weight)
    first, *others = search.segments(5)
    worth = brute_force(columns, label, prob, weight)
    texts = frozenset(first.text(axes).split(" and "))
    assert texts == max(worth, key=worth.__getitem__) == {"flag = true", "device = tablet"}
    assert first.square - search.cost == pytest.approx(worth[texts], rel=1e-4)
    # Its rows are right on average once they are shifted, and no later segment is one more variant of it.
    shifted = sigmoid(log_odds(prob[wrong]) + first.shift)
    assert weight[wrong] @ shifted == pytest.approx(weight[wrong] @ label[wrong], rel=1e-5)
    assert all(one.square < first.square / 4 for one in others)


def test_two_conditions_of_which_neither_says_anything_alone() -> None:
    """The score is too low where one of two columns is what the other is not, and too high elsewhere."""
    rng, rows = np.random.default_rng(5), 6000
    columns = {f"x{place}": Column("number", rng.normal(size=rows)) for place in range(12)}
    columns["device"] = Column("category", rng.integers(0, 2, rows).astype(np.int32), ("phone", "tablet"))
    prob = rng.uniform(0.3, 0.7, rows)
    differ = (columns["x3"].values > 0) != (columns["device"].values == 1)
    label = (rng.random(rows) < prob + np.where(differ, 0.15, -0.15)).astype(np.float64)
    axes = [Axis.of(name, column) for name, column in columns.items()]
    codes = np.stack([axis.codes(column) for axis, column in zip(axes, columns.values(), strict=True)])
    search = Search(axes, codes, label, prob, None)
    for name in ("x3", "device"):
        alone = brute_force({name: columns[name]}, label, prob, np.ones(rows))
        assert max(alone.values()) < 0.0  # no condition is worth what it costs
    found = list(search.segments(4))
    assert {frozenset(axes[one.axis].name for one in each.conditions) for each in found} == {
        frozenset({"x3", "device"})
    }
    assert all(each.square > 25 for each in found)
    shifts = {tuple(sorted(each.text(axes).split(" and "))): each.shift for each in found}
    assert [(shift > 0) == ("tablet" in text[0]) for text, shift in shifts.items() if "<=" in text[1]] == [True] * 2
