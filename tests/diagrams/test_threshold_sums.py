"""Net benefit and Murphy's curve, beside their definitions row by row."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.decisions.costs import Costs
from calcli.diagrams.captions import caption
from calcli.diagrams.charts import curve_charts
from calcli.diagrams.curve_builder import CurveBuilder
from calcli.diagrams.curves import Curve, Kind
from calcli.metrics.base import Options, Scored
from calcli.metrics.proper import brier
from calcli.tables.weights import halves
from tests.support.curves import sample

SPAN = (0.05, 0.6)


def pair(*, weighted: bool = False) -> list[Scored]:
    """A score that is over-confident, and what it should be."""
    rows = sample(1500, slope=2.0, weighted=weighted)
    z = np.log(rows.prob / (1 - rows.prob)) / 2
    return [Scored(rows.label, prob, rows.weight) for prob in (np.round(rows.prob, 2), 1 / (1 + np.exp(-z)))]


def traced(scores: list[Scored], kind: Kind, span: tuple[float, ...] | None = SPAN, parts: int = 1) -> list[Curve]:
    made = CurveBuilder(["raw", "new"][: len(scores)], ["0", "1"], (kind,), span=span)
    for chosen in np.array_split(np.arange(len(scores[0])), parts):
        made.add([one.take(chosen) for one in scores])
    return list(made.curves())


def by_row(rows: Scored, kind: Kind, t: float) -> np.ndarray:
    """What the decision of each row is worth, as dcurves and model-diagnostics' ElementaryScoringFunction have it."""
    yes = rows.prob >= t
    if kind == "benefit":
        return np.where(yes, np.where(rows.label == 1, 1.0, -t / (1 - t)), 0.0)
    return (yes.astype(float) - (t <= rows.label)) * (t - rows.label)


