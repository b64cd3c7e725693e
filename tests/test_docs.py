"""The pages' commands are run, and the nights of the crontab are lived through."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calcli.methods import catalog as methods
from calcli.metrics import catalog as metrics
from tests.support.artifacts import contents
from tests.support.drift import learned
from tests.support.shell import ROOT, blocks, commands, readers_folder, run

NEVER_WORSE = (ROOT / "docs/never-worse.md").read_text()
DRIFT = (ROOT / "docs/drift.md").read_text()
YESTERDAY = "2026-01-01"
DATE = f"""#!/bin/sh
# `date` as of the day after {YESTERDAY}, so that no midnight falls between a file and the command that reads it
if [ "$1" = -d ]; then when="tomorrow $2"; shift 2; else when=tomorrow; fi
exec {shutil.which("date")} -d "{YESTERDAY} $when" "$@"
"""


def all_run(text: str, count: int, place: Path) -> list[str]:
    """The commands of a page, each of which has been run."""
    lines = commands(text)
    assert len(lines) == count
    for command in lines:
        done = run(command, place)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    return lines


@pytest.mark.slow
@pytest.mark.parametrize(("page", "count"), [("never-worse", 4), ("growing", 11), ("decisions", 3)])
def test_the_commands_of_a_page_run(tmp_path: Path, page: str, count: int) -> None:
    """Those for a cluster are run where there is one, in tests/spark."""
    all_run((ROOT / f"docs/{page}.md").read_text(), count, readers_folder(tmp_path))


@pytest.mark.slow
def test_the_commands_of_ci_run_and_are_those_of_the_workflow(tmp_path: Path) -> None:
    text = (ROOT / "docs/ci.md").read_text()
    place = readers_folder(tmp_path)
    lines = all_run(text, 5, place)
    assert run(lines[3].replace("> 0.002", ">= 0"), place).returncode == 1
    steps = re.findall(r"- run: (calcli .*)", blocks(text, "yaml")[0])
    assert steps == lines[:2]
    strict = run(lines[1].replace("0.39", "0.3"), place)
    assert strict.returncode == 1


@pytest.mark.slow
def test_the_segments_of_evaluate_are_printed_as_shown(tmp_path: Path) -> None:
    shown, _ = blocks((ROOT / "docs/commands/evaluate.md").read_text(), "console")
    fit, ask = (line.removeprefix("$ ") for line in shown.splitlines() if line.startswith("$ "))
    place = readers_folder(tmp_path)
    assert run(fit, place).returncode == 0
    assert shown.partition("...\n")[2] in run(f"COLUMNS=100 {ask}", place).stdout


@pytest.mark.slow
def test_the_commands_of_llm_run_and_its_line_is_of_the_file(tmp_path: Path) -> None:
    text = (ROOT / "docs/llm.md").read_text()
    assert blocks(text, "json")[0] in (ROOT / "sample_data/answers_train.jsonl").read_text()
    place = readers_folder(tmp_path)
    lines = all_run(text, 6, place)
    shown = re.search(r"^  ece +lower +(\S+) +(\S+)", run(lines[1], place).stdout, re.MULTILINE)
    assert shown is not None
    before, after = (f"{float(number):.2f}" for number in shown.groups())
    assert f"an ECE of {before}, after calibration {after}," in " ".join(text.split())
    assert run(lines[-1].replace("0.2", "0.1"), place).returncode == 1


@pytest.mark.slow
def test_the_commands_of_judges_run_and_its_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    text = (ROOT / "docs/judges.md").read_text()
    assert blocks(text, "json")[0] in (ROOT / "sample_data/judged.jsonl").read_text()
    place = readers_folder(tmp_path)
    lines = all_run(text, 4, place)
    shown = re.search(
        r"The rate is (\S+) \((\S+) to (\S+)\).*worth (\d+):", " ".join(run(lines[0], place).stdout.split())
    )
    assert shown is not None
    value, lo, hi = (f"{100 * float(number):.1f}" for number in shown.groups()[:3])
    said = " ".join(text.split())
    assert f"says that {value} % are wrong, with an interval from {lo} to {hi} %" in said
    assert f"200 labels are worth {shown[4]}" in said
    (place / "page.py").write_text(blocks(text, "python")[0])
    assert run("python page.py", place).stdout.startswith("{'group': None, 'class': '1'")
    assert run(lines[3].replace("0.15", "0.05"), place).returncode == 1


def night(seed: int, *, shift: float = 0.0, rows: int = 3000) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    truth = rng.normal(-1, 1.2, rows)
    label = rng.random(rows) < 1 / (1 + np.exp(-(truth + shift)))
    return pl.DataFrame({"label": label.astype(np.int8), "logit": 1.6 * truth + 0.4})


def nightly_commands(page: str) -> list[str]:
    """The command lines of a page's crontab, without times and with cron's escapes undone."""
    lines = [line for line in blocks(page, "crontab")[0].splitlines() if line[0].isdigit()]
    return [
        re.split(r"\s+", line, maxsplit=5)[5].replace(r"\%", "%").replace("cd /srv/scores", "cd .") for line in lines
    ]


@pytest.fixture(scope="module")
def first_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of whoever follows the page, with a calibrator; to be copied."""
    folder = readers_folder(tmp_path_factory.mktemp("first_day"))
    for name in ("days", "reports"):
        (folder / name).mkdir()
    (folder / "bin" / "date").write_text(DATE)
    (folder / "bin" / "date").chmod(0o755)
    night(0, rows=20_000).write_parquet(folder / "history.parquet")
    assert run("calcli fit -q history.parquet -o clicks.auto", folder).returncode == 0
    return folder


