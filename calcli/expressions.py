"""The forward pass of a calibrator as a formula, to be written in other languages.

Methods with a closed form say it in these terms, beside their `predict`; the export room writes them down as SQL. Terms
are numbers, never texts or truth values; conditions are only asked. A term that is used twice is the same object twice:
whoever writes the formula down may give it a name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, Role
from calcli.numeric import links

Operator: TypeAlias = Literal["+", "-", "*", "/"]
FunctionName: TypeAlias = Literal["exp", "ln", "abs", "least", "greatest"]
Relation: TypeAlias = Literal["<", "<=", ">", ">="]
Side: TypeAlias = Literal["left", "right"]

MOST = sys.float_info.max

FAR = 700.0
"""Beyond this exp leaves the range of float64, which some databases take for an error."""


class Term:
    """A number for each row."""

    def __add__(self, other: Term | float) -> Term:
        return Arithmetic("+", self, term(other))

    def __radd__(self, other: float) -> Term:
        return Arithmetic("+", term(other), self)

    def __sub__(self, other: Term | float) -> Term:
        return Arithmetic("-", self, term(other))

    def __rsub__(self, other: float) -> Term:
        return Arithmetic("-", term(other), self)

    def __mul__(self, other: Term | float) -> Term:
        return Arithmetic("*", self, term(other))

    def __rmul__(self, other: float) -> Term:
        return Arithmetic("*", term(other), self)

    def __truediv__(self, other: Term | float) -> Term:
        return Arithmetic("/", self, term(other))

    def __rtruediv__(self, other: float) -> Term:
        return Arithmetic("/", term(other), self)

    def __lt__(self, other: Term | float) -> Compared:
        return Compared("<", self, term(other))

    def __le__(self, other: Term | float) -> Compared:
        return Compared("<=", self, term(other))

    def __gt__(self, other: Term | float) -> Compared:
        return Compared(">", self, term(other))

    def __ge__(self, other: Term | float) -> Compared:
        return Compared(">=", self, term(other))


@dataclass(frozen=True, slots=True, eq=False)
class Number(Term):
    """A constant; finite."""

    value: float


@dataclass(frozen=True, slots=True, eq=False)
class Input(Term):
    """A column of the table. A category is no number: it only has conditions (`Among`, `Missing`)."""

    name: str
    role: Role = "number"
    whole: bool = False
    """Whether the levels of a category are the texts of whole numbers, which the table may have as numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic(Term):
    operator: Operator
    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False)
class Function(Term):
    name: FunctionName
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Steps(Term):
    """One of `values`, one more than `cuts`, by how many of the rising cuts lie below x.

    With side ``left`` a cut that equals x does not lie below it, with ``right`` it does, as in `numpy.searchsorted`.
    """

    x: Term
    cuts: FloatArray
    values: tuple[Term, ...]
    side: Side


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Term):
    """The term of the first condition that holds, or else the last; without one a missing value."""

    cases: tuple[tuple[Condition, Term], ...]
    otherwise: Term | None


@dataclass(frozen=True, slots=True, eq=False)
class Switch(Term):
    """The term whose key x is, or else the last.

    Keys are texts where x is a category; else they are whole numbers from 0 on, which rise, and x is whole too.
    """

    x: Term
    keys: tuple[str, ...] | tuple[int, ...]
    values: tuple[Term, ...]
    otherwise: Term


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(Term):
    """One of 2^n values, by n conditions: each that holds adds 2^(its place) to the place of the value."""

    conditions: tuple[Condition, ...]
    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Trees(Term):
    """The sum of the values of a row's leaves in many trees, too many nodes to be written one by one.

    A line of `nodes` is a feature, a cut and the first child: codes above the cut lead to the child after it. A leaf is
    its own child. Terms with the very same nodes lead each row to the same leaves.
    """

    codes: tuple[Term, ...]
    """Whole numbers from 0 on."""

    nodes: NDArray[np.int32]
    roots: NDArray[np.int64]
    values: FloatArray


