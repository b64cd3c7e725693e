"""Axes of pictures: where a value lies between two ends, on a scale of probabilities, log-odds or logarithms; ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Scale: TypeAlias = Literal["prob", "logit", "log"]

LEAST = 1e-6
"""Where axes of log-odds and logarithms begin at the latest."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from `begin` to `end`; values beyond them lie at the ends."""

    end: float
    begin: float = 0.0
    scale: Scale = "prob"

    def share(self, value: float) -> float:
        """The place of a value, from 0 to 1."""
        low, high = self._bent(self.begin), self._bent(self.end)
        return (self._bent(min(max(value, self.begin), self.end)) - low) / (high - low)

    def value(self, share: float) -> float:
        """The value at a place from 0 to 1."""
        low, high = self._bent(self.begin), self._bent(self.end)
        at = low + share * (high - low)
        return {"prob": lambda: at, "log": lambda: math.exp(at), "logit": lambda: 1.0 / (1.0 + math.exp(-at))}[
            self.scale
        ]()

    def _bent(self, value: float) -> float:
        if self.scale == "prob":
            return value
        return math.log(value) if self.scale == "log" else math.log(value / (1.0 - value))

    def labels(self, most: int = 6) -> dict[float, str]:
        """Ticks with their texts, at most so many."""
        if self.scale == "prob":
            return tick_labels(self.end, most, self.begin)
        least = self.begin if self.scale == "log" else min(self.begin, 1.0 - self.end)
        low, high = 10.0 ** math.floor(math.log10(least) + 1e-9), self.end
        decades = [low * 10.0**power for power in range(math.ceil(math.log10(high / low)) + 1)]
        values = [factor * decade for decade in decades for factor in (1, 2, 5)]
        if self.scale == "logit":
            below = [value for value in decades if value < 0.3]
            below = below[:: math.ceil(2.0 * len(below) / most)]
            values = [*below, 0.5, *(1.0 - value for value in below), *([0.2, 0.8] if len(below) < 2 else [])]
        inside = sorted({round(value, 9) for value in values if self.begin - 1e-9 <= value <= self.end + 1e-9})
        if len(inside) > most and self.scale == "log":
            inside = [value for value in inside if any(abs(value / decade - 1.0) < 1e-6 for decade in decades)]
        return {value: _short(value) for value in inside[:: math.ceil(len(inside) / most)]}


def _short(value: float) -> str:
    """``0.01``, ``0.999``; ``1e-3``, which takes less room than the number in full."""
    text = f"{value:.9f}".rstrip("0").rstrip(".")
    return f"{value:.0e}".replace("e-0", "e-") if value < 0.01 else text


UNIT = Axis(1.0)


def ticks(end: float, most: int = 6, begin: float = 0.0) -> list[float]:
    """Round numbers from `begin` to `end`, at most so many."""
    span = end - begin
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= most - 1 + 1e-9)
    first, last = math.ceil(begin / step - 1e-9), math.floor(end / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def tick_labels(end: float, most: int = 6, begin: float = 0.0) -> dict[float, str]:
    """Ticks from `begin` to `end`, with their texts."""
    values = ticks(end, max(2, most), begin)
    digits = decimals(values)
    return {value: f"{value:.{digits}f}" for value in values}


def decimals(values: Sequence[float]) -> int:
    """The decimals that it takes to write ticks in full; numbers of two digits and more may have none."""
    fewest = 0 if max(values) >= 10.0 else 1
    return next(
        (digits for digits in range(fewest, 6) if all(abs(round(one, digits) - one) < 1e-9 for one in values)), 6
    )


def rounded_up(value: float) -> float:
    """1, 1.5, 2, 3, 5 or 8 times a power of ten, at least `value`."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    return next(round(power * step, 12) for step in (1, 1.5, 2, 3, 5, 8, 10, 20) if value <= power * step * (1 + 1e-9))
