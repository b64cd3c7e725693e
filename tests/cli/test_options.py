"""Every number of the command line has bounds."""

from __future__ import annotations

import math
from typing import Any

import pytest

from calcli.cli.app import build, every_command
from calcli.methods import catalog
from tests.support.shell import Run


def parameters(words: tuple[str, ...]) -> list[Any]:
    """The parameters of a command, as Typer parses them."""
    command = build()
    with command.make_context("calcli", ["--help-is-not-asked"], resilient_parsing=True) as context:
        for word in words:
            command = command.get_command(context, word)
    return list(command.params)


NUMBERS = [
    (words, one)
    for words in every_command()
    for one in parameters(words)
    if str(getattr(one.type, "name", "")).startswith(("int", "float"))
]


def test_there_are_such_options() -> None:
    """As many as the sources declare, so that the walk above misses none."""
    assert {one.opts[-1] for _, one in NUMBERS} == {
        *("--budget", "--folds", "--bootstrap", "--seed", "--threads"),
        *("--abstain", "--threshold", "--top"),
        *("--confidence", "--coverage", "--sets", "--intervals"),
        *("--members", "--trees", "--depth", "--learning-rate", "--row", "--check", "--pool-nights", "--sample"),
    }


@pytest.mark.parametrize(("words", "one"), NUMBERS, ids=lambda each: " ".join(each) if isinstance(each, tuple) else "")
def test_a_number_has_bounds(words: tuple[str, ...], one: Any, run: Run) -> None:
    assert math.isfinite(one.type.min)
    assert math.isfinite(one.type.max)
    flag = one.opts[-1]
    for value in ("99999999999999999999", "-1", "1" + "0" * 5000, "nan", "inf", "-1e400"):
        code, out, err = run(*words, f"{flag}={value}", *("x" for each in parameters(words) if each.required))
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
