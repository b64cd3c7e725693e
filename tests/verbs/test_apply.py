from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import calcli
from calcli.errors import ArtifactError, DataError, FileSystemError, FitError, UsageError
from tests.support.samples import breeds, clicks


@pytest.fixture
def fitted(here: Path, fit_once: Callable[..., None]) -> Path:
    fit_once("train.parquet", "train.isotonic", method="isotonic")
    return here


def test_rows_order_and_types_stay_and_one_column_is_added(fitted: Path) -> None:
    result = calcli.apply("train.isotonic", "test.parquet", "out.parquet")
    out, frame = pl.read_parquet("out.parquet"), clicks(seed=1)
    assert_frame_equal(out.drop("calibrated"), frame)
    assert out.columns[-1] == "calibrated"
    assert (result.rows, result.rows_bad, result.columns) == (2000, 0, ("calibrated",))
    np.testing.assert_array_equal(out["calibrated"], calcli.load("train.isotonic").predict(frame))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv", ".arrow", ".ndjson", ".csv.gz", ".csv.zst"])
def test_every_format_gives_the_same_numbers(fitted: Path, suffix: str) -> None:
    calcli.apply("train.isotonic", "test.parquet", f"out{suffix}")
    with calcli.open_source(f"out{suffix}") as source:
        out = source.typed().collect()
    expected = calcli.load("train.isotonic").predict(clicks(seed=1))
    np.testing.assert_array_equal(out["calibrated"], expected)  # floats survive text


def test_text_passes_through_as_it_was_written(fitted: Path) -> None:
    Path("in.csv").write_text('zip,logit,note\n00701,1.50,"a, ""b"""\n10115,-2,\n')
    calcli.apply("train.isotonic", "in.csv", "out.csv")
    lines = Path("out.csv").read_text().splitlines()
    assert lines[0] == "zip,logit,note,calibrated"
    assert lines[1].startswith('00701,1.50,"a, ""b""",0.')
    assert lines[2].startswith("10115,-2,,0.")


def test_names_that_look_like_numbers_stay_names_in_csv(here: Path) -> None:
    """In whatever format the output is written: an artifact of text reads text."""
    names = pl.Series(["1e5", "1.10", "1.1", "007"] * 150)
    table = clicks(600).select("logit", site=names, label=(names == "1.10").cast(pl.Int64))
    model = calcli.fit(table, method="effects", output="kept", holdout="none").model
    expected = model.predict(table)
    assert len(np.unique(expected.round(2))) > 1
    table.write_csv("in.csv")
    for output in ("out.csv", "out.parquet", "out.ndjson"):
        calcli.apply("kept", "in.csv", output)
        with calcli.open_source(output) as source:
            np.testing.assert_array_equal(source.typed(["calibrated"]).collect()["calibrated"], expected)


def test_labels_are_not_needed_and_extra_columns_do_not_matter(fitted: Path) -> None:
    frame = clicks(seed=1)
    frame.select("logit", other=pl.lit("x")).write_parquet("bare.parquet")
    calcli.apply("train.isotonic", "bare.parquet", "out.parquet")
    np.testing.assert_array_equal(
        pl.read_parquet("out.parquet")["calibrated"], calcli.load("train.isotonic").predict(frame)
    )


def test_keep_chooses_what_passes(fitted: Path) -> None:
    calcli.apply("train.isotonic", "test.parquet", "out.parquet", keep=("age", "row_id"))
    assert pl.read_parquet_schema("out.parquet").names() == ["row_id", "age", "calibrated"]
    calcli.apply("train.isotonic", "test.parquet", "out.parquet", keep=(), column="p_fixed")
    assert pl.read_parquet_schema("out.parquet").names() == ["p_fixed"]


def test_a_column_that_exists_is_not_replaced(fitted: Path) -> None:
    with pytest.raises(DataError, match="try: column='NAME'"):
        calcli.apply("train.isotonic", "test.parquet", "out.parquet", column="age")
    assert not Path("out.parquet").exists()
    calcli.apply("train.isotonic", "test.parquet", "out.parquet", column="age", keep=("row_id",))


