"""Gates: conditions on a report under which a run has failed.

::

    expr = cmp (("and" | "or") cmp)*         "and" binds tighter
    cmp  = term ("<" | "<=" | ">" | ">=") number
    term = [score "."] metric ["." field] ["@" column ["=" value]]
    metric = any of `calcli metrics`, or "segments.gap"
    field = lo | hi | null_hi | p | diff | diff.lo | diff.hi | change

Without a score a comparison is about every score but the raw one (the raw one if it is alone), without a value about
every group of the column; it is true if it is true of any number. `diff` is the score minus the raw one, `change` the
number minus that of the same score in the baseline, `null_hi` what 95 % of calibrated scores stay below. A field that
a metric cannot have is refused. Names with spaces or operators in them are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast, get_args

from calcli.errors import UsageError, available, unknown_name
from calcli.metrics import catalog

Field = Literal["value", "lo", "hi", "null_hi", "p", "diff", "diff.lo", "diff.hi", "change"]
Op = Literal["<", "<=", ">", ">="]

FIELDS: tuple[Field, ...] = get_args(Field)[1:]
"""The fields that can follow a metric."""

_INTERVALS = frozenset({"lo", "hi", "diff.lo", "diff.hi"})

LACKING: Mapping[catalog.Kind, frozenset[str]] = {
    "smooth": frozenset({"null_hi"}),
    "gap": _INTERVALS,
    "test": _INTERVALS | {"null_hi"},
}
"""The fields that metrics of a kind do not have."""

ESTIMATED: Mapping[str, frozenset[str]] = dict.fromkeys(
    ("rate", "mean", "precision", "recall"), frozenset({"null_hi", "diff", "diff.lo", "diff.hi", "change"})
)
"""The numbers that `estimate` adds to those of the metrics, and the fields that they do not have."""

SEGMENT_GAP = "segments.gap"
"""The number of `--find-segments`: of each segment that was found how far predictions are off, up or down."""

_TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<op><=|>=|<|>) | (?P<mark>[.@=]) | (?P<name>[^\s<>=@."']+:[0-9]*\.[0-9]+|[^\s<>=@."']+)
      | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONG = 60
"""The characters before and after the position of an error that are shown of longer expressions."""

_PLAIN = re.compile(r"""[^\s<>=@."'\\]+""")


