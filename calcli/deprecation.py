"""Python names that will go: how docs/compatibility.md says that they are announced."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


def deprecated(*, instead: str, gone: str) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """A decorator of a function that warns at each call: use `instead`, as it goes in the version `gone`."""

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        text = f"{function.__qualname__} is deprecated and goes in calcli {gone}; use {instead}"

        @wraps(function)
        def announced(*words: Given.args, **named: Given.kwargs) -> Result:
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return function(*words, **named)

        announced.__doc__ = f"{function.__doc__ or ''}\n\n.. deprecated:: {text}"
        return announced

    return decorate
