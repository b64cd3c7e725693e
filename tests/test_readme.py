"""The README is run: its tour, its Python, its table of exit codes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from calcli import errors
from calcli.tables.binding import LABEL_NAMES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    return README.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as a reader has it, with the sample data, and `calcli` on the path."""
    folder = tmp_path_factory.mktemp("tour")
    shutil.copytree(ROOT / "sample_data", folder / "sample_data")
    script = folder / "bin" / "calcli"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m calcli "$@"\n')
    script.chmod(0o755)
    return folder


def run(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    path = f"{place / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, shell=True, cwd=place, env=env, capture_output=True, text=True, check=False)


def test_there_are_two_set_up_commands() -> None:
    commands = blocks(section("Set-up"), "sh")
    assert len(commands) == 2
    assert commands[0].startswith("pip install . && calcli fit --method ")
    assert commands[1].strip() == "pip install '.[test]' && python -m pytest"


def test_the_tour_runs_from_top_to_bottom(place: Path) -> None:
    commands = [line for block in blocks(section("A three-minute tour"), "sh") for line in block.splitlines()]
    assert len(commands) >= 10
    outputs = {}
    for command in commands:
        done = run(command, place)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        outputs[command] = done.stdout
    assert outputs[commands[0]].strip() == "clicks.isotonic"
    csv = next(output for command, output in outputs.items() if "csv" in command and "head" in command)
    assert csv.splitlines()[0] == "row_id,calibrated"
    assert len(csv.splitlines()) == 3


def test_the_python_runs(place: Path) -> None:
    code = blocks(section("From Python"), "python")[0]
    frame = "import polars\nframe = polars.read_parquet('sample_data/test.parquet')\n"
    (place / "example.py").write_text(frame + code)
    done = run(f'"{sys.executable}" example.py', place)
    assert done.returncode == 0, done.stderr


def test_every_exit_code_is_told() -> None:
    told = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", README, flags=re.MULTILINE) for code in row.split(",")}
    classes = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.CalcliError)
    ]
    assert {kind.exit_code for kind in classes} <= told


def test_every_label_name_is_told() -> None:
    row = next(line for line in README.splitlines() if line.startswith("| label |"))
    assert re.findall(r"`(\w+)`", row)[: len(LABEL_NAMES)] == list(LABEL_NAMES)
