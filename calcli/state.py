"""The state of a fitted calibrator: numbers and bytes, never objects.

A `State` can be written to disk and read back bit for bit, and cannot run code. Methods put scalars and short lists
into `params`, anything long into `arrays`, and files in a format of their own (a CatBoost model, safetensors) into
`blobs`. An untrusted state is used after a trial prediction of a few probes.

`added` is a rule over the fields of dataclasses: sums over parts of the rows add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Column, Role
from calcli.errors import ArtifactError

if TYPE_CHECKING:
    from calcli.batch import Record

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Value = TypeVar("Value")

SUPPORTED = "supported"
"""The array that stands in for exact outputs: these outputs, held within the range that the rows of the fit support."""


@dataclass(frozen=True, slots=True)
class State:
    """The numbers of one fitted method."""

    params: Mapping[str, Json] = field(default_factory=dict)
    """JSON-able; floats are finite."""

    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    """Numeric or boolean arrays by name; never of objects."""

    blobs: Mapping[str, bytes] = field(default_factory=dict)
    """File name (its suffix says the format) to content."""

    def number(self, name: str) -> float:
        """The parameter `name` as a float."""
        value = self.params[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"parameter {name!r} is {value!r}, not a number")
        return float(value)

    def array(self, name: str) -> NDArray[np.float64]:
        """The array `name` as float64."""
        return np.asarray(self.arrays[name], dtype=np.float64)

    def supported(self, name: str) -> NDArray[np.float64]:
        """The array `SUPPORTED`, or if there is none the exact one, `name`."""
        return self.array(SUPPORTED if SUPPORTED in self.arrays else name)

    @property
    def holds_back(self) -> bool:
        """Whether this state, or one that is nested in it, has an array `SUPPORTED`."""
        return any(name.rpartition("/")[2] == SUPPORTED for name in self.arrays)

    @property
    def exact(self) -> State:
        """The state without the arrays `SUPPORTED`."""
        arrays = {name: array for name, array in self.arrays.items() if name.rpartition("/")[2] != SUPPORTED}
        return State(self.params, arrays, self.blobs)


LARGEST = 1e50
"""The greatest size of a number that is computed with: products of a few of them are finite."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A rule for what a state holds under a name: a parameter, or an array of this shape, of finite numbers."""

    shape: tuple[str, ...] = ()
    """The length of each side, or a letter for it, the same in all rules of a state; ``n+1`` is one more than ``n``."""

    low: float | str = -LARGEST
    high: float | str = LARGEST
    """`low`, `high`: the range of the numbers, by its ends or by the names of the parameters that are its ends."""

    rising: Literal["", "strictly", "weakly"] = ""
    optional: bool = False
    missing: bool = False
    """Whether NaN may stand for a number that is not known."""

    def check(self, name: str, state: State, sizes: dict[str, int]) -> None:
        """Refuse other numbers with a `ValueError`; new letters are added to `sizes`."""
        if self.optional and (state.arrays if self.shape else state.params).get(name) is None:
            return
        found = state.array(name) if self.shape or name in state.arrays else np.array(_parameter(state, name))
        if found.ndim != len(self.shape):
            raise ValueError(f"{name!r} has {found.ndim} sides, not {len(self.shape)}")
        for side, length in zip(self.shape, found.shape, strict=True):
            letter, _, more = side.partition("+")
            known = length - int(more or 0)
            if sizes.setdefault(letter, int(letter) if letter.isdigit() else known) != known or known < 0:
                raise ValueError(f"{name!r} has the shape {found.shape}, not {self.shape} with {sizes}")
        low, high = (_parameter(state, end) if isinstance(end, str) else end for end in (self.low, self.high))
        if not ((found >= low) & (found <= high) | (self.missing & np.isnan(found))).all():
            raise ValueError(f"{name!r} holds numbers that are not from {low:g} to {high:g}")
        if (self.rising == "strictly" and (found[1:] <= found[:-1]).any()) or (
            self.rising == "weakly" and (found[1:] < found[:-1] - 1e-9).any()
        ):
            raise ValueError(f"the numbers {name!r} do not rise")


SCORES = Numbers(("n",), rising="strictly")
"""Log-odds in rising order."""

