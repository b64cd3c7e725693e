"""The Dockerfile is read, not built; the scripts of the workflow action and of the scheduler are run in a shell."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
import tomllib
from pathlib import Path

import pytest

from tests.support.shell import HANGS, ROOT, blocks, environment, readers_folder, run

ACTION = (ROOT / "action.yml").read_text()
PAGE = (ROOT / "docs/container.md").read_text()
INSTRUCTIONS = [
    line.split(maxsplit=1)
    for line in (ROOT / "Dockerfile").read_text().splitlines()
    if line and not line.startswith("#")
]


def of(word: str) -> list[str]:
    """The arguments of all instructions of a kind."""
    return [rest for kind, rest in INSTRUCTIONS if kind == word]


def scripts(text: str) -> list[str]:
    """The shell scripts of the action's steps."""
    return [textwrap.dedent(script) for script in re.findall(r"run: \|\n((?:        .*\n|\n)+)", text)]


def test_the_image_is_small_and_its_user_is_not_root() -> None:
    bases = [base.split()[0] for base in of("FROM")]
    assert set(bases) == {"python:3.11-slim"}
    stage = " ".join(kind for kind, _ in INSTRUCTIONS).rpartition("FROM ")[2].split()
    assert stage == ["COPY", "RUN", "ENV", "USER", "WORKDIR", "ENTRYPOINT"]
    (user,) = of("USER")
    assert int(user) > 0
    assert any(f"--uid {user} " in command for command in of("RUN"))
    assert of("ENTRYPOINT") == ['["calcli"]']
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=" + bases[0].removeprefix("python:").removesuffix("-slim")


def test_what_the_build_needs_is_copied_and_not_ignored() -> None:
    copied = {name for line in of("COPY") if "--from" not in line for name in line.split()[:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert copied == {"pyproject.toml", "calcli", project["readme"], *project["license-files"]}
    ignored, *lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied


@pytest.mark.parametrize(("extras", "installed"), [("", "."), ("all", ".[all]"), ("trees,plots", ".[trees,plots]")])
def test_the_argument_names_the_extras(extras: str, installed: str, tmp_path: Path) -> None:
    assert of("ARG") == ['EXTRAS=""']
    (install,) = (command for command in of("RUN") if "pip install" in command)
    requirement = install.partition("--no-cache-dir ")[2]
    assert run(f"EXTRAS={extras}; echo {requirement}", tmp_path).stdout == installed + "\n"
    action = scripts(ACTION)[0].partition("--quiet ")[2]
    assert run(f"SOURCE=.; EXTRAS={extras}; echo {action}", tmp_path).stdout == installed + "\n"


def test_the_inputs_of_the_action_are_those_that_it_uses() -> None:
    declared = set(re.findall(r"^  (\w+):$", ACTION.partition("outputs:")[0], re.MULTILINE))
    assert declared == set(re.findall(r"\$\{\{ inputs\.(\w+) \}\}", ACTION))
    assert not any("${{" in script for script in scripts(ACTION))  # what a caller writes is never part of a script
    example = blocks(PAGE, "yaml")[1]
    given = set(re.findall(r"^          (\w+):", example.partition("with:\n")[2].partition("- if:")[0], re.MULTILINE))
    assert {"data", "artifact", "gates"} <= given <= declared


@pytest.mark.slow
def test_the_action_shows_the_tables_and_fails_where_a_gate_is_true(tmp_path: Path) -> None:
    place = readers_folder(tmp_path)
    assert run("calcli fit -q sample_data/train.parquet -m platt -o 'the artifact'", place).returncode == 0
    script = scripts(ACTION)[1]
    for gates, code in (("nll > 0.39\n\n  \nnll.diff.hi > 0\n", 0), ("nll > 0.39\nauc < 0.99", 1), ("nll > ", 2)):
        summary, outputs = (tmp_path / name for name in ("summary.md", "outputs"))
        for path in (summary, outputs):
            path.write_text("")
        values = {
            "DATA": "sample_data/test.parquet\n",
            "ARTIFACT": "the artifact",
            "GATES": gates,
            "OPTIONS": "--by=device\n--metrics=nll,auc",
            "REPORT": "page.html",
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_OUTPUT": str(outputs),
        }
        given = " ".join(f"{key}={shlex.quote(value)}" for key, value in values.items())
        done = run(f"{given} bash --noprofile --norc -eo pipefail -c {shlex.quote(script)}", place)
        assert done.returncode == code, done.stderr
        shown = summary.read_text()
        assert shown.startswith("## Calibration\n")
        assert outputs.read_text() == "report=page.html\n"
        if code < 2:
            assert "| nll | lower | 0.41" in shown
            assert "the artifact by device" in shown
            assert "the artifact" in (place / "page.html").read_text()
        assert ("--fail-if is true: auc < 0.99" in shown) == (code == 1)
        assert ("expected a number" in shown) == (code == 2)


@pytest.mark.parametrize(
    ("code", "said", "fine"),
    [(0, "clicks.auto", True), (1, "", True), (1, "warning: right labels?", False), (3, "calcli: no rows", False)],
)
def test_a_usual_night_is_no_failure_of_the_scheduler(code: int, said: str, fine: bool, tmp_path: Path) -> None:
    (script,) = (textwrap.dedent(text) for text in re.findall(r"args:\n +- \|\n((?: {18}.*\n)+)", PAGE))
    command = re.search(r"calcli refit .* 30", script)
    assert command is not None
    assert command[0] in (ROOT / "docs/never-worse.md").read_text()
    stub = tmp_path / "calcli"
    stub.write_text(f"#!/bin/sh\nprintf %s {shlex.quote(said)} >&2\nexit {code}\n")
    stub.chmod(0o755)
    env = environment(PATH=f"{tmp_path}:/usr/bin:/bin")
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=HANGS
    )
    assert (done.returncode == 0) == fine
    assert done.stdout == said + "\n"
