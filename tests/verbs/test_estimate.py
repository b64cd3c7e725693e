"""`estimate`: what it reads, what it reports, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calcli
from calcli.cli.main import main
from calcli.errors import DataError, UsageError
from calcli.metrics.powered import Sample, difference, powered
from calcli.numeric.binomial import score_interval
from calcli.reporting.webpage import webpage
from calcli.reports.schema import Report
from calcli.verbs import judged_sums
from calcli.verbs.label_plan import Variances, draw, inclusion, planned
from tests.support.graphs import HOUSE, villages
from tests.support.reports import REPORT_SCHEMA

ROWS, LABELS = 3000, 300


def judged(rate: float = 0.1, seed: int = 0, rows: int = ROWS, labels: int = LABELS) -> pl.DataFrame:
    """Verdicts of a judge, which errs in 15 to 20 % of the rows, and labels of some rows."""
    rng = np.random.default_rng(seed)
    truth = rng.random(rows) < rate
    verdict = np.where(truth, rng.random(rows) > 0.2, rng.random(rows) < 0.15)
    label = pl.Series(truth.astype(int)).to_frame("label")
    known = pl.Series(rng.permutation(rows) < labels)
    return label.select(
        pl.Series("id", range(rows)),
        label=pl.when(known).then("label"),
        prob=pl.Series(verdict.astype(float)),
        task=pl.Series(rng.choice(["art", "law"], rows)),
        truth=pl.Series(truth.astype(int)),
    )


def ours(frame: pl.DataFrame | Path, **more: object) -> Report:
    return calcli.estimate(frame, prob="prob", label="label", **more)


def test_it_corrects_the_mean_of_the_scores() -> None:
    (found,) = ours(judged()).estimates
    assert found["scores_mean"] > 0.2
    assert found["lo"] < 0.1 < found["hi"]
    assert (found["rows"], found["labels"]) == (ROWS, LABELS)
    assert found["worth"] > LABELS
    assert found["hi"] - found["lo"] < found["labels_only"]["hi"] - found["labels_only"]["lo"]


@pytest.mark.parametrize("given", [{}, {"resample_by": "unit"}, {"strata": "task"}, {"weight": "weight"}])
def test_where_all_rows_have_labels_the_scores_have_no_say(given: dict[str, str]) -> None:
    frame = judged(0.3, 3).filter(pl.col("label").is_not_null())
    frame = frame.with_columns(unit=pl.col("id") % 40, weight=1.0 + pl.col("id") % 3)
    (found,) = ours(frame, **given).estimates
    mean = frame["label"].mean() if "weight" not in given else np.average(frame["label"], weights=frame["weight"])
    assert found["value"] == pytest.approx(mean, rel=1e-12)
    for end in ("lo", "hi"):
        assert found[end] == pytest.approx(found["labels_only"][end], rel=1e-9)


def test_the_report_has_the_schema_and_is_the_same_from_a_file(tmp_path: Path) -> None:
    """A text file has groups and units that are numbers."""
    frame = judged().with_columns(id_in_ten=pl.col("id") % 10, unit=pl.col("id") // 3)
    frame.write_csv(tmp_path / "rows.csv")
    for words in ({"by": ("task", "id_in_ten")}, {"resample_by": "unit", "strata": "id_in_ten"}):
        report = ours(frame, **words)
        REPORT_SCHEMA.validate(report.to_json())
        assert ours(tmp_path / "rows.csv", **words).estimates == report.estimates


def test_a_count_stands_for_as_many_rows() -> None:
    frame = judged(0.3, 12).with_columns(count=1 + pl.col("id") % 3)
    copies = frame.select(pl.all().repeat_by("count").explode())
    (counted,) = ours(frame, weight="count", weight_kind="counts").estimates
    assert counted == ours(copies).estimates[0]


def test_groups_are_the_estimates_of_their_rows_with_corrected_p_values() -> None:
    frame = pl.concat([judged(0.1, 1), judged(0.4, 2)]).with_columns(task=pl.Series(np.repeat(["a", "b"], ROWS)))
    report = ours(frame, by=("task",))
    whole, first, second = report.estimates
    assert (whole["group"], first["group"], second["group"]) == (None, {"task": "a"}, {"task": "b"})
    assert first["hi"] < second["lo"]
    p = [entry["p"] for entry in report.groups]
    assert max(p) < 1e-4
    assert [entry["p_adjusted"] for entry in report.groups] == pytest.approx([2 * min(p), max(*p, 2 * min(p))])


def test_minus_nought_is_the_group_of_nought() -> None:
    table = judged().with_columns(g=pl.Series([-0.0, 1.0] * (ROWS // 2)))
    assert [one["group"] for one in ours(table, by=("g",)).groups] == ["0.0", "1.0"]


def test_gates_are_about_the_rate_and_its_ends() -> None:
    report = ours(judged(), by=("task",), fail_if=("rate.lo < 0.01", "rate.hi > 0.05", "rate.hi@task=law > 0.9"))
    assert [gate["passed"] for gate in report.gates] == [True, False, True]
    with pytest.raises(UsageError, match=r"no rate\.diff"):
        ours(judged(), fail_if=("rate.diff > 0",))


def test_each_class_has_a_rate() -> None:
    rng = np.random.default_rng(3)
    truth = rng.choice(3, 2000, p=[0.6, 0.3, 0.1])
    said = np.eye(3)[np.where(rng.random(2000) < 0.8, truth, rng.choice(3, 2000))] * 0.7 + 0.1
    frame = pl.DataFrame({f"p_{name}": said[:, k] for k, name in enumerate("abc")}).with_columns(
        label=pl.Series([("abc"[k] if i < 400 else None) for i, k in enumerate(truth)])
    )
    report = calcli.estimate(frame, prob="p", fail_if=("c.rate.lo > 0.5",))
    found = {entry["class"]: entry for entry in report.estimates}
    assert [*found] == ["a", "b", "c"]
    for name, share in zip("abc", np.bincount(truth) / 2000, strict=True):
        assert found[name]["lo"] < share < found[name]["hi"]
        assert found[name]["worth"] > 400
    assert report.gates[0]["passed"]


def test_the_mean_of_a_grade_needs_no_probability() -> None:
    rng = np.random.default_rng(4)
    grade = rng.integers(1, 6, 2000).astype(float)
    frame = pl.DataFrame({"judge": 20 * grade + rng.normal(5, 10, 2000)}).with_columns(
        label=pl.Series([g if i < 100 else None for i, g in enumerate(grade)])
    )
    report = calcli.estimate(frame, prob="judge", label="label", task="regression", fail_if=("mean.lo > 3.5",))
    (found,) = report.estimates
    assert found["lo"] < grade.mean() < found["hi"]
    assert found["worth"] > 400  # the judge explains nine tenths of the variance
    assert report.gates[0]["passed"]


def test_a_score_in_percent_is_the_same_and_one_that_only_ranks_has_no_mean() -> None:
    """Grades in any units give one estimate, up to the solver of their curve; with labels alone it is wider."""
    rng = np.random.default_rng(5)
    prob = rng.beta(1, 3, ROWS)
    frame = pl.DataFrame({"label": (rng.random(ROWS) < prob).astype(int), "prob": prob})
    frame = frame.with_columns(label=pl.when(pl.int_range(pl.len()) < LABELS).then("label"))
    (plain,) = ours(frame).estimates
    scaled = frame.select("label", percent=100.0 * pl.col("prob"))
    (percent,) = calcli.estimate(scaled, percent="percent", label="label").estimates
    assert [percent[key] for key in ("value", "lo", "hi")] == pytest.approx(
        [plain[key] for key in ("value", "lo", "hi")]
    )
    grades = frame.select("label", up=1.0 + 9.0 * pl.col("prob").round(1), down=-2.0 * pl.col("prob").round(1))
    (up,) = calcli.estimate(grades.drop("down"), rank="up", label="label").estimates
    (down,) = calcli.estimate(grades.drop("up"), rank="down", descending=True, label="label").estimates
    assert (up["scores_mean"], down["scores_mean"]) == (None, None)
    assert up["worth"] > 1.1 * LABELS
    assert (down["value"], down["worth"]) == (
        pytest.approx(up["value"], abs=1e-6),
        pytest.approx(up["worth"], rel=1e-4),
    )


def test_labels_that_were_drawn_with_known_probabilities_are_weighed() -> None:
    frame = judged(0.3, 5, rows=6000, labels=6000)
    rng = np.random.default_rng(6)
    drawn_with = np.where(frame["prob"] > 0.5, 0.2, 0.02)
    known = pl.Series(rng.random(6000) < drawn_with)
    frame = frame.with_columns(label=pl.when(known).then("label"), p=pl.Series(drawn_with))
    (weighed,), (strata,), (naive,) = (
        ours(frame, label_prob="p").estimates,
        ours(frame, strata="prob").estimates,
        ours(frame).estimates,
    )
    truth = frame["truth"].mean()
    assert weighed["lo"] < truth < weighed["hi"]
    assert weighed["value"] == pytest.approx(strata["value"], abs=0.02)
    assert naive["labels_only"]["lo"] > truth  # the labels are mostly of rows that the judge calls positive


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in several files, which are read in several chunks, with amounts as labels and scores far from 0."""
    folder, rng, rows = tmp_path_factory.mktemp("graded"), np.random.default_rng(11), 6000
    score = 500 + 20 * rng.normal(size=rows)
    drawn_with = np.where(score > 510, 0.3, 0.1)
    columns = {
        "prob": score,
        "grade": 0.2 * score + rng.normal(size=rows),
        "w": rng.choice([0.0, 0.5, 2.0], rows),
        "p": drawn_with,
        "high": score > 510,
        "unit": rng.integers(0, 1500, rows),
        "task": rng.choice(["art", "law"], rows),
        "known": rng.random(rows) < drawn_with,
    }
    frame = pl.DataFrame(columns).with_columns(label=pl.when("known").then("grade"))
    for place, part in enumerate(frame.iter_slices(1700)):
        part.write_parquet(folder / f"{place}.parquet")
    return folder


