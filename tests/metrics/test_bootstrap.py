from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.metrics import catalog, multi_view
from calcli.metrics.base import Clusters, Options, Scored
from calcli.metrics.bootstrap import Resampler, bootstrap, drawing
from tests.support.drawing import examples
from tests.support.strategies import any_rows, binary_rows

RESAMPLED = [metric for metric in catalog.specs() if metric.kind != "test"]
dyadic = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0])  # sums of these are exact, so that ties stay ties


def literal(rows: Scored, counts) -> Scored:
    """The table of the drawn rows, written out."""
    return rows.take(np.repeat(np.arange(len(rows)), counts.astype(int)))


def value(metric: catalog.MetricSpec, rows: Scored, options: Options) -> float | None:
    if metric.name == "mvce":
        sums = multi_view.ErrorSums.of(rows.top)
        return multi_view.closed_of(sums, options) if sums.weight > 0 else None
    return catalog.measure([metric], rows, options)[metric.name].value


def drawn(data, rows: Scored):
    return np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))), dtype=np.float64)


@pytest.mark.parametrize("binning", ["width", "mass"])
@examples(10)
@given(any_rows(least=2, weighted=False), st.data())
def test_counts_give_what_the_drawn_rows_give(binning, rows, data):
    if data.draw(st.booleans()):
        weight = np.array(data.draw(st.lists(dyadic, min_size=len(rows), max_size=len(rows))))
        rows = replace(rows, weight=weight)
    counts, options = drawn(data, rows), Options(bins=data.draw(st.integers(1, 6)), binning=binning)
    for metric in RESAMPLED:
        found = Resampler(rows, [metric], options).resampled(counts, [metric.name]).get(metric.name)
        if found is None:  # nothing to draw from, or few rows of a label: MVCE would be sampled
            assert metric.name == "mvce" or rows.undefined_reason, metric.name
            continue
        expected = value(metric, literal(rows, counts), options)
        if expected is None:
            assert np.isnan(found), metric.name
        else:
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), metric.name


