import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from calcli.decisions.conformal import (
    PredictionIntervals,
    PredictionSets,
    Thresholds,
    conformal_quantile,
    row_uniforms,
    rows_needed,
    set_scores,
)
from tests.support.estimators import GivenColumn, GivenProbabilities

LEVELS = ("0.5", "0.8", "0.9", "0.95", "0.93", "0.99")


def drawn(n: int, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and labels that are drawn from softer ones."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(0.0, 1.5, (n, classes))
    label = (logit + rng.gumbel(size=logit.shape)).argmax(axis=1)
    prob = np.exp(1.5 * logit)
    return prob / prob.sum(axis=1, keepdims=True), label


# The quantile


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [1, 2, 8, 9, 10, 18, 19, 20, 98, 99, 100, 999])
def test_the_quantile_is_the_ceiling_of_n_plus_one(n, level):
    score = np.random.default_rng(n).normal(size=n)
    k = math.ceil(Fraction(level) * (n + 1))
    expected = math.inf if k > n else float(np.sort(score)[k - 1])
    assert conformal_quantile(score, float(level)) == expected
    assert (rows_needed(float(level)) <= n) == (k <= n)


def test_no_rows_have_an_infinite_quantile():
    assert conformal_quantile(np.empty(0), 0.9) == math.inf
    assert conformal_quantile(np.empty(0), 0.9, unit=np.empty(0, dtype=int)) == math.inf  # a group without rows
    assert conformal_quantile(np.ones(3), 0.9, np.zeros(3)) == math.inf


