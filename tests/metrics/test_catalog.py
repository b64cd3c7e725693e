from dataclasses import replace

import numpy as np
import pytest

from calcli.errors import UsageError
from calcli.metrics import catalog
from calcli.metrics.base import Clusters, Definition, Measured, Options, Scored
from calcli.metrics.clustered import ClusterGap, ClusterSums
from calcli.metrics.forms import ProblemMetric

CLUSTERS = Clusters(np.array([0, 0, 1, 1]), 2, "given")
EDGES = np.array([[0, 3]])
ROWS = Scored(np.array([0, 1, 1, 0]), np.array([0.2, 0.6, 0.9, 0.7]), clusters=CLUSTERS, edges=EDGES)


def test_names_are_distinct_and_found():
    names = catalog.names()
    assert len(set(names)) == len(names)
    assert [catalog.find(name).name for name in names] == list(names)


@pytest.mark.parametrize("metric", catalog.specs(), ids=lambda metric: metric.name)
def test_targets_exist_and_measure(metric):
    form = metric.load()
    value = form(ROWS, Options(views=2)).value
    assert value is not None
    assert metric.row_mean == (form.rows is not None)
    if form.rows is not None:
        assert metric.load_rows() is form.rows
        assert value == pytest.approx(form.rows(ROWS).mean())
    if isinstance(form, ProblemMetric) and form.reduction not in {"each", "confidence"}:
        assert form.pooled(ROWS.ties, Options()) == pytest.approx(value, rel=1e-12)
    if isinstance(form, ClusterGap):
        assert form.number(ClusterSums.of(ROWS)) == value


def test_choosing():
    assert [metric.name for metric in catalog.choose("default")] == ["nll", "brier", "auc", "ece", "mvce"]
    assert [metric.name for metric in catalog.choose(" ece, nll,ece ")] == ["ece", "nll"]
    assert [metric.name for metric in catalog.choose(["auc", "default"])][:2] == ["auc", "nll"]
    assert catalog.choose("all", clusters=True, ordered=True) == catalog.specs()


def test_metrics_over_clusters_are_chosen_where_there_are_some():
    cece = catalog.find("cece")
    assert cece in catalog.choose("default", clusters=True)
    assert {metric.name for metric in catalog.specs()} - {metric.name for metric in catalog.choose("all")} == {
        "cece", "cece_ada", "cece_mce", "rps", "cumulative_ece"
    }  # fmt: skip
    assert catalog.choose("nll,cece")[1] is cece


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(UsageError, match="did you mean 'brier'"):
        catalog.choose("nll,brie")


@pytest.mark.parametrize("nothing", ["", " , ", []])
def test_no_name_at_all_is_refused(nothing):
    with pytest.raises(UsageError, match="no metric was named"):
        catalog.choose(nothing)


def nan_metric(scored, options):
    return Measured(
        float("nan"), Definition("lower"), floor=float("inf"), p=float("nan"), per_class=(0.5, float("nan"))
    )


def test_numbers_that_are_none_never_leave(monkeypatch):
    metric = replace(catalog.find("nll"), target=f"{__name__}:nan_metric")
    found = catalog.measure([metric], ROWS, Options())["nll"]
    assert (found.value, found.floor, found.p, found.per_class) == (None, None, None, (0.5, None))
    assert found.reason == "the result is not a finite number"
