"""Help is read on 80 columns, kept in golden files, and printed in the docs. `python docs/generate.py` writes both."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from calcli.cli.app import GROUPS, build, every_command
from calcli.methods import catalog
from tests.support.shell import ROOT, Run, script

GOLDEN = Path(__file__).parent / "golden"
PAGES = ROOT / "docs" / "commands"


def commands() -> dict[tuple[str, ...], Any]:
    """Every command by the words that call it."""
    program = build()
    found: dict[tuple[str, ...], Any] = {}
    with program.make_context("calcli", [], resilient_parsing=True) as context:
        for words in every_command():
            command = program
            for word in words:
                command = command.get_command(context, word)
            found[words] = command
    return found


SUMMARIES = {"-".join(words): summary for words, summary in every_command().items()}
COMMANDS = commands()
HELP = {"calcli": (), **{"-".join(words): words for words in COMMANDS}}
"""The words before ``--help``, by the name of the file with the text."""

NUMBERS = [
    (words, param)
    for words, command in COMMANDS.items()
    for param in command.params
    if str(getattr(param.type, "name", "")).startswith(("int", "float"))
]


@pytest.mark.parametrize(("name", "words"), HELP.items(), ids=HELP)
def test_help_is_as_it_was_and_fits_80_columns(name: str, words: tuple[str, ...], run: Run) -> None:
    code, out, err = run(*words, "--help")
    assert (code, err) == (0, "")
    assert out == (GOLDEN / f"{name}.txt").read_text(), "if it is meant to change: python docs/generate.py"
    assert max(map(len, out.splitlines())) <= 80


def test_docs_are_in_step() -> None:
    stale = [str(path.relative_to(ROOT)) for path in script(ROOT / "docs" / "generate.py").out_of_date()]
    assert stale == [], "run: python docs/generate.py"


def test_every_page_has_an_opening_and_a_command() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")}
    assert pages == {"README", *SUMMARIES}
    for page in PAGES.glob("*.md"):
        assert len(page.read_text().partition("<!--")[0]) > 80, page


@pytest.mark.parametrize(("words", "command"), COMMANDS.items(), ids=SUMMARIES)
def test_every_option_explains_itself(words: tuple[str, ...], command: Any) -> None:
    name = "-".join(words)
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
    for command in COMMANDS.values():
        for param in command.params:
            if param.param_type_name == "option":
                texts.setdefault(param.envvar, set()).add(param.help)
    assert {variable for variable, helps in texts.items() if len(helps) > 1} == {
        "CALCLI_BAD_ROWS",
        "CALCLI_OUTPUT",
        "CALCLI_FORMAT",
        "CALCLI_EDGES",
        "CALCLI_EXTRA",
        "CALCLI_LABEL",
        "CALCLI_GUARD",
        "CALCLI_FAIL_IF",
    }


@pytest.mark.parametrize("name", HELP)
def test_examples_can_be_parsed(name: str) -> None:
    """Every example names a command and options that exist."""
    text = (GOLDEN / f"{name}.txt").read_text()
    examples = re.search(r"Examples:\n((?:  .*\n)+)", text)
    assert examples is not None
    for line in examples[1].splitlines():
        for part in line.partition("#")[0].split("|"):
            words = shlex.split(part)
            words = words[: words.index(">")] if ">" in words else words
            if words[0] != "calcli":
                continue
            count = 3 if words[1] in GROUPS else 2
            with build().make_context("calcli", [], resilient_parsing=True) as context:
                COMMANDS[tuple(words[1:count])].make_context(words[1], words[count:], parent=context)


def test_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    out = run("methods", "--help")[1]
    usage, _, options = out.partition("Input:")
    assert max(map(len, options.splitlines())) <= 50
    assert usage.startswith("List the calibration methods")


# Every number of the command line has bounds


def test_there_are_such_options() -> None:
    """As many as the sources declare, so that the walk above misses none."""
    assert {one.opts[-1] for _, one in NUMBERS} == {
        *("--budget", "--folds", "--bootstrap", "--seed", "--threads", "--lock-timeout"),
        *("--abstain", "--threshold", "--top"),
        *("--confidence", "--coverage", "--sets", "--intervals"),
        *("--members", "--trees", "--depth", "--learning-rate", "--row", "--check", "--pool-nights", "--sample"),
        *("--rules", "--bin-size", "--width", "--choose", "--find-segments", "--from", "--to"),
        *("--cost-fp", "--cost-fn"),
    }


BEYOND = ("99999999999999999999", "-1", "1" + "0" * 5000, "nan", "inf", "-1e400")


@pytest.mark.parametrize(("words", "one"), NUMBERS, ids=lambda each: " ".join(each) if isinstance(each, tuple) else "")
def test_a_number_has_bounds(words: tuple[str, ...], one: Any, run: Run) -> None:
    assert math.isfinite(one.type.min)
    assert math.isfinite(one.type.max)
    flag = one.opts[-1]
    place = next(place for place, number in enumerate(NUMBERS) if number == (words, one))
    for value in BEYOND[place % 3 :: 3]:  # what is beyond one option is beyond them all
        code, out, err = run(*words, f"{flag}={value}", *("x" for each in COMMANDS[words].params if each.required))
        assert (code, out, err.count("\n")) == (2, "", 1), value
        assert err.startswith(f"calcli: {flag} takes a ")


@pytest.mark.parametrize("spec", catalog.specs(), ids=lambda spec: spec.name)
def test_so_has_a_number_that_a_method_takes(spec: Any) -> None:
    for param in spec.params:
        if param.kind in ("int", "float"):
            assert param.low is not None
            assert param.high is not None
            assert math.isfinite(param.low)
            assert math.isfinite(param.high)