def test_a_decision_takes_no_name_that_another_column_has(fitted: Path) -> None:
    """The parameter `column` is the name of the probability: the hint says what else there is to do."""
    calcli.decide("test.parquet", artifact="train.isotonic", cost_fp=1, cost_fn=1, output="p")
    frame = pl.read_parquet("test.parquet").rename({"age": "decision"})
    with pytest.raises(DataError, match=r"already has a column 'decision'.* leave others out with keep="):
        calcli.apply("p", frame, "out.parquet", column="c")
    calcli.apply("p", frame, "out.parquet", keep=("row_id",))
    with pytest.raises(UsageError, match="two of the added columns would be named 'decision'"):
        calcli.apply("p", "test.parquet", "out.parquet", column="decision")


def test_more_classes_add_a_column_each_that_sum_to_one(here: Path) -> None:
    calcli.fit(breeds(), method="isotonic", output="m")
    calcli.apply("m", breeds(seed=1), "out.parquet")
    added = pl.read_parquet("out.parquet").select("^calibrated_.*$")
    assert added.columns == ["calibrated_a", "calibrated_b", "calibrated_c", "calibrated_d"]
    np.testing.assert_allclose(added.sum_horizontal(), 1, atol=1e-12)
    np.testing.assert_array_equal(added.to_numpy(), calcli.load("m").predict(breeds(seed=1)))


@pytest.mark.parametrize("method", ["temperature", "platt", "matrix", "isotonic"])
def test_logits_of_any_size_have_probabilities(here: Path, method: str) -> None:
    """A class that is masked has the least number there is."""
    table = breeds(400)
    model = calcli.fit(table, method=method, features=(), holdout="none").model
    most = float(np.finfo(np.float64).max)
    names = [name for name in table.columns if name.startswith("logit")]
    rows = np.full((len(names) + 2, len(names)), -most)
    np.fill_diagonal(rows, most)
    rows[-1] = most
    prob = model.predict(pl.DataFrame(rows, schema=names, orient="row"))
    np.testing.assert_allclose(prob.sum(axis=1), 1.0, rtol=1e-12)


def test_isotonic_keeps_scores_of_any_size(here: Path) -> None:
    """Linear between its points, it is the same on any scale; on a bounded axis no artifact could hold the points."""
    table = clicks(300).select("label", "logit")
    calcli.fit(table, method="isotonic", output="kept", holdout="none")
    large = table.with_columns(pl.col("logit") * 2.0**60)
    calcli.fit(large, method="isotonic", output="large", holdout="none")
    np.testing.assert_array_equal(calcli.load("large").predict(large), calcli.load("kept").predict(table))
    with pytest.raises(FitError, match="no artifact holds"):
        calcli.fit(large, method="isotonic-centered", output="centred", holdout="none")
    assert not Path("centred").exists()


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_bad_rows_fail_with_their_number_or_become_null(fitted: Path, bad: float | None) -> None:
    spoilt = clicks(seed=1).with_columns(
        logit=pl.when(pl.col("row_id").is_in([41, 50])).then(pl.lit(bad)).otherwise(pl.col("logit"))
    )
    with pytest.raises(DataError, match=r"2 bad rows of 2,000.*row 42"):
        calcli.apply("train.isotonic", spoilt, "out.parquet")
    assert not list(fitted.glob("*out*"))
    result = calcli.apply("train.isotonic", spoilt, "out.parquet", bad_rows="null")
    added = pl.read_parquet("out.parquet")["calibrated"]
    assert result.rows_bad == added.null_count() == 2
    assert added.is_null()[41]
    assert added.is_null()[50]


def test_many_chunks_give_what_one_gives(fitted: Path) -> None:
    """Rows enough for several of polars' morsels, in several files."""
    frame = pl.concat([clicks(60_000, seed=seed) for seed in range(5)])
    for part in range(3):
        frame[part * 100_000 : (part + 1) * 100_000].write_parquet(f"part-{part}.parquet", row_group_size=7000)
    calcli.apply("train.isotonic", "part-*.parquet", "out.parquet")
    out = pl.read_parquet("out.parquet")
    assert_frame_equal(out.drop("calibrated"), frame)
    np.testing.assert_array_equal(out["calibrated"], calcli.load("train.isotonic").predict(frame))


