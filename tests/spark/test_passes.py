"""The passes over rows on a cluster, without one: what parts of a table come to adds up to what the table does."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.batch import Batch
from calcli.errors import DataError
from calcli.methods import calibrator, catalog
from calcli.methods.base import LEAST
from calcli.methods.post_processing import PLAIN
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.models.held_out import Holdout, KeyedFolds
from calcli.spark import passes
from calcli.spark.engine import _weights
from calcli.spark.passes import FitSums, KeyedRows, MetricsPass, SumsPass
from calcli.spark.session import KEY, KEYS
from calcli.tables.binding import bind
from calcli.tables.binding_types import Flags
from calcli.tables.passes import Passed, add_up
from calcli.tables.source import open_source
from tests.support.samples import clicks

PLATT = catalog.find("platt")


def keyed(rows: int = 1200) -> pl.DataFrame:
    key = np.random.default_rng(9).integers(0, KEYS, rows).astype(np.int32)
    return clicks(rows).with_columns(pl.Series(KEY, key))


def rows_of(frame: pl.DataFrame) -> KeyedRows:
    with open_source(frame.drop(KEY)) as source:
        binding = bind(source, Flags(weight="w"), features=False)
    return KeyedRows(binding, KeyedFolds(Holdout("cv", folds=3), KEYS))


def gathered(
    rows: KeyedRows, *frames: pl.DataFrame, spec: MethodSpec = PLATT, keep_going: bool = False
) -> Passed[FitSums]:
    """As workers do: each gets the work as a pickle, and sends a pickle back."""
    work = pickle.dumps(SumsPass(rows, spec, spec.resolve()))
    total, *others = (
        pickle.loads(pickle.dumps(add_up(pickle.loads(work), "days", keep_going, [frame]))) for frame in frames
    )
    for other in others:
        total += other
    return total


def test_sums_of_parts_are_those_of_the_whole() -> None:
    frame = keyed()
    rows = rows_of(frame)
    whole, parts = gathered(rows, frame).total, gathered(rows, frame[:500], frame[500:501], frame[501:]).total
    assert sorted(parts.sums) == [0, 1, 2]
    for fold, sums in whole.sums.items():
        for name, array in sums.arrays.items():
            np.testing.assert_allclose(parts.sums[fold].arrays[name], array, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts.weight, whole.weight)
    assert parts.labels.tolist() == [frame["label"].len() - frame["label"].sum(), frame["label"].sum()]
    assert parts.ranking is not None
    assert whole.ranking is not None
    assert parts.ranking.auc == pytest.approx(whole.ranking.auc, abs=1e-12)


@pytest.mark.parametrize("name", [row.name for row in catalog.specs() if row.sums in ("yes", "binary", "scores")])
def test_every_method_of_sums_is_fitted_from_parts(name: str) -> None:
    frame, spec = keyed(), catalog.find(name)
    whole = KeyedRows(rows_of(frame).binding, None)
    total = gathered(whole, frame[:500], frame[500:501], frame[501:], spec=spec).total
    found = calibrator.finish(spec, total.sums[0], spec.resolve(), classes=2)
    expected = calcli.fit(frame, method=name, holdout="none", flags=Flags(weight="w", features=())).model
    scores = Batch(frame["logit"].to_numpy())
    np.testing.assert_allclose(found.predict(scores), expected.predict(frame), rtol=0, atol=1e-10)


def test_near_scores_are_one_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fit is that of rows whose scores are the middles of their cells, and the report says how wide these are."""
    monkeypatch.setattr(passes, "MOST_SCORES", LEAST)
    frame, isotonic = keyed(3 * LEAST), catalog.find("isotonic")
    whole = KeyedRows(rows_of(frame).binding, None)
    one = gathered(whole, frame[:5000], frame[5000:], spec=isotonic).total
    (step,) = {one.step} - {0.0}
    assert frame["logit"].n_unique() > LEAST >= len(one.sums[0].scores["all"].score)
    moved = frame.with_columns(logit=((frame["logit"] / step).floor() + 0.5) * step)
    found = calibrator.finish(isotonic, one.sums[0], {}, classes=2)
    expected = calcli.fit(moved, method="isotonic", holdout="none", flags=Flags(weight="w", features=())).model
    scores = moved["logit"].to_numpy()
    np.testing.assert_allclose(found.predict(Batch(scores)), expected.predict(moved), rtol=0, atol=1e-12)


def test_without_calibrators_all_rows_are_measured() -> None:
    frame = keyed()
    chosen = metrics.choose("nll")
    measuring = MetricsPass(rows_of(frame), {"platt": {}}, "platt", PLAIN, chosen, Options())
    found = add_up(measuring, "days", False, [frame[:7], frame[7:]]).total
    assert found.rows == 1200
    assert not found.log_odds.sums.any()
    p = 1 / (1 + np.exp(-frame["logit"].to_numpy()))
    loss = -np.log(np.where(frame["label"].to_numpy() == 1, p, 1 - p))
    (measured,) = found.sums.gathered.measured()
    assert measured["nll"].value == pytest.approx(np.average(loss, weights=frame["w"]), rel=1e-12)


def test_bad_rows_are_counted_over_all_parts() -> None:
    frame = keyed().with_columns(logit=pl.when(pl.col("row_id") % 100 != 3).then(pl.col("logit")))
    with pytest.raises(DataError, match=r"days has 12 bad rows of 1,200: the score is missing"):
        gathered(rows_of(frame), frame[:600], frame[600:]).judge()
    kept = gathered(rows_of(frame), frame[:600], frame[600:], keep_going=True)
    kept.judge()
    assert (kept.count.rows, kept.count.rows_bad, kept.total.labels.sum()) == (1200, 12, 1188)


@pytest.mark.parametrize("unit", [1.0, 1e300, 1e-300])
def test_weights_of_parts_have_the_scale_of_the_whole(unit: float) -> None:
    weight = keyed().with_columns(w=unit * (1 + pl.col("w")))
    total = _weights("w", iter([weight[:7], weight[7:500]]))
    total += _weights("w", iter([weight[500:]]))
    scaled = total.scale("w").apply(weight["w"].to_numpy())
    own = 1 + keyed()["w"].to_numpy()
    np.testing.assert_allclose(scaled, own * own.sum() / (own @ own), rtol=1e-7)
