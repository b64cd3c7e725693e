"""All that was measured, and what can be asked of it.

A gain is how much lower the log-loss is than that of the raw score, as a share of it. Intervals are of 95 %, from
drawing data sets with replacement, each with all its files: files of one data set share rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.numeric.seeded import stream

AUTO = "auto"
RAW = "identity"
DRAWS = 2000

Statistic = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Result:
    """What one method did on one pair of files.

    Attributes
    ----------
    by_chance
        The error of the worst segment where probabilities are right.
    reason
        Why there are no values, where there are none.
    """

    group: str
    file: str
    method: str
    by_chance: float
    values: Mapping[str, float] | None = None
    reason: str = ""

    @property
    def data(self) -> str:
        return self.file.partition(".")[0]

    @property
    def model(self) -> str:
        return self.file.partition(".")[2].partition("-")[0]

    def value(self, name: str) -> float:
        """NaN where it is not defined."""
        found = None if self.values is None else self.values[name]
        return float("nan") if found is None else found

    @property
    def raw(self) -> float:
        """The log-loss of the raw score."""
        return self.value("nll") - self.value("gap")

    @property
    def gain(self) -> float:
        return -self.value("gap") / self.raw

    @property
    def segment(self) -> float:
        """The error of the worst segment, beside what chance makes of it."""
        return self.value("segment") / self.by_chance

    @property
    def better(self) -> bool:
        return self.value("gap") < 0

    @property
    def worse(self) -> bool:
        """Beyond two paired standard errors."""
        return self.value("gap") > 2 * self.value("error")


class Board:
    """Results, by file and method."""

    def __init__(self, results: Iterable[Result]) -> None:
        self.results = {(result.file, result.method): result for result in results}

    def only(self, files: Collection[str]) -> Board:
        """What is known of some files."""
        return Board(result for result in self.results.values() if result.file in files)

    def groups(self) -> dict[str, Board]:
        """The files of each group."""
        names = dict.fromkeys(one.group for one in self.results.values())
        return {name: self.only({one.file for one in self.results.values() if one.group == name}) for name in names}

    def shared(self, methods: Collection[str]) -> Board:
        """The files on which all of these gave a result."""
        found = [{one.file for one in self.of_method(method)} for method in methods]
        return self.only(set.intersection(*found) if found else set())

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(file for file, _ in self.results))

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(method for _, method in self.results))

    def gain(self, file: str, method: str) -> float:
        """NaN where it gave no result."""
        found = self.results.get((file, method))
        return float("nan") if found is None else found.gain

    def of_method(self, method: str) -> list[Result]:
        """Where it gave a result."""
        return [one for (_, name), one in self.results.items() if name == method and one.values is not None]

    def standing(self) -> dict[str, float]:
        """The mean place of each method among those that gave a result: 0 the best of a file, 1 the last."""
        places: dict[str, list[float]] = {}
        for file in self.files:
            losses = {one.method: one.value("nll") for (name, _), one in self.results.items() if name == file}
            found = {method: loss for method, loss in losses.items() if np.isfinite(loss)}
            values = np.array(list(found.values()))
            for method, loss in found.items():
                ahead = (values < loss).sum() + ((values == loss).sum() - 1) / 2
                places.setdefault(method, []).append(ahead / max(1, len(values) - 1))
        return {method: float(np.mean(own)) for method, own in places.items()}

    def best_in_hindsight(self, methods: Collection[str]) -> list[Result]:
        """Of each file, the one of these methods that lost least on the rows to judge on."""
        found = []
        for file in self.files:
            own = [one for method in methods if (one := self.results.get((file, method))) and one.values is not None]
            found += [max(own, key=lambda one: one.gain)] * bool(own)
        return found


def interval(results: Sequence[Result], values: np.ndarray, statistic: Statistic) -> tuple[float, float]:
    """Of a statistic of a value for each result."""
    sets: dict[str, list[float]] = {}
    for one, value in zip(results, values, strict=True):
        sets.setdefault(one.data, []).append(value)
    parts = [np.array(own) for own in sets.values()]
    draws = stream(0, "leaderboard").integers(0, len(parts), (DRAWS, len(parts)))
    drawn = [statistic(np.concatenate([parts[place] for place in draw])) for draw in draws]
    lo, hi = np.quantile(drawn, (0.025, 0.975))
    return float(lo), float(hi)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of Markdown."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