def test_what_cannot_be_written_leaves_nothing(fitted: Path) -> None:
    before = set(fitted.iterdir())
    with pytest.raises(FileSystemError):
        calcli.apply("train.isotonic", "test.parquet", "no/such/place.parquet")
    Path("folder.parquet").mkdir()
    with pytest.raises(FileSystemError):
        calcli.apply("train.isotonic", "test.parquet", "folder.parquet")
    with pytest.raises(UsageError, match="with output_format="):
        calcli.apply("train.isotonic", "test.parquet", "out.xyz")
    assert set(fitted.iterdir()) == before | {Path("folder.parquet").absolute()}


def test_what_is_no_artifact_is_named(here: Path) -> None:
    with pytest.raises(ArtifactError, match="no artifact"):
        calcli.apply("nowhere", "test.parquet", "out.parquet")
    with pytest.raises(ArtifactError, match="file"):
        calcli.apply("train.parquet", "test.parquet", "out.parquet")


def test_a_score_that_is_missing_is_named_with_the_nearest(fitted: Path) -> None:
    clicks().rename({"logit": "logits"}).write_parquet("renamed.parquet")
    with pytest.raises(DataError, match="name it: logit='logits'"):
        calcli.apply("train.isotonic", "renamed.parquet", "out.parquet")
    calcli.apply("train.isotonic", "renamed.parquet", "out.parquet", flags=calcli.Flags(logit="logits"))


def test_logits_and_intervals_come_when_asked_for(here: Path) -> None:
    calcli.fit("train.parquet", method="venn-abers", output="m")
    calcli.apply("m", "test.parquet", "out.parquet", extra=True, keep=())
    out = pl.read_parquet("out.parquet")
    assert out.columns == ["calibrated", "calibrated__logit", "calibrated__lo", "calibrated__hi"]
    p, lo, hi = (out[name].to_numpy() for name in ("calibrated", "calibrated__lo", "calibrated__hi"))
    assert (lo <= p).all()
    assert (p <= hi).all()
    assert (lo < hi).any()
    np.testing.assert_allclose(out["calibrated__logit"], np.log(p / (1 - p)), rtol=1e-9)
    calcli.apply("m", "test.parquet", "logit.parquet", scale="logit", keep=())
    np.testing.assert_array_equal(pl.read_parquet("logit.parquet")["calibrated"], out["calibrated__logit"])


def test_extras_of_more_classes_have_a_column_each(here: Path) -> None:
    calcli.fit(breeds(), method="venn-abers", output="m")
    calcli.apply("m", breeds(seed=1), "out.parquet", extra=True, keep=())
    out = pl.read_parquet("out.parquet")
    stems = ("calibrated", "calibrated__logit", "calibrated__lo", "calibrated__hi")
    assert out.columns == [f"{stem}_{name}" for stem in stems for name in "abcd"]
    assert (out["calibrated__lo_a"] <= out["calibrated__hi_a"]).all()
    calcli.fit(breeds(), method="platt", output="plain")
    calcli.apply("plain", breeds(seed=1), "out.parquet", extra=True, keep=())
    assert len(pl.read_parquet_schema("out.parquet")) == 8


def test_logits_twice_are_refused(fitted: Path) -> None:
    with pytest.raises(UsageError, match="keep one"):
        calcli.apply("train.isotonic", "test.parquet", "out.parquet", scale="logit", extra=True)


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_bytes_are_no_text(fitted: Path, suffix: str) -> None:
    frame = clicks(3).with_columns(raw=pl.lit([{"x": b"\x00"}]))
    with pytest.raises(DataError, match="'raw'"):
        calcli.apply("train.isotonic", frame, f"out.{suffix}")
    assert not list(fitted.glob("*out*"))


def test_a_column_without_a_name_is_none(fitted: Path) -> None:
    with pytest.raises(UsageError, match="the name of the column to add is empty"):
        calcli.apply("train.isotonic", "test.parquet", "out.parquet", column="")


