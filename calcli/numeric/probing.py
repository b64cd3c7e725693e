"""Looking at numbers that anybody may have written: what they predict is tried before they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from calcli.batch import Column, Role
from calcli.errors import ArtifactError

BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration)
"""What goes wrong with numbers that are none of a method's: somebody wrote them, and their hashes too."""

PROBED = 57
"""So many rows tell whether a state is what it claims to be."""


@contextmanager
def damage(path: object, what: str, errors: tuple[type[Exception], ...] = BROKEN) -> Iterator[None]:
    """What goes wrong within is an `ArtifactError`: the artifact does not hold `what` it should hold."""
    try:
        yield
    except errors as error:
        message = f"{path} does not hold what {what} holds: {type(error).__name__} {error}"
        raise ArtifactError(message) from error


def any_column(role: Role) -> Column:
    """For each row that is probed a value, or none."""
    if role == "category":
        return Column(role, np.arange(PROBED, dtype=np.int32) % 2 - 1, ("",))
    return Column(role, np.where(np.arange(PROBED) % 2, np.nan, np.sinh(np.linspace(-20.0, 20.0, PROBED))))
