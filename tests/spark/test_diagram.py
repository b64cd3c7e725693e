"""The curves of a cluster are those of one machine, and so is the page of a report."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import calcli
from tests.support.spark import Driver, assert_near, ordered

pytest.importorskip("pyspark", reason="needs the extra spark")


@pytest.mark.parametrize(
    ("more", "given"), [((), {}), (("--by", "day", "--kind", "smooth"), {"by": ("day",), "kind": "smooth"})]
)
def test_the_curves_are_those_of_one_machine(
    days: Path, driver: Driver, tmp_path: Path, more: tuple[str, ...], given: dict[str, object]
) -> None:
    kept, page = str(tmp_path / "kept"), tmp_path / "page.html"
    calcli.fit(ordered(days), method="platt", output=kept)
    found = driver.report("diagram", days, "--with", kept, "--weight", "w", "-o", page, *more)
    local = calcli.diagram(days, artifacts=(kept,), flags=calcli.Flags(weight="w"), **given).to_json()
    for part in ("curves", "readings", "binding", "kind", "bands"):
        assert_near(found[part], local[part], abs=1e-9)
    assert found["data"] == local["data"] | {"files": [], "weight_sum": pytest.approx(local["data"]["weight_sum"])} | {
        "label_rate": pytest.approx(local["data"]["label_rate"])
    }
    assert "<svg" in page.read_text()


def test_the_page_of_a_report_has_its_curves(days: Path, driver: Driver, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    driver.run("evaluate", str(days), "--by", "day", "--html", str(page), "--engine", "spark")
    text = page.read_text()
    assert text.count("<svg") >= 3
    assert all(day in text for day in pl.Series(ordered(days)["day"]).unique())


def test_many_small_files_a_large_one_and_an_empty_one(days: Path, driver: Driver, tmp_path: Path) -> None:
    table = tmp_path / "many"
    table.mkdir()
    rows = ordered(days)
    few, rest = rows[:300], rows[300:]
    for place, part in enumerate(few.iter_slices(1)):
        part.write_parquet(table / f"{place}.parquet")
    rest.write_parquet(table / "large.parquet")
    rest[:0].write_parquet(table / "empty.parquet")
    kept, scored = str(tmp_path / "kept"), tmp_path / "scored"
    calcli.fit(rows, method="platt", output=kept)
    found = driver.report("evaluate", table, "--with", kept, "--metrics", "nll,auc")
    local = calcli.evaluate(rows, artifacts=(kept,), metrics="nll,auc").to_json()
    assert_near(found["differences"][0], local["differences"][0], abs=1e-9)
    assert found["data"]["rows"] == len(rows)
    driver.run("apply", kept, str(table), "-o", str(scored), "--engine", "spark")
    assert ordered(scored).drop("calibrated").equals(rows.select(sorted(rows.columns)))
