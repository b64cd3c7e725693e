"""What machines read: the JSON of every command, validated against the schemas in docs/."""

from __future__ import annotations

import json
import shutil
from contextlib import chdir
from pathlib import Path

import jsonschema
import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from tests.support.reports import ANSWERS_SCHEMA, REPORT_SCHEMA
from tests.support.samples import breeds, clicks


@pytest.mark.parametrize("schema", [REPORT_SCHEMA, ANSWERS_SCHEMA], ids=["report", "answers"])
def test_a_schema_is_one(schema: jsonschema.Draft202012Validator) -> None:
    assert jsonschema.validators.validator_for(schema.schema) is type(schema)
    schema.check_schema(schema.schema)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, a calibrator and a report of before; to be copied."""
    with chdir(tmp_path_factory.mktemp("tables")):
        breeds(300).write_csv("breeds.csv")
        clicks(300).write_parquet("train.parquet")
        assert main(["fit", "-q", "train.parquet", "--method", "platt", "-o", "m"]) == 0
        clicks(300, seed=1).with_columns(prob=1 / (1 + (-pl.col("logit")).exp())).write_parquet("test.parquet")
        Path("old.json").write_text(json.dumps(calcli.evaluate("test.parquet", scores=("again=prob",)).to_json()))
        return Path.cwd()


@pytest.fixture
def here(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shutil.copytree(tables, tmp_path / "here"))
    return Path.cwd()


def answered(arguments: str, capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    code = main([*arguments.split(), "--format", "json"])
    assert code in (0, 1)
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert "NaN" not in printed
    assert "Infinity" not in printed
    return json.loads(printed)


@pytest.mark.parametrize(
    "arguments",
    [
        "fit train.parquet --method isotonic -o n",
        "fit breeds.csv --method temperature -o n --bad-rows null",
        "fit train.parquet --method platt -o n --holdout none",
        "fit train.parquet -o n",
        "evaluate test.parquet",
        "evaluate test.parquet --with m --metrics all",
        "evaluate breeds.csv --metrics all",
        "evaluate test.parquet --with m --by age --bootstrap 50 --fail-if nll<0",
        "evaluate breeds.csv --bootstrap 50 --fail-if raw.nll>0",
        "evaluate breeds.csv --rejection",
        "evaluate test.parquet --score again=prob --baseline old.json --by age --metrics all --fail-if nll.change>0",
        "compare train.parquet --methods platt,histogram",
        "compare breeds.csv --methods platt --budget 0",
        "refit m test.parquet",
    ],
)
def test_reports(arguments: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = answered(arguments, capsys)
    REPORT_SCHEMA.validate(report)
    assert report["command"] == arguments.partition(" ")[0]


@pytest.mark.parametrize(
    "arguments",
    [
        "inspect m",
        "methods",
        "methods platt",
        "metrics",
        "metrics ece",
        "fit train.parquet --method platt -o n --dry-run",
        "diagram test.parquet --with m",
        "diagram breeds.csv --class all --kind smooth --bands bootstrap",
        "diagram breeds.csv --kind rejection --bands none",
        "diagram test.parquet --kind benefit --cost-fp 1 --cost-fn 9 --by age:2",
    ],
)
def test_other_answers(arguments: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ANSWERS_SCHEMA.validate(answered(arguments, capsys))


def test_the_schema_of_answers_is_strict_enough_to_fail(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answered("inspect m", capsys)
    for key in ("created", "payloads", "binding"):
        broken = {**found, "manifest": {name: part for name, part in found["manifest"].items() if name != key}}
        with pytest.raises(jsonschema.ValidationError):
            ANSWERS_SCHEMA.validate(broken)
