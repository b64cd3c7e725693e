"""Marks on rows: which of them a reason holds for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def mark(wrong: dict[str, Mask], reason: str, mask: Mask) -> None:
    """Add a reason to those that rows are bad for, if it holds for any."""
    if mask.any():
        wrong[reason] = mask


def in_any(mask: Mask) -> Mask:
    """Whether it holds in any column, for each row."""
    found: Mask = np.logical_or.reduce(mask, axis=tuple(range(1, mask.ndim)))
    return found


def count_reasons(masks: Mapping[str, Mask]) -> dict[str, int]:
    """How many rows each reason holds for; reasons without rows are left out."""
    return {reason: int(mask.sum()) for reason, mask in masks.items() if mask.any()}