def whole_sample(frame: pl.DataFrame, given: dict[str, str]) -> Sample:
    """The sample in which every row is an entry."""
    weight = frame["w"].to_numpy() if "weight" in given else None
    known = frame["known"].to_numpy() & (True if weight is None else weight > 0)
    some = frame.filter(known)
    return Sample(
        labelled=np.flatnonzero(known),
        value=some["label"].to_numpy(),
        stand_in=frame["prob"].to_numpy(),
        rate=False,
        weight=weight,
        label_prob=some["p"].to_numpy() if "label_prob" in given else None,
        strata=frame["high"].to_numpy().astype(int) if "strata" in given else None,
        units=frame["unit"].to_numpy() if "resample_by" in given else None,
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"weight": "w"},
        {"strata": "high"},
        {"weight": "w", "label_prob": "p"},
        {"resample_by": "unit"},
        {"weight": "w", "strata": "high", "resample_by": "unit"},
    ],
)
def test_sums_over_rows_without_labels_are_as_good_as_the_rows(graded: Path, given: dict[str, str]) -> None:
    frame = pl.read_parquet(graded / "*.parquet")
    found = calcli.estimate(graded, prob="prob", label="label", task="regression", by=("task",), **given).estimates
    parts = [frame, frame.filter(pl.col("task") == "art"), frame.filter(pl.col("task") == "law")]
    for entry, part in zip(found, parts, strict=True):
        expected = powered(whole_sample(part, given))
        assert (entry["rows"], entry["labels"]) == (expected.rows, expected.labels)
        for name in ("value", "lo", "hi", "worth"):
            assert entry[name] == pytest.approx(getattr(expected, name), rel=1e-9)
        assert entry["labels_only"]["lo"] == pytest.approx(expected.labels_only.lo, rel=1e-9)


