"""Any words where a gate, a parameter or a metric is expected: an answer, or a `CalcliError`."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from calcli.cli import arguments
from calcli.errors import CalcliError, UsageError
from calcli.methods import catalog
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.models.recipe import AUTO, params_by_method
from calcli.reports.gates import parse
from tests.support.damage import CASES

pytestmark = pytest.mark.slow

WORDS = "nll ece raw platt max min diff change and or not group p lo hi floor . > < >= <= == != = ( ) [ ] , 0 1e-3 -1"
TOKENS = (*WORDS.split(" "), "1e999", "nan", "inf", "%", "*", "0x10", "1_000", "é", "'", '"', "x y", "\n", "\0", "  ")


def test_any_text_is_a_gate_or_none() -> None:
    for case in range(10 * CASES):
        chance = random.Random(case)
        text = chance.choice(("", " ")).join(chance.choices(TOKENS, k=chance.randrange(1, 6)))
        with suppress(UsageError):
            gate = parse(text)
            assert parse(str(gate)).alternatives == gate.alternatives, text


def test_gates_of_any_shape_are_read_as_they_are_written() -> None:
    for case in range(CASES):
        chance = random.Random(case)
        terms = [
            f"{chance.choice(('nll', 'raw.ece', 'a.b.auc.diff', 'brier.lo'))} {chance.choice('<>')} {chance.random()}"
            for _ in range(chance.randrange(1, 6))
        ]
        joints = [chance.choice((" and ", " or ")) for _ in terms[1:]]
        text = terms[0] + "".join(joint + term for joint, term in zip(joints, terms[1:], strict=True))
        gate = parse(text)
        assert len(gate.alternatives) == 1 + joints.count(" or ")
        assert sum(map(len, gate.alternatives)) == len(terms)
        assert parse(str(gate)).alternatives == gate.alternatives


@pytest.mark.parametrize("depth", [10, 1_000, 100_000])
def test_a_gate_of_any_length(depth: int) -> None:
    assert len(parse(" and ".join(["nll > 1"] * depth)).alternatives[0]) == depth
    with pytest.raises(UsageError) as caught:
        parse("(" * depth + "nll > 1" + ")" * depth)
    assert len(str(caught.value)) < 500


NUMBERS = ("0", "1", "-1", "0.5", "5.0", "5.5", " 5 ", "1e308", "1e999", "nan", "inf", "-inf", "0x10", "9" * 400)
WORDY = ("", "true", "no", "none", "auto", "platt", "é", "1,2,3", "[1]", "{}", "../x", "\0", "columns:", "columns:x")


@pytest.mark.parametrize("row", catalog.specs(), ids=lambda row: row.name)
def test_any_value_of_a_parameter(row: MethodSpec) -> None:
    names = [param.name for param in row.params] + ["nonsense", "", f"{row.name}.x", "."]
    for case in range(CASES):
        chance = random.Random(f"{row.name} {case}")
        words = [f"{chance.choice(names)}={chance.choice(NUMBERS + WORDY)}" for _ in range(chance.randrange(1, 4))]
        with suppress(CalcliError):
            resolved = row.resolve(params_by_method(arguments.settings(words), row.name).get(row.name))
            assert set(resolved) == {param.name for param in row.params}


def test_parameters_of_any_method() -> None:
    names = [*catalog.names(), "auto", "nonsense", "", "."]
    for case in range(CASES):
        chance = random.Random(case)
        words = [f"{chance.choice(names)}.{chance.choice(('a', 'trees', ''))}=1" for _ in range(2)]
        with suppress(CalcliError):
            params_by_method(arguments.settings(words), AUTO)


def test_any_list_of_metrics() -> None:
    names = [*metrics.names(), "default", "all", "", " ", "nonsense", "é", "\n"]
    for case in range(CASES):
        chance = random.Random(case)
        with suppress(UsageError):
            assert metrics.choose(",".join(chance.choices(names, k=chance.randrange(4))))
