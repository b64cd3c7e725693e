"""Logs of `--drift` with the nights that come before those of a test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from calcli.verbs.drift_log import LEARNED


def learned(state: str | Path, spread: float = 0.0) -> None:
    """Write quiet nights into a log that has one: those from which it is learned how much nights differ."""
    log = json.loads(Path(state).read_text())
    (first,) = log["nights"]
    rng, noise = np.random.default_rng(9), np.array(first["noise"])
    for place in range(LEARNED - 1):
        night = {**first, "sha256": [f"{place}"], "mean": rng.normal(0, np.sqrt(noise + spread**2)).tolist()}
        rates = zip(first["promised_mean"], first["promised_noise"], strict=True)
        night["promised_mean"] = [float(rng.normal(mean, np.sqrt(chance))) for mean, chance in rates]
        log["nights"].append(night)
    for process in ("wealth", "promised"):
        if log[process] is not None:
            log[process]["waited"] += LEARNED - 1
    Path(state).write_text(json.dumps(log))
