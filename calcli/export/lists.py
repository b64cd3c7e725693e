"""Terms that only databases with lists know: a number of a list, by its place from 1 on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.expressions import Term, Terms

Numbers: TypeAlias = NDArray[np.floating[Any] | np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Codes(Term):
    """Whole numbers of a row as a list: no number itself, but a column of a step in which `Entry` finds one."""

    parts: Terms


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Term):
    """The number at a place, which is always one of the list."""

    place: Term
    numbers: Numbers | Codes
