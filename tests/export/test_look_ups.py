"""Steps of many cuts, found by looking the cuts up."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest

from calcli import expressions as terms
from calcli.export import dialects, sql
from calcli.export.look_ups import MOST_CUTS, by_look_ups
from calcli.expressions import Input, Side, Steps, Term


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("count", [MOST_CUTS + 1, 511, 512, 1_000])
def test_the_value_is_that_of_a_search(count: int, side: Side) -> None:
    """On cuts, beside them, and beyond all of them; the same value stands in places that follow each other."""
    rng = np.random.default_rng(count)
    cuts, values = np.sort(rng.normal(size=count)), np.repeat(rng.normal(size=count // 2 + 1), 2)[: count + 1]
    x = np.concatenate([cuts, np.nextafter(cuts, -9.0), np.nextafter(cuts, 9.0), [-1e300, 1e300]])
    term = terms.steps(Input("x"), cuts, values, side) * 2.0 + terms.steps(Input("x"), cuts[:5], values[:6], side)
    rows = pl.DataFrame({"x": x})
    text = sql.query({"y": term}, dialects.find("duckdb"), "rows", [])
    assert text.count("CASE") < count  # a comparison for each cut in every digit, in place of one for each cut
    found = duckdb.sql(text).pl()["y"].to_numpy()
    place = np.searchsorted(cuts, x, side), np.searchsorted(cuts[:5], x, side)
    np.testing.assert_allclose(found, values[place[0]] * 2.0 + values[place[1]], rtol=1e-15)
    assert len(rows) == len(found)


def test_nothing_else_is_made_anew() -> None:
    x = Input("x")
    few = terms.steps(x, np.arange(5.0), np.arange(6.0), "left")
    of_terms = terms.steps(x, np.arange(99.0), [x + float(one) for one in range(100)], "left")
    outputs: dict[str, Term] = {"few": terms.exp(few) + terms.choose(x > few, few, None), "terms": of_terms}
    assert by_look_ups(outputs) == outputs
    many = terms.steps(x, np.arange(99.0), np.arange(100.0), "left")
    found = by_look_ups({"few": outputs["few"], "many": terms.choose(many > few, few, many)})
    assert found["few"] is outputs["few"]
    assert isinstance(many, Steps)
    assert not any(isinstance(one, Steps) and len(one.cuts) > 5 for one in sql.bottom_up(found.values()))
