"""Diagrams on a terminal: their roles (bar, over, under, line) in the colours of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from calcli.cli import serial
from calcli.cli.output import Answer, Form, bad_rows, show
from calcli.cli.screen import Screen, wrapped
from calcli.diagrams import terminal
from calcli.diagrams.canvas import Line, Piece
from calcli.diagrams.captions import caption

if TYPE_CHECKING:
    from calcli.cli.process import Console
    from calcli.diagrams.charts import Chart
    from calcli.diagrams.curves import Curve
    from calcli.verbs.diagram import DiagramResult

_COLORS = {
    "bar": (246, 90),
    "over": (166, 31),
    "under": (32, 34),
    "over-chance": (180, 33),
    "under-chance": (110, 36),
    "line-0": (166, 31),
    "line-1": (32, 34),
    "line-2": (36, 32),
    "line-3": (175, 35),
    "line-4": (178, 33),
    "line-5": (74, 36),
}
"""By role one of 256 colours that the colour-blind can tell apart, on dark and on light grounds, and one of 16."""


def show_diagram(result: DiagramResult, form: Form, console: Console) -> None:
    """Show the picture or its numbers on stdout; the captions on stderr if the picture is in a file."""
    output = result.request.output
    if output is None or form != "table":

        def lines(screen: Screen) -> list[str]:
            return _colored(terminal.draw(result.shown, result.label, _look(screen)), screen)

        show(Answer(lines, result.to_json, partial(serial.points, result.shown)), form, console)
    if output is not None:
        drawn = [] if output == "-" else [f"drawn in {output}"]
        console.show([*_readings(result, console.stderr), *drawn])
    for warning in bad_rows(result.data):
        console.warn(warning)


def charts(shown: Sequence[Chart], screen: Screen) -> list[str]:
    return ["", *_colored(terminal.charts(shown, _look(screen)), screen), ""]


def small(curves: Sequence[Curve], screen: Screen) -> list[str]:
    """A small picture of as many scores as fit next to each other on a terminal, for the end of an answer in words."""
    bars = [curve for curve in curves if curve.kind == "reliability" and curve.points]
    if not (bars and screen.terminal):
        return []
    look = replace(_look(screen), small=True)
    fitting = bars[: terminal.abreast(bars, look)]
    lines = ["", *_colored(terminal.draw(fitting, "", look), screen)]
    if len(fitting) < len(bars):
        lines.append(screen.dim(f"{len(bars) - len(fitting)} more, for which the screen is too narrow: calcli diagram"))
    return lines


def _readings(result: DiagramResult, screen: Screen) -> list[str]:
    """The captions of a picture that is in a file."""
    lines: list[str] = []
    for curve in (one for one in result.shown if not one.plain):
        label = "" if curve.of is None else f", {result.label} = {curve.of}"
        lines += wrapped(f"{curve.score}{label}: {caption(curve).text}", screen.prose)
    return lines


def _look(screen: Screen) -> terminal.TerminalStyle:
    return terminal.TerminalStyle(width=screen.width, color=screen.color, unicode=screen.unicode)


def _colored(lines: Sequence[Line], screen: Screen) -> list[str]:
    return ["".join(_text(piece, screen) for piece in line) for line in lines]


def _text(piece: Piece, screen: Screen) -> str:
    style = {"dim": screen.dim, "bold": screen.bold, "good": screen.good, "bad": screen.bad}.get(piece.ink)
    if style is not None:
        return style(piece.text)
    if not screen.color or not (piece.ink or piece.paper):
        return piece.text
    papers = [piece.paper] if piece.paper else []
    if screen.colors_256:
        codes = [f"38;5;{_COLORS[piece.ink][0]}", *(f"48;5;{_COLORS[paper][0]}" for paper in papers)]
    else:
        codes = [f"{_COLORS[piece.ink][1]}", *(f"{_COLORS[paper][1] + 10}" for paper in papers)]
    return screen.styled(";".join(codes), piece.text)
