"""`estimate`: what it reads, what it reports, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from calcli.errors import DataError, UsageError
from calcli.reports.schema import Report
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


def ours(frame: pl.DataFrame, **more: object) -> Report:
    return calcli.estimate(frame, prob="prob", label="label", **more)


def test_it_corrects_the_mean_of_the_scores() -> None:
    (found,) = ours(judged()).estimates
    assert found["scores_mean"] > 0.2
    assert found["lo"] < 0.1 < found["hi"]
    assert (found["rows"], found["labels"]) == (ROWS, LABELS)
    assert found["worth"] > LABELS
    assert found["hi"] - found["lo"] < found["labels_only"]["hi"] - found["labels_only"]["lo"]


def test_the_report_has_the_schema_and_is_the_same_from_a_file(tmp_path: Path) -> None:
    frame = judged()
    frame.write_csv(tmp_path / "rows.csv")
    report = ours(frame, by=("task",))
    REPORT_SCHEMA.validate(report.to_json())
    assert (
        calcli.estimate(tmp_path / "rows.csv", prob="prob", label="label", by=("task",)).estimates == report.estimates
    )


def test_groups_are_the_estimates_of_their_rows_with_corrected_p_values() -> None:
    frame = pl.concat([judged(0.1, 1), judged(0.4, 2)]).with_columns(task=pl.Series(np.repeat(["a", "b"], ROWS)))
    report = ours(frame, by=("task",))
    whole, first, second = report.estimates
    assert (whole["group"], first["group"], second["group"]) == (None, {"task": "a"}, {"task": "b"})
    assert first["hi"] < second["lo"]
    p = [entry["p"] for entry in report.groups]
    assert max(p) < 1e-4
    assert [entry["p_adjusted"] for entry in report.groups] == pytest.approx([2 * min(p), max(*p, 2 * min(p))])


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
    files = calcli.estimate(
        tmp_path / "old.parquet", prob="prob", label="label", versus=str(tmp_path / "new.parquet"), item="id"
    )
    assert files.estimates[2]["value"] == pytest.approx(gap["value"])


def test_a_system_beside_itself_is_a_tie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = judged()
    pl.concat([one.with_columns(system=pl.lit(name)) for name in "ab"]).write_parquet(tmp_path / "both.parquet")
    words = ["--prob", "prob", "--label", "label", "--versus", "system", "--id", "id"]
    assert main(["estimate", str(tmp_path / "both.parquet"), *words]) == 0
    assert "a and b (1) are tied" in capsys.readouterr().out


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
        (lambda f: f.filter(pl.col("label") != 1), {}, "one class only: 0; if there is another one, name both"),
        (lambda f: f.with_columns(p=0.0), {"label_prob": "p"}, "'p' is 0 in row .* which has a label"),
        (
            lambda f: f.with_columns(s=pl.col("label").is_null()),
            {"strata": "s"},
            "1 of the 2 values of 's' have no labelled row",
        ),
        (lambda f: f.with_columns(s=pl.col("id") % 2), {"versus": "s", "item": "task"}, "'task' repeats in"),
        (lambda f: f.with_columns(s=pl.col("id") % 2), {"versus": "s", "item": "id"}, "no value of 'id' is in both"),
        (lambda f: f, {"versus": "systm", "item": "id"}, "no column 'systm'.*and no file of this name"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(change, more, said) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=said):
        ours(change(judged()), **more)


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
