from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from calcli.errors import UsageError
from calcli.metrics import catalog
from calcli.metrics.base import Options, Scored
from calcli.metrics.clinical import e50, e90, ici
from calcli.metrics.regression import o_e
from calcli.numeric.lowess import smoothed
from calcli.reports.gates import parse
from tests.support.drawing import examples
from tests.support.scored import golden, rows_of
from tests.support.strategies import binary_rows

DEFAULT = Options()


def by_hand(rows: Scored) -> np.ndarray:
    """The lowess rate at each row, one weighted least-squares line after the other."""
    x, y, w = rows.prob, rows.label, rows.weights
    rates = []
    for at in x:
        away = np.abs(x - at)
        order = np.argsort(away)
        within = np.cumsum(w[order]) >= 2 / 3 * w.sum() * (1 - 1e-9)
        h = away[order][within.argmax()]
        k = w * np.where(away < h, (1 - (away / (h or 1)) ** 3) ** 3, 0.0) if h > 0 else w * (away == 0)
        middle = np.average(x, weights=k)
        if np.average((x - middle) ** 2, weights=k) > (1e-3 * np.ptp(x)) ** 2:
            rates.append(np.polyval(np.polyfit(x, y, 1, w=np.sqrt(k)), at))
        else:
            rates.append(np.average(y, weights=k))
    return np.array(rates)


@pytest.mark.parametrize(
    ("count", "known", "near"),
    [
        (240, (0.09149981707912483, 0.09479278469251445, 0.15159909936887), 1e-10),
        (999, (0.09774459478342457, 0.10606670956170428, 0.15849080130748727), 5e-3),  # more rows than cells
    ],
)
def test_as_statsmodels_has_it(count, known, near):
    """Lowess of statsmodels 0.15.0 (frac=2/3, it=0, delta=0), and numpy's quantiles of |p - its values|."""
    rows = golden("data").take(slice(0, count))
    assert [metric(rows, DEFAULT).value for metric in (ici, e50, e90)] == pytest.approx(known, rel=near)


@examples(10)
@given(binary_rows(least=2))
def test_ici_is_the_mean_distance_from_the_line_through_each_prediction(rows):
    rows = rows.with_positive_weight
    expected = np.average(np.abs(rows.prob - by_hand(rows)), weights=rows.weight)
    assert ici(rows, DEFAULT).value == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_observed_over_expected():
    """At one prediction the interval is that of the rate, s / sqrt(n), but for its skewness."""
    rows = Scored(np.repeat([0, 1], [500, 500]), np.full(1000, 0.4))
    found = o_e(rows, DEFAULT)
    assert found.value == pytest.approx(0.5 / 0.4)
    width = 1.959964 * np.sqrt(0.25 / 999) / 0.4
    assert (found.lo, found.hi) == pytest.approx((1.25 - width, 1.25 + width), rel=1e-6)
    none = o_e(Scored(np.zeros(5, dtype=np.int64), np.full(5, 0.2)), DEFAULT)
    assert (none.value, none.lo) == (0.0, None)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_the_interval_of_observed_over_expected_holds_the_truth(weighted):
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(600):
        p = rng.beta(1, 20, 1500)
        label = (rng.random(1500) < 1.3 * p).astype(np.int64)
        found = o_e(Scored(label, p, rng.uniform(0.2, 3, 1500) if weighted else None), DEFAULT)
        held += found.lo <= 1.3 <= found.hi
    assert held / 600 == pytest.approx(0.95, abs=0.03)


def test_the_set_has_its_names():
    names = [metric.name for metric in catalog.choose("clinical")]
    assert {*names} >= {"ici", "e50", "e90", "o_e", "intercept", "slope"}
    found = catalog.measure(catalog.choose("clinical"), rows_of(300), DEFAULT)
    assert all(found[name].lo < found[name].value < found[name].hi for name in ("o_e", "intercept", "slope"))


def by_dcurves(rows: Scored, threshold: float) -> float:
    """As dcurves has it: tp/n - fp/n t/(1 - t), rows with at least t being positive."""
    yes = rows.prob >= threshold
    tp = rows.weights[yes & (rows.label == 1)].sum() / rows.total_weight
    fp = rows.weights[yes & (rows.label == 0)].sum() / rows.total_weight
    return tp - fp * threshold / (1 - threshold)


@pytest.mark.parametrize("threshold", [0.05, 0.2, 0.5])
def test_net_benefit(threshold):
    rows = rows_of(400, weighted=True)
    rows = replace(rows, prob=np.round(rows.prob, 2))  # some lie on the threshold
    spec = catalog.find(f"net_benefit:{threshold}")
    found = catalog.measure([spec], rows, DEFAULT)[spec.name]
    assert found.value == pytest.approx(by_dcurves(rows, threshold), rel=1e-12)
    assert f"{threshold:g}" in found.definition.approximation


DCURVES = {0.05: 0.5031052631578947, 0.1: 0.4616666666666667, 0.3: 0.33571428571428574, 0.5: 0.232, 0.8: 0.044}


def test_net_benefit_as_dcurves_has_it():
    """`dca` of dcurves 1.1.7 on these rows."""
    rows = golden("data")
    for threshold, known in DCURVES.items():
        spec = catalog.find(f"net_benefit:{threshold}")
        assert catalog.measure([spec], rows, DEFAULT)[spec.name].value == pytest.approx(known, rel=1e-9)


def test_net_benefit_of_the_predicted_class():
    rows = rows_of(300, classes=3)
    found = catalog.find("net_benefit:0.6").load()(rows, DEFAULT)
    right, sure = rows.prob.argmax(axis=1) == rows.label, rows.prob.max(axis=1) >= 0.6
    assert found.value == pytest.approx(np.mean(sure & right) - np.mean(sure & ~right) * 1.5)
    assert found.per_class[2] == pytest.approx(by_dcurves(rows.one_vs_rest(2), 0.6))


def test_thresholds_are_part_of_the_name():
    assert [metric.name for metric in catalog.choose("net_benefit:.10,net_benefit:0.1,net_benefit")] == [
        "net_benefit:0.1", "net_benefit"
    ]  # fmt: skip
    gate = parse("raw.net_benefit:.1.diff.lo < -0.5 and net_benefit:0.25@age:10=1 > 0")
    assert str(gate) == "raw.net_benefit:0.1.diff.lo < -0.5 and net_benefit:0.25@age:10=1 > 0.0"


@pytest.mark.parametrize("name", ["net_benefit:1", "net_benefit:0", "net_benefit:", "net_benefit:x", "nll:0.1"])
def test_what_is_no_threshold_is_refused(name):
    with pytest.raises(UsageError, match="threshold"):
        catalog.choose(name)


@pytest.mark.parametrize("rows", [384, 640, 1152])
def test_the_smoothed_rate_is_the_same_from_either_end_and_on_any_scale_of_weights(rows: int) -> None:
    """Some of so many rows lie exactly between two cells, where rounding must not decide."""
    rng = np.random.default_rng(rows)
    x, y = np.sort(rng.random(rows)), rng.integers(0, 2, rows).astype(float)
    one = smoothed(x, y, np.ones(rows))
    for weight in (0.1, 0.7, 3.0):
        np.testing.assert_allclose(smoothed(x, y, np.full(rows, weight)), one, rtol=1e-9)
    np.testing.assert_allclose(1.0 - smoothed(1.0 - x[::-1], 1.0 - y[::-1], np.ones(rows))[::-1], one, rtol=1e-9)
