"""The tables of the arena, in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from board import AUTO, RAW, Board, Result, interval, table
from entrants import Entrant

SHOWN = (AUTO, "pool", "temperature", "platt", "spline", "sms", "venn-abers", "mbct", "heterogeneous", "boost", "ccl",
         "recal", "MCGrad", "LightGBM with offset")  # fmt: skip
"""The methods whose gains are shown by base model."""

BEHIND = 10
"""So many of the files on which ``auto`` is behind most."""

FEW = 1000
"""Rows to fit on: below it a choice is hard."""

Section = tuple[str, str, list[str]]
"""A title, what to know, and a table."""


def sections(
    board: Board,
    clicks: Board,
    known: Mapping[str, Entrant],
    compared: Collection[str],
    rows: Mapping[str, int],
    *,
    seconds: float,
) -> Iterator[Section]:
    """All of them.

    Parameters
    ----------
    board, clicks
        The files of models, and the simulated ones.
    compared
        The methods that ``auto`` chooses from.
    rows
        How many each file has to fit on.
    """
    methods = [name for name in known if board.of_method(name)]
    compared = [name for name in compared if name in methods]
    aware = [name for name in methods if known[name].looks_at == "features"]
    shared = board.shared(aware)
    if shared.files:
        about = (
            f"The {len(shared.files)} files, of {datasets(shared)} data sets, on which every method that looks at "
            "features gave a result; they have two classes. `beside auto` is the mean difference of gains on the same "
            "files, with an interval of 95 % over data sets: above 0 the method gains more. `worst segment` is the "
            "median of its error beside that which chance makes of right probabilities. Seconds are medians."
        )
        yield "Everything on the same files", about, same_files(shared, known)
    about = (
        "A gain is the share by which the log-loss of the raw score is lowered; `made worse` counts files beyond two "
        f"paired standard errors. `the best of each file` is chosen on the rows to judge on, from {len(compared)} "
        "methods that `auto` mixes; nobody can know it before."
    )
    few = {file for file, count in rows.items() if count < FEW}
    parts = {
        "all files of models": board,
        f"fewer than {FEW:,} rows to fit on": board.only(few),
        f"{FEW:,} rows to fit on, and more": board.only(rows.keys() - few),
        "simulated clicks": clicks,
    }
    for title, own in parts.items():
        if own.of_method(AUTO):
            counted = f"{len(own.files)} files of {datasets(own)} data sets. "
            yield f"auto: {title}", counted + about, goals(own, known, compared)
            about = ""
    if board.of_method(AUTO):
        yield "What auto chose", "", choices(board)
        about = "The files on which it is behind most, by the share of the raw log-loss."
        yield "Where auto is behind the best of each file", about, behind(board, compared, rows)
    yield "Every method, on all files", f"{len(board.files)} files of models.", gains(board, known)
    if clicks.files:
        yield "Every method, on simulated clicks", f"{len(clicks.files)} files.", gains(clicks, known)
    shown = [method for method in SHOWN if method in methods]
    yield "Median gain by base model", "Number of files in brackets.", by_model(board, shown)
    about = "The same method here and in other packages, on the same files: gains, and processor time of all fits."
    yield "The same method elsewhere", about, elsewhere(board, known)
    about = (
        "Medians and means over the files on which the method gave a result, beside the raw score on the same files."
    )
    yield "Other metrics", about, measures(board)
    yield "No result", f"Each method had {seconds:.0f} s of processor time.", failures(board)


def datasets(board: Board) -> int:
    return len({file.partition(".")[0] for file in board.files})


def of_gains(own: Sequence[Result]) -> tuple[str, str]:
    values = [one.gain for one in own]
    return f"{np.mean(values):+z.2%}", f"{np.median(values):+z.2%}"


def worst(own: Sequence[Result]) -> str:
    least = min(own, key=lambda one: one.gain)
    return f"{least.gain:+z.1%} {least.file}"


def beside(own: Sequence[Result], base: Mapping[str, Result]) -> tuple[str, str]:
    """The mean difference of gains to other results on the same files, and its interval."""
    both = [one for one in own if one.file in base]
    differences = np.array([one.gain - base[one.file].gain for one in both])
    lo, hi = interval(both, differences, np.mean)
    return f"{differences.mean():+z.2%}", f"{lo:+z.2%} to {hi:+z.2%}"


def same_files(board: Board, known: Mapping[str, Entrant]) -> list[str]:
    """The highest mean gain first."""
    head = (
        "method", "package", "looks at", "mean gain", "median", "beside auto", "95 %", "made worse", "worst file",
        "worst segment", "fit, s",
    )  # fmt: skip
    auto = {one.file: one for one in board.of_method(AUTO)}
    found = {method: board.of_method(method) for method in board.methods}
    whole = {method: own for method, own in found.items() if len(own) == len(board.files)}
    rows = []
    for method in sorted(whole, key=lambda name: -np.mean([one.gain for one in whole[name]])):
        own = whole[method]
        rows.append(
            (
                method, known[method].package, known[method].looks_at, *of_gains(own), *beside(own, auto),
                str(sum(one.worse for one in own)), worst(own), f"{np.median([one.segment for one in own]):.2f}",
                f"{np.median([one.value('fit') for one in own]):.2f}",
            )
        )  # fmt: skip
    return table(head, rows)


def goals(board: Board, known: Mapping[str, Entrant], compared: Collection[str]) -> list[str]:
    """``auto`` beside the best in hindsight, and beside the others that look at features."""
    aware = [name for name in board.methods if known[name].looks_at == "features" and "--preset" not in name]
    single = max(compared, key=lambda name: np.mean([one.gain for one in board.of_method(name)] or [-np.inf]))
    lines = {
        AUTO: board.of_method(AUTO),
        "the best of each file": board.best_in_hindsight(compared),
        f"always {single}": board.of_method(single),
        **{name: board.of_method(name) for name in aware if name not in (AUTO, single)},
    }
    auto = {one.file: one for one in lines[AUTO]}
    head = (
        "", "files", "mean gain", "median", "auto, same files", "beside auto", "95 %", "below raw", "made worse",
        "below raw by 3 %", "worst file", "worst segment",
    )  # fmt: skip
    rows = []
    for name, own in lines.items():
        if not own:
            continue
        mean, median = of_gains([auto[one.file] for one in own if one.file in auto])
        rows.append(
            (
                name, str(len(own)), *of_gains(own), f"{mean}, {median}", *beside(own, auto),
                str(sum(one.gain < 0 for one in own)), str(sum(one.worse for one in own)),
                str(sum(one.gain < -0.03 for one in own)), worst(own),
                f"{np.median([one.segment for one in own]):.2f}",
            )
        )  # fmt: skip
    return table(head, rows)


def chosen(one: Result) -> str:
    return str((one.values or {}).get("chosen"))


def choices(board: Board) -> list[str]:
    """How often ``auto`` came to what."""
    own: dict[str, list[Result]] = {}
    for one in board.of_method(AUTO):
        own.setdefault("a pool" if " + " in chosen(one) else chosen(one), []).append(one)
    rows = [
        (name, str(len(found)), *of_gains(found), str(sum(one.worse for one in found)), worst(found))
        for name, found in sorted(own.items(), key=lambda item: -len(item[1]))
    ]
    return table(("chosen", "files", "mean gain", "median", "made worse", "worst file"), rows)


def behind(board: Board, compared: Collection[str], rows: Mapping[str, int]) -> list[str]:
    auto = {one.file: one for one in board.of_method(AUTO)}
    best = {one.file: one for one in board.best_in_hindsight(compared)}
    order = sorted(auto.keys() & best.keys(), key=lambda file: auto[file].gain - best[file].gain)[:BEHIND]
    lines = [
        (
            file, str(rows[file]), chosen(auto[file]), f"{auto[file].gain:+z.1%}",
            f"{best[file].method}", f"{best[file].gain:+z.1%}",
            f"{best[file].value('error') / best[file].raw:.1%}",
        )
        for file in order
    ]  # fmt: skip
    head = ("file", "rows to fit on", "auto chose", "gain", "best of the file", "gain", "standard error")
    return table(head, lines)


def gains(board: Board, known: Mapping[str, Entrant]) -> list[str]:
    """How much each method lowers log-loss, the best place first."""
    standing = board.standing()
    head = (
        "method", "package", "looks at", "files", "mean gain", "median", "95 % of the median", "better", "made worse",
        "mean place", "worst segment", "fit, s", "longest", "worst file",
    )  # fmt: skip
    rows = []
    for method in sorted(standing, key=lambda name: standing[name]):
        own = board.of_method(method)
        lo, hi = interval(own, np.array([one.gain for one in own]), np.median)
        fit = [one.value("fit") for one in own]
        rows.append(
            (
                method, known[method].package, known[method].looks_at, str(len(own)), *of_gains(own),
                f"{lo:+z.2%} to {hi:+z.2%}", f"{np.mean([one.better for one in own]):.0%}",
                f"{np.mean([one.worse for one in own]):.0%}", f"{standing[method]:.2f}",
                f"{np.median([one.segment for one in own]):.2f}", f"{np.median(fit):.2f}", f"{max(fit):.1f}",
                worst(own),
            )
        )  # fmt: skip
    return table(head, rows)


def measures(board: Board) -> list[str]:
    """The other metrics beside those of the raw score on the same files."""
    standing = board.standing()
    raw = {one.file: one for one in board.of_method(RAW)}
    head = ("method", "Brier", "AUC", "ECE", "raw ECE", "MVCE / floor", "raw")
    rows = []
    for method in sorted(standing, key=lambda name: standing[name]):
        own = [one for one in board.of_method(method) if one.file in raw]
        base = [raw[one.file] for one in own]

        def mean(found: Sequence[Result], name: str) -> float:
            return float(np.nanmean([one.value(name) for one in found]))

        def over_floor(found: Sequence[Result]) -> float:
            return float(np.nanmedian([one.value("mvce") / one.value("floor") for one in found]))

        if own:
            brier = np.median([1 - a.value("brier") / b.value("brier") for a, b in zip(own, base, strict=True)])
            rows.append(
                (
                    method, f"{brier:+z.2%}", f"{mean(own, 'auc') - mean(base, 'auc'):+.4f}",
                    f"{mean(own, 'ece'):.4f}", f"{mean(base, 'ece'):.4f}",
                    f"{over_floor(own):.3f}", f"{over_floor(base):.3f}",
                )
            )  # fmt: skip
    return table(head, rows)


def by_model(board: Board, methods: Sequence[str]) -> list[str]:
    """Median gains on the files of each kind of base model."""
    counts: dict[str, int] = {}
    for file in board.files:
        model = file.partition(".")[2].partition("-")[0]
        counts[model] = counts.get(model, 0) + 1
    rows = []
    for method in methods:
        own = {kind: [one.gain for one in board.of_method(method) if one.model == kind] for kind in counts}
        rows.append((method, *(f"{np.median(found):+z.2%}" if found else "" for found in own.values())))
    return table(("method", *(f"{kind} ({count})" for kind, count in counts.items())), rows)


def elsewhere(board: Board, known: Mapping[str, Entrant]) -> list[str]:
    """Ours beside the namesakes."""
    rows = []
    for method, entrant in known.items():
        name = method.removesuffix(f", {entrant.package}")
        own = {one.file: one for one in board.of_method(name)}
        pairs = [(own[one.file], one) for one in board.of_method(method) if one.file in own]
        if name == method or not pairs:
            continue
        differences = np.array([a.gain - b.gain for a, b in pairs])
        mine, theirs = (sum(one.value("fit") for one in side) for side in zip(*pairs, strict=True))
        rows.append(
            (
                name, entrant.package, str(len(pairs)), f"{np.mean([a.gain for a, _ in pairs]):+z.2%}",
                f"{np.mean([b.gain for _, b in pairs]):+z.2%}", str(int((differences > 1e-3).sum())),
                str(int((differences < -1e-3).sum())), f"{differences.min():+z.2%}", f"{mine:.1f}", f"{theirs:.1f}",
            )
        )  # fmt: skip
    head = (
        "method", "package", "files", "mean gain, calcli", "there", "calcli ahead by 0.1 %", "behind", "most behind",
        "fits, s, calcli", "there",
    )  # fmt: skip
    return table(head, rows)


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
