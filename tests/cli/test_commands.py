"""The commands from end to end: what comes out of which stream."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.methods import catalog as methods
from calcli.metrics import catalog as metrics
from calcli.numeric.threads import processors
from calcli.tables.sink import write
from calcli.tables.source import open_source
from tests.support.reports import REPORT_SCHEMA
from tests.support.shell import Run, environment


def test_fit_prints_the_path_and_nothing_else(here: Path, run: Run) -> None:
    code, out, err = run("fit", "train.parquet", "--method", "platt", "-o", "kept")
    assert (code, out) == (0, "kept\n")
    assert "log-loss" in err
    assert (here / "kept" / "manifest.json").is_file()
    assert run("fit", "-q", "train.parquet", "-m", "platt", "-o", "kept") == (0, "kept\n", "")


def test_fit_reports_on_stdout_if_asked(here: Path, run: Run) -> None:
    code, out, err = run("fit", "train.parquet", "-m", "platt", "-o", "kept", "--format", "json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    REPORT_SCHEMA.validate(report)
    assert (report["command"], report["artifact"]) == ("fit", "kept")
    assert out.endswith("}\n")
    assert out.count("\n") == 1


def test_set_and_preset_reach_the_method(here: Path, run: Run) -> None:
    words = ("fit", "-q", "train.parquet", "-m", "histogram", "-o", "kept")
    assert run(*words, "--set", "bins=3", "--set", "histogram.binning=width")[0] == 0
    manifest = json.loads((here / "kept" / "manifest.json").read_text())
    assert manifest["params"] == {"bins": 3, "binning": "width"}
    code, _, err = run(*words, "--set", "bin=3")
    assert code == 2
    assert "did you mean 'bins'?" in err


def test_a_dry_run_shows_the_binding_and_keeps_nothing(here: Path, run: Run) -> None:
    words = ("fit", "train.parquet", "-m", "platt", "--dry-run")
    out = run(*words)[1]
    assert "label: 1 is positive, 0 negative" in out
    assert "logit: the log-odds of 1" in out
    found = json.loads(run(*words, "--format", "json")[1])
    assert found["binding"]["score"] == {"kind": "logit", "columns": ["logit"]}
    assert found["artifact"] == "train.platt"
    rows = run(*words, "--format", "csv")[1].splitlines()
    assert rows[:3] == ["part,column,reason", "label,label,", "score,logit,logit"]
    code, out, _ = run("apply", "train.platt", "test.csv", "-o", "scored.parquet", "--dry-run")
    assert (code, "adds calibrated" in " ".join(out.split())) == (0, True)
    assert not (here / "scored.parquet").exists()


@pytest.mark.parametrize("form", ["table", "json", "csv", "markdown"])
def test_a_dry_run_says_each_note_once(here: Path, run: Run, form: str) -> None:
    columns = {"label": [0, 1], "logit": [0.5, 1.5], "user_id": [1, 1], "country": ["at", "ch"]}
    pl.DataFrame({name: values * 50 for name, values in columns.items()}).write_csv("users.csv")
    code, out, err = run("fit", "users.csv", "-m", "boost", "--dry-run", "--format", form)
    assert code == 0
    assert " ".join(f"{out} {err}".split()).count("looks like a group id") == 1


def test_apply_adds_a_column(here: Path, run: Run) -> None:
    code, out, err = run("apply", "train.platt", "test.csv", "-o", "scored.parquet")
    assert (code, out, err) == (0, "", "scored.parquet: 400 rows, added calibrated\n")
    assert pl.read_parquet("scored.parquet").columns == ["row_id", "label", "logit", "calibrated"]


@pytest.mark.parametrize(
    ("more", "header"),
    [(("--keep", "row_id", "--column", "p"), "row_id,p"), (("--keep", "none"), "calibrated")],
)
def test_apply_to_stdout_is_the_table_alone(here: Path, run: Run, more: tuple[str, ...], header: str) -> None:
    code, out, err = run("apply", "train.platt", "test.csv", "-o", "-", "--output-format", "csv", *more)
    assert (code, err) == (0, ""), "the table and talk about it may share a terminal"
    assert out.splitlines()[0] == header
    assert len(out.splitlines()) == 401


@pytest.mark.parametrize("name", ["csv", "csv.gz", "tsv", "ndjson", "json"])
def test_a_table_goes_out_of_stdout_as_it_came_in(here: Path, run: Run, name: str) -> None:
    kind = name.removesuffix(".gz")
    with open_source("test.csv") as source:
        write(source.typed(), f"in.{name}")
    code, out, _ = run("apply", "train.platt", f"in.{name}", "-o", "-")
    assert code == 0
    assert run("apply", "train.platt", "test.csv", "-o", f"out.{kind}")[0] == 0
    assert out == Path(f"out.{kind}").read_text()
    assert run("uncertainty", "decompose", f"in.{name}", "--members", "x", "-o", "-")[0] == 3  # and not for the format


def european(text: str, comma: str) -> str:
    """A table whose numbers have decimal commas, and whose columns are parted by another sign."""
    return text.replace(",", comma).replace(".", ",")


def test_a_european_table_goes_out_as_it_came_in(here: Path, run: Run) -> None:
    Path("in.csv").write_text(european(Path("test.csv").read_text(), ";"))
    code, out, _ = run("apply", "train.platt", "in.csv", "-o", "-")
    assert code == 0
    assert out == european(run("apply", "train.platt", "test.csv", "-o", "-")[1], ";")


def test_a_european_table_is_measured_like_any(here: Path, run: Run) -> None:
    Path("in.csv").write_text(european(Path("test.csv").read_text(), ":"))
    asked = ("--with", "train.platt", "--format", "json")
    plain = json.loads(run("evaluate", "test.csv", *asked)[1])
    other = json.loads(run("evaluate", "in.csv", *asked, "--delimiter", ":")[1])
    assert [score["metrics"] for score in other["scores"]] == [score["metrics"] for score in plain["scores"]]
    assert other["differences"] == plain["differences"]


def test_apply_counts_the_rows_that_got_null(here: Path, run: Run) -> None:
    pl.DataFrame({"logit": [0.5, None, 1.0]}).write_parquet("holes.parquet")
    code, _, err = run("apply", "-q", "train.platt", "holes.parquet", "-o", "s.csv", "--bad-rows", "null")
    assert code == 0
    assert "1 of 3 rows" in err
    assert run("apply", "train.platt", "holes.parquet", "-o", "s.csv")[0] == 3


def test_evaluate_prints_on_stdout(here: Path, run: Run) -> None:
    code, out, err = run("evaluate", "test.csv", "--with", "train.platt")
    assert (code, err) == (0, "")
    assert out.startswith("train.platt lowers the log-loss from 0.")
    assert "floor" in out


def test_evaluate_as_json_keeps_to_the_schema_and_has_the_numbers_of_the_csv(here: Path, run: Run) -> None:
    words = ("evaluate", "test.csv", "--with", "train.platt", "--with", "twin=train.platt", "--metrics", "nll,ece")
    report = json.loads(run(*words, "--bins", "7", "--format", "json")[1])
    REPORT_SCHEMA.validate(report)
    assert [score["name"] for score in report["scores"]] == ["raw", "train.platt", "twin"]
    assert report["definitions"]["ece"]["bins"] == 7
    value = report["scores"][1]["metrics"]["nll"]["value"]
    lines = run(*words, "--format", "csv")[1].splitlines()
    assert lines[0].startswith("score,group,metric,value,lo,hi,floor,null_hi,p,reason,diff,")
    assert lines[3].startswith(f"train.platt,,nll,{value!r},,,,,,,-0.")


@pytest.mark.parametrize("more", [(), ("--with", "b=train.platt", "--versus", "b", "--by", "label")])
def test_markdown_has_the_tables_of_the_screen(here: Path, run: Run, more: tuple[str, ...]) -> None:
    words = ("evaluate", "test.csv", "--with", "train.platt", "--metrics", "nll,ece,mvce", *more)
    screen = run(*words)[1]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in run(*words, "--format", "markdown")[1].splitlines()
        if line.startswith("|") and "---" not in line
    ]
    shown = [line.split() for line in screen.splitlines()]
    for row in rows:
        assert " ".join(row).split() in shown
    assert len(rows) > 5


NO_BINS = "--bins changes none of these metrics"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--metrics", "nll,mvce", "--bins", "20"),
            f"{NO_BINS}; the groups of mvce have a size of their own, --bin-size",
        ),
        (("--metrics", "nll", "--bins", "auto"), NO_BINS),
        (("--metrics", "nll,ece", "--bin-size", "50"), "--bin-size changes none of these metrics: it is for mvce"),
        (("--metrics", "nll,ece,mvce", "--bins", "20", "--bin-size", "50"), None),
        (("--metrics", "ece", "--bins", "auto"), None),
        (("--metrics", "nll,mvce"), None),
    ],
)
def test_an_option_without_effect_is_told(here: Path, run: Run, words: tuple[str, ...], said: str | None) -> None:
    code, _, err = run("evaluate", "test.csv", *words)
    assert code == 0
    assert ("changes none" in err) is (said is not None)
    assert (said or "") in " ".join(err.split())


def test_mvce_has_groups_of_the_size_that_is_asked_for(here: Path, run: Run) -> None:
    """400 rows in groups of 50 are 8 groups."""
    found = json.loads(run("evaluate", "test.csv", "--metrics", "mvce", "--bin-size", "50", "--format", "json")[1])
    assert (found["definitions"]["mvce"]["bins"], found["definitions"]["mvce"]["bin_size"]) == (8, 50)


def test_the_name_after_versus_is_that_of_a_score(here: Path, run: Run) -> None:
    code, _, err = run("evaluate", "test.csv", "--with", "train.platt", "--versus", "plat")
    assert code == 2
    assert "--versus: no score 'plat'; available: raw, train.platt" in " ".join(err.split())


def test_inspect_for_people_and_for_machines(here: Path, run: Run) -> None:
    code, out, _ = run("inspect", "train.platt")
    assert code == 0
    assert out.startswith("train.platt is a calibrator (platt), fitted ")
    found = json.loads(run("inspect", "train.platt", "--format", "json")[1])
    assert found["manifest"]["method"] == "platt"
    assert {"a", "b"} <= found["fitted"]["params"].keys()


def test_rules_that_move_most_come_first_and_json_has_all(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    site, logit = rng.integers(0, 12, 3000), rng.normal(size=3000)
    label = rng.random(3000) < 1 / (1 + np.exp(-logit - np.where(site % 2, 1.5, -1.5)))
    columns = {"label": label.astype(int), "logit": logit, "site": [f"s{place:02}" for place in site]}
    pl.DataFrame(columns).write_parquet("wide.parquet")
    settings = ("--set", "trees=8", "--set", "min_rows=40", "--holdout", "none")
    assert run("fit", "-q", "wide.parquet", "-m", "mbct", *settings, "-o", "trees")[0] == 0
    found = json.loads(run("inspect", "trees", "--rules", "--format", "json")[1])["rules"]
    features, tree, rules, splits = found
    assert [one["title"] for one in found] == ["features", "first tree", "rules", "splits"]
    assert len(rules["rows"]) > 40
    moved = sorted(rules["rows"], key=lambda rule: -rule["rows"] * abs(rule["pattern"]))
    for words, count in ((("--rules",), 20), (("--rules", "3"), 3), (("--rules=3",), 3)):
        for line in (("trees", *words), (*words, "trees")):
            out = run("inspect", *line)[1]
            shown = out.partition("\nrules\n")[2].partition("\n\n")[0].splitlines()
            assert f"The {count} of {len(rules['rows']):,} that move predictions most" in " ".join(shown)
            table = shown[-count:]
            assert [line.endswith(rule["if"]) for line, rule in zip(table, moved, strict=False)] == [True] * count
    with monkeypatch.context() as narrow:  # a condition goes on below its beginning
        narrow.setenv("COLUMNS", "64")
        out = run("inspect", "trees", "--rules", "3")[1]
    shown = out.partition("\nrules\n")[2].partition("\n\n")[0].splitlines()
    assert max(map(len, out.splitlines())) <= 64
    header = next(place for place, line in enumerate(shown) if line.endswith("  if"))
    left = shown[header].index("if")
    assert " ".join(line[left:] for line in shown[header + 1 :]) == " ".join(rule["if"] for rule in moved[:3])
    assert run("inspect", "trees", "--rules", "0")[0] == 2
    whole = run("inspect", "trees", "--rules", "100000")[1]
    assert "move predictions most" not in whole
    assert len(whole.splitlines()) > len(features["rows"]) + len(rules["rows"]) + len(splits["rows"])
    assert sum(node["pattern"] is not None for node in tree["rows"]) == sum(rule["tree"] == 1 for rule in rules["rows"])
    assert "chosen" in run("inspect", "trees")[1]


def test_effects_are_drawn_as_a_picture_and_on_a_page(here: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    site, logit = rng.integers(0, 4, 2000), rng.normal(size=2000)
    label = rng.random(2000) < 1 / (1 + np.exp(-logit - np.where(site % 2, 1.5, -1.5)))
    columns = {"label": label.astype(int), "logit": logit, "site": [f"$s{place}" for place in site]}
    pl.DataFrame(columns | {"m_0": rng.random(2000), "m_1": logit / 100}).write_parquet("sites.parquet")
    assert run("fit", "-q", "sites.parquet", "-m", "effects", "--holdout", "none", "-o", "sites.effects")[0] == 0
    code, out, _ = run("inspect", "sites.effects", "--rules", "999", "-o", "sites.svg")
    assert code == 0
    assert "per standard deviation of the score" in out
    assert max(map(len, out.splitlines())) <= 80
    assert all(f"<!-- $s{place} -->" in Path("sites.svg").read_text() for place in range(4))
    assert run("inspect", "sites.effects", "--rules", "-o", "sites.html")[0] == 0
    page = Path("sites.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "<!-- $s3 -->" in page
    assert run("inspect", "sites.effects", "-o", "sites.svg")[0] == 2
    assert run("inspect", "sites.effects", "--rules", "-o", "sites.txt")[0] == 2
    assert run("inspect", "train.platt", "--rules", "-o", "sites.svg")[0] == 2


def test_inspect_shows_the_prior_shift(here: Path, run: Run) -> None:
    assert "prior " not in run("inspect", "train.platt")[1]
    words = ("fit", "-q", "train.parquet", "--method", "platt", "--prior-shift", "0.05", "-o", "shifted")
    assert run(*words)[0] == 0
    out = " ".join(run("inspect", "shifted")[1].split())
    rate = pl.read_parquet("train.parquet")["label"].mean()
    assert f"prior probabilities are for a base rate of 0.05 of 1; the calibration rows have {rate:.3g}" in out


def test_rows_of_the_fit_are_too_optimistic_and_it_says_so(here: Path, run: Run) -> None:
    words = ("--with", "train.platt", "--metrics", "nll")
    code, _, err = run("evaluate", "train.parquet", *words)
    assert code == 0
    assert "train.platt was fitted on train.parquet, and is measured on the same rows" in " ".join(err.split())
    assert run("evaluate", "train.parquet", *words, "--in-sample")[2] == ""
    assert run("evaluate", "test.csv", *words)[2] == ""
    Path("copy.parquet").write_bytes(Path("train.parquet").read_bytes())
    assert "the results are too optimistic" in " ".join(run("evaluate", "copy.parquet", *words)[2].split())


def test_catalogs(run: Run) -> None:
    for command, names in (("methods", methods.names()), ("metrics", metrics.names())):
        code, out, err = run(command)
        assert (code, err) == (0, "")
        assert all(f"  {name} " in out for name in names)
        found = json.loads(run(command, "--format", "json")[1])[command]
        assert tuple(row["name"] for row in found) == names
        rows = list(csv.DictReader(io.StringIO(run(command, "--format", "csv")[1])))
        assert tuple(row["name"] for row in rows) == names
        for name in names:
            code, out, _ = run(command, name)
            assert code == 0
            assert out.startswith(f"{name}: ")
    out = run("methods", "histogram")[1]
    assert "bins=15" in out
    assert "mass or width" in out


def test_threads_are_limited_before_anything_heavy_is_imported(here: Path) -> None:
    code = (
        "from calcli.cli.main import main\n"
        "main(['apply', 'train.platt', 'test.csv', '-o', 'out.csv', '--threads', '3', '-q'])\n"
        "import os, polars\n"
        "print(polars.thread_pool_size(), os.environ['OMP_NUM_THREADS'], os.environ['NUMBA_NUM_THREADS'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].split() == [str(min(3, processors()))] * 3


def test_every_verb_that_meets_labels_says_so(here: Path, run: Run) -> None:
    rng = np.random.default_rng(2)
    prob = rng.uniform(size=400)
    label = (rng.uniform(size=400) < prob).astype(int)
    pl.DataFrame({"label": label, "prob": 1 - prob}).write_csv("back.csv")
    pl.DataFrame({"label": label, "prob": np.round(prob)}).write_csv("hard.csv")
    for words in (("fit", "-m", "platt", "-o", "kept"), ("evaluate",), ("compare", "--methods", "platt")):
        for name, sentence in (("back.csv", "ranks backwards (auc 0."), ("hard.csv", "has only the values 0 and 1:")):
            code, _, err = run(*words, name)
            assert code == 0
            assert sentence in " ".join(err.split())
    report = calcli.refit("kept", "hard.csv").report
    assert "two-values" in [warning.code for warning in report.warnings]
    turned = calcli.evaluate("back.csv", flags=calcli.Flags(positive="0"))
    assert turned.warnings == ()


def test_more_threads_than_processors_are_not_made(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "")  # set back afterwards
    code, _, err = run("evaluate", "test.csv", "--metrics", "nll", "--threads", "100000", "--format", "csv")
    assert code == 0
    assert os.environ["OMP_NUM_THREADS"] == str(processors())
    assert f"--threads 100000: more than the {processors()} processors" in err
    assert err.count("--threads") == 1
    assert "--threads" not in run("evaluate", "test.csv", "--metrics", "nll", "--threads", "1", "--format", "csv")[2]


def test_nested_records_from_the_fit_to_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        json.dumps({"out": {"lp": [math.log(prob)]}, "ok": {"right": number % 10 < 10 * prob * prob}})
        for number in range(300)
        for prob in (0.3, 0.6, 0.9)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    code, out, err = run(
        "fit", "rows.jsonl", "--logprob", "out.lp[0]", "--label", "ok.right", "-m", "platt", "-o", "kept"
    )
    assert (code, out) == (0, "kept\n"), err
    code, out, err = run("evaluate", "rows.jsonl", "--with", "kept", "--fail-if", "nll.diff > 0", "--format", "json")
    assert code == 0, err
    assert json.loads(out)["binding"]["score"] == {"kind": "prob", "columns": ["exp(out.lp[0])"]}
    code, _, err = run("fit", "rows.jsonl", "--prob", "out.lps[0]", "--label", "ok.right")
    assert (code, err.count("\n")) == (3, 1)


def test_a_report_in_a_file_is_the_one_on_stdout(here: Path, run: Run) -> None:
    words = ("evaluate", "train.parquet", "--metrics", "nll", "-q")
    for name, form in (("r.json", "json"), ("r.csv", "csv"), ("r.md", "markdown"), ("r.txt", "table")):
        code, out, _ = run(*words, "-o", name)
        assert (code, out) == (0, "")
        shown, kept = run(*words, "--format", form)[1], Path(name).read_text()
        if form == "json":
            shown, kept = ({**json.loads(text), "seconds": 0} for text in (shown, kept))
        assert kept == shown
    code, _, err = run(*words, "-o", "r.html")
    assert (code, "--html r.html" in err) == (2, True)
    assert run(*words, "-o", "nowhere/r.json")[0] == 7


@pytest.mark.parametrize("data", ["table.csv", "tab*.csv", "."])
@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_a_report_does_not_replace_the_table_that_it_is_about(
    verb: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"label": [0, 1] * 20, "logit": [-1.0, 1.0, 0.5, 2.0] * 10}).write_csv("table.csv")
    before = Path("table.csv").read_bytes()
    code, out, err = run(verb, data, "-o", "table.csv")
    assert (code, out) == (2, "")
    assert "table.csv is a table that this report is about" in err
    assert Path("table.csv").read_bytes() == before


def test_an_export_in_a_file_is_the_one_on_stdout(here: Path, run: Run) -> None:
    run("fit", "train.parquet", "-m", "platt", "-o", "kept")
    run("export", "kept", "-o", "kept.sql")
    assert Path("kept.sql").read_text() == run("export", "kept")[1]