class Condition:
    """True or false for each row."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared(Condition):
    """False where either side is missing."""

    relation: Relation
    left: Term
    right: Term


@dataclass(frozen=True, slots=True, eq=False)
class Missing(Condition):
    """The column has no value; NaN is none."""

    column: Input


@dataclass(frozen=True, slots=True, eq=False)
class Among(Condition):
    """The category is one of these."""

    column: Input
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Every(Condition):
    """All of them hold."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Some(Condition):
    """One of them holds."""

    conditions: tuple[Condition, ...]


Terms: TypeAlias = tuple[Term, ...]
Inputs: TypeAlias = Mapping[str, Input]


def term(value: Term | float) -> Term:
    """A number as a term; an infinite one as the greatest, beyond which there is nothing but infinity."""
    return value if isinstance(value, Term) else Number(min(max(float(value), -MOST), MOST))


def total(terms: Sequence[Term]) -> Term:
    """Their sum, added up in pairs, so that no formula grows as deep as it is long."""
    if len(terms) <= 2:
        return reduce(lambda left, right: left + right, terms)
    middle = len(terms) // 2
    return total(terms[:middle]) + total(terms[middle:])


def linear(coefficients: Sequence[float], terms: Sequence[Term]) -> Term:
    """The sum of the products; zeros are left out."""
    parts = [float(number) * one for number, one in zip(coefficients, terms, strict=True) if number != 0.0]
    return total(parts) if parts else Number(0.0)


def affine(coefficients: FloatArray, parts: Sequence[Term]) -> list[Term]:
    """W x + b, the rows of [W, b] being the outputs."""
    return [linear(row[:-1].tolist(), parts) + float(row[-1]) for row in coefficients]


def steps(x: Term, cuts: FloatArray, values: FloatArray | Sequence[Term], side: Side) -> Term:
    """`Steps`, or the one value where there is nothing to choose."""
    chosen = tuple(term(value if isinstance(value, Term) else float(value)) for value in values)
    return Steps(x, np.clip(cuts, -MOST, MOST), chosen, side) if len(cuts) else chosen[0]


def exp(x: Term) -> Term:
    return Function("exp", (clip(x, -FAR, FAR),))


def ln(x: Term) -> Term:
    return Function("ln", (x,))


def absolute(x: Term) -> Term:
    return Function("abs", (x,))


def greatest(*terms: Term) -> Term:
    return Function("greatest", terms) if len(terms) > 1 else terms[0]


def least(*terms: Term) -> Term:
    return Function("least", terms) if len(terms) > 1 else terms[0]


def rounded(x: Term) -> Term:
    """The nearest whole number, of two the even one: float64 has no halves beyond 2^52. Right below 2^51."""
    return x + 1.5 * 2.0**52 - 1.5 * 2.0**52


def clip(x: Term, low: float, high: float) -> Term:
    return Function("least", (Function("greatest", (x, Number(low))), Number(high)))


def choose(condition: Condition, then: Term | float, otherwise: Term | float | None) -> Term:
    return Choice(((condition, term(then)),), None if otherwise is None else term(otherwise))


