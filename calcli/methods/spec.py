"""A method as data: its names, parameters and guarantees."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from calcli import extras
from calcli.errors import UsageError, unknown_name

if TYPE_CHECKING:  # the catalog is read at start-up: numpy must not be
    from calcli.batch import Batch
    from calcli.methods.base import ExtendedMethod, Params, ParamValue, SumsMethod

Kind = Literal["float", "int", "bool", "choice", "text"]
Family = Literal["scaling", "binning", "trees", "clusters", "graphs", "mixtures"]
Side = Literal["model", "partition-data", "embedding-data", "edges"]

Needs: TypeAlias = "Callable[[Params, int, Collection[str]], tuple[str, ...]]"
"""From parameters, number of features and roles of side inputs to the optional packages that a fit needs."""


def nothing(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    """No packages: the needs of most methods."""
    return ()


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter that ``--set KEY=VALUE`` can change; a number can have `choices`, words that it may be instead."""

    name: str
    kind: Kind
    default: ParamValue
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def parse(self, given: ParamValue) -> ParamValue:
        """The value that `given` (text from a command line, or a Python value) stands for."""
        word = str(given).strip()
        if self.kind != "choice" and word in self.choices:
            return word
        value = self._converted(given)
        if self.kind == "choice" and value not in self.choices:
            raise UsageError(unknown_name(self.name, str(given), self.choices))
        if isinstance(value, int | float) and not isinstance(value, bool):
            below = self.low is not None and value < self.low
            above = self.high is not None and value > self.high
            if below or above or math.isnan(value):
                low = -math.inf if self.low is None else self.low
                high = math.inf if self.high is None else self.high
                raise UsageError(f"{self.name}={given}: it must be from {low:,g} to {high:,g}{self._or_words()}")
        return value

    def _converted(self, given: ParamValue) -> ParamValue:
        text = str(given).strip()
        if text in self.choices:
            return text
        try:
            if self.kind == "float":
                return float(text)
            if self.kind == "int":
                return int(text)
        except ValueError:
            raise UsageError(
                f"{self.name}={given}: give a number{self._or_words()}", hint=f"the default is {self.default}"
            ) from None
        if self.kind == "bool":
            words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
            if text.casefold() not in words:
                raise UsageError(f"{self.name}={given}: give true or false")
            return words[text.casefold()]
        return text

    def _or_words(self) -> str:
        """The words that are allowed in place of a number."""
        return "".join(f", or {word}" for word in self.choices)


def number(name: str, default: ParamValue, meaning: str, low: float, high: float, *words: str) -> Param:
    """A real number in a range, or one of the words, of which a default that is no number is the first."""
    return Param(name, "float", default, meaning, low, high, _words(default, words))


def integer(name: str, default: ParamValue, meaning: str, low: int, high: int, *words: str) -> Param:
    """A whole number in a range, or one of the words, as in `number`."""
    return Param(name, "int", default, meaning, low, high, _words(default, words))


def _words(default: ParamValue, others: tuple[str, ...]) -> tuple[str, ...]:
    return (default, *others) if isinstance(default, str) else others


def choice(name: str, default: str, meaning: str, *words: str) -> Param:
    """One of the words."""
    return Param(name, "choice", default, meaning, choices=words)


def text(name: str, default: ParamValue, meaning: str) -> Param:
    """Any text."""
    return Param(name, "text", default, meaning)


def boolean(name: str, default: ParamValue, meaning: str) -> Param:
    """True or false."""
    return Param(name, "bool", default, meaning)


Purpose: TypeAlias = Literal["sql", "onnx", "spark", "monotone", "rules"]
"""What a calibrator must be able to do: be a formula in SQL or ONNX, be fitted on all rows of a Spark cluster, keep the
order of scores (of more than two classes the first one), or have rules that `inspect` shows."""


