"""The tables and the picture of the leaderboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from board import RAW, Board, Result, interval, table


def gains(board: Board, packages: Mapping[str, str], looks_at: Mapping[str, str]) -> list[str]:
    """How much each method lowers log-loss, the best place first."""
    standing = board.standing()
    head = (
        "method", "package", "looks at", "files", "median gain", "95 %", "mean gain", "better", "made worse",
        "mean place", "worst file",
    )  # fmt: skip
    rows = []
    for method in sorted(standing, key=lambda name: standing[name]):
        own = board.of_method(method)
        values = np.array([one.gain for one in own])
        lo, hi = interval(own, values, np.median)
        worst = own[int(values.argmin())]
        rows.append(
            (
                method, packages.get(method, "calcli"), looks_at.get(method, "features"), str(len(own)),
                f"{np.median(values):+z.2%}", f"{lo:+z.2%} to {hi:+z.2%}", f"{values.mean():+z.2%}",
                f"{np.mean([one.better for one in own]):.0%}", f"{np.mean([one.worse for one in own]):.0%}",
                f"{standing[method]:.2f}", f"{worst.gain:+z.1%} {worst.file}",
            )
        )  # fmt: skip
    return table(head, rows)


def measures(board: Board) -> list[str]:
    """The other metrics beside those of the raw score on the same files, and what it takes."""
    standing = board.standing()
    raw = {one.file: one for one in board.of_method(RAW)}
    head = ("method", "Brier", "AUC", "ECE", "raw ECE", "MVCE / floor", "raw", "fit, s", "longest", "apply, s")
    rows = []
    for method in sorted(standing, key=lambda name: standing[name]):
        own = board.of_method(method)
        base = [raw[one.file] for one in own]

        def mean(found: Sequence[Result], name: str) -> float:
            return float(np.nanmean([one.value(name) for one in found]))

        def over_floor(found: Sequence[Result]) -> float:
            return float(np.nanmedian([one.value("mvce") / one.value("floor") for one in found]))

        fit = [one.value("fit") for one in own]
        rows.append(
            (
                method,
                f"{np.median([1 - a.value('brier') / b.value('brier') for a, b in zip(own, base, strict=True)]):+z.2%}",
                f"{mean(own, 'auc') - mean(base, 'auc'):+.4f}",
                f"{mean(own, 'ece'):.4f}", f"{mean(base, 'ece'):.4f}",
                f"{over_floor(own):.3f}", f"{over_floor(base):.3f}",
                f"{np.median(fit):.2f}", f"{max(fit):.1f}", f"{np.median([one.value('apply') for one in own]):.3f}",
            )
        )  # fmt: skip
    return table(head, rows)


def by_model(board: Board, methods: Sequence[str]) -> list[str]:
    """Median gains on the files of each kind of base model."""
    kinds = list(dict.fromkeys(one.model for one in board.of_method(RAW)))
    rows = []
    for method in methods:
        own = {kind: [one.gain for one in board.of_method(method) if one.model == kind] for kind in kinds}
        rows.append((method, *(f"{np.median(found):+z.2%}" if found else "" for found in own.values())))
    counts = [sum(one.model == kind for one in board.of_method(RAW)) for kind in kinds]
    return table(("method", *(f"{kind} ({count})" for kind, count in zip(kinds, counts, strict=True))), rows)


def failures(board: Board) -> list[str]:
    """What gave no result, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for result in board.results.values():
        if result.values is None:
            reasons.setdefault((result.method, result.reason), []).append(result.file)
    rows = [
        (method, reason, str(len(files)), ", ".join(files[:3]) + (" .." if len(files) > 3 else ""))
        for (method, reason), files in sorted(reasons.items())
    ]
    return table(("method", "no result because", "files", "which"), rows) if rows else ["Every method gave a result."]


def picture(board: Board, path: Path) -> None:
    """The gain of every method on every file."""
    from matplotlib.figure import Figure

    standing = board.standing()
    order = sorted((name for name in standing if name != RAW), key=lambda name: -standing[name])
    groups = list(dict.fromkeys(one.group for one in board.results.values()))
    figure = Figure(figsize=(9, 0.22 * len(order) + 1.4), layout="constrained")
    axes = figure.add_subplot()
    for group, colour, shift in zip(groups, ("#1b6ca8", "#d1722c"), (0.15, -0.15), strict=False):
        for place, method in enumerate(order):
            own = [100 * one.gain for one in board.of_method(method) if one.group == group]
            axes.plot(own, [place + shift] * len(own), ".", color=colour, alpha=0.45, markersize=4, markeredgewidth=0)
        axes.plot([], [], ".", color=colour, label=group)
    for place, method in enumerate(order):
        median = 100 * np.median([one.gain for one in board.of_method(method)])
        axes.plot([median] * 2, [place - 0.35, place + 0.35], color="black", linewidth=1.4)
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks([-100, -10, -1, 0, 1, 10, 100], ["-100", "-10", "-1", "0", "1", "10", "100"])
    axes.set_yticks(range(len(order)), order, fontsize=7)
    axes.set_ylim(-0.8, len(order) - 0.2)
    axes.set_xlabel("gain in log-loss over the raw score, %; each dot a file, the bar their median")
    figure.legend(loc="outside upper center", ncols=len(groups), fontsize=8, frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": None})
