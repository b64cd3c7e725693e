"""Metrics of classes in an order: by definition, and by what two classes and far errors must give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from calcli.metrics import catalog
from calcli.metrics.base import Options, Scored

RNG = np.random.default_rng(0)
PROB = RNG.dirichlet(np.ones(4), 500)
LABEL = np.array([RNG.choice(4, p=p) for p in PROB])
WEIGHT = RNG.exponential(size=500)


def threshold(k: int) -> Scored:
    """The event of class k or one after it."""
    return Scored(np.greater_equal(LABEL, k).astype(int), PROB[:, k:].sum(axis=1), WEIGHT)


def measured(name: str, rows: Scored):
    return catalog.measure([catalog.find(name)], rows, Options())[name]


def test_rps_is_the_sum_of_the_brier_scores_of_all_thresholds() -> None:
    parts = [measured("brier", threshold(k)).value for k in (1, 2, 3)]
    assert measured("rps", Scored(LABEL, PROB, WEIGHT)).value == pytest.approx(sum(parts))


def test_cumulative_ece_is_the_mean_of_the_eces_of_all_thresholds() -> None:
    parts = [measured("ece", threshold(k)).value for k in (1, 2, 3)]
    found = measured("cumulative_ece", Scored(LABEL, PROB, WEIGHT))
    assert found.value == pytest.approx(np.mean(parts))
    assert found.per_class == (None, *map(pytest.approx, parts))


def test_two_classes_have_an_order_anyway() -> None:
    rows = threshold(2)
    assert measured("rps", rows).value == measured("brier", rows).value
    assert measured("cumulative_ece", rows).value == pytest.approx(measured("ece", rows).value)


def test_a_far_error_costs_more_than_a_near_one() -> None:
    near, far = (Scored(np.array([label]), np.array([[0.0, 0.1, 0.9]])) for label in (1, 0))
    assert measured("rps", near).value == pytest.approx(0.81)
    assert measured("rps", far).value == pytest.approx(1.0 + 0.81)
    assert measured("brier_sum", near).value == pytest.approx(2 * 0.81)


def test_they_are_measured_where_an_order_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pl.DataFrame({"label": LABEL} | {f"prob_{k}": PROB[:, k] for k in range(4)})
    assert set(calcli.evaluate(table, ordered=True).definitions) - set(calcli.evaluate(table).definitions) == {
        "rps",
        "cumulative_ece",
    }
    assert "rps" not in calcli.evaluate(table, metrics="all").definitions
    table.write_parquet(tmp_path / "rows.parquet")
    assert main(["evaluate", str(tmp_path / "rows.parquet"), "--ordered", "--metrics", "nll,rps"]) == 0
    assert "the order of the classes: 0 < 1 < 2 < 3" in capsys.readouterr().err.replace("\n", " ")
    assert main(["evaluate", str(tmp_path / "rows.parquet"), "--metrics", "rps"]) == 0
    assert "the order of the classes: 0 < 1 < 2 < 3" in capsys.readouterr().err.replace("\n", " ")
    chosen = calcli.fit(table, method="auto", criterion="rps", metrics="nll,rps", features=())
    assert chosen.report.differences[1].lo is not None
