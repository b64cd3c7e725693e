from dataclasses import dataclass

import numpy as np

from calcli.batch import taken
from calcli.state import added


@dataclass(frozen=True)
class Column:
    values: np.ndarray

    def take(self, rows):
        return taken(self, rows)


@dataclass(frozen=True)
class Sums:
    total: np.ndarray
    parts: tuple["Sums", ...]
    per_class: tuple[float, ...] | None
    name: str
    binary: bool

    __add__ = added


@dataclass(frozen=True)
class Table:
    label: np.ndarray
    weight: np.ndarray | None
    column: Column
    source: str


def test_records_add_up_field_by_field():
    part = Sums(np.array([1.0, 2.0]), (), None, "ece", True)
    whole = Sums(np.array([0.5, 0.0]), (part,), (1.0, 2.0), "ece", True)
    found = whole + whole
    np.testing.assert_array_equal(found.total, [1.0, 0.0])
    np.testing.assert_array_equal(found.parts[0].total, [2.0, 4.0])
    assert (found.per_class, found.parts[0].per_class, found.name, found.binary) == ((2.0, 4.0), None, "ece", True)


def test_rows_are_taken_of_every_array():
    table = Table(np.arange(3), None, Column(np.arange(6).reshape(3, 2)), "given")
    for rows in (np.array([2, 0]), slice(1, None), np.array([True, False, True])):
        found = taken(table, rows)
        np.testing.assert_array_equal(found.label, table.label[rows])
        np.testing.assert_array_equal(found.column.values, table.column.values[rows])
        assert (found.weight, found.source) == (None, "given")