def at_place(place: Term, each: Sequence[Terms]) -> Terms:
    """The terms at a place, a whole number from 0 on: where they differ in numbers alone, one formula of such numbers.

    A row then asks for its numbers, and no formula but one is computed.
    """
    made: dict[tuple[int, ...], Term] = {}
    numbers: dict[tuple[float, ...], Term] = {}
    keys = tuple(range(len(each) - 1))

    def of_numbers(values: tuple[float, ...]) -> Term:
        if values not in numbers:
            *known, last = map(Number, values)
            numbers[values] = Switch(place, keys, tuple(known), last) if len(set(values)) > 1 else last
        return numbers[values]

    def alike(group: tuple[Term, ...]) -> Term:
        key = tuple(map(id, group))
        if key not in made:
            made[key] = of_alike(group)
        return made[key]

    def of_alike(group: tuple[Term, ...]) -> Term:
        first = group[0]
        if all(one is first for one in group):
            return first
        match first:
            case Number():
                if all(isinstance(one, Number) for one in group):
                    return of_numbers(tuple(one.value for one in group if isinstance(one, Number)))
            case Arithmetic(operator):
                same = [one for one in group if isinstance(one, Arithmetic) and one.operator == operator]
                if len(same) == len(group):
                    left, right = (tuple(getattr(one, side) for one in same) for side in ("left", "right"))
                    return Arithmetic(operator, alike(left), alike(right))
            case Function(name, arguments):
                calls = [one.arguments for one in group if isinstance(one, Function) and one.name == name]
                if [len(one) for one in calls] == [len(arguments)] * len(group):
                    return Function(name, tuple(map(alike, zip(*calls, strict=True))))
        return Switch(place, keys, group[:-1], group[-1])

    return tuple(map(alike, zip(*each, strict=True)))


def sigmoid(u: Term) -> Term:
    return 1.0 / (1.0 + exp(-1.0 * u))


def softplus(u: Term) -> Term:
    """ln(1 + exp(u))."""
    return greatest(u, Number(0.0)) + ln(1.0 + exp(-1.0 * absolute(u)))


def softmax(logits: Sequence[Term]) -> Terms:
    top = greatest(*logits)
    powers = [exp(one - top) for one in logits]
    whole = total(powers)
    return tuple(power / whole for power in powers)


def log_softmax(logits: Sequence[Term]) -> Terms:
    top = greatest(*logits)
    rest = ln(total([exp(one - top) for one in logits]))
    return tuple(one - top - rest for one in logits)


def one_against_rest(logits: Sequence[Term], index: int) -> Term:
    """The log-odds of one class against all others."""
    others = [one for place, one in enumerate(logits) if place != index]
    top = greatest(*others)
    return logits[index] - top - ln(total([exp(one - top) for one in others]))


def interpolate(x: Term, points: FloatArray, values: FloatArray) -> Term:
    """Linear between rising points, constant beyond the outermost, as `numpy.interp`."""
    pieces: list[Term] = [Number(float(values[0]))]
    for place in range(len(points) - 1):
        low, high = float(points[place]), float(points[place + 1])
        start, slope = float(values[place]), float((values[place + 1] - values[place]) / (high - low))
        pieces.append(slope * (x - low) + start if slope else Number(start))
    return steps(x, points, [*pieces, Number(float(values[-1]))], "left")


# The links of `calcli.numeric.links`, as terms.


def logits(prob: Terms) -> Terms:
    """The log-odds of probabilities, or a log-probability for each class."""
    logs = tuple(ln(clip(one, links.LEAST, 1.0)) for one in prob)
    return logs if len(prob) > 1 else (logs[0] - ln(clip(1.0 - prob[0], links.LEAST_REST, 1.0)),)


def drawn_in(z: Term) -> Term:
    """Log-odds that are drawn in far out."""
    above, below = (ln(greatest(way + (1.0 - links.FAR), Number(1.0))) for way in (z, -1.0 * z))
    return clip(z, -links.FAR, links.FAR) + above - below


def scores(prob: Terms) -> Terms:
    """The scores that stand for probabilities.

    Of two classes the logarithms of p and of 1 - p are drawn in each by itself, which is shorter: where one of them is,
    the other is 0 to twelve digits.
    """

    def log(p: Term, least: float) -> Term:
        far = ln(greatest((1.0 - links.FAR) - ln(greatest(p, Number(least))), Number(1.0)))
        return ln(clip(p, links.CLIP, 1.0)) - far

    if len(prob) == 1:
        return (log(prob[0], links.LEAST) - log(1.0 - prob[0], links.LEAST_REST),)
    return tuple(log(one, links.LEAST) for one in prob)


def probabilities(score: Terms) -> Terms:
    """The probabilities of a score."""
    return (sigmoid(score[0]),) if len(score) == 1 else softmax(score)
