"""Cliques of rows with the same value of a column, in time and memory proportional to the rows.

In a clique with self-loops the normalised adjacency is the mean of the group; without, a row becomes
n/(n - 1) (v - mean), and stays v where it is alone. No edge is ever stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.methods.graphs.scheme import Hidden, Scheme, sums_by, two_layers

_NUMBERS = 1 << 21
"""Numbers in memory at a time where a new row changes every member of its group."""


@dataclass(frozen=True, slots=True)
class Cliques:
    """The group of each row, 0 .. `count` - 1; a group may be empty."""

    group: IntArray
    count: int

    def __len__(self) -> int:
        return len(self.group)

    @property
    def size(self) -> FloatArray:
        """How many rows each group has."""
        return np.bincount(self.group, minlength=self.count).astype(np.float64)

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum of `values` over the rows of each group."""
        return sums_by(self.group, values, self.count)

    def spread(self, values: FloatArray, scheme: Scheme) -> FloatArray:
        """One mixing of `values`, which has a row for each row of the graph."""
        size = self.size
        mean = (self.sums(values) / np.maximum(size, 1.0)[:, None])[self.group]
        if scheme.loops:
            return mean
        count = size[self.group][:, None]
        return np.where(count > 1.0, count / np.maximum(count - 1.0, 1.0) * (values - mean), values)


def two_layers_alone(
    size: FloatArray, sums: FloatArray, group: IntArray, new: FloatArray, hidden: Hidden
) -> FloatArray:
    """`two_layers` with self-loops for the values of `new` rows, each alone with its `group`, of which the `size` and
    the `sums` of values are known. All see the same mean, so the second one is of equals.
    """
    return hidden((sums[group] + new) / (size[group] + 1.0)[:, None])


def two_layers_against(
    start: IntArray, members: FloatArray, group: IntArray, new: FloatArray, scheme: Scheme, hidden: Hidden
) -> FloatArray:
    """The same without self-loops: then the hidden values of all members move with the mean, so a row costs its group.

    The values of the rows of group g are ``members[start[g]:start[g + 1]]``.
    """
    output = np.empty(len(new))
    for which in np.unique(group):
        rows = np.flatnonzero(group == which)
        others = members[start[which] : start[which + 1]]
        for block in np.array_split(rows, 1 + len(rows) * (len(others) + 1) * new.shape[1] // _NUMBERS):
            output[block] = _one_group(others, new[block], scheme, hidden)
    return output


def _one_group(others: FloatArray, new: FloatArray, scheme: Scheme, hidden: Hidden) -> FloatArray:
    """Each new row last in a clique of its own, one clique after another."""
    size = len(others) + 1
    values = np.concatenate([np.repeat(others[None], len(new), axis=0), new[:, None, :]], axis=1)
    cliques = Cliques(np.repeat(np.arange(len(new)), size), len(new))
    return two_layers(cliques, values.reshape(-1, new.shape[1]), scheme, hidden)[size - 1 :: size]
