from __future__ import annotations

import dataclasses

import pytest

from calcli.diagrams.axis import decimals, ticks
from calcli.diagrams.captions import caption
from calcli.diagrams.curves import Curve, amount, axes, axis_end, percent, short
from tests.support.curves import OVER, bars, diagnosis, line, rejection

BOTH = "predicted 0.90, observed 0.70; predicted 0.10, observed 0.30 (p < 0.005)."


@pytest.mark.parametrize(
    ("fault", "finding", "text"),
    [
        ("over", "over", f"Over-confident: {BOTH}"),
        ("under", "under", f"Under-confident: {BOTH}"),
        ("high", "high", "Too high: predicted 0.90, observed 0.70 (p < 0.005)."),
        ("low", "low", "Too low: predicted 0.10, observed 0.30 (p < 0.005)."),
        ("shape", "mixed", f"Too high and too low: {BOTH}"),
        (None, "chance", "No miscalibration detected: joint calibration test at the 5 % level, p = 0.4, 130 rows."),
    ],
)
def test_a_score_is_described_by_the_result_of_its_tests(fault, finding: str, text: str) -> None:
    found = caption(bars(*OVER, fault=fault))
    assert (found.finding, found.text) == (finding, text)
    assert found.good == (fault is None)


OFF_TOGETHER = diagnosis("high", p=0.031, predicted=0.348, happened=0.31)


@pytest.mark.parametrize(
    ("curve", "text"),
    [
        (
            bars((0.6, 0.5, 10), (0.9, 0.81, 90), of=None, fault="high"),
            "Over-confident: confidence 0.90, accuracy 0.81 (p < 0.005).",
        ),
        (
            bars((0.6, 0.7, 10), (0.8, 0.9, 90), of=None, fault="low"),
            "Under-confident: confidence 0.80, accuracy 0.90 (p < 0.005).",
        ),
        (
            dataclasses.replace(bars(*OVER, off=False), diagnosis=OFF_TOGETHER),
            "Too high: mean prediction 0.35, observed rate 0.31 (p = 0.031).",
        ),
        (dataclasses.replace(bars(*OVER), diagnosis=None), "Not tested: the score was fitted on these rows."),
        (dataclasses.replace(bars(*OVER), points=()), "No data: there are no rows."),
        (
            rejection(0.2, 0.15, 0.1, 0.05, 0.01),
            "Rejecting helps: without the least certain 20 % the error rate is 15 % instead of 20 %.",
        ),
        (
            rejection(0.2, 0.3, 0.4, 0.4, 0.4),
            "Rejecting does not help: without the least certain 20 % the error rate is 30 % instead of 20 %.",
        ),
        (bars((0.9, 0.81, 10), fault="high"), "Too high: predicted 0.90, observed 0.81 (p < 0.005)."),
        (bars((0.01, 0.013, 10), fault="low"), "Too low: predicted 0.010, observed 0.013 (p < 0.005)."),
    ],
)
def test_the_text_of_a_curve(curve: Curve, text: str) -> None:
    """Numbers have as many decimals as it takes to tell them apart."""
    assert caption(curve).text == text


def test_the_example_is_one_beyond_chance_and_of_many_rows() -> None:
    few_rows = bars((0.3, 0.1, 1000), (0.9, 0.5, 5), fault="high")
    assert caption(few_rows).text == "Too high: predicted 0.30, observed 0.10 (p < 0.005)."
    by_chance = dataclasses.replace(few_rows.points[0], off=False)
    assert caption(dataclasses.replace(few_rows, points=(by_chance, few_rows.points[1]))).text.endswith(
        "0.90, observed 0.50 (p < 0.005)."
    )


def test_axes_say_what_is_shown() -> None:
    assert axes(bars(*OVER), "clicked") == ("predicted probability that clicked is 1", "observed rate of clicked = 1")
    assert axes(bars(*OVER, of=None), "clicked") == ("confidence in the predicted class", "accuracy")
    assert axes(rejection(0.1), "clicked")[1] == "error rate of the rows kept"


def test_rare_classes_fill_the_picture() -> None:
    assert axis_end([bars(*OVER)]) == 1.0
    assert axis_end([line("smooth", (0.001, 0.002, 1.0), (0.031, 0.02, 1.0))]) == 0.05
    assert axis_end([rejection(0.19, 0.1)]) == 0.2


@pytest.mark.parametrize(
    ("high", "found"),
    [(1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0.05, [0, 0.01, 0.02, 0.03, 0.04, 0.05]), (0.3, [0, 0.1, 0.2, 0.3])],
)
def test_ticks_are_round(high: float, found: list[float]) -> None:
    assert ticks(high) == pytest.approx(found)


def test_numbers() -> None:
    assert [short(rows) for rows in (7, 999, 1000, 4122, 99_400, 999_600, 12_345_678, 5e9)] == [
        *("7", "999", "1k", "4.1k", "99k", "1M", "12M", "5G"),
    ]
    assert [percent(share) for share in (0.0123, 0.2, 0.999)] == ["1.23 %", "20 %", "100 %"]
    assert [amount(rows) for rows in (12345.0, 7.0, 2.5)] == ["12,345", "7", "2.5"]
    assert decimals([0.0, 0.25]) == 2
    assert decimals([0.0, 1.0]) == 1
    assert decimals([0.0, 500.0, 1000.0]) == 0
    assert decimals([0.0, 2.5, 10.0]) == 1
