"""Validated rows as plain arrays, the input of methods and metrics.

A `Batch` holds what calibrators need and nothing else. The tables room makes it, after every check has passed, so
that methods and metrics never meet a null label, a non-finite score or a string.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Record = TypeVar("Record", bound=DataclassInstance)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LabelArray = NDArray[np.signedinteger[Any]]
Rows = NDArray[np.int64] | NDArray[np.bool_] | slice

Item = TypeVar("Item")
Role = Literal["category", "number", "boolean"]

CHUNK = 1 << 15
"""The number of rows of which a few columns fit into the processor's cache."""


def spans(rows: int, size: int = CHUNK) -> Iterator[slice]:
    """Slices of `size` over all rows, so that intermediate results stay in the processor's cache."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def grouped(items: Iterable[Item], size_of: Callable[[Item], int], least: int) -> Iterator[list[Item]]:
    """The items in lists, each of which has this size at least, but for the last one."""
    group: list[Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= least:
            yield group
            group, size = [], 0
    if group:
        yield group


def taken(record: Record, rows: Rows) -> Record:
    """The record of some rows, by an index array, a mask or a slice; a class says ``take = taken``.

    Of arrays these rows are taken, of records what their own `take` gives; all else stays.
    """
    if not isinstance(rows, slice) and rows.dtype == np.bool_:
        rows = np.flatnonzero(rows)  # once, and not for each array
    return replace(record, **{one.name: _rows_of(getattr(record, one.name), rows) for one in fields(record)})


def _rows_of(value: Any, rows: Rows) -> Any:
    if isinstance(value, np.ndarray):
        return value[rows]
    if isinstance(value, Mapping):
        return {name: _rows_of(part, rows) for name, part in value.items()}
    return value.take(rows) if hasattr(value, "take") else value


@dataclass(frozen=True, slots=True)
class Column:
    """One feature.

    Numbers and booleans are float64 with NaN where the value is missing. Categories are int32 codes into `levels`,
    with -1 where the value is missing; `levels` belongs to this batch alone, and may hold more than its rows do. By
    `recode` a method maps the codes to the levels that it was fitted on.
    """

    role: Role
    values: NDArray[np.float64] | NDArray[np.int32]
    levels: tuple[str, ...] = ()

    def take(self, rows: Rows) -> Column:
        """The column of some rows; of thousands of columns `taken` would take ten times as long."""
        return Column(self.role, self.values[rows], self.levels)

    def recode(self, levels: tuple[str, ...], *, unseen: int) -> NDArray[np.int32]:
        """Codes of a category column into other `levels`; values not among them become `unseen`."""
        if levels == self.levels:
            return self.values.astype(np.int32, copy=False)
        codes = {level: code for code, level in enumerate(levels)}
        table = np.array([codes.get(level, unseen) for level in self.levels] + [-1], dtype=np.int32)
        return table[self.values.astype(np.int32, copy=False)]  # code -1 picks the last entry: missing stays missing


@dataclass(frozen=True, slots=True)
class SamplingUnits:
    """Rows that belong together, as those of one user do: no split parts them."""

    rank: IntArray
    """The rank of each row's unit; not all numbers need occur."""

    in_order: bool = False
    """Whether units are moments: methods are fitted on earlier ones and judged by later ones."""

    column: str = ""
    """The column that names the units; empty where they are the rows of the table, each of which is two here."""

    row: IntArray | None = None
    """The row of the table, where units are moments, and each row of the table is two here."""

    @property
    def together(self) -> IntArray | None:
        """The unit of each row, where rows of a unit count as one; moments only set an order."""
        return self.row if self.in_order else self.rank

    take = taken


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows with their scores."""

    score: FloatArray
    """Binary: log-odds of the positive class, shape (n,). K > 2 classes: logits, shape (n, K). Always finite."""

    label: IntArray | None = None
    """Class index per row, 0 .. K-1 (binary: 1 is the positive class); None when the labels are not known."""

    weight: FloatArray | None = None
    """Non-negative, or None for all ones."""

    features: Mapping[str, Column] = field(default_factory=dict)
    """Feature name to column, in the order of the binding."""

    target: FloatArray | None = None
    """The number that each row turned out to have, where labels are amounts and not classes."""

    node: Column | None = None
    """The id of each row in an edge list, as a category; None where rows have none."""

    prob: FloatArray | None = None
    """The probabilities that the score was made of, as the table has them: of the positive class, or of each (also of
    two, where the table has two columns). None where it has logits.
    """

    units: SamplingUnits | None = None
    """Which rows belong together; None where each stands for itself."""

    ranks: bool = False
    """Whether the score of two classes is a number on no scale, and no log-odds: it only ranks."""

    def __len__(self) -> int:
        return len(self.score)

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return 2 if self.score.ndim == 1 else self.score.shape[1]

    @property
    def labels(self) -> IntArray:
        """The labels of rows that must have them."""
        if self.label is None:
            raise ValueError("these rows carry no label")
        return self.label

    @property
    def targets(self) -> FloatArray:
        """The targets of rows that must have them."""
        if self.target is None:
            raise ValueError("these rows carry no target")
        return self.target

    @property
    def weights(self) -> FloatArray:
        """Weights, ones where none were given."""
        return np.ones(len(self)) if self.weight is None else self.weight

    @property
    def together(self) -> IntArray | None:
        """The unit of each row, where rows of a unit count as one."""
        return None if self.units is None else self.units.together

    @property
    def bare(self) -> Batch:
        """These rows for a fit by their scores alone: without features, probabilities and node ids."""
        return Batch(self.score, self.label, self.weight, units=self.units, ranks=self.ranks)

    @property
    def by_name(self) -> Batch:
        """These rows with their features in the order of their names: that of a table's columns says nothing."""
        return replace(self, features=dict(sorted(self.features.items())))

    take = taken


class Group(NamedTuple):
    """The places of some rows, and the weight of each in the group; other groups may have them too."""

    rows: IntArray
    weight: FloatArray


@dataclass(frozen=True, slots=True)
class Edges:
    """Which nodes are linked."""

    nodes: tuple[str, ...]
    """Their ids, as text, each once."""

    pairs: IntArray
    """The indices in `nodes` of the two ends of each edge, shape (n, 2); -1 for a missing end."""

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, slots=True)
class SideInputs:
    """Inputs of a method besides its rows: other rows, edge lists, the bytes of a user's model.

    Keyed by role (``partition-data``, ``embedding-data``, ``model``); the role of `edges` is ``edges``. Most methods
    need none of it.
    """

    batches: Mapping[str, Batch] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    edges: Edges | None = None

    @property
    def roles(self) -> frozenset[str]:
        """The roles of the inputs that are there."""
        return frozenset({*self.batches, *self.blobs, *(() if self.edges is None else ("edges",))})

    def only(self, roles: Collection[str]) -> SideInputs:
        """The inputs of these roles."""
        return SideInputs(
            {role: batch for role, batch in self.batches.items() if role in roles},
            {role: blob for role, blob in self.blobs.items() if role in roles},
            self.edges if "edges" in roles else None,
        )

    def __or__(self, other: SideInputs) -> SideInputs:
        """The inputs of both; `other` takes precedence in a common role."""
        edges = self.edges if other.edges is None else other.edges
        return SideInputs({**self.batches, **other.batches}, {**self.blobs, **other.blobs}, edges)


NO_SIDE_INPUTS = SideInputs()
