"""Pairs of prediction files: ``NAME.cal.parquet`` to fit on, ``NAME.test.parquet`` to judge on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from calcli.batch import Batch
from calcli.tables.binding import bind
from calcli.tables.load import load
from calcli.tables.source import open_source

CAL, TEST = ".cal.parquet", ".test.parquet"


@dataclass(frozen=True)
class Pair:
    """Two files of one model's predictions, with a label, logits and, as a rule, features."""

    name: str
    cal: Path
    test: Path

    def size(self) -> int:
        """Bytes of the file to fit on."""
        return self.cal.stat().st_size

    def rows(self) -> int:
        """Rows to fit on."""
        return int(pl.scan_parquet(self.cal).select(pl.len()).collect().item())

    def read(self) -> tuple[Batch, Batch]:
        """The rows to fit on, and those to judge on, whose columns are taken for what they were in the first."""
        with open_source(self.cal) as source:
            binding = bind(source)
            train = load(source, binding, features=True).batch
        with open_source(self.test) as source:
            return train, load(source, bind(source, known=binding), features=True).batch

    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The same as tables of features and logits; ``label`` stands in the first alone."""
        with open_source(self.cal) as source:
            binding = bind(source)
        columns = [*(feature.name for feature in binding.features), *binding.score.columns]
        return pl.read_parquet(self.cal, columns=[*columns, "label"]), pl.read_parquet(self.test, columns=columns)


def pairs(folder: Path) -> list[Pair]:
    """All of a folder, by name."""
    found = sorted(path.name.removesuffix(CAL) for path in folder.glob(f"*{CAL}"))
    if not found:
        raise SystemExit(f"{folder} holds no *{CAL}")
    return [Pair(name, folder / f"{name}{CAL}", folder / f"{name}{TEST}") for name in found]
