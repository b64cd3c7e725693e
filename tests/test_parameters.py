"""Errors of verbs, models and estimators name parameters; those of the command line name flags."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.cli import commands
from calcli.cli.arguments import PLACES, PRESENTATION
from calcli.cli.main import main
from calcli.errors import CalcliError
from calcli.parameters import Parameter, in_python, parameters_of

COMMANDS = {
    "apply": "apply",
    "compare": "compare",
    "decide": "decide",
    "diagram": "diagram",
    "estimate": "estimate",
    "evaluate": "evaluate",
    "fit": "fit",
    "refit": "refit",
    "uncertainty_apply": "apply_ensemble",
    "uncertainty_decompose": "decompose",
    "uncertainty_evaluate": "evaluate_ensembles",
    "uncertainty_fit": "fit_ensemble",
}


@pytest.mark.parametrize(("command", "verb"), COMMANDS.items(), ids=COMMANDS)
def test_a_flag_of_a_command_is_a_parameter_of_its_verb(command: str, verb: str) -> None:
    function = getattr(calcli, verb)
    hints = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    parameters = parameters_of(hints, {"classes"} if verb == "diagram" else ())
    for option in getattr(commands, command).options:
        if option.flags and option.field not in PRESENTATION | PLACES:
            written = in_python(f"add {option.flags[-1]}", parameters).removeprefix("add ")
            field = {"chosen": "classes", "cost_file": "costs"}.get(option.field, option.field)
            inside = field if field in hints and (verb, field) != ("diagram", "classes") else written.partition("=")[0]
            assert inside in inspect.signature(function).parameters
            assert written.startswith(f"{field}=") or f"({field}=" in written


HINTS: Mapping[str, Any] = {
    "label": str | None,
    "holdout": str | None,
    "kind": Literal["smooth", "rejection"],
    "row": int | None,
    "bins": int | Literal["auto"],
    "cost_fp": float | str | None,
    "tune": bool,
    "features": Sequence[str] | None,
    "by": Sequence[str],
    "fail_if": Sequence[str],
    "multi": tuple[str, str] | None,
    "params": Mapping[str, Any],
    "artifacts": Sequence[str],
    "flags": calcli.Flags,
    "sides": calcli.SideFiles,
}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("name it with --label COL", "name it with label='COL'"),
        ("choose with --label 'my label'", "choose with label='my label'"),
        ("--label: no column 'a'", "label: no column 'a'"),
        ("--label: no column '--label'", "label: no column '--label'"),
        ("--label 'it'\"'\"'s'", 'label="it\'s"'),
        ('--label "a\\"', "label='\"a\\\\\"'"),
        ("with --label too", "with label= too"),
        ("leave out --holdout none", "leave out holdout='none'"),
        ("--holdout cv:1: too few", "holdout='cv:1': too few"),
        ("fit it with another --holdout", "fit it with another holdout="),
        ("--kind rejection has no axis; leave --kind out", "kind='rejection' has no axis; leave kind= out"),
        ("--kind and --row are both given", "kind= and row= are both given"),
        ("--row 1,000: there are 7; try --row N", "row=1000: there are 7; try row=N"),
        ("--bins auto needs all, --bins 9 does not", "bins='auto' needs all, bins=9 does not"),
        ("give --cost-fp 1 --cost-fn 20.5", "give cost_fp=1, cost_fn=20.5"),
        ("--cost-fp/--cost-fn excludes --row", "cost_fp=/cost_fn= excludes row="),
        ("--tune chooses --row", "tune=True chooses row="),
        ("name its features: --features A,B,...", "name its features: features=['A', 'B', ...]"),
        ("--by needs --features", "by= needs features="),
        ("--by age:1: try --by age:10", "by=['age:1']: try by=['age:10']"),
        ("--fail-if nll > 0.3: no value", "fail_if=['nll > 0.3']: no value"),
        ("--multi LABELS SCORES", "multi=['LABELS', 'SCORES']"),
        ("try: --set relation=column:x", "try: params={'relation': 'column:x'}"),
        ("try: --set bins=4", "try: params={'bins': 4}"),
        ("add --with DIR", "add artifacts=['DIR']"),
        ("pass --prob p", "pass flags=Flags(prob='p')"),
        ("--edges FILE --label COL", "sides=SideFiles(edges='FILE'), label='COL'"),
        ("--table NAME", "Database(URL, table='NAME')"),
        ("try: -o NAME.platt", "try: output='NAME.platt'"),
        ("calcli fit makes one; see: calcli apply --help", "calcli.fit makes one; see: help(calcli.apply)"),
        ("they are in: calcli inspect kept", "they are in: calcli.inspect('kept')"),
        ("see: calcli methods platt", "see: calcli methods platt"),
        ("calcli refit kept --rollback; add --label y", "calcli refit kept --rollback; add label='y'"),
        ("try: pip install --upgrade calcli", "try: pip install --upgrade calcli"),
    ],
)
def test_a_sentence_in_python(text: str, written: str) -> None:
    assert in_python(text, parameters_of(HINTS)) == written


def test_a_number_is_text_where_text_is_wanted() -> None:
    assert in_python("--top 3", {"top": Parameter("top={}", str)}) == "top='3'"
    assert in_python("--top 3", {"top": Parameter("top={}", int)}) == "top=3"


TABLE = pl.DataFrame({"s": np.linspace(0.01, 0.99, 200), "t": [0, 1] * 100})
NAMED: Any = {"label": "t", "prob": "s"}


def model() -> Any:
    return calcli.fit(TABLE, method="platt", holdout="none", **NAMED).model


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: calcli.fit(TABLE), "name it with label='COL'"),
        (lambda: calcli.fit(TABLE, label="t"), "name it with logit='COL' or prob='COL'"),
        (lambda: calcli.evaluate(TABLE, of_class="1", **NAMED), "of_class= is for find_segments="),
        (lambda: calcli.diagram(TABLE, classes=["7"], **NAMED), "classes: no class '7'"),
        (lambda: calcli.diagram(TABLE, flags=calcli.Flags(label="t", prob="s", classes=("0",))), "flags=Flags(classes"),
        (lambda: calcli.decide(TABLE, costs=(("0", "1"), ((0.0, 1.0), (-1.0, 0.0))), **NAMED), "costs= has -1"),
        (lambda: calcli.decide(TABLE, budget=9, multi=("l*", "s*")), "name it: label='LABEL', prob='SCORE'"),
        (lambda: calcli.decide(TABLE, cost_fp=1, **NAMED), "both errors have a cost: cost_fp=1, cost_fn=20"),
        (lambda: model().predict(TABLE.drop("s")), "name it: flags=Flags(prob='COL')"),
        (lambda: calcli.load(model(), edges=TABLE), "platt was not fitted with edges="),
        (lambda: calcli.load("nothing"), "there is no artifact nothing; calcli.fit makes one"),
        (lambda: calcli.Calibrator.load("nothing"), "there is no artifact nothing; calcli.fit makes one"),
        (lambda: calcli.load_ensemble("nothing"), "there is no artifact nothing; calcli.fit makes one"),
        (lambda: calcli.open_source("x.csv", delimiter="||"), "delimiter= takes one letter"),
    ],
)
def test_an_error_names_parameters(call: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("s,t\n1,0\n")
    with pytest.raises(CalcliError) as refused:
        call()
    assert said in str(refused.value)
    assert "--" not in str(refused.value)


def test_the_command_line_names_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    TABLE.write_csv("rows.csv")
    assert main(["fit", "rows.csv", "--label", "t"]) == 3
    assert "name it with --logit COL or --prob COL" in capsys.readouterr().err
