"""The errors of calcli with their exit codes.

::

    CalcliError                 70  a defect of calcli itself
    ├── UsageError               2  the command line asks for something that does not exist
    ├── DataError                3  the table: a column, a label, a score, a format
    ├── ArtifactError            4  the artifact: missing, damaged, newer, another method
    ├── MissingExtraError        5  an optional dependency is not installed
    ├── FitError                 6  the rows do not determine a calibrator
    └── FileSystemError          7  the disk: full, read-only, in the way
        └── ClosedPipeError    141  the reader of our output went away

Exit code 1 is not an error: it means that the question was understood and the answer is no
(a gate failed, a guard kept the old artifact). Code 130 is Ctrl-C.

An error is one line: what was given, what exists, the nearest match, what to run. Raise it where it is
noticed; only ``cli.main`` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeAlias


class CalcliError(Exception):
    """Base of all errors that calcli raises on purpose.

    The message says in one line what was given and found, the hint what to do about it: a flag, a command, a name.
    """

    exit_code = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        return f"{self.message}{'' if self.message.endswith('?') else ';'} {self.hint}"


class UsageError(CalcliError):
    exit_code = 2


class DataError(CalcliError):
    exit_code = 3


class ArtifactError(CalcliError):
    exit_code = 4


class MissingExtraError(CalcliError):
    exit_code = 5


class FitError(CalcliError):
    exit_code = 6


class FileSystemError(CalcliError):
    exit_code = 7


class ClosedPipeError(FileSystemError):
    exit_code = 141


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` most likely meant, if one is near enough."""
    import difflib

    names = list(known)
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    matches = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def word(text: str) -> str:
    """A name as it is typed after a flag: in quotes where a shell would not take it for one word."""
    import shlex

    return shlex.quote(text)


LONG = 60
"""The length from which an error shows only the beginning of a name."""


def unknown_name(kind: str, name: str, known: Iterable[str], *, limit: int = 12) -> str:
    """The message that `name` is unknown, with the name that was probably meant and those that exist."""
    names = list(known)
    shown = name if len(name) <= LONG else name[:LONG] + "…"
    match = nearest(name, names)
    meant = f"did you mean {match!r}? " if match else ""
    return f"no {kind} {shown!r}; {meant}{available(names, limit=limit)}"


def available(names: Sequence[str], *, limit: int = 12) -> str:
    """The names that exist, for an error message."""
    more = f", and {len(names) - limit} more" if len(names) > limit else ""
    return f"available: {', '.join(names[:limit])}{more}" if names else "there are none"


def check_choices(settings: Any) -> None:
    """Refuse, in a dataclass, a value that is none of the words that the type of its field lists, or that is not text,
    no number, or not several, where its field is one of these.
    """
    for name, (words, kinds, optional) in _checked(type(settings)).items():  # type: ignore[arg-type]  # classes can be hashed
        value = getattr(settings, name)
        if optional and value is None:
            continue
        if words:
            check_choice(name, value, words)
        elif not any(fits(value) for fits, _ in kinds):
            shown = " ".join(repr(value).split())
            wanted = ", or ".join(wanted for _, wanted in kinds)
            raise UsageError(f"{name} is {shown if len(shown) <= LONG else shown[:LONG] + '…'}; it takes {wanted}")


def check_choice(name: str, value: object, words: Sequence[str]) -> None:
    """Refuse a value that is none of the words."""
    if not (isinstance(value, str) and value in words):
        raise UsageError(unknown_name(name, str(value), words))


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the type itself."""
    from types import UnionType
    from typing import Union, get_args, get_origin

    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


_Kind: TypeAlias = tuple[Callable[[Any], bool], str]

_SEVERAL: _Kind = (
    lambda value: isinstance(value, Sequence | Set) and not isinstance(value, str),
    "a list or a tuple",
)
_KINDS: Mapping[type, _Kind] = {
    str: (lambda value: isinstance(value, str), "text"),
    int: (lambda value: isinstance(value, Integral) and value >= 0, "a whole number, 0 or more"),  # type: ignore[operator]
    float: (lambda value: isinstance(value, Real), "a number"),
    tuple: _SEVERAL,
    Sequence: _SEVERAL,
    Mapping: (lambda value: isinstance(value, Mapping), "a dict"),
}
"""What a value must be where a field is of one of these types, also in words."""


def _kind(kind: type) -> _Kind | None:
    """What a value of this type must be, where it is checked."""
    if is_dataclass(kind):
        return lambda value: isinstance(value, kind), f"calcli.{kind.__name__}(...)"
    return _KINDS.get(kind)


@cache
def _checked(kind: type) -> Mapping[str, tuple[tuple[str, ...], list[_Kind], bool]]:
    """The fields that take words or these kinds alone: the words or the kinds, and whether they may be None."""
    from typing import Literal, get_args, get_origin, get_type_hints

    found = {}
    for name, hint in get_type_hints(kind).items():
        parts = alternatives(hint)
        given = [one for one in parts if one is not type(None)]
        words = tuple(word for one in given if get_origin(one) is Literal for word in get_args(one))
        kinds = [fits for one in given if (fits := _kind(get_origin(one) or one)) is not None]
        if len(kinds) == len(given) or all(get_origin(one) is Literal for one in given):
            found[name] = words, kinds, len(given) < len(parts)
    return found
