"""Seeded streams of random numbers, one for each purpose.

Each use of chance has a name. The stream of one name does not depend on how much another has drawn, so that adding a
method to a comparison does not change the folds of the others.
"""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The generator for `purpose` under `seed`; the same on every machine and in every process."""
    text = "/".join(str(part) for part in purpose)
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.default_rng([seed, *(int(word) for word in words)])
