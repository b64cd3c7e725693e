"""Pictures on a terminal: what the diagrams say in roles, in the colours of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.text import wrapped
from calcli.diagrams import terminal
from calcli.diagrams.canvas import Line, Piece
from calcli.diagrams.captions import caption

if TYPE_CHECKING:
    from calcli.diagrams.curves import Curve
    from calcli.verbs.diagram import DiagramResult

SHADES = {
    "bar": 246,
    "over": 166,
    "under": 32,
    "over-chance": 180,
    "under-chance": 110,
    "line-0": 166,
    "line-1": 32,
    "line-2": 36,
    "line-3": 175,
    "line-4": 178,
    "line-5": 74,
}
"""Inks among 256 colours: they can be told apart by the colour-blind, and on dark and light grounds."""

PLAIN = {
    "bar": 90,
    "over": 31,
    "under": 34,
    "over-chance": 33,
    "under-chance": 36,
    "line-0": 31,
    "line-1": 34,
    "line-2": 32,
    "line-3": 35,
    "line-4": 33,
    "line-5": 36,
}
"""Where there are 16."""


def shown(result: DiagramResult, screen: Screen) -> list[str]:
    """The picture."""
    return _painted(terminal.draw(result.shown, result.label, _look(screen)), screen)


def beside(curves: Sequence[Curve], screen: Screen) -> list[str]:
    """A small picture of as many scores as fit next to each other, to stand below an answer in words."""
    bars = [curve for curve in curves if curve.kind == "reliability" and curve.points]
    if not bars:
        return []
    look = replace(_look(screen), small=True)
    some = bars[: terminal.abreast(bars, look)]
    lines = ["", *_painted(terminal.draw(some, "", look), screen)]
    if len(some) < len(bars):
        lines.append(screen.dim(f"calcli diagram shows the other {len(bars) - len(some)} too"))
    return lines


def readings(result: DiagramResult, screen: Screen) -> list[str]:
    """What to see in a picture that is somewhere else."""
    lines: list[str] = []
    for curve in result.shown:
        of = "" if curve.of is None else f", {result.label} = {curve.of}"
        lines += wrapped(f"{curve.score}{of}: {caption(curve).text}", screen.prose)
    return lines


def _look(screen: Screen) -> terminal.TerminalStyle:
    return terminal.TerminalStyle(width=screen.width, color=screen.color, unicode=screen.unicode)


def _painted(lines: Sequence[Line], screen: Screen) -> list[str]:
    return ["".join(_piece(piece, screen) for piece in line) for line in lines]


def _piece(piece: Piece, screen: Screen) -> str:
    paint = {"dim": screen.dim, "bold": screen.bold, "good": screen.good, "bad": screen.bad}.get(piece.ink)
    if paint is not None:
        return paint(piece.text)
    if not screen.color or not (piece.ink or piece.paper):
        return piece.text
    if screen.shades:
        codes = [f"38;5;{SHADES[piece.ink]}"] + ([f"48;5;{SHADES[piece.paper]}"] if piece.paper else [])
    else:
        codes = [f"{PLAIN[piece.ink]}"] + ([f"{PLAIN[piece.paper] + 10}"] if piece.paper else [])
    return f"\x1b[{';'.join(codes)}m{piece.text}\x1b[0m"
