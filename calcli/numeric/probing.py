"""Looking at numbers that anybody may have written: what they predict is tried before they are used."""

from __future__ import annotations

import numpy as np

from calcli.batch import Column, Role

BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration)
"""What goes wrong with numbers that are none of a method's: somebody wrote them, and their hashes too."""

PROBED = 57
"""So many rows tell whether a state is what it claims to be."""


def any_column(role: Role) -> Column:
    """For each row that is probed a value, or none."""
    if role == "category":
        return Column(role, np.arange(PROBED, dtype=np.int32) % 2 - 1, ("",))
    return Column(role, np.where(np.arange(PROBED) % 2, np.nan, np.sinh(np.linspace(-20.0, 20.0, PROBED))))