@pytest.mark.parametrize("seed", range(20))
def test_weights_and_units_by_the_definition(seed):
    """The least score s with sum of the mass at or below s >= level (all mass + the new row's), in fractions."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    score, weight, unit = rng.integers(0, 9, n).astype(float), rng.integers(0, 4, n), rng.integers(0, 12, n)
    weight[0] = 1
    for together in (None, unit):
        for level in LEVELS:
            mass = [Fraction(int(one)) for one in weight]
            new = max(mass)
            if together is not None:
                whole = {u: sum(m for m, v in zip(mass, unit, strict=True) if v == u) for u in unit}
                mass = [m / whole[u] if whole[u] else m for m, u in zip(mass, unit, strict=True)]
                new = Fraction(1)
            need = Fraction(level) * (sum(mass) + new)
            reached = [s for s in score if sum(m for m, t in zip(mass, score, strict=True) if t <= s) >= need]
            expected = min(reached, default=math.inf)
            assert conformal_quantile(score, float(level), weight.astype(float), together) == expected


# The law


def law_of(n: int, level: float) -> stats.rv_continuous:
    k = math.ceil((n + 1) * level)
    return stats.beta(k, n + 1 - k)


@pytest.mark.parametrize(("n", "level"), [(19, 0.9), (60, 0.8), (200, 0.95)])
def test_the_coverage_of_intervals_is_a_beta_variable(n, level):
    """Residuals are normal, so that the coverage that a threshold q has is known: 2 Phi(q) - 1, or Phi(q)."""
    rng = np.random.default_rng(n)
    two, one = [], []
    for _ in range(400):
        truth, zero = rng.normal(size=n), np.zeros(n)
        two.append(PredictionIntervals.fit(truth, zero, zero, level).thresholds.values[0][0])
        one.append(PredictionIntervals.fit(truth, zero, zero, level, side="upper").thresholds.values[0][0])
    assert stats.kstest(2.0 * stats.norm.cdf(two) - 1.0, law_of(n, level).cdf).pvalue > 0.01
    assert stats.kstest(stats.norm.cdf(one), law_of(n, level).cdf).pvalue > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("score", ["lac", "aps", "aps-randomised"])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_coverage_of_sets_has_the_mean_of_the_law(score, classes):
    """Over tables of 60 rows and one new row each: at least the level, and at most 1 / 61 more but for ties."""
    n, level, tables = 60, 0.8, 2000
    prob, label = drawn((n + 1) * tables, classes, seed=classes)
    held = 0
    for start in range(0, len(label), n + 1):
        rows, new = slice(start, start + n), slice(start + n, start + n + 1)
        sets = PredictionSets.fit(prob[rows], label[rows], level, score=score).predict(prob[new])
        held += int(sets[0, label[new][0]])
    expected = law_of(n, level).mean()
    assert expected == pytest.approx(math.ceil((n + 1) * level) / (n + 1))
    error = math.sqrt(expected * (1.0 - expected) / tables)
    if score == "aps":  # the least likely class always has the score 1
        assert held / tables >= expected - 3.0 * error
    else:
        assert abs(held / tables - expected) < 3.0 * error


def test_units_hold_the_promise_where_rows_alone_break_it():
    """Ten rows of a user share most of their residual: the next row of a new user."""
    level, tables = 0.9, 1500
    rng = np.random.default_rng(5)
    held = {"units": 0, "rows": 0}
    for _ in range(tables):
        size = rng.integers(1, 30, 12)
        unit = np.repeat(np.arange(12), size)
        truth = rng.normal(size=12)[unit] * np.where(size > 20, 0.3, 1.0)[unit] + 0.1 * rng.normal(size=len(unit))
        new = rng.normal() * (0.3 if rng.integers(1, 30) > 20 else 1.0) + 0.1 * rng.normal()
        zero = np.zeros(len(unit))
        for name, together in (("units", unit), ("rows", None)):
            rule = PredictionIntervals.fit(truth, zero, zero, level, unit=together)
            held[name] += abs(new) <= rule.thresholds.values[0][0]
    limit = level - 3.0 * math.sqrt(level * (1.0 - level) / tables)
    assert held["units"] / tables >= limit > held["rows"] / tables


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize("n", [10, 28, 29, 58, 59, 300])
def test_with_a_confidence_the_coverage_is_seldom_below_the_level(n, confidence):
    """The least k with P(Beta(k, n + 1 - k) < level) <= 1 - confidence."""
    score = np.random.default_rng(n).normal(size=n)
    fit = [k for k in range(1, n + 1) if stats.beta(k, n + 1 - k).cdf(0.9) <= 1.0 - confidence]
    expected = np.sort(score)[fit[0] - 1] if fit else math.inf
    assert conformal_quantile(score, 0.9, confidence=confidence) == expected
    assert conformal_quantile(score, 0.9, np.full(n, 0.3), confidence=confidence) == expected
    assert conformal_quantile(score, 0.9, None, np.arange(n), confidence=confidence) == expected
    assert bool(fit) == (n >= rows_needed(0.9, confidence))


# Sets


def brute_set(prob: np.ndarray, k: int, score: str, q: float) -> bool:
    if score == "lac":
        return 1.0 - prob[k] <= q
    return sum(p for p in prob if p >= prob[k]) <= q + 1e-12


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_sets_by_the_definition(score):
    prob, label = drawn(300)
    prob[:50] = np.random.default_rng(2).multinomial(10, np.full(4, 0.25), 50) / 10  # ties
    rule = PredictionSets.fit(prob, label, 0.9, score=score)
    new, _ = drawn(200, seed=1)
    q = rule.thresholds.values[0][0]
    brute = [1.0 - p[y] if score == "lac" else sum(p[p >= p[y]]) for p, y in zip(prob, label, strict=True)]
    assert q == pytest.approx(np.sort(brute)[math.ceil(301 * 0.9) - 1])
    assert rule.predict(new).tolist() == [[brute_set(row, k, score, q) for k in range(4)] for row in new]


def test_two_classes_given_by_the_probability_of_one():
    prob, label = drawn(400, classes=2)
    for score in ("lac", "aps"):
        both, one = (PredictionSets.fit(p, label, 0.9, score=score) for p in (prob, prob[:, 1].copy()))
        assert one.thresholds.values[0][0] == pytest.approx(both.thresholds.values[0][0], abs=1e-12)
        assert one.predict(prob[:50, 1].copy()).shape == (50, 2)


def test_a_random_part_of_the_class_itself():
    prob, label = drawn(5000)
    rule = PredictionSets.fit(prob, label, 0.9, score="aps-randomised")
    u = row_uniforms(prob)
    before = np.array([sum(p[p > p[y]]) for p, y in zip(prob, label, strict=True)])
    true = np.sort(before + u * prob[np.arange(len(label)), label])
    assert rule.thresholds.values[0][0] == pytest.approx(true[math.ceil(5001 * 0.9) - 1])
    full = PredictionSets.fit(prob, label, 0.9, score="aps").predict(prob)
    assert rule.predict(prob).sum() < full.sum()
    assert stats.kstest(u, "uniform").pvalue > 0.01
    assert row_uniforms(prob[77:99].copy()).tolist() == u[77:99].tolist()
    assert abs(np.corrcoef(u, prob[:, 0])[0, 1]) < 0.05


def test_a_class_and_a_group_have_the_thresholds_of_their_own_rows():
    prob, label = drawn(2000)
    group = np.random.default_rng(3).integers(0, 3, 2000)
    rule = PredictionSets.fit(prob, label, 0.9, by_class=True, group=group)
    for g in range(3):
        for k in range(4):
            some = (group == g) & (label == k)
            alone = PredictionSets.fit(prob[some], label[some], 0.9).thresholds
            assert rule.thresholds.values[g][k] == alone.values[0][0]
            assert rule.thresholds.rows[g][k] == some.sum()
    sets = rule.predict(prob, group)
    table = np.array(rule.thresholds.values)
    assert (sets == (1.0 - prob <= table[group])).all()


def test_groups_that_are_not_known_or_too_small():
    score, group = np.arange(40.0), np.repeat([0, 1, 2], [19, 19, 2])
    thresholds = Thresholds.of(score, 0.9, group=group)
    assert thresholds.values == ((17.0,), (36.0,), (math.inf,))
    assert thresholds.at(5, np.array([0, 1, 2, 3, -1]))[:, 0].tolist() == [17.0, 36.0, math.inf, 36.0, 36.0]
    assert thresholds.at(1).tolist() == [[36.0]]
    assert Thresholds.of(score[38:], 0.9).unseen == (math.inf,)


def test_too_few_rows_give_all_classes():
    prob, label = drawn(18)
    assert PredictionSets.fit(prob, label, 0.95).predict(prob).all()
    lo, hi = PredictionIntervals.fit(prob[:, 0], prob[:, 1], prob[:, 1], 0.95).predict(prob[:, 1], prob[:, 1])
    assert np.isneginf(lo).all()
    assert np.isposinf(hi).all()


@pytest.mark.parametrize("by_class", [False, True])
def test_what_is_read_back_predicts_the_same(by_class):
    prob, label = drawn(60)
    group = np.repeat([0, 1], [50, 10])
    sets = PredictionSets.fit(prob, label, 0.9, confidence=0.8, score="aps", by_class=by_class, group=group)
    assert PredictionSets.from_json(json.loads(json.dumps(sets.to_json(), allow_nan=False))) == sets
    intervals = PredictionIntervals.fit(prob[:, 0], prob[:, 1], prob[:, 1], 0.9, side="lower", group=group)
    assert PredictionIntervals.from_json(json.loads(json.dumps(intervals.to_json(), allow_nan=False))) == intervals
    with pytest.raises(ValueError, match="is none of lac, aps, aps-randomised"):
        PredictionSets.from_json(sets.to_json() | {"score": "raps"})


# Intervals


def numbers(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth, predicted mean and predicted standard deviation."""
    rng = np.random.default_rng(seed)
    mean, spread = rng.normal(size=n), rng.gamma(2.0, size=n)
    return mean + spread * rng.standard_t(5, n), mean, 0.7 * spread


