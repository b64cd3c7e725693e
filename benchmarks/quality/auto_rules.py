"""What ``auto`` would gain under other rules of choice, from contests that were held once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import numpy as np
from board import RAW, Board, Result, interval, table

from calcli.fitting.model_selection import STANDARD_ERRORS

FACTORS = (1.0, 0.75, 0.5, 0.25, 0.0)
TODAY = STANDARD_ERRORS
"""The factor of ``auto`` itself."""

Choice = Mapping[str, str]
"""The method of each file."""


def within(held_out: Mapping[str, tuple[float, float]], factor: float) -> str:
    """The simplest method whose held-out loss is within so many standard errors of the least."""
    return next(name for name, (gap, error) in held_out.items() if gap <= factor * error)


def chosen(board: Board, factor: float) -> Choice:
    return {contest.file: within(contest.held_out, factor) for contest in board.contests}


def careful(board: Board) -> Choice:
    """No calibration where it is within a standard error of the least loss, else the method that has that."""
    whole = chosen(board, 1.0)
    return {file: RAW if whole[file] == RAW else name for file, name in chosen(board, 0.0).items()}


def best_single(board: Board, files: Collection[str], names: Collection[str]) -> str:
    """The method with the highest mean gain, of those that gave a result on all files."""
    gains = {name: [board.gain(file, name) for file in files] for name in names}
    return max((name for name in gains if np.isfinite(gains[name]).all()), key=lambda name: np.mean(gains[name]))


def hindsight(board: Board) -> Choice:
    """The best of each file among the methods that ``auto`` compares."""
    return {one.file: max(one.held_out, key=partial(board.gain_or_worst, one.file)) for one in board.contests}


def rules(board: Board, calcli: Collection[str]) -> list[str]:
    """A line for each rule, each beside that of today."""
    by_factor = {f"within {factor:g}": chosen(board, factor) for factor in FACTORS}
    files = [
        one.file
        for one in board.contests
        if all(np.isfinite(board.gain(one.file, choice[one.file])) for choice in by_factor.values())
    ]
    single = best_single(board, files, calcli)
    others = {"raw within 1, else the least": careful(board), f"always {single}": dict.fromkeys(files, single)}
    choices = by_factor | others | {"the best of each file": hindsight(board)}
    own = {name: [board.results[file, choice[file]] for file in files] for name, choice in choices.items()}
    today = own[f"within {TODAY:g}"]
    head = (
        "rule", "files", "mean gain", "median", f"mean beside within {TODAY:g}", "95 %", "worst", "below raw",
        "made worse", "keeps raw",
    )  # fmt: skip
    return table(head, [(name, *line(results, today)) for name, results in own.items()])


def line(own: list[Result], today: list[Result]) -> list[str]:
    """The cells of a rule."""
    gains = np.array([one.gain for one in own])
    beside = gains - np.array([one.gain for one in today])
    lo, hi = interval(own, beside, np.mean)
    worst = own[int(gains.argmin())]
    return [
        str(len(own)), f"{gains.mean():+z.2%}", f"{np.median(gains):+z.2%}", f"{beside.mean():+z.2%}",
        f"{lo:+z.2%} to {hi:+z.2%}", f"{worst.gain:+z.1%} {worst.file}", str(sum(one.gain < 0 for one in own)),
        str(sum(one.worse for one in own)), str(sum(one.method == RAW for one in own)),
    ]  # fmt: skip
