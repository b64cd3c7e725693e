"""Text in lines: measured before it is drawn, numbers kept with their words, and no last line of a single word."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

GLUE = "\N{NO-BREAK SPACE}"

NUDGE = 1e-6
"""Where lines end at one height, the label of the one that ends further right is above, so that no stroke crosses."""

_BETWEEN = re.compile(r"(?<=[a-z<=>]) (?=[<=>]|[0-9.])|(?<=[0-9]) (?=%)")
"""Between a word and its number, around a sign of comparison, and before a percent sign."""


def glued(text: str) -> str:
    """The text with spaces that do not break where a line must not end."""
    return _BETWEEN.sub(GLUE, text)


def lines(text: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """The text in lines that are no wider than `width`, as far as words allow."""
    words = glued(text).split(" ")
    found = _filled(words, width, measure)
    narrower = width
    while len(found) > 1 and " " not in found[-1] and narrower > width / 2:
        narrower *= 0.97  # a word of the line before joins the last one
        again = _filled(words, narrower, measure)
        if len(again) > len(found):
            break
        found = again
    return [line.replace(GLUE, " ") for line in found]


def spread(places: Sequence[float], least: float, end: float) -> list[float]:
    """Places from 0 to `end` for labels that stand apart, each as near to where it should be as the order allows."""
    order = sorted(range(len(places)), key=places.__getitem__)
    found = [0.0] * len(places)
    for rank, place in enumerate(order):
        found[place] = max(places[place], found[order[rank - 1]] + least if rank else 0.0)
    for rank, place in reversed(list(enumerate(order))):
        above = found[order[rank + 1]] - least if rank + 1 < len(order) else end
        found[place] = min(found[place], above)
    return found


def _filled(words: list[str], width: float, measure: Callable[[str], float]) -> list[str]:
    found = [""]
    for word in words:
        longer = f"{found[-1]} {word}" if found[-1] else word
        if found[-1] and measure(longer) > width:
            found.append(word)
        else:
            found[-1] = longer
    return found
