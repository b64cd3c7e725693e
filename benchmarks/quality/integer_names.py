"""Categories that are coded as integers beside the same ones as text, and numbers that are left numbers.

    python benchmarks/quality/integer_names.py DIR [--methods A,B] [--codes N]   # a Markdown table

DIR holds pairs ``NAME.cal.parquet`` and ``NAME.test.parquet``. Of each with categories the levels get integers, drawn
anew for each of the codes, and each method is fitted on three tables: text, integers, and integers that ``--numbers``
keeps numbers. Shown are the gains in log-loss over no calibration on the test rows, and the share of that of text which
integers keep; at the end, columns of numbers that were taken for names where categories are text.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

import calcli

FEWEST = 2_000
"""Files with fewer rows say little."""


def coded(tables: list[pl.DataFrame], names: list[str], seed: int) -> list[pl.DataFrame]:
    """The tables with integers for the levels of these columns, in no order."""
    rng = np.random.default_rng(seed)
    for name in names:
        levels = pl.concat([table[name] for table in tables]).unique().drop_nulls().sort()
        codes = pl.Series(rng.permutation(len(levels)) + 1)
        tables = [
            table.with_columns(pl.col(name).replace_strict(levels, codes, return_dtype=pl.Int64)) for table in tables
        ]
    return tables


def gain(tables: list[pl.DataFrame], method: str, numbers: tuple[str, ...] = ()) -> tuple[float, list[str]]:
    """By how many percent the log-loss of the test rows falls, and the integers that were taken for names."""
    fitted = calcli.fit(tables[0], method=method, holdout="none", numbers=numbers)
    assert fitted.model is not None
    report = calcli.evaluate(tables[1], artifacts=(fitted.model,), metrics="nll")
    raw, new = (score.metrics["nll"].value for score in report.scores)
    assert raw is not None
    assert new is not None
    named = [one.name for one in fitted.binding.features if one.role == "category" and one.dtype != "String"]
    return 100.0 * (1.0 - new / raw), named


def lines(folder: Path, methods: list[str], codes: int) -> Iterator[str]:
    yield "| file | method | text | integers | kept | as numbers | kept |"
    yield "| --- | --- | --: | --: | --: | --: | --: |"
    taken: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.cal.parquet")):
        name = path.name.removesuffix(".cal.parquet")
        tables = [pl.read_parquet(path), pl.read_parquet(path.with_name(f"{name}.test.parquet"))]
        names = [column for column, dtype in tables[0].schema.items() if dtype == pl.String]
        if len(tables[0]) < FEWEST:
            continue
        for method in methods:
            text, taken[name] = gain(tables, method)
            if not names:
                continue
            drawn = [coded(tables, names, seed) for seed in range(codes)]
            found = float(np.mean([gain(each, method)[0] for each in drawn]))
            numbers = float(np.mean([gain(each, method, tuple(names))[0] for each in drawn]))
            yield (
                f"| {name} | {method} | {text:.2f} % | {found:.2f} % | {found / text:.0%} | {numbers:.2f} % | "
                f"{numbers / text:.0%} |"
            )
    yield ""
    yield "Numbers that were taken for names: " + "; ".join(
        f"{name}: {', '.join(columns) or 'none'}" for name, columns in taken.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--methods", default="effects,mbct,boost")
    parser.add_argument("--codes", type=int, default=6, help="a gain with one code may be a tenth off")
    given = parser.parse_args()
    for line in lines(given.data, given.methods.split(","), given.codes):
        print(line, flush=True)


if __name__ == "__main__":
    main()