@pytest.mark.parametrize("given", [{}, {"weight": "w"}, {"resample_by": "unit"}])
def test_groups_whose_amounts_are_far_apart_have_the_intervals_that_they_have_alone(
    graded: Path, given: dict[str, str]
) -> None:
    """By half a million standard deviations: sums about one centre would have no digits left."""
    frame, far = pl.read_parquet(graded / "*.parquet"), 1e7
    shift = pl.when(pl.col("task") == "law").then(far).otherwise(0.0)
    moved = frame.with_columns(pl.col("prob") + shift, pl.col("label") + shift)
    words = {"prob": "prob", "label": "label", "task": "regression", "by": ("task",), **given}
    (_, *near), (_, *apart) = (calcli.estimate(each, **words).estimates for each in (frame, moved))
    for one, other, more in zip(near, apart, (0.0, far), strict=True):
        for name in ("value", "lo", "hi"):
            assert other[name] - more == pytest.approx(one[name], abs=1e-4 * (one["hi"] - one["lo"]))


def test_units_without_labels_share_buckets_where_they_are_many(graded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate is the same, and its interval as wide up to chance."""
    words = {"prob": "prob", "label": "label", "task": "regression", "resample_by": "unit"}
    (apart,) = calcli.estimate(graded, **words).estimates
    monkeypatch.setattr(judged_sums, "MOST_UNITS", 100)
    monkeypatch.setattr(judged_sums, "UNITS", 256)
    monkeypatch.setattr(judged_sums, "FEWEST_BUCKETS", 256)
    (shared,) = calcli.estimate(graded, **words).estimates
    assert shared["value"] == pytest.approx(apart["value"], rel=1e-9)
    assert shared["lo"] != apart["lo"]
    assert shared["hi"] - shared["lo"] == pytest.approx(apart["hi"] - apart["lo"], rel=0.05)


@pytest.mark.parametrize("pooled", [False, True])
def test_two_systems_are_compared_by_sums_as_by_their_rows(
    graded: Path, monkeypatch: pytest.MonkeyPatch, pooled: bool
) -> None:
    """Where items are many, those without labels share buckets: the interval is as wide up to chance."""
    frame = pl.read_parquet(graded / "*.parquet").with_row_index("id")
    other = frame.sample(fraction=0.8, shuffle=True, seed=1).with_columns(pl.col("prob") * 1.01, pl.col("label") + 1.0)
    parts = [part.with_columns(system=pl.lit(name)) for name, part in (("b", frame), ("a", other))]
    if pooled:
        monkeypatch.setattr(judged_sums, "MOST_UNITS", 1000)
    words = {"prob": "prob", "label": "label", "task": "regression", "versus": "system", "item": "id"}
    found = calcli.estimate(pl.concat(parts), **words).estimates[-1]
    samples = [replace(whole_sample(part, {}), items=part["id"].to_numpy()) for part in (other, frame)]
    expected = difference(*map(powered, samples))
    assert found["value"] == pytest.approx(expected.value, rel=1e-9)
    assert found["hi"] - found["lo"] == pytest.approx(expected.hi - expected.lo, rel=0.02 if pooled else 1e-9)


def test_two_systems_are_compared_on_their_items(tmp_path: Path) -> None:
    one, other = judged(0.1, 7), judged(0.25, 8)
    both = pl.concat([one.with_columns(system=pl.lit("old")), other.with_columns(system=pl.lit("new"))])
    both.write_parquet(tmp_path / "both.parquet")
    one.write_parquet(tmp_path / "new.parquet")
    other.write_parquet(tmp_path / "old.parquet")
    *systems, gap = ours(both, versus="system", item="id", fail_if=("difference.rate.lo < 0",)).estimates
    assert [entry["system"] for entry in (*systems, gap)] == ["new", "old", "new - old"]
    assert gap["value"] == pytest.approx(systems[0]["value"] - systems[1]["value"])
    assert gap["lo"] > 0.05
    assert gap["better"] > 0.999
    assert len(ours(both, versus="system", item="id", by=("id:2",)).estimates) == 9
    files = calcli.estimate(
        tmp_path / "old.parquet", prob="prob", label="label", versus=str(tmp_path / "new.parquet"), item="id"
    )
    assert files.estimates[2]["value"] == pytest.approx(gap["value"])


def test_a_system_beside_itself_is_a_tie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = judged()
    pl.concat([one.with_columns(system=pl.lit(name)) for name in "ab"]).write_parquet(tmp_path / "both.parquet")
    words = ["--prob", "prob", "--label", "label", "--versus", "system", "--id", "id"]
    assert main(["estimate", str(tmp_path / "both.parquet"), *words]) == 0
    assert "a and b are tied" in capsys.readouterr().out


def test_few_labels_are_said_to_be_few() -> None:
    report = ours(judged(0.5, labels=7))
    assert [one.code for one in report.warnings] == ["few-labels"]
    assert report.estimates[0]["method"] == "labels alone"


def without_a_label(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(label=pl.lit(None, dtype=pl.Int64))


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        (without_a_label, {}, "has no value in any row"),
        (
            lambda f: f.with_columns(w=pl.col("label").is_null().cast(int)),
            {"weight": "w"},
            "no row of the frame has a label",
        ),
        (lambda f: f.with_columns(label=pl.col("label") * 3.5), {}, "for the mean of a number: task='regression'"),
        (lambda f: f.filter(pl.col("label") != 1), {}, "one class only: 0; if there is another one, name both"),
        (lambda f: f.with_columns(p=0.0), {"label_prob": "p"}, "'p' is 0 in a row which has a label"),
        (
            lambda f: f.with_columns(s=pl.col("label").is_null()),
            {"strata": "s"},
            "1 of the 2 values of 's' have no labelled row",
        ),
        (lambda f: f.with_columns(s=pl.when(pl.col("id") > 0).then("task")), {"strata": "s"}, "'s' is null in 1 row;"),
        (lambda f: f.with_columns(s=pl.col("id") % 2), {"versus": "s", "item": "task"}, "'task' repeats in"),
        (lambda f: f.with_columns(s=pl.col("id") % 2), {"versus": "s", "item": "id"}, "no value of 'id' is in both"),
        (lambda f: f, {"versus": "systm", "item": "id"}, "no column 'systm'.*and no file of this name"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(change, more, said) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=said):
        ours(change(judged()), **more)


@pytest.mark.parametrize(
    ("given", "said"),
    [({}, "item: 'id' is Int64 in one"), ({"resample_by": "unit"}, "resample_by: 'unit' is String in one")],
)
def test_what_ties_two_tables_is_of_one_type(tmp_path: Path, given: dict[str, str], said: str) -> None:
    table, other = judged().with_columns(unit=pl.col("id").cast(pl.String)), tmp_path / "other.parquet"
    table.with_columns(unit=pl.col("id"), id=pl.col("unit")).write_parquet(other)
    with pytest.raises(DataError, match=said):
        ours(table, versus=str(other), item="id", **given)


def test_integers_of_another_size_tie_two_tables(tmp_path: Path) -> None:
    found = []
    for size in (pl.Int32, pl.Int64):
        path = tmp_path / f"{size}" / "other.parquet"
        judged().with_columns(pl.col("id").cast(size)).write_parquet(path, mkdir=True)
        found.append(ours(judged(), versus=str(path), item="id").estimates)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "more",
    [{"versus": "task"}, {"item": "id"}, {"label_prob": "prob", "strata": "task"}, {"versus": "id", "item": "id"}],
)
def test_what_does_not_go_together_is_refused(more: dict[str, str]) -> None:
    with pytest.raises((UsageError, DataError)):
        ours(judged(), **more)


def test_the_answer_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged().write_ndjson(tmp_path / "rows.jsonl")
    words = ["estimate", str(tmp_path / "rows.jsonl"), "--prob", "prob", "--label", "label", "--by", "task", "-q"]
    assert main([*words, "--html", str(tmp_path / "page.html"), "--fail-if", "rate.lo > 0.5"]) == 0
    out = capsys.readouterr().out
    assert "not within\nthat interval" in out or "not within that interval" in " ".join(out.split())
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg viewBox") == 1
    assert "labels alone" in page
    assert main([*words, "--fail-if", "rate.hi < 0.5"]) == 1
    capsys.readouterr()
    assert main([*words, "--format", "csv"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.startswith("system,class,by,group,value,lo,hi,")
    assert len(lines) == 3


def test_the_width_is_reached_by_the_labels_that_it_asks_for_and_not_by_one_less() -> None:
    plan = ours(judged(), width=0.05).plan
    known = Variances(0.1, np.full(2000, 0.06), 0.09)
    before = np.full(2000, 0.05)
    found = planned(0.05, known, before, None)
    assert plan["more_planned"] <= plan["more"]

    def width(more: int) -> float:  # by hand: equal probabilities, Wilson's interval of as many labels
        drawn = 0.05 + 0.95 * more / 1900
        labels = 0.1 * 0.9 / (0.06 * (1 / drawn - 1) / 2000 + 0.09 / 2000)
        lo, hi = score_interval(0.1, labels, 1.959963984540054)
        return hi - lo

    assert width(found["more"]) <= 0.05 < width(found["more"] - 1)
    assert planned(1e-4, known, before, None)["more"] is None


@given(st.lists(st.floats(0.01, 5), min_size=3, max_size=40), st.integers(1, 3))
def test_probabilities_of_the_draw_add_up_to_what_is_drawn(size: list[float], count: int) -> None:
    prob = inclusion(np.array(size), count)
    assert prob.sum() == pytest.approx(count)
    assert (prob <= 1.0).all()
    drawn = draw(prob, np.random.default_rng(0))
    assert len(drawn) == count == len(set(drawn))
    assert (prob[drawn] > 0).all()


def test_rows_are_drawn_with_their_probabilities() -> None:
    prob = inclusion(np.arange(12.0), 4)
    rng = np.random.default_rng(1)
    count = np.bincount(np.concatenate([draw(prob, rng) for _ in range(4000)]), minlength=12)
    assert np.abs(count / 4000 - prob).max() < 4 * 0.5 / np.sqrt(4000)  # four errors


def test_chosen_rows_are_written_with_those_that_have_labels_and_then_estimated(tmp_path: Path) -> None:
    frame = judged(0.2, 9)
    report = ours(frame, choose=200, output=tmp_path / "label_these.csv")
    chosen = pl.read_csv(tmp_path / "label_these.csv")
    assert report.plan["chosen"] == 200
    assert len(chosen) == LABELS + 200
    assert chosen["label"].null_count() == 200
    labelled = frame.join(chosen.select("id", "label_prob"), on="id", how="left")
    labelled = labelled.with_columns(label=pl.when(pl.col("label_prob").is_not_null()).then("truth"))
    (found,) = ours(labelled, label_prob="label_prob").estimates
    assert found["labels"] == LABELS + 200
    assert found["lo"] < frame["truth"].mean() < found["hi"]
    with pytest.raises(UsageError, match="have no label"):
        ours(frame, choose=ROWS, output=tmp_path / "all.csv")
    frame.write_parquet(tmp_path / "all.parquet")
    with pytest.raises(UsageError, match="writes some rows only"):
        ours(tmp_path / "all.parquet", choose=200, output=tmp_path / "all.parquet")
    assert pl.read_parquet(tmp_path / "all.parquet").equals(frame)


def test_without_labels_the_width_stands_on_the_scores() -> None:
    frame = judged().select("id", prob=0.1 + 0.3 * pl.col("prob"))
    report = calcli.estimate(frame, width=0.05)
    assert report.plan["assumes"] == "calibrated scores"
    assert report.estimates == ()
    with pytest.raises(DataError, match="no row of the frame has a label"):
        calcli.estimate(frame)


@pytest.fixture(scope="module")
def platt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artifact") / "platt"
    calcli.fit(calibrated_rows(0, 4000), method="platt", prob="prob", label="label", output=path)
    return path


def calibrated_rows(seed: int, rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    odds = rng.normal(-1.0, 1.5, rows)
    label = rng.random(rows) < 1 / (1 + np.exp(-odds))
    return pl.DataFrame({"prob": 1 / (1 + np.exp(-1.7 * odds)), "label": label.astype(int)})


def test_without_labels_an_artifact_promises_what_labels_then_show(platt: Path) -> None:
    rows = calibrated_rows(1, 2000)
    report = calcli.estimate(rows.drop("label"), artifact=platt, fail_if=("accuracy.lo < 0.5", "precision.hi < 0.5"))
    REPORT_SCHEMA.validate(report.to_json())
    (promised,) = report.scores
    shown = calcli.evaluate(rows, artifacts=(str(platt),), metrics="accuracy,nll,brier,auc").scores[1].metrics
    for name, value in shown.items():
        assert promised.metrics[name].lo < value.value < promised.metrics[name].hi
    prob = calcli.load(platt).predict(rows)
    for name, value in {
        "accuracy": np.maximum(prob, 1 - prob).mean(),
        "brier": (prob * (1 - prob)).mean(),
        "recall": prob[prob >= 0.5].sum() / prob.sum(),
        "rate": prob.mean(),
    }.items():
        assert promised.metrics[name].value == pytest.approx(value, rel=1e-9)
    order = prob[:, None] > prob[None, :]
    pairs = prob[:, None] * (1 - prob)[None, :]
    assert promised.metrics["auc"].value == pytest.approx((order * pairs).sum() / pairs.sum(), abs=1e-3)
    assert [one.code for one in report.warnings] == ["promised"]
    assert "--drift" in report.warnings[0].message


@pytest.mark.slow
def test_a_calibrator_of_whole_tables_has_all_rows_at_once(tmp_path: Path) -> None:
    """Neighbours of a house are in other files, and houses without labels are neighbours too."""
    told = {"relation": "knn:east,north", "apply": "offline", "epochs": 5, "margin": 0}
    calcli.fit(villages(200, 0), method="recal", params=told, flags=HOUSE, output=tmp_path / "kept", holdout="none")
    rows = villages(200, 1)
    few = rows.with_columns(label=pl.when(pl.int_range(pl.len()) % 3 == 0).then("label"))
    for place, part in enumerate(few.iter_slices(70)):
        part.write_parquet(tmp_path / f"{place}.parquet")
    (found,) = calcli.estimate(tmp_path / "*.parquet", artifact=tmp_path / "kept", flags=HOUSE).estimates
    assert found["scores_mean"] == pytest.approx(calcli.load(tmp_path / "kept").predict(rows).mean(), rel=1e-9)


def test_a_policy_promises_the_decisions_of_each_group(here: Path) -> None:
    """Each group has a threshold of its own, and precision is that of the rows that reach it."""
    rng = np.random.default_rng(3)
    rows = calibrated_rows(3, 6000).with_columns(site=pl.Series(rng.choice(["a", "b"], 6000)))
    rows = rows.with_columns(label=pl.when(pl.col("site") == "a").then("label").otherwise(rng.integers(0, 2, 6000)))
    decided = calcli.decide(rows, prob="prob", target="precision >= 0.6", by="site", output="p")
    rule = decided.choice.policy.rule
    promised = calcli.estimate(rows.drop("label"), artifact="p")
    prob = calcli.load("p").predict(rows)
    thresholds = dict(zip(rule.groups, rule.thresholds, strict=True))
    yes = prob >= rows["site"].replace_strict(thresholds).to_numpy()
    metrics = promised.scores[0].metrics
    assert metrics["precision"].value == pytest.approx(prob[yes].mean(), rel=1e-9)
    assert metrics["recall"].value == pytest.approx(prob[yes].sum() / prob.sum(), rel=1e-9)
    assert metrics["precision"].value != pytest.approx(prob[prob >= 0.5].mean(), rel=1e-3)
    assert "each site has in the policy" in promised.definitions["precision"].approximation


def moved_rows(rate: float) -> pl.DataFrame:
    """The rows of `calibrated_rows` with another share of positives."""
    rows = calibrated_rows(2, 20_000)
    positive, negative = (rows.filter(pl.col("label") == label) for label in (1, 0))
    return pl.concat([positive.head(round(3000 * rate)), negative.head(round(3000 * (1 - rate)))])


@pytest.mark.parametrize("rate", [0.05, 0.6])
def test_a_moved_base_rate_is_found_without_labels_and_applied(platt: Path, rate: float) -> None:
    rows = moved_rows(rate)
    report = calcli.estimate(rows.drop("label"), artifact=platt, prior_shift="estimate", fail_if=("rate.hi < 0.01",))
    REPORT_SCHEMA.validate(report.to_json())
    (found,) = report.estimates
    assert found["lo"] < rate < found["hi"]
    assert found["p"] > 0.01
    assert not report.warnings
    shifted = calcli.apply(platt, rows.drop("label"), prior_shift="estimate").frame["calibrated"]
    assert shifted.mean() == pytest.approx(found["value"], abs=1e-6)  # where the EM stands still
    assert abs(calcli.apply(platt, rows).frame["calibrated"].mean() - rate) > 0.05


def test_a_page_shows_a_moved_rate_alone_where_there_are_no_labels(platt: Path) -> None:
    page = webpage(calcli.estimate(moved_rows(0.6).drop("label"), artifact=platt, prior_shift="estimate"))
    assert "labels alone, with theirs" not in page
    assert page.count('<circle cx="') == 1


def test_moved_features_are_told_from_moved_rates(platt: Path) -> None:
    rows = calibrated_rows(3, 4000).with_columns(prob=pl.col("prob") * 0.5)
    report = calcli.estimate(rows.drop("label"), artifact=platt, prior_shift="estimate")
    assert [one.code for one in report.warnings] == ["prior-shift-contradicted"]
    with pytest.raises(UsageError, match="needs a calibrator"):
        calcli.estimate(rows, prior_shift="estimate")


def test_an_artifact_that_was_off_at_its_fit_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calcli.verbs.promised._DRAWS", 4)  # of the intervals of what is promised
    rng = np.random.default_rng(5)
    truth = rng.choice(3, 3000, p=[0.2, 0.3, 0.5])
    frame = pl.DataFrame({f"logit_{k}": 2.0 * (truth == k) + rng.normal(size=3000) for k in range(3)})
    frame = frame.with_columns(label=pl.Series(truth))  # the scores take all classes for equally frequent
    for method, codes in (("temperature", ["off-at-fit"]), ("vector", [])):
        calcli.fit(frame, method=method, output=tmp_path / method, holdout="cv:2")
        more = calcli.estimate(frame.drop("label"), artifact=tmp_path / method, prior_shift="estimate")
        assert [one.code for one in more.warnings] == codes
        promised = calcli.estimate(frame.drop("label"), artifact=tmp_path / method)
        assert [one.code for one in promised.warnings] == ["promised", *codes]
