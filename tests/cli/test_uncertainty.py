"""The commands from end to end, the page that shows them, and mistakes: one line, the right code, nothing left."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from calcli.cli.main import main
from calcli.reporting.facts import holdout_fact
from tests.support.ensembles import features, table
from tests.support.reports import ANSWERS_SCHEMA, REPORT_SCHEMA
from tests.support.shell import ROOT, Run, blocks, commands, readers_folder
from tests.support.shell import run as shell

FEW = ["--members", "2", "--trees", "6", "--depth", "2", "--learning-rate", "0.2"]
PAGE = (ROOT / "docs" / "uncertainty.md").read_text()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for task in ("binary", "regression"):
        table(task).write_parquet(folder / f"{task}.parquet")
        table(task, seed=1).write_csv(folder / f"{task}-test.csv")
        words = ["uncertainty", "fit", "-q", str(folder / f"{task}.parquet"), *FEW, "-o", str(folder / f"{task}.sglb")]
        assert main(words) == 0
    features(50, seed=2).write_parquet(folder / "ood.parquet")
    return folder


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "uncertainty")


def test_alone_it_shows_what_there_is(run: Run) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    assert all(f"  {name} " in out for name in ("fit", "apply", "evaluate", "decompose"))


def test_fit_prints_the_path_and_nothing_else(here: Path, run: Run) -> None:
    code, out, err = run("fit", "binary.parquet", *FEW, "-o", "new")
    assert (code, out) == (0, "new\n")
    assert "2 models sampled from the posterior (sglb)" in " ".join(err.split())
    assert "row_id (named like an id)" in " ".join(err.split())
    code, out, err = run("fit", "binary.parquet", *FEW, "--ensemble", "virtual", "-q")
    assert (code, out, err) == (0, "binary.virtual\n", "")


def test_a_dry_run_shows_the_binding(here: Path, run: Run) -> None:
    code, out, err = run("fit", "regression.parquet", "--dry-run")
    assert code == 0
    assert "label: a number" in out
    assert "score" not in out
    assert "so this is a regression" in out
    assert err == ""


def test_apply_to_stdout_is_the_table_alone(here: Path, run: Run) -> None:
    words = ("apply", "binary.sglb", "binary-test.csv", "-o", "-", "--output-format", "csv", "--keep", "row_id")
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 300
    assert list(rows[0]) == [
        "row_id", "uncertainty_mean", "uncertainty_total", "uncertainty_data", "uncertainty_knowledge"
    ]  # fmt: skip
    code, _, err = run("apply", "binary.sglb", "binary-test.csv", "-o", "out.parquet", "--dry-run")
    assert code == 0
    assert not Path("out.parquet").exists()


def test_decompose_says_what_it_found(here: Path, run: Run) -> None:
    pl.DataFrame({"m_0": [0.2, None], "m_1": [0.3, 0.5]}).write_csv("members.csv")
    code, out, err = run("decompose", "members.csv", "--members", "m", "-o", "out.csv", "--bad-rows", "null")
    assert (code, out) == (0, "")
    assert "2 members that predict the probability" in err
    assert "1 of 2 rows have no usable predictions" in err


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_evaluate_for_people(task: str, here: Path, run: Run) -> None:
    code, out, err = run("evaluate", f"{task}-test.csv", "--with", f"{task}.sglb", "--ood", "ood.parquet")
    assert (code, err) == (0, "")
    told = " ".join(out.split())
    assert told.startswith(f"Knowledge uncertainty of {task}.sglb detects out-of-domain rows with an AUC of 0.")
    assert ("RMSE" if task == "regression" else "error") + " of the remaining rows" in out
    assert max(map(len, out.splitlines())) <= 80
    several = run("evaluate", f"{task}-test.csv", "--with", f"{task}.sglb", "--with", f"twin={task}.sglb")[1]
    assert max(map(len, several.splitlines())) <= 80
    assert "twin reaches" in " ".join(several.split())
    assert f"difference from {task}.sglb" in several


def test_evaluate_for_machines(here: Path, run: Run) -> None:
    words = ("evaluate", "binary-test.csv", "--with", "binary.sglb", "--make-ood", "binary.parquet")
    report = json.loads(run(*words, "--format", "json")[1])
    REPORT_SCHEMA.validate(report)
    lines = run(*words, "--format", "csv")[1].splitlines()
    assert lines[0].startswith("score,group,metric,value,lo,hi,floor,null_hi,p,reason,")
    assert len(lines) == 1 + 2 * 6


def test_a_tuned_ensemble_is_fitted_on_all_rows() -> None:
    fact = {"scheme": "0.2", "rows": 300, "units": None}
    for refitted, said in ((True, "300 rows; then fitted on all rows"), (False, "300 rows; fitted on the other rows")):
        assert holdout_fact({**fact, "refit_on_all": refitted}) == ("held out", said)
    ordered = {**fact, "units": {"column": "day", "in_order": True}, "refit_on_all": True}
    assert holdout_fact(ordered)[1].endswith("from those before; then fitted on all rows")


def test_inspect_says_what_it_is(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "regression.sglb"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("regression.sglb is an ensemble (sglb), fitted ")
    assert "label: a number" in out
    assert main(["inspect", "binary.sglb", "--format", "json"]) == 0
    ANSWERS_SCHEMA.validate(json.loads(capfd.readouterr().out))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("fiit x.csv", 2, "no command 'fiit'; did you mean fit? see: calcli uncertainty --help"),
        ("fit binary.parquet --ensemble virtal", 2, "did you mean virtual?"),
        ("fit binary.parquet --ensemble virtual --trees 10", 2, "10 trees are too few"),
        ("fit binary.parquet --members 1", 2, "takes a whole number, 2 to 10,000"),
        ("fit regression.parquet --task class", 3, "looks like a regression target"),
        ("fit binary.parquet --model nothing.cbm", 3, "no model 'nothing.cbm'"),
        ("fit binary.parquet --label lable", 3, "did you mean 'label'?"),
        ("apply nothing.sglb binary-test.csv -o x.csv", 4, "there is no artifact nothing.sglb"),
        ("apply binary.sglb ood.parquet -o nowhere/x.csv", 7, "there is no directory"),
        ("evaluate ood.parquet --with binary.sglb", 3, "no column 'label', the label"),
        ("evaluate binary-test.csv", 2, "which ensemble?"),
        ("decompose binary-test.csv --members m -o x.csv", 3, "no columns m_0, m_1"),
        ("decompose binary-test.csv -o x.csv", 2, "decompose needs --members"),
    ],
)
def test_mistakes_are_one_line(words: str, code: int, said: str, here: Path, run: Run) -> None:
    before = sorted(path.name for path in here.iterdir())
    found, out, err = run(*words.split())
    assert (found, out) == (code, "")
    assert said in " ".join(err.split())
    assert err.startswith("calcli: ")
    assert err.count("\n") == 1
    assert sorted(path.name for path in here.iterdir()) == before


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return readers_folder(tmp_path_factory.mktemp("reader"))


@pytest.mark.slow
def test_the_commands_of_the_page_run_and_show_what_it_says(reader: Path) -> None:
    lines = commands(PAGE)
    assert len(lines) == 6
    for command in lines:
        done = shell(f"set -o pipefail; {command}", reader)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    scored = pl.read_parquet(reader / "calibrated.parquet")
    assert {"uncertainty_mean", "calibrated"} <= set(scored.columns)
    bound = json.loads((reader / "clicks.platt" / "manifest.json").read_text())["binding"]
    assert bound["score"] == {"kind": "prob", "columns": ["uncertainty_mean"]}
    command = next(line for line in lines if " evaluate " in line)
    metrics = json.loads(shell(f"{command} --format json", reader).stdout)["scores"][0]["metrics"]
    assert metrics["ood_auc_total"]["value"] < 0.5
    assert metrics["ood_auc_knowledge"]["value"] > 0.7


@pytest.mark.slow
def test_the_python_of_the_page_runs(reader: Path) -> None:
    (reader / "example.py").write_text(blocks(PAGE, "python")[0])
    done = shell("python3 example.py", reader)
    assert done.returncode == 0, done.stderr
