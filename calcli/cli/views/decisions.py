"""A policy on a screen: the rule, the options, the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.text import wrapped
from calcli.cli.views import blocks
from calcli.reporting import decisions, facts

if TYPE_CHECKING:
    from calcli.verbs.decide import DecideResult

COLUMNS = ("option", "threshold", "number", "value", "lo", "hi")
"""The columns of the options as CSV."""


def decided(result: DecideResult, screen: Screen) -> list[str]:
    """What was chosen and why, what else there is, on which rows."""
    headline = decisions.headline(result.choice)
    lines = [*map(screen.bold, wrapped(headline, screen.prose)), ""] if headline else []
    for table in decisions.tables(result.choice):
        align = "l" * table.words + "r" * (len(table.header) - table.words)
        lines += [screen.bold(table.title)] if table.title else []
        lines += [*blocks.table([table.header, *table.rows], align, screen), ""]
    binding = result.binding.to_json()
    pairs = [*facts.data_facts(result.data, binding["positive"]), *facts.binding_facts(binding)]
    return [*lines, *blocks.fact_list(pairs, screen)]
