"""The interval of a mean that is looked at because it is large, against the truncated normal distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from calcli.metrics.paired import Z975, Paired, given_at_least


def found(value: float, error: float) -> Paired:
    return Paired(value, value - Z975 * error, value + Z975 * error, 2 * norm.sf(abs(value / error)))


@pytest.mark.parametrize(("value", "error", "least"), [(1.2, 0.3, 1.0), (0.5, 0.4, 0.1), (2.0, 1.0, 1.0)])
def test_the_ends_leave_a_fortieth_on_each_side(value: float, error: float, least: float) -> None:
    interval = given_at_least(found(value, error), least)
    for mean, beyond in ((interval.lo, 0.025), (interval.hi, 0.975)):
        cut = truncnorm((least - mean) / error, np.inf, loc=mean, scale=error)
        assert cut.sf(value) == pytest.approx(beyond, abs=1e-6)


def test_far_above_nothing_changes() -> None:
    plain = found(10.0, 1.0)
    assert given_at_least(plain, 1.0) == pytest.approx(plain, abs=1e-6)


def test_just_above_it_may_be_nothing() -> None:
    interval = given_at_least(found(1.01, 0.5), 1.0)
    assert interval.lo < 0 < interval.value == interval.hi


def test_it_covers_what_was_selected() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.normal(0.8, 1.0, 4000)
    chosen = [given_at_least(found(float(value), 1.0), 1.0) for value in drawn[drawn >= 1.0][:600]]
    covered = np.mean([one.lo <= 0.8 <= one.hi for one in chosen])
    assert 0.92 <= covered <= 0.98