@dataclass(frozen=True, slots=True, eq=False)
class MethodSpec:
    """The properties of a method, known without importing it."""

    name: str
    family: Family
    target: str
    """Where `fit` and `predict` are: ``module:Class``, or a module alone."""

    summary: str
    reference: str
    simplicity: int
    """Rank for ties in a selection: the lower, the simpler."""

    multiclass: Literal["native", "one-vs-rest"] = "one-vs-rest"
    """``native``, or ``one-vs-rest``: a binary method on each class probability, renormalised."""

    weights: bool = True
    needs_features: bool = False
    """It uses columns other than the score; a table without any is an error, unless it is `content_without`."""

    content_without: bool = False
    """It uses features where there are any, and does without where there are none."""

    needs: Needs = nothing
    """The optional packages that fitting it needs: not fewer for more features."""

    sides: tuple[Side, ...] = ()
    """Roles of the side inputs that it can use: ``model``, ``partition-data``, ``embedding-data``, ``edges``."""

    keeps: tuple[Side, ...] = ()
    """The side inputs that `predict` needs too, so that an artifact keeps them."""

    extras: tuple[str, ...] = ()
    """Names of further output columns for ``--extra``, from its function ``extras(state, batch, sides)``."""

    closed_form: bool = False
    """It has a function ``formula(state, score, features)``: `predict` as terms that can be written as SQL."""

    explains: bool = False
    """It has a function ``explain(state)``: tables of what was learned."""

    chooses: bool = False
    """It has a function ``choose(batch, sides, params, seed, splits)``: its open parameters, by given held-out rows."""

    contributes: bool = False
    """It has a function ``contributions(state, batch, rows, background)``: what each column adds to log-odds."""

    remarks: bool = False
    """It has a function ``remarks(state, sides, nodes)``: sentences about the fit for the user."""

    contains_rows: bool = False
    """Its state holds rows of the data that it was fitted on."""

    order: Literal["kept", "kept or reversed", "changed"] = "changed"
    """Whether the order of binary scores survives: ``kept`` (ties may appear), ``kept or reversed``, ``changed``."""

    keeps_top_class: bool = False
    sums: Literal["yes", "binary", "scores", "levels", "no"] = "no"
    """Whether it is fitted from sums over rows: ``yes``, ``binary`` (for two classes only), ``scores`` (from sums for
    each distinct score), ``levels`` (level by level, for two classes), ``no``.
    """

    sampled: int | None = None
    """How many rows of a table on a cluster it is fitted on, where these are not as many as for other methods."""

    reaches_ends: bool = False
    """Its raw output can be exactly 0 or 1, so that it is mixed with the uniform distribution (see `calibrator`). Where
    that depends on the fit, its state has a parameter ``reaches_ends``.
    """

    interval: bool = False
    """It has a function ``interval(state, batch)`` for a lower and an upper probability."""

    auto: Literal["yes", "binary", "multiclass", "no"] = "no"
    """Whether ``--method auto`` considers it: always, for two classes, for more, or not at all."""

    member: Mapping[str, ParamValue] = field(default_factory=dict)
    """Parameters of a member of a pool, where they are left to be chosen: the pool weighs what it gives."""

    params: tuple[Param, ...] = ()
    presets: Mapping[str, Mapping[str, ParamValue]] = field(default_factory=dict)

    def can(self, purpose: Purpose, classes: int) -> bool:
        """Whether its calibrators of so many classes serve the purpose; no calibration serves all."""
        if purpose == "monotone":
            return self.order == "kept" if classes == 2 else self.keeps_top_class
        if purpose == "rules":
            return self.explains or self.name == "identity"
        if purpose == "spark":
            return self.sums == "scores" or self.from_sums(classes) or (self.sums == "levels" and classes == 2)
        return self.closed_form

    def lacks_columns(self, batch: Batch) -> bool:
        """Whether it needs more than the score, and these rows have no more."""
        linked = "edges" in self.sides and batch.node is not None
        return self.needs_features and not (batch.features or linked or self.content_without)

    @property
    def packages(self) -> tuple[str, ...]:
        """The optional packages that fitting it needs as a rule."""
        return self.needs(self.resolve(), 0, ())

    def lacks(self, params: Params, features: int = 0, sides: Collection[str] = ()) -> str | None:
        """The first package that a fit needs and that is not installed."""
        return next((each for each in self.needs(params, features, sides) if not extras.installed(each)), None)

    def load(self) -> ExtendedMethod:
        """Import the method; the fields of the spec say which of the optional functions it has."""
        module, _, name = self.target.partition(":")
        method = importlib.import_module(module)
        return cast("ExtendedMethod", getattr(method, name)() if name else method)

    def as_member(self, params: Params) -> Params:
        """The parameters of a member of a pool, which those of `member` complete."""
        return {**params, **{name: value for name, value in self.member.items() if params[name] == "auto"}}

    def one_vs_rest(self, classes: int) -> bool:
        """Whether it is fitted to each of this many classes against the rest."""
        return classes > 2 and self.multiclass == "one-vs-rest"

    def from_sums(self, classes: int) -> bool:
        """Whether it is fitted from few sums for this many classes."""
        return self.sums == "yes" or (self.sums == "binary" and classes == 2)

    def load_sums(self, classes: int) -> SumsMethod | None:
        """Import the method if it is fitted from sums for this many classes, be it from those of each score."""
        return cast("SumsMethod", self.load()) if self.sums == "scores" or self.from_sums(classes) else None

    def resolve(self, given: Mapping[str, ParamValue] | None = None, preset: str | None = None) -> Params:
        """All parameters: the defaults, then the preset's, then those given."""
        known = {param.name: param for param in self.params}
        values: dict[str, ParamValue] = {param.name: param.default for param in self.params}
        if preset is not None:
            if not self.presets:
                raise UsageError(f"{self.name} has no presets", hint=f"see: calcli methods {self.name}")
            if preset not in self.presets:
                raise UsageError(unknown_name(f"{self.name} preset", preset, self.presets))
            values.update(self.presets[preset])
        for name, value in (given or {}).items():
            if name not in known:
                raise UsageError(unknown_name(f"{self.name} parameter", name, known))
            values[name] = known[name].parse(value)
        return values
