from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from calcli.batch import Column
from calcli.learners.conditions import Axis
from calcli.metrics.base import Scored
from calcli.metrics.multiple import by_group
from calcli.numeric.links import sigmoid
from calcli.reports import segments
from calcli.reports.measuring import Candidate
from calcli.reports.schema import ScoreSource
from calcli.reports.segments import Coded, Judged, find_segments


class Rows(NamedTuple):
    labels: np.ndarray
    weight: np.ndarray | None = None
    together: np.ndarray | None = None


class Table(NamedTuple):
    """Rows with a score that is wrong by `gap` where device = tablet and age > 60."""

    columns: dict[str, Column]
    prob: np.ndarray
    rate: np.ndarray
    rows: Rows
    wrong: np.ndarray

    @classmethod
    def of(cls, rows: int, gap: float, seed: int = 0) -> Table:
        rng = np.random.default_rng(seed)
        device, age = rng.integers(0, 3, rows).astype(np.int32), rng.integers(18, 80, rows).astype(np.float64)
        columns = {
            "device": Column("category", device, ("phone", "tablet", "tv")),
            "age": Column("number", age),
            **{f"x{place}": Column("number", rng.normal(size=rows)) for place in range(4)},
        }
        prob, wrong = sigmoid(rng.normal(-0.5, 0.7, rows)), (device == 1) & (age > 60)
        rate = np.clip(np.where(wrong, prob + gap, prob), 0.0, 1.0)
        return cls(columns, prob, rate, Rows((rng.random(rows) < rate).astype(np.int64)), wrong)

    @property
    def coded(self) -> Coded:
        axes = tuple(Axis.of(name, column) for name, column in self.columns.items())
        codes = [axis.codes(column) for axis, column in zip(axes, self.columns.values(), strict=True)]
        return Coded(axes, np.stack(codes))

    def found(self, **more):
        scores = [candidate("raw", self.prob), candidate("mended", self.rate)]
        return find_segments(scores, self.rows, self.coded, 5, 0, **more)


def candidate(name: str, prob: np.ndarray) -> Candidate:
    return Candidate(name, ScoreSource("raw"), prob)


def test_a_segment_has_the_figures_of_fresh_rows() -> None:
    table = Table.of(30_000, 0.15)
    (entry,), (raw, mended) = table.found()
    assert [one["feature"] for one in entry["conditions"]] == ["device", "age"]
    device, age = entry["text"].split(" and ")
    assert device == "device = tablet"
    assert age.startswith("age > ")
    bound = float(age.removeprefix("age > "))
    assert 58 <= bound <= 62
    # The rows on which it was not looked for.
    ((searched, fresh),) = segments._turns(np.arange(30_000), None, 0)
    assert len(searched) == len(fresh) == 15_000
    assert not set(searched) & set(fresh)
    rows = fresh[(table.columns["device"].values[fresh] == 1) & (table.columns["age"].values[fresh] > bound)]
    label, prob = table.rows.labels[rows], table.prob[rows]
    assert entry["rows"] == len(rows)
    assert entry["share"] == pytest.approx(len(rows) / 15_000)
    assert entry["predicted"] == pytest.approx(prob.mean())
    assert entry["observed"] == pytest.approx(label.mean())
    assert entry["gap"] == pytest.approx(prob.mean() - label.mean())
    # The test is at least as strict as that of a group, the interval that of ten or fewer segments together.
    (test,) = by_group(Scored(label, prob), np.zeros(len(rows), dtype=np.int64), 1)
    assert test.p <= entry["p"] <= entry["p_adjusted"] < 1e-6
    error = (prob - label).std(ddof=1) / np.sqrt(len(rows))
    tried = raw["tried"] + mended["tried"]
    assert tried == 10
    assert (entry["hi"] - entry["lo"]) / 2 / error == pytest.approx(
        2.807, rel=0.01
    )  # the normal quantile of 1 - .025/10
    # Beside it stands the score that is right there.
    (other,) = entry["others"]
    assert other["score"] == "mended"
    assert other["predicted"] == pytest.approx(table.rate[rows].mean())
    assert other["observed"] == entry["observed"]
    # The gain is a little less than the most, because the rate is that of the other half.
    losses = [-np.log(np.where(label == 1, p, 1 - p)).sum() / 15_000 for p in (prob, table.rate[rows])]
    assert entry["gain"] == pytest.approx(losses[0] - losses[1], rel=0.2)
    assert (raw["found"], mended["found"]) == (1, 0)
    assert mended["detectable"] == pytest.approx(0.04, abs=0.015)


