from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from calcli.errors import UsageError
from calcli.reporting.segments import sentences
from calcli.reporting.webpage import webpage
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import tablets


def test_segments_of_each_score_stand_beside_the_others(here: Path) -> None:
    gates = ("raw.segments.gap > 0.1", "segments.gap > 0.1")
    report = calcli.evaluate(tablets(), scores=("mended",), find_segments=5, fail_if=gates)
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    REPORT_SCHEMA.validate(document)
    (segment,) = document["segments"]
    assert segment["score"] == "raw"
    assert {one["feature"] for one in segment["conditions"]} == {"device", "age"}
    assert "device = tablet" in segment["text"]
    assert segment["gap"] < -0.1
    (other,) = segment["others"]
    assert other["lo"] < 0 < other["hi"]
    assert [(one["score"], one["found"]) for one in document["segment_search"]] == [("raw", 1), ("mended", 0)]
    # The page and the gates.
    page = webpage(report)
    assert "segments of raw" in page
    assert "predicted by mended" in page
    assert re.search(r"<text [^>]*>[^<]*device = tablet", page)  # in the picture
    assert [gate["passed"] for gate in report.gates] == [False, True]


def test_features_are_those_that_are_named(here: Path) -> None:
    named = calcli.Flags(features=("noise", "age"))
    report = calcli.evaluate(tablets(), flags=named, find_segments=5)
    features = {one["feature"] for entry in report.segments for one in entry["conditions"]}
    assert features <= {"noise", "age"}
    only = tablets().select("label", "prob")
    with pytest.raises(UsageError, match="the table has no features; name some: features="):
        calcli.evaluate(only, find_segments=1)


def test_a_file_of_text_and_counted_rows_are_read_alike(here: Path) -> None:
    frame = tablets(4_000).with_columns(pl.when(pl.col("noise") > 1.5).then(None).otherwise("noise").alias("noise"))
    frame.write_csv("visits.csv")
    frame.write_parquet("visits.parquet")
    one, other = (calcli.evaluate(f"visits.{form}", find_segments=3) for form in ("csv", "parquet"))
    assert one.segments == other.segments
    assert one.segments
    twice = frame.with_columns(n=pl.lit(2))
    repeated = pl.concat([frame, frame]).sort(["user_id", "age", "prob"])
    counted = calcli.evaluate(
        twice.sort(["user_id", "age", "prob"]), flags=calcli.Flags(weight="n", weight_kind="counts"), find_segments=3
    )
    assert counted.segments == calcli.evaluate(repeated, find_segments=3).segments


def test_a_row_with_a_soft_label_is_counted_once(here: Path) -> None:
    hard = tablets(4_000)
    soft = hard.with_columns(label=0.05 + 0.9 * pl.col("label")).with_columns(
        label=pl.when(pl.int_range(pl.len()) % 3 == 0).then(pl.col("label").round()).otherwise("label")
    )
    one, other = (calcli.evaluate(frame, by=("device",), find_segments=1, metrics="nll") for frame in (soft, hard))
    assert [entry["rows"] for entry in one.groups] == [entry["rows"] for entry in other.groups]
    assert one.segment_search[0]["rows"] == 4_000
    (segment,) = one.segments
    assert segment["rows"] == pytest.approx(2_000 * segment["share"], rel=0.1)


def test_where_none_can_be_found_no_gap_is_promised(here: Path) -> None:
    """A constant divides no rows, and categories of two rows are too small; few users show only a gap beyond 1."""
    off = tablets(2_000).select("label", prob=0.9 * pl.col("prob"))
    for features in ({"same": pl.lit("k")}, {"own": "c" + (pl.int_range(pl.len()) // 2).cast(pl.String)}):
        report = calcli.evaluate(off.with_columns(**features), metrics="nll", find_segments=5)
        assert [search["tried"] for search in report.segment_search] == [0]
        (sentence,) = sentences(report)
        assert sentence == "raw: no segment could be tried: no feature divides the rows into large enough parts."
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(20), 10)
    clicks = pl.DataFrame(
        {"user": user, "prob": 0.5, "label": rng.integers(0, 2, 20)[user], "half": rng.integers(0, 2, 200)}
    )
    few = calcli.evaluate(clicks, metrics="nll", resample_by="user", find_segments=1)
    assert few.segment_search[0]["tried"] > 0
    assert few.segment_search[0]["detectable"] > 1
    (sentence,) = sentences(few)
    assert sentence.endswith("; there are too few rows to notice even the largest gap in 4 of 5 cases.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--class", "1"), "--class is for --find-segments; add --find-segments"),
        (("--find-segments", "--class", "2"), "no class '2'; available: 0, 1"),
        (("--find-segments", "51"), "51"),
        (("--fail-if", "segments.gap > 1"), "no segments were looked for; add --find-segments"),
    ],
)
def test_what_cannot_be_is_said(here: Path, capfd: pytest.CaptureFixture[str], words, message: str) -> None:
    tablets(500).write_parquet("visits.parquet")
    assert main(["evaluate", "visits.parquet", *words]) == 2
    assert message in " ".join(capfd.readouterr().err.split())


def test_a_screen_shows_as_many_columns_as_it_has_room_for(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tablets().write_parquet("visits.parquet")
    words = ["evaluate", "visits.parquet", "--score", "mended", "--metrics", "nll", "-q", "--find-segments"]
    for columns, last in ((80, "by mended"), (140, "log-loss")):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main([*words, "--fail-if", "raw.segments.gap > 0.1"]) == 1
        out = capfd.readouterr().out
        table = out.partition("segments of raw\n")[2].splitlines()
        assert table[0].endswith(last)
        assert max(map(len, out.splitlines())) <= columns
        assert "mended: no segment found in which it is more wrong than elsewhere" in " ".join(out.split())
    assert main([*words, "3", "--format", "markdown"]) == 0
    assert "| log-loss |" in capfd.readouterr().out
