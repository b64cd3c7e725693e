"""Completion, asked as bash asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from calcli.cli.app import COMMANDS
from calcli.methods import catalog as methods
from calcli.metrics import catalog as metrics
from calcli.reports.gates import FIELDS
from tests.support.shell import Run, calcli, environment

Complete = Callable[[str], list[str]]


@pytest.fixture
def completed(run: Run, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """What is offered for the last word of a line."""

    def call(line: str) -> list[str]:
        monkeypatch.setenv("_CALCLI_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        code, out, err = run()
        assert (code, err) == (0, "")
        return out.split()

    return call


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("calcli ", list(COMMANDS)),
        ("calcli me", ["methods", "metrics"]),
        ("calcli fit --me", ["--method", "--metrics"]),
        ("calcli fit --method ", ["auto", *methods.names()]),
        ("calcli fit -m plat", ["platt"]),
        ("calcli methods isot", [name for name in methods.names() if name.startswith("isot")]),
        ("calcli metrics n", [name for name in metrics.names() if name.startswith("n")]),
        ("calcli evaluate --metrics def", ["default"]),
        ("calcli evaluate --metrics nll,br", [f"nll,{name}" for name in metrics.names() if name.startswith("br")]),
        ("calcli fit -m histogram --set b", ["bins=", "binning="]),
        ("calcli fit -m histogram --set binning=", ["binning=mass", "binning=width"]),
        ("calcli fit -m platt --set bi", []),
        ("calcli evaluate --format j", ["json"]),
        ("calcli evaluate --fail-if n", [name for name in metrics.names() if name.startswith("n")]),
        ("calcli evaluate --fail-if nll.", [f"nll.{field}" for field in FIELDS]),
        ("calcli evaluate --fail-if my.model.nll.diff.", ["my.model.nll.diff.lo", "my.model.nll.diff.hi"]),
        ("calcli evaluate --fail-if raw.ac", ["raw.accuracy"]),
        ("calcli inspect --format ", ["table", "json"]),
        ("calcli fit --input-format p", ["parquet"]),
        ("calcli fit --bad-rows ", ["fail", "null"]),
        ("calcli uncertainty ", ["fit", "apply", "evaluate", "decompose"]),
        ("calcli uncertainty d", ["decompose"]),
        ("calcli uncertainty fit --ens", ["--ensemble"]),
        ("calcli uncertainty fit --ensemble s", ["sglb", "sgb"]),
    ],
)
def test_completion(line: str, offered: list[str], completed: Complete) -> None:
    assert completed(line) == offered


def test_a_preset_of_the_method(completed: Complete) -> None:
    with_presets = [row for row in methods.specs() if row.presets]
    for row in with_presets:
        assert completed(f"calcli fit -m {row.name} --preset ") == list(row.presets)
    without = next(row for row in methods.specs() if not row.presets)
    assert completed(f"calcli fit -m {without.name} --preset ") == []


def test_the_script_can_be_installed(tmp_path: Path) -> None:
    env = environment(HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert calcli("--install-completion", "bash", cwd=tmp_path, env=env).returncode == 0
    assert (tmp_path / ".bash_completions" / "calcli.sh").is_file()


BASH = {"_CALCLI_COMPLETE": "complete_bash"}


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        *(
            ({"_CALCLI_COMPLETE": asked}, f"_CALCLI_COMPLETE is '{asked}'")
            for asked in ("nonsense", "complete", "complete_nosuch", "_", "1", "source_")
        ),
        *(
            (BASH | words, "without COMP_WORDS and COMP_CWORD, which bash sends")
            for words in (
                {},
                {"COMP_WORDS": "calcli fi"},
                {"COMP_CWORD": "1"},
                {"COMP_WORDS": "x", "COMP_CWORD": "y"},
            )
        ),
    ],
)
def test_what_no_shell_asks_for(run: Run, monkeypatch: pytest.MonkeyPatch, sent: dict[str, str], said: str) -> None:
    for name, value in sent.items():
        monkeypatch.setenv(name, value)
    code, out, err = run("methods")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_process_completes_as_well(tmp_path: Path) -> None:
    env = environment(**BASH, COMP_WORDS="calcli fit -m plat", COMP_CWORD="3")
    done = calcli(cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["platt"], "")


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell", "pwsh", "bash"])
def test_the_scripts_of_every_shell(here: Path, shell: str) -> None:
    done = calcli(cwd=here, env=environment(_CALCLI_COMPLETE=f"source_{shell}"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "_CALCLI_COMPLETE" in done.stdout
    if shell == "bash":
        assert "_CALCLI_COMPLETE=complete_bash" in done.stdout
