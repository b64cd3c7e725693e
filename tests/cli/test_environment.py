"""CALCLI_<OPTION> stands in for an option that is not given."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from calcli.cli.main import main
from calcli.cli.process import variable_of
from tests.support.shell import ROOT, Run


def test_the_environment_gives_what_the_line_does_not(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"METHOD": "histogram", "SET": "bins=4 binning=width", "OUTPUT": "kept", "QUIET": "1"}
    for name, value in given.items():
        monkeypatch.setenv(f"CALCLI_{name}", value)
    assert run("fit", "train.parquet") == (0, "kept\n", "")
    assert json.loads(Path("kept/manifest.json").read_text())["params"] == {"bins": 4, "binning": "width"}
    monkeypatch.setenv("CALCLI_METHOD", "nonsense")
    assert run("fit", "train.parquet", "-m", "histogram", "--set", "bins=2", "-o", "other") == (0, "other\n", "")
    assert json.loads(Path("other/manifest.json").read_text())["params"]["bins"] == 2


def test_a_mistake_in_the_environment_is_named_by_its_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALCLI_FORMAT", "jsonn")
    code, _, err = run("methods")
    assert code == 2
    assert err.startswith("calcli: CALCLI_FORMAT: there is no 'jsonn'")
    monkeypatch.setenv("CALCLI_FORMAT", "")  # an empty variable is none
    assert run("methods")[0] == 0


ENSEMBLES = {
    "uncertainty fit": ("uncertainty", "fit"),
    "uncertainty evaluate": ("uncertainty", "evaluate"),
    "uncertainty apply": ("apply", "apply_ensemble"),
    "uncertainty decompose": ("apply", "decompose"),
}
"""The modules and functions of the verbs whose commands have two words."""


def request_of(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The request that a command makes, which ends there."""
    requests: list[Any] = []

    def verb(request: Any, *_: Any) -> None:
        requests.append(request)
        raise KeyboardInterrupt

    command = words[0] if words[0] != "uncertainty" else f"uncertainty {words[1]}"
    module, function = ENSEMBLES.get(command, (command, command))
    monkeypatch.setattr(importlib.import_module(f"calcli.verbs.{module}"), function, verb)
    assert main(words) == 130
    return requests[0]


def test_options_of_other_meanings_have_other_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMBERS", "MODEL", "PRESET", "WITH", "OUTPUT_FORMAT"):
        monkeypatch.setenv(f"CALCLI_{name}", "other")
    monkeypatch.setenv("CALCLI_UNCERTAINTY_FIT_MEMBERS", "7")
    monkeypatch.setenv("CALCLI_UNCERTAINTY_FIT_MODEL", "mine.cbm")
    monkeypatch.setenv("CALCLI_UNCERTAINTY_DECOMPOSE_MEMBERS", "net")
    monkeypatch.setenv("CALCLI_UNCERTAINTY_EVALUATE_WITH", "a=one two")
    monkeypatch.setenv("CALCLI_DIAGRAM_OUTPUT_FORMAT", "svg")
    fit = request_of(["uncertainty", "fit", "x"], monkeypatch)
    assert (fit.members, fit.model) == (7, "mine.cbm")
    decompose = request_of(["uncertainty", "decompose", "x", "-o", "y"], monkeypatch)
    assert (decompose.members, decompose.output_format) == ("net", "other")
    evaluate = request_of(["uncertainty", "evaluate", "x"], monkeypatch)
    assert (evaluate.ensembles, evaluate.preset) == (("a=one", "two"), None)
    assert request_of(["diagram", "x"], monkeypatch).output_format == "svg"
    assert request_of(["evaluate", "x"], monkeypatch).artifacts == ("other",)


def test_the_page_lists_the_variables_that_name_their_command() -> None:
    listed = (ROOT / "docs/commands/README.md").read_text()
    for page in (ROOT / "tests/cli/golden").glob("*.txt"):
        line = " ".join(page.read_text().split()).rpartition("Environment variables set options too: ")[2]
        for flag, variable in re.findall(r"(--[\w-]+) is (CALCLI_\w+)", line):
            assert variable == variable_of(flag) or f"`{variable}`" in listed


WORDS = [
    ["fit", "x"],
    ["apply", "a", "x", "-o", "y"],
    ["evaluate", "x"],
    ["diagram", "x"],
    ["compare", "x"],
    ["refit", "a", "x"],
    ["estimate", "x"],
    ["export", "a"],
    ["uncertainty", "fit", "x"],
    ["uncertainty", "apply", "e", "x", "-o", "y"],
    ["uncertainty", "evaluate", "x", "--with", "e"],
    ["uncertainty", "decompose", "x", "--members", "s", "-o", "y"],
]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_options_that_are_not_given_are_the_defaults_of_the_request(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(words, monkeypatch)
    required = [field.name for field in fields(request) if field.default is field.default_factory is MISSING]
    given = {name: getattr(request, name) for name in required} | ({"output": "y"} if "-o" in words else {})
    assert request == type(request)(**given)
