"""Help is read on 80 columns, kept in golden files, and printed in the docs. `python docs/generate.py` writes both."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from calcli.cli.app import GROUPS, build, every_command
from tests.support.shell import ROOT, Run

GOLDEN = Path(__file__).parent / "golden"
PAGES = ROOT / "docs" / "commands"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SUMMARIES = {"-".join(words): summary for words, summary in every_command().items()}
NAMES = ["calcli", *SUMMARIES]


def commands() -> dict[str, Any]:
    """Every command by its name; of those in groups, both words with a dash between."""
    program = build()
    found: dict[str, Any] = {}
    with program.make_context("calcli", [], resilient_parsing=True) as context:
        for words in every_command():
            command = program
            for word in words:
                command = command.get_command(context, word)
            found["-".join(words)] = command
    return found


@pytest.mark.parametrize("name", NAMES)
def test_help_is_as_it_was(name: str, run: Run) -> None:
    words = () if name == "calcli" else next(each for each in every_command() if "-".join(each) == name)
    code, out, err = run(*words, "--help")
    assert (code, err) == (0, "")
    assert out == (GOLDEN / f"{name}.txt").read_text(), "if it is meant to change: python docs/generate.py"


def test_docs_are_in_step() -> None:
    stale = [str(path.relative_to(ROOT)) for path in generator().out_of_date()]
    assert stale == [], "run: python docs/generate.py"


def test_every_page_has_an_opening_and_a_command() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")}
    assert pages == {"README", *SUMMARIES}
    for page in PAGES.glob("*.md"):
        opening = page.read_text().partition("<!--")[0]
        assert len(opening) > 80, page


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_80_columns(name: str) -> None:
    assert max(map(len, (GOLDEN / f"{name}.txt").read_text().splitlines())) <= 80


@pytest.mark.parametrize(("name", "command"), commands().items(), ids=SUMMARIES)
def test_every_option_explains_itself(name: str, command: Any) -> None:
    assert command.help.partition("\n")[0] == SUMMARIES[name]
    for param in command.params:
        assert param.help, param
        if param.param_type_name == "option":
            long = param.opts[-1]
            assert long.startswith("--")
            option = long.removeprefix("--").replace("-", "_").upper()
            special = f"CALCLI_{name.replace('-', '_').upper()}_{option}"
            assert param.envvar in {f"CALCLI_{option}", special}
            said = f"{long} is {special}" in " ".join((GOLDEN / f"{name}.txt").read_text().split())
            assert said == (param.envvar == special)
            assert long in (PAGES / f"{name}.md").read_text()


def test_options_of_one_variable_are_one_option() -> None:
    """What one variable of the environment gives means the same in every command, if in other words here and there."""
    texts: dict[str, set[str]] = {}
    for command in commands().values():
        for param in command.params:
            if param.param_type_name == "option":
                texts.setdefault(param.envvar, set()).add(param.help)
    assert {variable for variable, helps in texts.items() if len(helps) > 1} == {
        "CALCLI_OUTPUT",
        "CALCLI_FORMAT",
        "CALCLI_EDGES",
        "CALCLI_EXTRA",
        "CALCLI_LABEL",
        "CALCLI_GUARD",
    }


@pytest.mark.parametrize("name", NAMES)
def test_examples_can_be_parsed(name: str) -> None:
    """Every example names a command and options that exist."""
    text = (GOLDEN / f"{name}.txt").read_text()
    examples = re.search(r"Examples:\n((?:  .*\n)+)", text)
    assert examples is not None
    known = commands()
    for line in examples[1].splitlines():
        for part in line.partition("#")[0].split("|"):
            words = shlex.split(part)
            words = words[: words.index(">")] if ">" in words else words
            if words[0] != "calcli":
                continue
            called, given = (words[1], words[2:]) if words[1] not in GROUPS else ("-".join(words[1:3]), words[3:])
            with build().make_context("calcli", [], resilient_parsing=True) as context:
                known[called].make_context(called, given, parent=context)


def test_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    out = run("methods", "--help")[1]
    usage, _, options = out.partition("Input:")
    assert max(map(len, options.splitlines())) <= 50
    assert usage.startswith("List the calibration methods")
