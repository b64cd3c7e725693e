"""The README is run: its tour and its Python; the table of exit codes that it links is whole."""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path

import pytest

from calcli import errors
from calcli.tables.labels import LABEL_NAMES, LATE_LABEL_NAMES
from calcli.tables.scores import LATE
from tests.support.shell import ROOT, blocks, commands, readers_folder, run, script

README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    return README.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return readers_folder(tmp_path_factory.mktemp("tour"))


def test_there_are_two_set_up_commands() -> None:
    first, second = commands(section("Set-up"))
    assert first.startswith("pip install '.[all]' && calcli fit --method ")
    assert second == "pip install '.[all,test]' && python -m pytest"


@pytest.mark.slow
def test_the_tour_runs_from_top_to_bottom(place: Path) -> None:
    lines = commands(section("A three-minute tour"))
    assert len(lines) >= 10
    outputs = {}
    for command in lines:
        done = run(command, place)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        outputs[command] = done.stdout
    assert outputs[lines[0]].strip() == "clicks.isotonic"
    csv = next(output for command, output in outputs.items() if "csv" in command and "head" in command)
    assert csv.splitlines()[0] == "row_id,calibrated"
    assert len(csv.splitlines()) == 3
    gains = re.findall(r"by\s(\d+\.\d) %", section("A three-minute tour"))
    shown = next(output for command, output in outputs.items() if "--with clicks.mbct" in command)
    assert len(gains) == 3
    assert re.findall(r"better +-(\d+\.\d) %", shown) == gains


@pytest.mark.slow
def test_the_session_is_drawn_as_it_would_appear(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pty")
    session = script(ROOT / "docs" / "session.py")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(session.sysconfig, "get_path", lambda _: str(place / "bin"))
    drawn = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", (ROOT / "docs" / "session.svg").read_text()))
    for command in session.COMMANDS:
        shown = re.sub(r"\x1b\[[0-9;]*m", "", session.run(command, place))
        assert "".join(shown.split()) in "".join(unescape(drawn).split()), "run: python docs/session.py"


@pytest.mark.slow
def test_the_python_runs(place: Path) -> None:
    code = blocks(section("From Python"), "python")[0]
    frame = "import polars\nframe = polars.read_parquet('sample_data/test.parquet')\n"
    (place / "example.py").write_text(frame + code)
    done = run(f'"{sys.executable}" example.py', place)
    assert done.returncode == 0, done.stderr


def test_every_exit_code_is_told() -> None:
    page = (ROOT / "docs/commands/README.md").read_text()
    told = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", page, flags=re.MULTILINE) for code in row.split(",")}
    classes = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.CalcliError)
    ]
    assert {kind.exit_code for kind in classes} <= told


def test_every_label_name_is_told() -> None:
    row = next(line for line in README.splitlines() if line.startswith("| label |"))
    assert re.findall(r"`(\w+)`", row)[: len(LABEL_NAMES) + len(LATE_LABEL_NAMES)] == [*LABEL_NAMES, *LATE_LABEL_NAMES]


def test_every_late_name_of_a_score_is_told() -> None:
    row = next(line for line in README.splitlines() if line.startswith("| score, two classes |"))
    assert set(LATE) <= set(re.findall(r"`(\w+)`", row))
