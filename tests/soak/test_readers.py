"""Damaged tables: rows, or one line that says what is wrong. Never a panic, never all of the memory."""

from __future__ import annotations

import gzip
import random
import resource
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from calcli.errors import CalcliError
from calcli.tables.binding import bind
from calcli.tables.binding_types import Flags
from calcli.tables.load import load
from calcli.tables.source import open_source
from tests.support.damage import CASES, damaged, nothing_but
from tests.support.tables import ordinary, put

pytestmark = pytest.mark.slow

SUFFIXES = ("csv", "tsv", "parquet", "arrow", "ndjson", "csv.gz", "csv.zst")
MEMORY = 1 << 30
"""No damage to a table of 20 kB makes calcli take another gigabyte."""


def whole(suffix: str, folder: Path) -> bytes:
    """The bytes of an ordinary table."""
    plain = put(folder / f"whole.{suffix.split('.', maxsplit=1)[0]}", ordinary(300).drop("day"))
    data = plain.read_bytes()
    plain.unlink()
    if suffix.endswith(".gz"):
        return gzip.compress(data, mtime=0)
    if suffix.endswith(".zst"):
        return bytes(pa.compress(data, "zstd", asbytes=True))
    return data


def read(path: Path) -> int:
    with open_source(path) as source:
        return len(load(source, bind(source), features=True).batch.labels)


# pyarrow stumbles over bytes that are not UTF-8 when it calls back about a row, and goes on; the command line hides it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_files(suffix: str, tmp_path: Path) -> None:
    data = whole(suffix, tmp_path)
    target = tmp_path / f"t.{suffix}"
    target.write_bytes(data)
    assert read(target) == 300
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for case in range(CASES):
        target.write_bytes(damaged(data, random.Random(f"{suffix} {case}")))
        with nothing_but(tmp_path):
            try:
                read(target)
            except CalcliError:
                refused += 1
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < MEMORY
    assert refused


LETTERS = (*'"",,\n\n\r\t\0\ufeffé\\\';|', "label", "logit", "0", "1", "0,5", "-1e999", "nan", "2024-02-30")
OF_JSON = (
    *'[]{}:,""\n\\\0\ufeffé',
    *('{"label":', '{"logit": 1', "},", "[{", "}]", "null", "NaN", "1e999", "0.5", '"x"'),
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_any_text_is_a_table_or_none(tmp_path: Path) -> None:
    """Files of quotes, commas, line ends and worse."""
    for name, letters in (("t.csv", LETTERS), ("t.tsv", LETTERS), ("t.json", OF_JSON), ("t.ndjson", OF_JSON)):
        target = tmp_path / name
        for case in range(CASES):
            chance = random.Random(case)
            target.write_text("".join(chance.choices(letters, k=chance.randrange(120))), newline="")
            with suppress(CalcliError):
                read(target)


NAMES = (
    *("label", "y", "target", "logit", "prob", "p", "score", "logit_a", "logit_b", "prob_0", "prob_1", "weight", "id"),
    *("y_true", "actual", "labels", "y_pred", "prediction", "proba_1", "proba_b", "y_score"),
    *("", " ", "Label", "LOGIT", "x\ny", "a,b", '"', "é" * 40, "__index_level_0__", "p" * 300),
)
COLUMNS = (
    [0, 1, 0, 1],
    [0, 1, 2, 1],
    [True, False, True, None],
    ["a", "b", "a", "b"],
    ["0", "1", "1", "0"],
    ["", "x", None, "y"],
    [0.1, 0.9, 0.5, 0.2],
    [-3.0, 40.0, 0.0, 1e308],
    [float("nan"), 1.0, float("inf"), None],
    [None, None, None, None],
    [1, 1, 1, 1],
    [[1], [2, 3], [], None],
    [{"a": 1}, {"a": 2}, None, {"a": 3}],
    [b"x", b"y", b"", None],
    [2**62, -(2**62), 0, 1],
)


def flags_of(chance: random.Random, names: Sequence[str]) -> Flags:
    """What somebody may say of columns that are there, or are not."""
    said: dict[str, object] = {}
    for name in ("label", "prob", "logit", "weight", "positive", "node_id"):
        if chance.random() < 0.25:
            said[name] = chance.choice((*names, "1", "b", "nothing"))
    for name in ("features", "ignore", "classes"):
        if chance.random() < 0.2:
            said[name] = tuple(chance.choices((*names, "0", "1", "a", "b", "nothing"), k=chance.randrange(4)))
    return Flags(**said)  # type: ignore[arg-type]


@pytest.mark.parametrize("flagged", [False, True])
def test_any_columns_are_bound_or_refused(flagged: bool) -> None:
    loaded = 0
    for case in range(max(CASES, 200)):  # hardly any flags fit
        chance = random.Random(case)
        names = {*chance.sample(NAMES, chance.randrange(1, 5)), *chance.choice(((), ("label", "logit"), ("y", "p")))}
        frame = pl.DataFrame({name: pl.Series(chance.choice(COLUMNS), strict=False) for name in sorted(names)})
        if chance.random() < 0.5:  # else hardly any table could be bound
            frame = frame.with_columns(label=pl.Series([0, 1, 1, 0]), logit=pl.Series([-1.5, 2.0, 0.5, -3.0]))
        frame = frame.clear() if chance.random() < 0.05 else frame
        features = chance.random() < 0.5
        flags = flags_of(chance, frame.columns) if flagged else Flags()
        with suppress(CalcliError), open_source(frame) as source:
            loaded += len(load(source, bind(source, flags, features=features), features=features).batch.labels)
    assert loaded
