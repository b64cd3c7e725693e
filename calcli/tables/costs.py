"""A matrix of costs from a CSV file: a row for each class, a column for each action."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

from calcli.errors import DataError, unknown_name
from calcli.files import disk_errors
from calcli.places import folder, stores

Matrix = tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]
"""The actions, and their costs by class."""


def read_costs(path: str | Path, classes: Sequence[str]) -> Matrix:
    """The costs, in the order of `classes`.

    The header names the actions after an empty field, each row begins with its class. Actions are classes, or others,
    such as to leave a row to a person.
    """
    where = folder(path)
    with disk_errors(f"cannot read {where}"):
        content = stores.content(where)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{where} is not UTF-8 text", hint="a matrix of costs is a CSV file") from None
    lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text, newline="")) if any(line)]
    if len(lines) < 2 or len(lines[0]) < 2:
        raise DataError(f"{where} has no matrix of costs", hint="a header of actions, then for each class its costs")
    actions = tuple(lines[0][1:])
    costs: dict[str, tuple[float, ...]] = {}
    for name, *cells in lines[1:]:
        if name not in classes:
            raise DataError(f"{where}: {unknown_name('class', name, classes)}")
        if name in costs or len(cells) != len(actions):
            raise DataError(f"{where}: the class {name!r} is there twice, or has not {len(actions)} costs")
        costs[name] = tuple(_cost(cell, f"{where}, class {name!r}") for cell in cells)
    if missing := [name for name in classes if name not in costs]:
        raise DataError(f"{where} has no costs of the class {missing[0]!r}")
    if len(set(actions)) < len(actions):
        raise DataError(f"{where} names an action twice")
    return actions, tuple(costs[name] for name in classes)


def _cost(text: str, where: str) -> float:
    try:
        cost = float(text)
    except ValueError:
        cost = math.nan
    if not (math.isfinite(cost) and cost >= 0.0):
        raise DataError(f"{where}: {text!r} is no cost; a cost is 0 or more")
    return cost
