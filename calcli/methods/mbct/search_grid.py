"""From parameters to settings of boosting: several candidates where the parameters leave something open."""

from __future__ import annotations

import math
from typing import cast

from calcli.methods.base import Params, number
from calcli.methods.mbct import kernels
from calcli.methods.mbct.boosting import Boosting
from calcli.methods.mbct.nodes import Growth, SplitLoss

LINKS = {"odds": kernels.ODDS, "linear": kernels.LINEAR}

AUTO = "auto"

MOST_TREES = 64
"""Where the number of trees is left open."""

DEPTH, RATE = 2, 0.3
"""Where these are left open. Others did not pay on real files."""

GRID = (("odds", 30.0), ("odds", 100.0), ("odds", 10.0), ("linear", 30.0))
"""Link and shrinkage, each tried where it is left open; the best guess is first."""


def boosting_settings(mass: float, positive: float, params: Params) -> list[Boosting]:
    """All candidates that the parameters admit, each once; for rows of this weight, and that of the positive ones."""
    min_weight, loss = min_weight_of(mass, positive, params), cast(SplitLoss, params["split_loss"])
    depth = DEPTH if params["depth"] == AUTO else int(number(params, "depth"))
    rate = RATE if params["rate"] == AUTO else number(params, "rate")
    candidates: list[Boosting] = []
    for link, shrinkage in GRID:
        if params["link"] in (AUTO, link):
            name = "lambda" if link == "odds" else "tau"
            shrink = shrinkage if params[name] == AUTO else number(params, name)
            candidates.append(Boosting(Growth(LINKS[link], loss, depth, min_weight, shrink), rate))
    return list(dict.fromkeys(candidates))


def most_trees(params: Params) -> int:
    """The most trees there may be."""
    return MOST_TREES if params["trees"] == AUTO else int(number(params, "trees"))


def min_weight_of(mass: float, positive: float, params: Params) -> float:
    """beta: the least weight of a branch."""
    given = params["min_rows"]
    if given == "eq13":
        return least_by_equation_13(positive / mass, mass, alpha=number(params, "alpha"), error=number(params, "error"))
    return least_by_rows(mass) if given == AUTO else number(params, "min_rows")


def least_by_rows(mass: float) -> float:
    """0.3 times the root of the number of rows: 30 of ten thousand, 1000 of twelve million; at least 10."""
    return max(10.0, round(0.3 * math.sqrt(mass)))


def least_by_equation_13(rate: float, rows: float, *, alpha: float, error: float) -> float:
    """The most rows c of a leaf for which rate <= (sqrt(2 V L / c) + 3 L / c) / error.

    V = rate (1 - rate) and L = ln(3 rows / (c alpha)). The right side falls as c grows, so bisection finds it. As
    printed, the equation gives tens of thousands where the paper has hundreds.
    """

    def admits(c: float) -> bool:
        log = math.log(3.0 * rows / (c * alpha))
        return rate <= (math.sqrt(2.0 * rate * (1.0 - rate) * log / c) + 3.0 * log / c) / error

    low, high = 1.0, max(1.0, math.floor(rows))
    while high - low > 1.0:
        middle = math.floor((low + high) / 2.0)
        low, high = (middle, high) if admits(middle) else (low, middle)
    return high if admits(high) else low