def test_each_side_by_the_definition():
    truth, mean, spread = numbers(199)
    k = math.ceil(200 * 0.9)
    for side, miss in (("both", np.abs(truth - mean)), ("upper", truth - mean), ("lower", mean - truth)):
        for scale in (None, spread):
            rule = PredictionIntervals.fit(truth, mean, mean, 0.9, spread=scale, side=side)
            each = np.ones(199) if scale is None else scale
            q = np.sort(miss / each)[k - 1]
            lo, hi = rule.predict(mean, mean, spread=scale)
            np.testing.assert_allclose(lo, -np.inf if side == "upper" else mean - q * each)
            np.testing.assert_allclose(hi, np.inf if side == "lower" else mean + q * each)
            assert ((lo <= truth) & (truth <= hi)).sum() >= k


def test_quantiles_that_are_too_wide_are_narrowed():
    truth, mean, _ = numbers(999)
    lower, upper = mean - 100.0, mean + 100.0
    rule = PredictionIntervals.fit(truth, lower, upper, 0.9)
    lo, hi = rule.predict(lower, upper)
    assert 0.9 <= np.mean((lo <= truth) & (truth <= hi)) < 0.91
    lo, hi = rule.predict(mean - 1.0, mean + 1.0)  # narrower than what is taken off
    assert lo.tolist() == hi.tolist()


def test_a_spread_of_nothing():
    """Such a row is right or wrong whatever the threshold, and no number is lost by it."""
    truth, mean, spread = numbers(99)
    spread[:3] = 0.0
    truth[0] = mean[0]
    rule = PredictionIntervals.fit(truth, mean, mean, 0.9, spread=spread)
    rest = np.abs(truth - mean)[3:] / spread[3:]
    assert rule.thresholds.values[0][0] == np.sort(np.append(rest, 0.0))[89]
    lo, hi = rule.predict(mean, mean, spread=spread)
    assert (lo[:3] == mean[:3]).all()
    assert (hi[:3] == mean[:3]).all()