def test_probabilities_in_the_place_of_logits_are_doubted(fitted: Path) -> None:
    frame = clicks(seed=1)
    likely = frame.with_columns(logit=1 / (1 + (-pl.col("logit")).exp()))
    said = "'logit' looks like probabilities, not logits: all 2,000 values lie in [0, 1]; pass --prob logit"
    assert calcli.apply("train.isotonic", likely, "out.parquet").doubt == said
    assert calcli.apply("train.isotonic", likely, "out.parquet", dry_run=True).doubt == said
    assert calcli.apply("train.isotonic", likely.head(19), "out.parquet").doubt is None
    assert calcli.apply("train.isotonic", frame, "out.parquet").doubt is None
    assert calcli.apply("train.isotonic", likely, "out.parquet", flags=calcli.Flags(prob="logit")).doubt is None
    warnings = calcli.evaluate(likely, artifacts=("train.isotonic",)).warnings
    assert [(warning.code, warning.message) for warning in warnings] == [("scale", said)]
    assert calcli.evaluate(frame, artifacts=("train.isotonic",)).warnings == ()


RECORDS = [
    '{"id":9007199254740993,"logit":1.50,"extra":1}',
    '{"logit": -2, "id": 0.5, "extra": "text"}',
    '{"logit":0.25,"deep":{"n":[29998,1e2]}}',
]


@pytest.mark.parametrize("end", ["jsonl", "json"])
def test_records_pass_as_the_text_that_they_were_with_one_key_more(fitted: Path, end: str) -> None:
    Path("in.jsonl").write_text("\n".join(RECORDS))
    calcli.apply("train.isotonic", "in.jsonl", f"out.{end}")
    added = calcli.load("train.isotonic").predict(pl.DataFrame({"logit": [1.5, -2, 0.25]})).tolist()
    expected = [f'{text[:-1]},"calibrated":{value!r}}}' for text, value in zip(RECORDS, added, strict=True)]
    lines = Path(f"out.{end}").read_text().replace(",\n", "\n").splitlines()
    assert (lines if end == "jsonl" else lines[1:-1]) == expected


def test_a_record_without_keys_gets_the_added_one_alone(fitted: Path) -> None:
    Path("in.jsonl").write_text('{"logit":1}\n{ }\n')
    calcli.apply("train.isotonic", "in.jsonl", "out.jsonl", bad_rows="null")
    assert Path("out.jsonl").read_text().splitlines()[1] == '{"calibrated":null}'
    calcli.apply("train.isotonic", "in.jsonl", "out.jsonl", bad_rows="null", keep=())
    assert [set(json.loads(line)) for line in Path("out.jsonl").read_text().splitlines()] == [{"calibrated"}] * 2


def test_keep_cuts_records_and_directories_add_keys(fitted: Path) -> None:
    Path("days/day=2").mkdir(parents=True)
    Path("days/day=2/a.jsonl").write_text("\n".join(RECORDS))
    calcli.apply("train.isotonic", "days", "out.jsonl", keep=("id", "day"))
    found = [line.split(',"calibrated":')[0] for line in Path("out.jsonl").read_text().splitlines()]
    assert found == ['{"id":9007199254740993,"day":2', '{"id": 0.5,"day":2', '{"day":2']


def test_a_key_of_two_types_is_refused_only_if_it_is_used(fitted: Path) -> None:
    Path("in.jsonl").write_text("\n".join(RECORDS))
    with pytest.raises(DataError, match=r"in.jsonl mixes types: 'extra' is a number in line 1, text in line 2"):
        calcli.apply("train.isotonic", "in.jsonl", "out.parquet")
    calcli.apply("train.isotonic", "in.jsonl", "out.parquet", keep=("logit",))


def test_a_feature_of_two_types_is_refused_with_its_line(here: Path) -> None:
    frame = clicks(300)
    calcli.fit(frame, method="effects", flags=calcli.Flags(features=("age",)), output="m", holdout="none")
    lines = frame.select("logit", "age", "w", "label").write_ndjson().splitlines()
    Path("in.jsonl").write_text("\n".join([*lines, '{"logit":1,"age":"unknown","label":1}']))
    words = r"in.jsonl mixes types: 'age' is a number in line 1, text in line 301"
    with pytest.raises(DataError, match=words):
        calcli.apply("m", "in.jsonl", "out.jsonl")
    with pytest.raises(DataError, match=words):
        calcli.fit("in.jsonl", method="effects", flags=calcli.Flags(features=("age",)))
    calcli.fit("in.jsonl", method="effects", output="without", holdout="none")
    binding = calcli.load("without").binding
    assert [feature.name for feature in binding.features] == ["w"]
    assert ("age", "it mixes types") in [(gone.column, gone.reason) for gone in binding.dropped]
