"""The arena's results as one table, as a picture, and as a page with filters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from board import RAW, Board
from entrants import METRICS, Entrant

from calcli.diagrams.page import document

SCRIPT = Path(__file__).with_name("arena.js")
SENT = ("files", "data", "model", "file", "method", "package", "looks_at", "rows", "gain", "worse", "segment", "fit_s")
"""What the page knows of each result."""


def frame(board: Board, known: Mapping[str, Entrant], rows: Mapping[str, int]) -> pl.DataFrame:
    """A row for each method and file; `gain_error` is the standard error of the gain over the rows of the file."""
    found = [
        {
            "files": one.group, "data": one.data, "model": one.model, "file": one.file, "rows": rows[one.file],
            "method": one.method, "package": known[one.method].package, "looks_at": known[one.method].looks_at,
            **{name: one.value(name) for name in METRICS}, "mvce_floor": one.value("floor"), "gain": one.gain,
            "gain_error": one.value("error") / one.raw, "worse": one.worse, "segment": one.segment,
            "segment_is": (one.values or {}).get("segment_is"), "fit_s": one.value("fit"),
            "apply_s": one.value("apply"), "chosen": (one.values or {}).get("chosen"),
            "no_result_because": one.reason or None,
        }
        for one in board.results.values()
    ]  # fmt: skip
    words = pl.col("files", "data", "model", "file", "method", "package", "looks_at", "segment_is")
    table = pl.DataFrame(found, infer_schema_length=None).sort("file", "method")
    return table.with_columns(pl.selectors.float().fill_nan(None).cast(pl.Float32), words.cast(pl.Categorical))


def earlier(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of a table that `frame` made, by file and method."""
    return {(row["file"], row["method"]): row for row in pl.read_parquet(path).to_dicts()}


def entry(row: Mapping[str, Any], by_chance: float) -> dict[str, Any]:
    """What was measured, or why there is no result, from a row of such a table."""
    if row["no_result_because"] is not None:
        return {"reason": row["no_result_because"]}
    raw = row["nll"] / (1.0 - row["gain"])
    values = {name: row[name] for name in (*METRICS, "segment_is", "chosen")}
    values |= {"floor": row["mvce_floor"], "gap": row["nll"] - raw, "error": row["gain_error"] * raw}
    return {"values": {**values, "segment": row["segment"] * by_chance, "fit": row["fit_s"], "apply": row["apply_s"]}}


def page(table: pl.DataFrame) -> str:
    """Needs nothing else: no request leaves it."""
    rows = table.filter(pl.col("gain").is_not_null()).select(SENT)
    sent = rows.with_columns(
        pl.selectors.float().cast(pl.Float64).round_sig_figs(4), pl.selectors.categorical().cast(str)
    )
    columns = {}
    for name, values in sent.to_dict(as_series=True).items():
        if values.dtype == pl.String:
            words = values.unique(maintain_order=True).to_list()
            place = {word: index for index, word in enumerate(words)}
            columns[name] = {"words": words, "codes": [place[word] for word in values]}
        else:
            columns[name] = values.to_list()
    about = (
        "Methods of calibration on held-out rows. A gain is the share by which they lower the raw log-loss. "
        "Choose which files count; the columns sort."
    )
    body = (
        '<div id="filters"></div>\n<div id="standing"></div>\n'
        f'<script type="application/json" id="results">{json.dumps(columns, separators=(",", ":"))}</script>\n'
        f"<script>\n{SCRIPT.read_text()}</script>\n"
        "<noscript>This page needs its script; arena.md has the same numbers.</noscript>\n"
    )
    return document("The arena", about, body)


def picture(board: Board, path: Path) -> None:
    """The gain of every method on every file."""
    from matplotlib.figure import Figure

    standing = board.standing()
    order = sorted((name for name in standing if name != RAW), key=lambda name: -standing[name])
    groups = list(dict.fromkeys(one.group for one in board.results.values()))
    figure = Figure(figsize=(9, 0.22 * len(order) + 1.4), layout="constrained")
    axes = figure.add_subplot()
    colours, shifts = ("#1b6ca8", "#d1722c", "#2a8f5b"), (0.22, 0.0, -0.22)
    for group, colour, shift in zip(groups, colours, shifts, strict=False):
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
