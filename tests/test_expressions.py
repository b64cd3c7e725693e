"""Formulas as data."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from calcli import expressions as terms
from calcli.export.dialects import find
from calcli.export.sql import expression
from calcli.export.subexpressions import bottom_up
from calcli.expressions import Function, Input, Number, Term
from calcli.methods.post_processing import PostProcessing

X, PLACE = Input("x"), Input("place")
SHARED = terms.sigmoid(X)
EACH: dict[str, list[tuple[Term, ...]]] = {
    "one": [(terms.sigmoid(X), X)],
    "alike": [(terms.sigmoid(a * X + b), a * SHARED) for a, b in ((1.0, 0.5), (2.0, 0.5), (-3.0, 0.5))],
    "not alike": [(X * 2.0, Number(1.0)), (X + 2.0, terms.exp(X)), (terms.ln(terms.exp(X)), SHARED)],
    "of other lengths": [(terms.least(X, Number(1.0)), X), (terms.least(X, SHARED, Number(0.0)), X)],
}


def values(outputs: terms.Terms, x: np.ndarray, place: np.ndarray) -> np.ndarray:
    """What DuckDB makes of them, a column each."""
    texts = expression({f"output_{at}": one for at, one in enumerate(outputs)}, find("duckdb"))
    table = "(SELECT unnest($1) AS x, unnest($2) AS place)"
    rows = duckdb.execute(f"SELECT {texts} FROM {table}", [x.tolist(), place.tolist()]).fetchall()
    return np.array(rows, dtype=np.float64)


@pytest.mark.parametrize("each", EACH.values(), ids=EACH)
def test_a_term_at_a_place_is_the_one_that_stands_there(each: list[terms.Terms]) -> None:
    x = np.tile(np.linspace(-2.0, 2.0, 9), len(each))
    place = np.repeat(np.arange(float(len(each))), 9)
    expected = np.choose(place.astype(int)[:, None], [values(one, x, place) for one in each])
    np.testing.assert_array_equal(values(terms.at_place(PLACE, each), x, place), expected)


def test_terms_that_differ_in_numbers_alone_are_one_formula() -> None:
    each = [(terms.sigmoid(a * X), 1.0 - terms.sigmoid(a * X)) for a in range(1, 40)]
    found = bottom_up(terms.at_place(PLACE, each))
    assert sum(isinstance(one, Function) and one.name == "exp" for one in found) == 2


@pytest.mark.parametrize("prior_ratio", [None, (0.5, 3.0, 1.0)])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_last_steps_of_outputs_that_reach_0_and_1(classes: int, exact: bool, prior_ratio: tuple | None) -> None:
    x = np.linspace(0.0, 1.0, 9)
    prob = np.stack([1.0 - x, x] if classes == 2 else [x, 1.0 - x, 0.0 * x], axis=1)
    expected = prob if exact else 0.9 * prob + 0.1 / classes  # nine rows, and one of all classes
    if prior_ratio is not None:
        expected = expected * prior_ratio[:classes]
        expected = expected / expected.sum(axis=1, keepdims=True)
    last = PostProcessing(exact, prior_ratio and prior_ratio[:classes])
    given, parts = (x, (X,)) if classes == 2 else (prob, (X, 1.0 - X, Number(0.0)))
    found = last.apply(given, 9, classes, reaches_ends=True)
    np.testing.assert_allclose(found, expected[:, 1] if classes == 2 else expected, atol=1e-15)
    by_formula = values(last.formula(parts, 9, classes, reaches_ends=True), x, x)
    np.testing.assert_allclose(by_formula, expected[:, 1:] if classes == 2 else expected, atol=1e-15)