@pytest.mark.parametrize("kind", ["benefit", "murphy"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_curve_is_the_mean_over_rows_and_its_difference_has_an_interval(kind: Kind, weighted: bool) -> None:
    scores = pair(weighted=weighted)
    curves = traced(scores, kind, parts=3)
    raw, new, apart = (next(one for one in curves if which(one)) for which in (
        lambda one: one.score == "raw",
        lambda one: one.score == "new" and one.versus is None,
        lambda one: one.versus == "raw",
    ))  # fmt: skip
    w = scores[0].weights / scores[0].total_weight
    for mine, theirs, difference in zip(raw.points, new.points, apart.points, strict=True):
        rows = [by_row(one, kind, mine.x) for one in scores]
        assert (mine.y, theirs.y) == pytest.approx((w @ rows[0], w @ rows[1]), abs=1e-12)
        gap = rows[1] - rows[0]
        error = 1.959964 * np.sqrt((w**2 * (gap - w @ gap) ** 2).sum())
        assert (difference.y, difference.hi - difference.lo) == pytest.approx((w @ gap, 2 * error), abs=1e-9)
        assert mine.n == pytest.approx(scores[0].weights[scores[0].prob >= mine.x].sum())
    assert len(raw.points) == 101
    assert (raw.points[0].x, raw.points[-1].x) == SPAN


@pytest.mark.parametrize("kind", ["benefit", "murphy"])
def test_a_row_with_a_soft_label_is_one_row_of_its_mean_worth(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    share, weight = rng.random(300), rng.exponential(size=300)
    probs, labels = rng.random((2, 300)), np.tile([1, 0], 300)
    both = [Scored(labels, np.repeat(prob, 2), halves(share, weight)) for prob in probs]
    made = CurveBuilder(["raw", "new"], ["0", "1"], (kind,), span=SPAN, halved=True)
    for part in (slice(0, 200), slice(200, 600)):
        made.add([one.take(part) for one in both])
    w = weight / weight.sum()
    for found in made.curves()[-1].points:
        yes, no = ([by_row(Scored(np.full(300, label), prob), kind, found.x) for prob in probs] for label in (1, 0))
        gap = share * (yes[1] - yes[0]) + (1 - share) * (no[1] - no[0])
        error = 1.959964 * np.sqrt((w**2 * (gap - w @ gap) ** 2).sum())
        assert (found.y, found.hi - found.lo) == pytest.approx((w @ gap, 2 * error), abs=1e-7)


def test_with_costs_it_is_what_decisions_save_beside_acting_on_none() -> None:
    scores, costs = pair(weighted=True), Costs(2.0, 7.0)
    span = (0.1, costs.threshold, 0.5)
    raw, *_, new, apart = (one.in_money(costs) for one in traced(scores, "benefit", span))
    assert [one.x for one in raw.points if one.x == costs.threshold]
    w = scores[0].weights / scores[0].total_weight
    for mine, theirs, difference in zip(raw.points, new.points, apart.points, strict=True):
        paid = []
        for rows in scores:
            # A false positive costs what makes this the threshold; at that of the costs, what it was said to cost.
            here = Costs(7.0 * mine.x / (1.0 - mine.x), 7.0)
            paid.append(here.of_rows(rows.label, rows.prob >= mine.x))
            none = here.of_rows(rows.label, np.zeros(len(rows), dtype=np.bool_))
            if mine.x == costs.threshold:
                assert here.fp == pytest.approx(2.0)
        assert (mine.y, theirs.y) == pytest.approx((w @ (none - paid[0]), w @ (none - paid[1])), abs=1e-12)
        gap = paid[0] - paid[1]
        error = 1.959964 * np.sqrt((w**2 * (gap - w @ gap) ** 2).sum())
        assert (difference.y, difference.lo) == pytest.approx((w @ gap, w @ gap - error), abs=1e-9)
    first, second = curve_charts([raw, new, apart], "label", "consistency")
    assert (first.y_name, second.y_name) == ("saved per row (a false negative costs 7)",) * 2
    assert first.marks == second.marks == ((costs.threshold, "where a false positive costs 2"),)
    (at,) = [one for one in apart.points if one.x == costs.threshold]
    assert caption(apart).text.endswith(f"the difference at 0.22 is {at.y:.3g} per row ({at.lo:.3g} to {at.hi:.3g}).")


@pytest.mark.parametrize("kind", ["benefit", "murphy"])
def test_each_group_has_the_curves_of_its_rows_alone(kind: Kind) -> None:
    scores = pair(weighted=True)
    parts = [scores[0].prob < 0.4, scores[0].prob >= 0.4]
    made = CurveBuilder(["raw", "new"], ["0", "1"], (kind,), groups=["age = 1", "age = 2"], span=SPAN)
    made.add([one.take(rows) for rows in parts for one in scores])
    alone = [traced([one.take(rows) for one in scores], kind) for rows in parts]
    found = made.curves()
    assert [one.points for one in found] == [one.points for curves in alone for one in curves]
    assert {one.score for one in found if one.versus} == {"new, age = 1", "new, age = 2"}
    assert [one.to_json()[0]["versus"] for one in found if one.versus] == ["raw, age = 1", "raw, age = 2"]
    charts = curve_charts(found, "label", "none")
    assert [chart.title for chart in charts[::2]] == [f"{charts[0].title[:-1]}{group}" for group in (1, 2)]
    assert [track.name for track in charts[2].tracks][:2] == ["raw, age = 2", "new, age = 2"]
    assert charts[3].title.endswith(", less that of raw")


def test_acting_on_all_and_on_none() -> None:
    (scores, _) = pair()
    rate = scores.label.mean()
    everybody = next(one for one in traced([scores], "benefit") if one.score == "act on all")
    assert [one.y for one in everybody.points] == pytest.approx(
        [rate - (1 - rate) * one.x / (1 - one.x) for one in everybody.points]
    )
    constant = Scored(scores.label, np.full(len(scores), rate))
    found = traced([constant], "murphy")
    assert [one.y for one in found[0].points] == pytest.approx([one.y for one in found[1].points])


@pytest.mark.parametrize("kind", ["benefit", "murphy"])
def test_scores_that_decide_alike_differ_by_nothing_whatever_the_weights(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    label, weight = rng.integers(0, 2, 500), rng.exponential(size=500)
    scores = [Scored(label, prob, weight) for prob in rng.uniform(0, 0.5, (2, 500))]
    alike = [one for one in traced(scores, kind, (0.05, 0.9))[-1].points if one.x > 0.5]
    assert alike
    assert {(one.y, one.n, one.lo, one.hi, one.off) for one in alike} == {(0.0, 0.0, 0.0, 0.0, False)}


@pytest.mark.parametrize("weighted", [False, True])
def test_the_brier_score_is_twice_the_area_below_murphys_curve(weighted: bool) -> None:
    (scores, _) = pair(weighted=weighted)
    found = traced([scores], "murphy", span=None, parts=3)[0]
    assert found.error == pytest.approx(brier(scores, Options()).value, rel=1e-12)
    assert found.error == pytest.approx(
        2 * np.trapezoid([one.y for one in found.points], [one.x for one in found.points]), rel=2e-3
    )
    wrong = Scored(1 - scores.label, scores.label.astype(float))  # all of the curve rises up to 1
    assert traced([wrong], "murphy", span=None)[0].error == 1.0


def test_what_is_said() -> None:
    curves = traced(pair(), "benefit", span=None)
    said = {(one.score, one.versus): caption(one).text for one in curves if not one.plain}
    assert said["raw", None].startswith("Useful: worth more than acting on all or none at thresholds from 0.")
    assert said["new", "raw"].startswith("Better than raw, beyond chance, at thresholds from 0.")
    same = caption(traced([pair()[0]] * 2, "benefit")[-1])
    assert same.text == "No difference from raw beyond chance."
    few = [Scored(np.ones(4, np.int64), np.full(4, prob)) for prob in (0.1, 0.5)]
    assert caption(traced(few, "benefit")[-1]).text == "No difference from raw beyond chance."
    part = caption(traced([pair()[0]], "murphy")[0])
    assert part.text == "Lower is better."  # a part of the area says nothing of the Brier score
    reverse = Scored(pair()[0].label, 1 - pair()[0].prob)
    assert caption(traced([reverse], "benefit")[0]).answer == "Not useful"


def test_charts_show_the_thresholds_that_were_asked_for_or_that_rows_reach() -> None:
    first, second = curve_charts(traced(pair(), "benefit"), "label", "consistency")
    assert (first.x.begin, first.x.end) == SPAN
    assert [track.name for track in first.tracks] == ["raw", "new", "act on all", "act on none"]
    assert second.y.begin < 0 < second.y.end
    assert first.colors[1] == second.colors[0]  # one score, one colour
    rare = sample(2000)
    rare = Scored(rare.label, rare.prob / 50)
    (only,) = curve_charts(traced([rare], "benefit", span=None), "label", "none")
    assert (only.x.begin, only.x.end) == (0.0, 0.02)
