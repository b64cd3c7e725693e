"""From parameters to ways of boosting: those that are tried where the parameters leave something open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from calcli.batch import Batch
from calcli.methods.base import Params, number
from calcli.methods.mbct import kernels
from calcli.methods.mbct.boosting import Boosting
from calcli.methods.mbct.nodes import Growth, SplitLoss

LINKS = {"odds": kernels.ODDS, "linear": kernels.LINEAR}

AUTO = "auto"

MOST_TREES = 64
"""Where the number of trees is left open."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """What is tried where a parameter is left open."""

    link: str
    shrink: float
    depth: int = 2
    rate: float = 0.3


WAYS = (_Setting("odds", 30.0), _Setting("odds", 100.0), _Setting("odds", 10.0), _Setting("linear", 30.0))
"""The first is the one to begin with. Other depths and rates did not pay on real files."""


def boosting_settings(batch: Batch, params: Params) -> list[Boosting]:
    """All that the parameters admit, each once."""
    least, loss = least_of(batch, params), cast(SplitLoss, params["split_loss"])
    found: list[Boosting] = []
    for way in WAYS:
        if params["link"] in (AUTO, way.link):
            depth = way.depth if params["depth"] == AUTO else int(number(params, "depth"))
            rate = way.rate if params["rate"] == AUTO else number(params, "rate")
            pull = "lambda" if way.link == "odds" else "tau"
            shrink = way.shrink if params[pull] == AUTO else number(params, pull)
            found.append(Boosting(Growth(LINKS[way.link], loss, depth, least, shrink), rate))
    return list(dict.fromkeys(found))


def most_trees(params: Params) -> int:
    """How many trees there may be."""
    return MOST_TREES if params["trees"] == AUTO else int(number(params, "trees"))


def least_of(batch: Batch, params: Params) -> float:
    """beta: the least weight of a branch."""
    given, mass = params["min_rows"], float(batch.weights.sum())
    if given == "eq13":
        rate = float(batch.weights @ batch.labels) / mass
        return least_by_equation_13(rate, mass, alpha=number(params, "alpha"), error=number(params, "error"))
    return least_by_rows(mass) if given == AUTO else number(params, "min_rows")


def least_by_rows(mass: float) -> float:
    """0.3 times the root of the number of rows: 30 of ten thousand, 1000 of twelve million; at least 10."""
    return max(10.0, round(0.3 * math.sqrt(mass)))


def least_by_equation_13(rate: float, rows: float, *, alpha: float, error: float) -> float:
    """The most rows c of a leaf for which rate <= (sqrt(2 V L / c) + 3 L / c) / error.

    V = rate (1 - rate) and L = ln(3 rows / (c alpha)). The right side falls as c grows. As printed, it gives tens of
    thousands where the paper has hundreds.
    """

    def admits(c: float) -> bool:
        log = math.log(3.0 * rows / (c * alpha))
        return rate <= (math.sqrt(2.0 * rate * (1.0 - rate) * log / c) + 3.0 * log / c) / error

    low, high = 1.0, max(1.0, math.floor(rows))
    while high - low > 1.0:
        middle = math.floor((low + high) / 2.0)
        low, high = (middle, high) if admits(middle) else (low, middle)
    return high if admits(high) else low
