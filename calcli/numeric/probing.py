"""Checks of untrusted states: a probe is predicted before they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from calcli.batch import Column, Role
from calcli.errors import ArtifactError

BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration)
"""Errors that a forged state can raise, one whose hashes are right and whose numbers are no method's."""

PROBED = 57
"""The number of rows of the probe."""


@contextmanager
def damage(path: object, what: str, errors: tuple[type[Exception], ...] = BROKEN) -> Iterator[None]:
    """Turn errors raised within into an `ArtifactError`: the artifact does not hold `what` it should hold."""
    try:
        yield
    except errors as error:
        message = f"{path} does not hold what {what} holds: {type(error).__name__} {error}"
        raise ArtifactError(message) from error


def any_column(role: Role) -> Column:
    """A column of the probe: a value or none in each row."""
    if role == "category":
        return Column(role, np.arange(PROBED, dtype=np.int32) % 2 - 1, ("",))
    return Column(role, np.where(np.arange(PROBED) % 2, np.nan, np.sinh(np.linspace(-20.0, 20.0, PROBED))))
