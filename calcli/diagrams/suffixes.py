"""File formats by suffix."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from calcli.errors import UsageError

Form = TypeVar("Form", bound=str)


def format_of(output: str | os.PathLike[str], forms: Sequence[Form], *, hint: str | None = None) -> Form:
    """The one of these that the suffix names."""
    suffix = Path(output).suffix.lower().removeprefix(".")
    for form in forms:
        if suffix == form:
            return form
    known = ", ".join(f".{form}" for form in forms)
    raise UsageError(f"{str(output)!r}: unknown suffix for an image; known are {known}", hint=hint)
