from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcli.metrics.base import Options, Scored
from calcli.metrics.binned import ada_ece, ece_debiased
from calcli.metrics.sweep import ece_sweep, sweep_of
from tests.support.strategies import binary_rows

DEFAULT = Options()


def reference(label, prob, norm):
    """By the paper: more bins of equal mass until a label mean falls; rows already sorted, no ties."""
    n, bins = len(label), 1
    for count in range(2, n):
        place = np.arange(n) * count // n
        means = [label[place == one].mean() for one in range(count)]
        if any(after < before for before, after in pairwise(means)):
            break
        bins = count
    place = np.arange(n) * bins // n
    gaps = [((place == one).mean(), abs(label[place == one].mean() - prob[place == one].mean())) for one in range(bins)]
    return sum(share * gap**norm for share, gap in gaps) ** (1 / norm), bins


@given(st.lists(st.booleans(), min_size=3, max_size=40), st.integers(0, 99), st.sampled_from([1.0, 2.0]))
@settings(max_examples=60)
def test_by_a_loop(labels, seed, norm):
    prob = np.sort(np.random.default_rng(seed).random(len(labels)))
    rows = Scored(np.array(labels, dtype=np.int64), prob)
    value, bins = reference(rows.label, prob, norm)
    assert sweep_of(rows.blocks, DEFAULT, norm) == pytest.approx(value, abs=1e-12)
    assert ece_sweep(rows, DEFAULT).reason == f"the sweep ended at {bins} bins"


@given(binary_rows(weighted=False), st.randoms(use_true_random=False))
def test_equal_weights_are_no_weights(rows, random):
    weighted = Scored(rows.label, rows.prob, np.full(len(rows), 0.7))
    for metric in (ece_sweep, ece_debiased, ada_ece):
        assert metric(weighted, DEFAULT).value == pytest.approx(metric(rows, DEFAULT).value, abs=1e-9)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("bins", [5, 15, 40])
@pytest.mark.parametrize("ties", [False, True])
def test_debiased_as_kumar(bins, ties):
    calibration = pytest.importorskip("calibration")
    rng = np.random.default_rng(bins)
    prob = rng.beta(1, 3, 501)
    prob = np.round(prob, 3) if ties else prob
    label = (rng.random(501) < prob**1.3).astype(np.int64)
    cut = calibration.utils.get_equal_bins(prob, bins)
    binned = calibration.utils.bin(list(zip(prob, label, strict=True)), cut)
    oracle = calibration.utils.unbiased_square_ce(binned)
    assert ece_debiased(Scored(label, prob), Options(bins=bins)).value == pytest.approx(max(oracle, 0) ** 0.5, rel=1e-9)


def test_debiased_is_nearer_the_truth_than_plain():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        prob = rng.random(300)
        label = (rng.random(300) < prob * 0.8).astype(np.int64)  # the true root mean square error is 0.2/sqrt(3)
        rows = Scored(label, prob)
        found.append((ece_debiased(rows, DEFAULT).value ** 2, ada_ece(rows, DEFAULT).value ** 2))
    debiased, plain = np.mean(found, axis=0)
    assert debiased == pytest.approx(0.04 / 3, rel=0.06)
    assert plain > 1.5 * 0.04 / 3


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.5, 1.0, 2.0, 3.5])), min_size=3, max_size=25))
@settings(max_examples=60)
def test_with_weights_a_row_goes_where_its_weight_begins(drawn):
    label, weight = (np.array(column, dtype=float) for column in zip(*drawn, strict=True))
    n = len(label)
    prob = (np.arange(n) + 0.5) / n
    before = np.cumsum(weight) - weight
    bins = 1
    for count in range(2, n):
        place = np.floor(before * count / weight.sum()).astype(int)
        means = [np.average(label[place == one], weights=weight[place == one]) for one in np.unique(place)]
        if any(after < before - 1e-12 for before, after in pairwise(means)):
            break
        bins = count
    place = np.floor(before * bins / weight.sum()).astype(int)
    oracle = sum(abs((weight * (label - prob))[place == one].sum()) for one in np.unique(place)) / weight.sum()
    found = ece_sweep(Scored(label.astype(np.int64), prob, weight), DEFAULT)
    assert found.reason == f"the sweep ended at {bins} bins"
    assert found.value == pytest.approx(oracle, abs=1e-9)