def test_an_interval_with_nothing_in_it_belongs_to_no_small_p_value() -> None:
    """In these rows two segments of four are plain, and two are hardly found."""
    rng, rows = np.random.default_rng(35), 6_000
    table = Table.of(rows, 0.0, 35)
    kinds = [rng.integers(0, 6, rows).astype(np.int32) for _ in range(4)]
    columns = {f"k{place}": Column("category", kind, tuple("abcdef")) for place, kind in enumerate(kinds)}
    gap = sum(0.12 * (1 if place % 2 else -1) * (kind == 0) for place, kind in enumerate(kinds))
    labels = (rng.random(rows) < np.clip(table.prob + gap, 0.0, 1.0)).astype(np.int64)
    table = table._replace(columns=table.columns | columns)
    found, (search,) = find_segments([candidate("raw", table.prob)], Rows(labels), table.coded, 5, 0)
    assert len(found) > 1
    for one in found:
        assert one["p_adjusted"] == pytest.approx(search["tried"] * one["p"])
        assert one["p_adjusted"] <= 0.05
        assert one["lo"] * one["hi"] > 0.0


def test_a_score_that_is_wrong_everywhere_alike_has_no_segments() -> None:
    table = Table.of(10_000, 0.0)
    rng = np.random.default_rng(5)
    off = table._replace(rows=Rows((rng.random(10_000) < np.minimum(table.prob + 0.1, 1.0)).astype(np.int64)))
    assert off.found().found == ()


def test_where_rows_are_few_each_half_is_fresh_in_turn() -> None:
    table = Table.of(6_000, 0.3)
    found, (raw, _) = table.found()
    assert raw["rows"] == 6_000
    assert [one["text"].split(" and ")[0] for one in found] == ["device = tablet"]  # once, though both halves have it


def test_units_are_on_one_side_and_rows_without_weight_on_none() -> None:
    units = np.random.default_rng(1).integers(0, 300, 5_000)
    held = np.arange(100, 5_000)
    for searched, fresh in segments._turns(held, units, 3):
        assert not set(units[searched]) & set(units[fresh])
        assert sorted([*searched, *fresh]) == held.tolist()
    table = Table.of(6_000, 0.3)
    weight = np.ones(6_000)
    weight[:500] = 0.0
    flipped = table.rows.labels.copy()
    flipped[:500] = 1 - flipped[:500]
    assert (
        table._replace(rows=Rows(table.rows.labels, weight)).found()
        == table._replace(rows=Rows(flipped, weight)).found()
    )


def test_labels_that_a_unit_shares_are_no_evidence() -> None:
    """Ten copies of each row look like ten times the evidence, but for their units."""
    rng = np.random.default_rng(2)
    copies = np.repeat(np.arange(400), 10)
    few = Table.of(400, 0.0)
    columns = {name: column.take(copies) for name, column in few.columns.items()}
    rows = Rows((rng.random(400) < few.prob).astype(np.int64)[copies], None, copies)
    table = few._replace(columns=columns, prob=few.prob[copies], rate=few.rate[copies], rows=rows)
    assert table.found().found == ()
    assert table._replace(rows=rows._replace(together=None)).found().found


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_hardly_any_rows_are_no_error(rows: int) -> None:
    found, searches = Table.of(rows, 0.0).found()
    assert found == ()
    assert all(one["found"] == 0 for one in searches)


def test_a_class_of_several_is_judged_where_it_is_named() -> None:
    rng = np.random.default_rng(4)
    rows = 8_000
    table = Table.of(rows, 0.0)
    prob = rng.dirichlet([2.0, 2.0, 2.0], rows)
    rate = prob.copy()
    moved = np.where(table.wrong, 0.6 * prob[:, 0], 0.0)  # of the first class, which others then have
    rate[:, 0] -= moved
    rate[:, 2] += moved
    labels = (rng.random(rows)[:, None] > rate.cumsum(axis=1)).sum(axis=1)
    scores = [candidate("raw", prob)]
    of_first, of_second, of_last = (
        find_segments(scores, Rows(labels), table.coded, 5, 0, Judged(place, name)) for place, name in enumerate("abc")
    )
    assert of_second.found == ()
    for found, sign in ((of_first, 1), (of_last, -1)):
        assert {one["text"].split(" and ")[0] for one in found.found} == {"device = tablet"}
        assert all(sign * one["gap"] > 0.1 for one in found.found)
    assert of_first.found[0]["class"] == "a"
    assert find_segments(scores, Rows(labels), table.coded, 5, 0).searches[0]["class"] is None
