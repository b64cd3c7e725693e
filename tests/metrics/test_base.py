import numpy as np
import pytest
from hypothesis import given

from calcli.errors import UsageError
from calcli.metrics.base import Options, Scored
from tests.support.strategies import any_rows, multiclass_rows


@given(any_rows())
def test_parts_are_the_rows(rows):
    parts = list(rows.parts())
    np.testing.assert_array_equal(np.concatenate([part.prob for part in parts]), rows.prob)
    assert sum(part.total_weight for part in parts) == pytest.approx(rows.total_weight)


def test_many_rows_come_in_several_parts():
    rows = Scored(np.zeros(100_000, dtype=np.int64), np.linspace(0, 1, 100_000), np.full(100_000, 2.0))
    parts = list(rows.parts())
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate([part.prob for part in parts]), rows.prob)
    assert rows.mean_of(lambda part: part.prob) == pytest.approx(rows.prob.mean(), rel=1e-12)


@given(multiclass_rows())
def test_top_is_the_first_of_the_most_probable_classes(rows):
    top = rows.top
    np.testing.assert_array_equal(top.prob, rows.prob.max(axis=1))
    np.testing.assert_array_equal(top.label, rows.prob.argmax(axis=1) == rows.label)
    assert top.binary
    assert top.top is top


@given(any_rows())
def test_one_vs_rest_splits_labels_and_probabilities(rows):
    parts = [rows.one_vs_rest(index) for index in range(rows.classes)]
    assert all(part.binary for part in parts)
    np.testing.assert_array_equal(sum(part.label for part in parts), np.ones(len(rows)))
    np.testing.assert_allclose(sum(part.prob for part in parts), 1.0, rtol=1e-12)


@given(any_rows())
def test_held_rows_have_weight(rows):
    held = rows.with_positive_weight
    assert held.weight is None or (held.weight > 0).all()
    assert held.total_weight == pytest.approx(rows.total_weight)
    assert len(held) == (len(rows) if rows.weight is None else np.count_nonzero(rows.weight))


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_moderate_weights_keep_their_proportions(scale):
    rows = Scored(np.array([0, 1, 1]), np.array([0.1, 0.5, 0.9]), scale * np.array([1.0, 2.0, 4.0]))
    np.testing.assert_allclose(rows.with_scaled_weights.weight, [0.25, 0.5, 1.0])
    ordinary = Scored(rows.label, rows.prob, np.array([1.0, 2.0, 4.0]))
    assert ordinary.with_scaled_weights is ordinary


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"bins": 0}, "bins is 0"),
        ({"bins": 100_001}, "bins is 100001; it must be a number from 1 to 100,000, or auto"),
        ({"bins": "many"}, "bins is many"),
        ({"views": 0}, "views is 0"),
        ({"bin_size": 0.5}, "bin_size is 0.5"),
        ({"norm": float("inf")}, "norm is inf"),
        ({"norm": float("nan")}, "norm is nan"),
        ({"binning": "equal"}, "no binning 'equal'; available: width, mass"),
        ({"mvce": "exact"}, "no mvce 'exact'; available: closed, sampled"),
    ],
)
def test_options_that_make_no_sense_are_refused(given, named):
    with pytest.raises(UsageError, match=named):
        Options(**given)