Rules: TypeAlias = Mapping[str, Numbers]


def unit(*shape: str, rising: Literal["", "weakly"] = "", optional: bool = False) -> Numbers:
    """Numbers from 0 to 1, as far as these are rounded."""
    return Numbers(shape, -1e-9, 1.0 + 1e-9, rising, optional)


def nested_rules(name: str, rules: Rules) -> Rules:
    """The rules of a state that is nested under this name, for the whole; their letters are their own."""

    def inside(text: Any) -> Any:
        return f"{name}/{text}" if isinstance(text, str) and not text.isdigit() else text

    return {
        f"{name}/{key}": replace(
            rule, shape=tuple(map(inside, rule.shape)), low=inside(rule.low), high=inside(rule.high)
        )
        for key, rule in rules.items()
    }


def check_numbers(state: State, rules: Rules, classes: int) -> None:
    """Refuse a state whose numbers do not fit with a `ValueError`; the letter ``K`` stands for the number of classes.

    Floating-point numbers without a rule must be finite, but for those of calibrators inside, which check their own.
    """
    sizes = {"K": classes}
    for name, rule in rules.items():
        rule.check(name, state, sizes)
    for name, array in state.arrays.items():
        if name not in rules and "/method/" not in name and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name!r} holds numbers that are not finite")


def _parameter(state: State, name: str) -> float:
    """A number among the parameters; ``part/name`` is that of a nested state."""
    *parts, last = name.split("/")
    for part in parts:
        state = unnest(state, [part])[part]
    return state.number(last)


def pack_texts(texts: Sequence[str], name: str | None = None) -> dict[str, NDArray[np.generic]]:
    """Texts as arrays of a state, prefixed if `name` is given: their UTF-8 bytes joined, and the end of each text."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(content) for content in encoded], dtype=np.int64)
    arrays: dict[str, NDArray[np.generic]] = {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ends": ends}
    return arrays if name is None else prefixed(name, arrays)


def unpack_texts(arrays: Mapping[str, NDArray[np.generic]], name: str | None = None) -> tuple[str, ...]:
    """The texts that `pack_texts` packed."""
    start = "" if name is None else f"{name}/"
    content, ends = arrays[f"{start}text"].tobytes(), [0, *(int(end) for end in arrays[f"{start}ends"])]
    return tuple(content[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends))


def prefixed(name: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values, each key with ``name/`` in front."""
    return {f"{name}/{key}": value for key, value in values.items()}


def unprefixed(name: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values whose keys start with ``name/``, by the rest of the key."""
    start = f"{name}/"
    return {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}


def nest(parts: Mapping[str, State]) -> State:
    """One state that holds several, each under a name without a slash."""
    arrays: dict[str, NDArray[np.generic]] = {}
    blobs: dict[str, bytes] = {}
    for name, part in parts.items():
        arrays |= prefixed(name, part.arrays)
        blobs |= prefixed(name, part.blobs)
    return State({name: dict(part.params) for name, part in parts.items()}, arrays, blobs)


def unnest(whole: State, names: Iterable[str]) -> dict[str, State]:
    """The states that `nest` joined."""
    parts = {}
    for name in names:
        params = whole.params[name]
        if not isinstance(params, dict):
            raise TypeError(f"state part {name!r} holds {params!r}, not parameters")
        parts[name] = State(params, unprefixed(name, whole.arrays), unprefixed(name, whole.blobs))
    return parts


BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration)
"""Errors that a forged state can raise, one whose hashes are right and whose numbers are no method's."""

PROBED = 57
"""The number of rows of the probe."""


@contextmanager
def damage_reported(path: object, what: str, errors: tuple[type[Exception], ...] = BROKEN) -> Iterator[None]:
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


def added(one: Record, other: Record) -> Record:
    """The sum of two records of a kind, field by field, and item by item of a tuple.

    Flags, texts and what cannot be added are the same in both, and stay. A class says ``__add__ = added``.
    """
    return replace(
        one, **{field.name: _sum(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)}
    )


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(_sum(*pair) for pair in zip(one, other, strict=True))
    return one + other if hasattr(one, "__add__") and not isinstance(one, bool | str) else one
