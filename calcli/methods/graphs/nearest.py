"""The nearest rows by some numbers: exactly k of them where there are as many, ties to the lower row.

SciPy's tree leaves open which of several equally near rows it gives, and slows down where many rows share a place. So
it is built on the distinct places and asked for enough of them that all ties are among the answers; the distances are
then computed anew, and the rows behind the places are ranked by distance and number.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.methods.graphs.adjacency import Adjacency

_SPARE = 3
"""Places to ask for beyond those that are needed if nothing ties."""

_SLACK = 1.0 + 1e-9
"""The tree's distances and ours may round differently."""


class Neighbourhood:
    """Rows as points, with the search for the nearest: at most `count`, and at most `radius` away.

    A row with a missing number has no neighbours.
    """

    def __init__(self, points: FloatArray, count: int, radius: float | None = None) -> None:
        from scipy.spatial import cKDTree

        self.count = count
        self.farthest = np.inf if radius is None else radius**2
        self.points = points
        self.somewhere = np.flatnonzero(np.isfinite(points).all(axis=1))
        self.places, place = np.unique(points[self.somewhere], axis=0, return_inverse=True)
        self.members = _lowest(place.ravel(), self.somewhere, len(self.places), count + 1)
        self.tree = cKDTree(self.places)

    def links(self) -> Adjacency:
        """The graph of these rows: two are linked if either is among the other's nearest."""
        row, near = self._nearest(self.points, np.arange(len(self.points)))
        return Adjacency.both_ways(row, near, len(self.points))

    def links_from(self, points: FloatArray) -> Adjacency:
        """For other rows, each to its nearest here."""
        row, near = self._nearest(points, None)
        return Adjacency.of(row, near, len(points))

    def _nearest(self, points: FloatArray, itself: IntArray | None) -> tuple[IntArray, IntArray]:
        """Pairs of a row and one near it; `itself` are the numbers of the rows, if they are rows of this space."""
        asking = np.flatnonzero(np.isfinite(points).all(axis=1))
        pairs: list[tuple[IntArray, IntArray]] = []
        ask = self.count + 1 + _SPARE
        while len(asking) and len(self.places):
            ask = min(ask, len(self.places))
            numbers = None if itself is None else itself[asking]
            ranked, distance, reach = self._ranked(points[asking], numbers, ask)
            last = distance[:, -1]
            # More places might tie with the last neighbour, unless the farthest place is farther, or there is no other.
            settled = (reach > last * _SLACK) | (ask == len(self.places))
            row, column = np.nonzero(settled[:, None] & (distance <= self.farthest) & np.isfinite(distance))
            pairs.append((asking[row], ranked[row, column]))
            asking = asking[~settled]
            ask *= 2
        if not pairs:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate([row for row, _ in pairs]), np.concatenate([near for _, near in pairs])

    def _ranked(self, points: FloatArray, itself: IntArray | None, ask: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """The nearest rows, their squared distances (infinite for none), and the reach of the search."""
        _, place = self.tree.query(points, k=ask)
        place = place.reshape(len(points), ask)
        distance = _squared(points, self.places, place)
        reach = distance[:, -1]
        row = self.members[place].reshape(len(points), -1)
        far = np.repeat(distance, self.members.shape[1], axis=1)
        gone = row < 0 if itself is None else (row < 0) | (row == itself[:, None])
        far = np.where(gone, np.inf, far)
        order = np.lexsort((row, far), axis=1)[:, : self.count]
        return np.take_along_axis(row, order, axis=1), np.take_along_axis(far, order, axis=1), reach


def _squared(points: FloatArray, places: FloatArray, place: IntArray) -> FloatArray:
    """The squared distances of each point to some places, summed over the columns in their order."""
    total = np.zeros(place.shape)
    for column in range(points.shape[1]):
        total += (points[:, column, None] - places[:, column][place]) ** 2
    return total


def _lowest(place: IntArray, rows: IntArray, places: int, count: int) -> IntArray:
    """The lowest `count` rows at each place, -1 where there are fewer; as many columns as any place fills."""
    order = np.argsort(place, kind="stable")  # rows rise, so they rise at each place
    size = np.bincount(place, minlength=places)
    within = np.arange(len(place)) - np.repeat(np.cumsum(size) - size, size)
    few = within < count
    members = np.full((places, min(count, int(size.max(initial=1)))), -1, dtype=np.int64)
    members[place[order][few], within[few]] = rows[order][few]
    return members