# Peers


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("classes", [2, 5])
def test_sets_are_those_of_mapie(classes):
    peer = pytest.importorskip("mapie.classification")
    prob, label = drawn(400, classes)
    new, _ = drawn(300, classes, seed=9)
    model = GivenProbabilities().fit(prob, label)
    theirs = peer.SplitConformalClassifier(model, confidence_level=0.9, conformity_score="lac", prefit=True)
    _, sets = theirs.conformalize(prob, label).predict_set(new)
    ours = PredictionSets.fit(prob, label, 0.9).predict(new)
    assert ours.tolist() == sets[:, :, 0].tolist()


@pytest.mark.oracle
def test_scores_of_aps_are_those_of_mapie_before_chance():
    peer = pytest.importorskip("mapie.conformity_scores")
    prob, label = drawn(400)
    theirs, _ = peer.APSConformityScore.get_true_label_cumsum_proba(label, prob, np.arange(4))
    np.testing.assert_allclose(set_scores(prob, "aps")[np.arange(400), label], theirs[:, 0])


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("by_group", [False, True])
def test_sets_are_those_of_crepes(by_class, by_group):
    """At a level of which no number of rows has a whole share: there it takes the next score instead."""
    peer = pytest.importorskip("crepes")
    extras = pytest.importorskip("crepes.extras")
    prob, label = drawn(700)
    new, _ = drawn(300, seed=9)
    rng = np.random.default_rng(1)
    group, at = rng.integers(0, 3, 700), rng.integers(0, 3, 300)
    ours = PredictionSets.fit(prob, label, 0.9037, by_class=by_class, group=group if by_group else None)
    hinge, at_all = extras.hinge(prob, np.arange(4), label), extras.hinge(new)
    cell = group * 10 * by_group + label * by_class
    theirs = np.empty((300, 4), dtype=int)
    for k in range(4):
        fitted = peer.ConformalClassifier().fit(hinge, bins=cell)
        bins = at * 10 * by_group + k * by_class
        theirs[:, k] = fitted.predict_set(at_all[:, [k]], bins=bins, confidence=0.9037, smoothing=False)[:, 0]
    assert ours.predict(new, at if by_group else None).astype(int).tolist() == theirs.tolist()


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_intervals_are_those_of_mapie():
    peer = pytest.importorskip("mapie.regression")
    truth, mean, spread = numbers(400)
    _, new, wide = numbers(300, seed=9)
    fitted, at = np.column_stack([mean, mean - spread, mean + spread]), np.column_stack([new, new - wide, new + wide])
    absolute = peer.SplitConformalRegressor(GivenColumn().fit(fitted, truth), confidence_level=0.9, prefit=True)
    ends = absolute.conformalize(fitted, truth).predict_interval(at)[1][:, :, 0]
    ours = PredictionIntervals.fit(truth, mean, mean, 0.9).predict(new, new)
    np.testing.assert_allclose(np.column_stack(ours), ends)
    models = [GivenColumn(column).fit(fitted, truth) for column in (1, 2, 0)]
    quantiles = peer.ConformalizedQuantileRegressor(models, confidence_level=0.9, prefit=True)
    ends = quantiles.conformalize(fitted, truth).predict_interval(at, symmetric_correction=True)[1][:, :, 0]
    ours = PredictionIntervals.fit(truth, mean - spread, mean + spread, 0.9).predict(new - wide, new + wide)
    np.testing.assert_allclose(np.column_stack(ours), ends)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("by_group", [False, True])
def test_intervals_are_those_of_crepes(scaled, by_group):
    peer = pytest.importorskip("crepes")
    truth, mean, spread = numbers(400)
    _, new, wide = numbers(300, seed=9)
    group, at = (np.random.default_rng(1).integers(0, 3, n) for n in (400, 300))
    options = {"sigmas": spread} if scaled else {}
    theirs = peer.ConformalRegressor().fit(truth - mean, **options, bins=group if by_group else None)
    ends = theirs.predict_int(new, sigmas=wide if scaled else None, bins=at if by_group else None, confidence=0.9)
    rule = PredictionIntervals.fit(
        truth, mean, mean, 0.9, spread=spread if scaled else None, group=group if by_group else None
    )
    ours = rule.predict(new, new, spread=wide if scaled else None, group=at if by_group else None)
    np.testing.assert_allclose(np.column_stack(ours), ends)