@pytest.mark.parametrize("weighted", [False, True])
def test_mvce_from_counts(weighted):
    rng = np.random.default_rng(0)
    rows = Scored(rng.integers(0, 2, 500), rng.random(500), rng.integers(0, 4, 500) / 2 if weighted else None)
    counts, metric = rng.integers(0, 4, 500).astype(float), catalog.find("mvce")
    resampler = Resampler(rows, [metric], Options(bin_size=40))
    expected = value(metric, literal(rows, counts), Options(bin_size=40))
    assert resampler.resampled(counts, ["mvce"])["mvce"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("metric", [one for one in RESAMPLED if one.kind == "gap"], ids=lambda metric: metric.name)
@pytest.mark.parametrize("classes", [2, 3])
def test_other_labels_give_what_rows_with_these_labels_give(metric, classes):
    rng = np.random.default_rng(1)
    prob = rng.random(300) if classes == 2 else rng.dirichlet(np.ones(3), 300)
    clusters = Clusters(rng.integers(0, 7, 300), 7, "drawn")
    rows = Scored(rng.integers(0, classes, 300), prob, rng.integers(1, 3, 300).astype(float), clusters)
    if classes == 2:  # by weights that depend on labels these would change too
        rows = replace(rows, weight=None)
    uniform, options = rng.random(300), Options(bin_size=60)
    if classes == 2:
        label = uniform < prob
    else:
        label = np.array([np.searchsorted(np.cumsum(p), u, "right") for p, u in zip(prob, uniform, strict=True)])
    resampler = Resampler(rows, [metric], options)
    expected = value(metric, replace(rows, label=label.astype(np.int64)), options)
    assert resampler.by_chance(uniform, [metric.name])[metric.name] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("reduction", ["ece", "classwise_ece"])
def test_by_chance_a_row_weighs_as_the_label_that_it_is_drawn_with(reduction: str) -> None:
    """Of one score p the ECE is |sum w (y - p)| / sum w, and the sum nearly normal: its variance is n p (1 - p) 10."""
    rng, p, count = np.random.default_rng(0), 0.2, 500
    label = (rng.random(count) < 10 * p / (1 - p + 10 * p)).astype(np.int64)
    rows = Scored(label, np.full(count, p), np.where(label == 1, 1.0, 10.0))
    resampler = Resampler(rows, [catalog.find(reduction)], Options())
    drawn = [resampler.by_chance(rng.random(count), [reduction])[reduction] for _ in range(2000)]
    normal = np.sqrt(2 / np.pi * count * p * (1 - p) * 10) / rows.weights.sum()
    assert np.mean(drawn) == pytest.approx(normal, rel=0.06)


@given(binary_rows(least=2), st.integers(0, 2**32 - 1))
@examples(10)
def test_as_many_are_drawn_as_there_are(rows, seed):
    rng = np.random.default_rng(seed)
    held = np.ones(len(rows), dtype=bool) if rows.weight is None else rows.weight > 0
    counts = drawing(rows)(rng)
    assert counts.sum() == held.sum()
    assert not counts[~held].any()
    groups = rng.integers(0, 4, len(rows))
    counts = drawing(rows, groups)(rng)
    assert all(len(set(counts[held & (groups == one)])) <= 1 for one in range(4))
    whole = sum(counts[held & (groups == one)][0] for one in set(groups[held]))
    assert whole == len(set(groups[held]))


def scored(rng, n, *, tilt=1.0) -> Scored:
    z = rng.normal(0, 1.5, n)
    return Scored((rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.int64), 1 / (1 + np.exp(-tilt * z)))


def test_the_spread_of_a_mean_is_its_standard_error():
    rows = scored(np.random.default_rng(2), 2000)
    found = bootstrap([rows], [catalog.find("brier")], Options(), 2000).resampled["brier"][0]
    loss = np.square(rows.prob - rows.label)
    assert found.std() == pytest.approx(loss.std() / np.sqrt(2000), rel=0.06)
    assert found.mean() == pytest.approx(loss.mean(), abs=4 * loss.std() / 2000)


def test_the_spread_over_groups_is_that_of_their_means():
    rng = np.random.default_rng(3)
    prob = np.repeat(rng.random(100), 20)  # groups of equal rows: 100 draws, not 2000
    rows, groups = Scored(np.zeros(2000, dtype=np.int64), prob), np.repeat(np.arange(100), 20).astype(str)
    found = bootstrap([rows], [catalog.find("brier")], Options(), 2000, groups=groups).resampled["brier"][0]
    assert found.std() == pytest.approx(np.square(prob[::20]).std() / 10, rel=0.06)


@pytest.mark.slow
def test_intervals_hold_the_truth():
    rng = np.random.default_rng(4)
    chosen = catalog.choose("brier,auc,slope")
    truth = {name: one.value for name, one in catalog.measure(chosen, scored(rng, 500_000), Options()).items()}
    held = dict.fromkeys(truth, 0)
    for trial in range(60):
        rows = scored(rng, 300)
        boot = bootstrap([rows], chosen, Options(), 120, seed=trial, threads=1)
        for name, one in catalog.measure(chosen, rows, Options()).items():
            found = boot.complete(0, name, one)
            held[name] += found.lo <= truth[name] <= found.hi
    assert all(count / 60 >= 0.85 for count in held.values()), held


@pytest.mark.slow
def test_gaps_are_held_against_a_calibrated_score():
    rng = np.random.default_rng(5)
    chosen, p = catalog.choose("ece,smooth_ece"), {"ece": [], "smooth_ece": []}
    for trial in range(50):
        rows = scored(rng, 200)
        boot = bootstrap([rows], chosen, Options(), 49, seed=trial, threads=1)
        for name, one in catalog.measure(chosen, rows, Options()).items():
            found = boot.complete(0, name, one)
            assert (found.lo, found.hi) == (None, None)
            assert found.floor < found.null_hi
            p[name].append(found.p)
    for values in p.values():  # uniform under calibration
        assert np.mean(values) == pytest.approx(0.5, abs=0.13)
        assert np.mean(np.array(values) <= 0.05) <= 0.17
    over = scored(rng, 2000, tilt=2.0)
    found = bootstrap([over], chosen, Options(), 99).complete(0, "ece", catalog.measure(chosen, over, Options())["ece"])
    assert found.p == 0.01
    assert found.value > found.null_hi


def test_ties_with_a_calibrated_score_count_whatever_the_unit_of_weights():
    """Few rows in two bins: many of the tables that are drawn are the one that there is."""
    rng, chosen = np.random.default_rng(0), (catalog.find("mce"),)
    for _ in range(6):
        rows = Scored(rng.integers(0, 2, 12), rng.choice([0.25, 0.7], 12), rng.integers(1, 4, 12).astype(np.float64))
        scaled = replace(rows, weight=rows.weight / rows.weight.sum())
        values = [catalog.measure(chosen, one, Options())["mce"] for one in (rows, scaled)]
        boots = [bootstrap([one], chosen, Options(), 199) for one in (rows, scaled)]
        ps = [boot.complete(0, "mce", value).p for boot, value in zip(boots, values, strict=True)]
        assert ps[0] == ps[1]


def test_what_a_metric_knows_by_itself_is_kept():
    rows = scored(np.random.default_rng(6), 3000)
    chosen = catalog.choose("mvce,ecce,hosmer_lemeshow")
    measured = catalog.measure(chosen, rows, Options())
    boot = bootstrap([rows], chosen, Options(), 60)
    found = {name: boot.complete(0, name, one) for name, one in measured.items()}
    assert found["mvce"].floor == measured["mvce"].floor
    assert found["mvce"].p is not None
    assert found["ecce"].p == measured["ecce"].p
    assert found["hosmer_lemeshow"] == measured["hosmer_lemeshow"]
    assert "hosmer_lemeshow" not in boot.resampled


def test_differences_are_paired():
    rng = np.random.default_rng(7)
    rows = scored(rng, 1000)
    other = Scored(rows.label, np.clip(rows.prob + 0.03 * rng.normal(size=1000), 0.001, 0.999))
    chosen = catalog.choose("brier,auc,ece,hosmer_lemeshow")
    boot = bootstrap([rows, other], chosen, Options(), 1000)
    lo, hi, p = boot.difference(1, 0, "brier")
    gap = np.square(other.prob - rows.label) - np.square(rows.prob - rows.label)
    error = gap.std() / np.sqrt(1000)
    assert lo == pytest.approx(gap.mean() - 1.96 * error, abs=0.25 * error)
    assert hi == pytest.approx(gap.mean() + 1.96 * error, abs=0.25 * error)
    assert 0 < p <= 1
    alone = boot.complete(0, "brier", catalog.measure(chosen, rows, Options())["brier"])
    assert hi - lo < (alone.hi - alone.lo) / 3
    assert boot.difference(0, 0, "auc") == (0.0, 0.0, 1.0)
    assert boot.difference(1, 0, "ece") == (None, None, None)
    assert boot.difference(1, 0, "hosmer_lemeshow") == (None, None, None)
    assert tuple(-one for one in boot.difference(0, 1, "brier")[:2][::-1]) == pytest.approx((lo, hi))


def test_the_number_of_threads_and_what_else_is_measured_change_nothing():
    rng = np.random.default_rng(8)
    rows = scored(rng, 500)
    one = bootstrap([rows], catalog.choose("brier,ece"), Options(), 50, seed=3, threads=1)
    two = bootstrap([rows], catalog.choose("auc,brier,ece"), Options(), 50, seed=3, threads=3)
    np.testing.assert_array_equal(one.resampled["brier"], two.resampled["brier"])
    np.testing.assert_array_equal(one.calibrated["ece"], two.calibrated["ece"])
    other = bootstrap([rows], catalog.choose("brier"), Options(), 50, seed=4)
    assert (other.resampled["brier"] != one.resampled["brier"]).any()


def test_where_a_metric_is_rarely_defined_nothing_is_said():
    label = np.zeros(20, dtype=np.int64)
    label[0] = 1
    rows, chosen = Scored(label, np.linspace(0.1, 0.9, 20)), catalog.choose("auc")
    found = catalog.measure(chosen, rows, Options())["auc"]
    assert bootstrap([rows], chosen, Options(), 200).complete(0, "auc", found) == found


@pytest.mark.parametrize("n", [0, 1])
def test_without_rows_nothing_is_drawn(n):
    rows = Scored(np.ones(n, dtype=np.int64), np.full(n, 0.5), np.zeros(n))
    chosen = catalog.choose("all")
    boot = bootstrap([rows, rows], chosen, Options(), 5)
    measured = catalog.measure(chosen, rows, Options())
    assert all(boot.complete(0, name, one) == replace(one) for name, one in measured.items())
    assert boot.difference(0, 1, "ece") == (None, None, None)
