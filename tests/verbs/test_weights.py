"""Laws of weights, through the verbs: their unit changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.tables.binding_types import Flags

ROWS = 300
WEIGHTED = Flags(weight="w", features=("f",))
UNITS = pytest.mark.parametrize("unit", [7.0, 1.0 / ROWS, 1e305, 1e-305])


def table(unit: float = 1.0) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=ROWS)
    label = (rng.random(ROWS) < 1 / (1 + np.exp(-truth))).astype(int)
    weight = rng.gamma(2.0, size=ROWS) * unit
    return pl.DataFrame({"logit": 2 * truth, "f": rng.normal(size=ROWS), "label": label, "w": weight})


def numbers(document: Any) -> list[float]:
    """All numbers of a JSON document, in order."""
    if isinstance(document, dict):
        return [number for key in sorted(document) if key != "seconds" for number in numbers(document[key])]
    if isinstance(document, list):
        return [number for part in document for number in numbers(part)]
    return [float(document)] if isinstance(document, int | float) else []


@UNITS
@pytest.mark.parametrize("method", ["platt", "sms", "isotonic", "bbq", "venn-abers", "spline", "heterogeneous"])
def test_the_unit_of_weights_changes_no_fit(method: str, unit: float) -> None:
    one, other = (calcli.fit(table(each), method=method, flags=WEIGHTED) for each in (1.0, unit))
    np.testing.assert_allclose(other.model.predict(table()), one.model.predict(table()), rtol=1e-6)
    np.testing.assert_allclose(numbers(other.report.to_json()), numbers(one.report.to_json()), rtol=1e-6, atol=1e-9)


@UNITS
def test_the_unit_of_weights_changes_no_metric_and_no_curve(unit: float) -> None:
    one, other = (calcli.evaluate(table(each), metrics="all", flags=WEIGHTED).to_json() for each in (1.0, unit))
    np.testing.assert_allclose(numbers(other), numbers(one), rtol=1e-6, atol=1e-9)
    curves = [calcli.diagram(table(each), kind="smooth", flags=WEIGHTED).to_json() for each in (1.0, unit)]
    np.testing.assert_allclose(*map(numbers, curves), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("weight", [0.1, 1e308, 5e-324])
def test_equal_weights_are_no_weights(weight: float) -> None:
    equal = table().with_columns(w=pl.lit(weight))
    one, other = (calcli.fit(equal.drop("w"), method="beta"), calcli.fit(equal, method="beta", flags=WEIGHTED))
    np.testing.assert_allclose(other.model.predict(table()), one.model.predict(table()), rtol=1e-9)
    plain, weighted = calcli.evaluate(equal.drop("w")), calcli.evaluate(equal, flags=WEIGHTED)
    np.testing.assert_allclose(*(numbers(each.to_json()["scores"]) for each in (weighted, plain)), rtol=1e-9)