@dataclass(frozen=True, slots=True)
class Term:
    """The number or numbers of a comparison."""

    metric: str
    score: str | None = None
    field: Field = "value"
    column: str | None = None
    group: str | None = None

    def __str__(self) -> str:
        text = "" if self.score is None else f"{_quoted(self.score)}."
        text += self.metric if self.field == "value" else f"{self.metric}.{self.field}"
        text += "" if self.column is None else f"@{_quoted(self.column)}"
        return text if self.group is None else f"{text}={_quoted(self.group)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    term: Term
    op: Op
    limit: float

    def __str__(self) -> str:
        return f"{self.term} {self.op} {self.limit!r}"


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition: a disjunction of conjunctions of comparisons."""

    alternatives: tuple[tuple[Comparison, ...], ...]
    expr: str = ""

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, comparisons)) for comparisons in self.alternatives)


class _Token(NamedTuple):
    kind: Literal["op", "mark", "name", "quoted", "end"]
    text: str
    start: int
    end: int


def parse(expr: str) -> Gate:
    """Parse a gate; a `UsageError` names the position of a mistake."""
    return _Parser(expr).gate()


class _Parser:
    """Recursive descent: one method for each rule of the grammar."""

    def __init__(self, expr: str) -> None:
        self.expr = expr
        self.tokens = list(self._tokens())
        self.at = 0

    def _tokens(self) -> Iterator[_Token]:
        place = 0
        while place < len(self.expr):
            match = _TOKEN.match(self.expr, place)
            if match is None:
                raise UsageError(f"{self._where(place)}: this quote is not closed")
            kind, text = cast("str", match.lastgroup), match[cast("str", match.lastgroup)]
            if kind in {"double", "single"}:
                yield _Token("quoted", re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL), place, match.end())
            elif kind != "space":
                yield _Token(cast("Literal['op', 'mark', 'name']", kind), text, place, match.end())
            place = match.end()
        yield _Token("end", "the end", place, place)

    def _where(self, place: int) -> str:
        near = self.expr if len(self.expr) <= _LONG else self.expr[max(0, place - _LONG) : place + _LONG]
        return f"--fail-if {near!r}, character {place + 1}"

    def _expected(self, what: str) -> UsageError:
        token = self.token
        actual = "the end" if token.kind == "end" else repr(token.text)
        return UsageError(f"{self._where(token.start)}: expected {what}, found {actual}")

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def _next(self) -> _Token:
        token = self.token
        self.at += token.kind != "end"
        return token

    def _touches(self) -> bool:
        """Whether no space precedes this token."""
        return self.at > 0 and self.tokens[self.at - 1].end == self.token.start

    def _is(self, kind: str, *texts: str) -> bool:
        return self.token.kind == kind and self.token.text in texts

    def _takes(self, kind: str, text: str) -> bool:
        """Whether this is the next token, which then is read."""
        found = self._is(kind, text)
        self.at += found
        return found

    def gate(self) -> Gate:
        alternatives = [[self._comparison()]]
        while self.token.kind != "end":
            if self._takes("name", "and"):
                alternatives[-1].append(self._comparison())
            elif self._takes("name", "or"):
                alternatives.append([self._comparison()])
            else:
                raise self._expected("'and', 'or' or the end")
        return Gate(tuple(map(tuple, alternatives)), self.expr)

    def _comparison(self) -> Comparison:
        term = self._term()
        if self.token.kind != "op":
            raise self._expected("<, <=, > or >=")
        op = cast("Op", self._next().text)
        return Comparison(term, op, self._number())

    def _number(self) -> float:
        first = self.token
        if first.kind not in {"name", "mark"} or self._is("mark", "@", "="):
            raise self._expected("a number")
        text = self._next().text
        while self._touches() and (self.token.kind == "name" or self._is("mark", ".")):
            text += self._next().text
        value = float(text) if _NUMBER.fullmatch(text) else float("nan")
        if not abs(value) < float("inf"):
            raise UsageError(f"{self._where(first.start)}: {text!r} is not a finite number")
        return value

    def _term(self) -> Term:
        start = self.token.start
        parts = [self._part("a metric")]
        while self._touches() and self._takes("mark", "."):
            parts.append(self._part("a name after '.'"))
        column = group = None
        if self._takes("mark", "@"):
            column = self._dotted("a column after '@'")
            if self._takes("mark", "="):
                group = self._dotted("a group after '='")
        return self._named(parts, start, column, group)

    def _part(self, what: str) -> str:
        if self.token.kind not in {"name", "quoted"}:
            raise self._expected(what)
        return self._next().text

    def _dotted(self, what: str) -> str:
        """A name that may contain dots."""
        text = "" if self._is("mark", ".") else self._part(what)
        while self._touches() and (self._is("mark", ".") or (text.endswith(".") and self.token.kind == "name")):
            text += self._next().text
        return text

    def _named(self, parts: list[str], start: int, column: str | None, group: str | None) -> Term:
        """From the right: the field, the metric, and the rest is the score, whose name may contain dots."""
        if ".".join(parts[-2:]) == SEGMENT_GAP:
            if column is not None:
                raise UsageError(f"{self._where(start)}: {SEGMENT_GAP} is about all rows", hint=f"leave out @{column}")
            return Term(SEGMENT_GAP, ".".join(parts[:-2]) or None)
        field: Field = "value"
        for size in (2, 1):
            tail = ".".join(parts[-size:])
            if len(parts) > size and tail in FIELDS:
                field, parts = tail, parts[:-size]
                break
        metric, score = parts[-1], ".".join(parts[:-1]) if len(parts) > 1 else None
        if not catalog.known(metric) and metric not in ESTIMATED:
            segments, gap = SEGMENT_GAP.split(".")
            if segments in parts[-2:]:
                unknown = unknown_name(f"field of {segments}", field if metric == segments else metric, [gap])
                raise UsageError(f"{self._where(start)}: {unknown}", hint=f"try: {SEGMENT_GAP}")
            names = [*catalog.names(), *(FIELDS if score is not None else ())]
            kind = "metric or field" if score is not None else "metric"
            raise UsageError(f"{self._where(start)}: {unknown_name(kind, metric, names)}", hint="try: calcli metrics")
        if metric not in ESTIMATED:
            metric = catalog.find(metric).name
        lacking = ESTIMATED[metric] if metric in ESTIMATED else LACKING[catalog.find(metric).kind]
        if field in lacking:
            there = [metric, *(f"{metric}.{name}" for name in FIELDS if name not in lacking)]
            raise UsageError(f"{self._where(start)}: there is no {metric}.{field}; {available(there)}")
        return Term(metric, score, field, column, group)


def _quoted(name: str) -> str:
    """A name, quoted where the parser needs it."""
    if all(_PLAIN.fullmatch(part) for part in name.split(".")):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