@pytest.fixture
def place(first_day: Path, tmp_path: Path) -> Path:
    return shutil.copytree(first_day, tmp_path / "place")


def live_through(place: Path, rows: pl.DataFrame) -> tuple[int, str]:
    rows.write_parquet(place / "days" / f"{YESTERDAY}.parquet")
    refit, evaluate = nightly_commands(NEVER_WORSE)
    done = run(refit, place)
    after = run(evaluate, place)
    assert after.returncode == 0, after.stderr
    return done.returncode, done.stderr


@pytest.mark.slow
def test_an_improving_night_replaces(place: Path) -> None:
    before = contents(place / "clicks.auto")
    assert live_through(place, night(1, shift=3.0))[0] == 0
    after = contents(place / "clicks.auto")
    assert after["manifest.json"] != before["manifest.json"]
    assert len(list((place / "reports").iterdir())) == 1
    assert run("calcli refit clicks.auto --rollback", place).returncode == 0
    assert run("calcli apply clicks.auto history.parquet -o /dev/null --output-format parquet", place).returncode == 0


@pytest.mark.slow
def test_a_worsening_night_changes_nothing(place: Path) -> None:
    """So few rows that what they teach is worse than what is known; nobody is told."""
    before = contents(place / "clicks.auto")
    assert live_through(place, night(2, rows=40)) == (1, "")
    assert contents(place / "clicks.auto") == before


@pytest.mark.slow
def test_a_night_of_shuffled_labels_changes_nothing(place: Path) -> None:
    """On them a calibrator that says the base rate of every row is better than the one in place, and still wrong."""
    before = contents(place / "clicks.auto")
    rows = night(3)
    shuffled = np.random.default_rng(3).permutation(rows["label"].to_numpy())
    code, said = live_through(place, rows.with_columns(label=pl.Series(shuffled)))
    assert code == 1
    assert "the labels may be wrong" in " ".join(said.split())
    assert contents(place / "clicks.auto") == before


@pytest.mark.slow
def test_nights_of_drift_are_refitted_and_quiet_ones_are_not(place: Path) -> None:
    """The shift begins two nights after four quiet weeks; once it is found, the fit is another and weeks begin anew."""
    ask, weekly = nightly_commands(DRIFT)
    before, renewed = contents(place / "clicks.auto")["manifest.json"], []
    for index in range(1, 10):
        day = place / "days" / f"{YESTERDAY}.parquet"
        night(index, shift=0.5 if index > 2 else 0.0).write_parquet(day)
        done = run(ask, place)
        assert done.returncode == 0, done.stderr
        day.rename(day.with_name(f"2020-01-{index:02}.parquet"))
        if index == 1:
            learned(place / "clicks.auto.drift.json")
        now = contents(place / "clicks.auto")["manifest.json"]
        if now != before:
            before = now
            renewed.append(index)
            assert "DRIFT: the predictions are too low" in (place / "drift.txt").read_text()
    assert len(renewed) == 1
    assert 4 <= renewed[0] <= 8
    assert run(weekly, place).returncode in {0, 1}


@pytest.mark.parametrize("row", methods.specs(), ids=lambda row: row.name)
def test_every_method_has_its_page(row) -> None:
    text = (ROOT / "docs" / "methods" / f"{row.name}.md").read_text()
    assert text.startswith(f"# {row.name}")
    for param in row.params:
        assert f"`{param.name}`" in text


@pytest.mark.parametrize("row", metrics.specs(), ids=lambda row: row.name)
def test_every_metric_has_its_page(row) -> None:
    assert (ROOT / "docs" / "metrics" / f"{row.name}.md").read_text().startswith(f"# {row.name}")


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", prose):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page}: {target}"
