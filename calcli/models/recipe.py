"""How a calibrator is made: the part of a fit request that `refit` repeats on new rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from calcli.artifacts.manifest import JsonObject
from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray
from calcli.errors import ArtifactError, FitError, UsageError, unknown_name
from calcli.methods import catalog
from calcli.methods.base import Params, ParamValue
from calcli.methods.spec import MethodSpec, Purpose
from calcli.models.model_selection import criterion
from calcli.models.side_inputs import SideFiles
from calcli.tables.binding_types import NO_FLAGS, Flags
from calcli.tables.request import BadRows, Request

AUTO = catalog.AUTO

SUM_SLACK = 1e-6
"""How far the sum of the rates of classes that --prior-shift gives may be from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(Request):
    """The settings of a fit, as they were requested; an artifact keeps them.

    Attributes
    ----------
    method
        A name of the catalog, or ``auto`` for the one that does best on held-out rows, no calibration among them.
    params
        Parameters that differ from the defaults or the preset, as ``KEY`` or ``METHOD.KEY``.
    holdout
        ``cv:5``, ``0.1``, ``none``; None is 5-fold up to a million rows and one 90/10 split above.
    resample_by
        A column; rows that agree in it are never on both sides of a split, and count as one in intervals.
    exact
        Let outputs be exactly 0 or 1 where the method says so.
    prior_shift
        The positives' share where the scores will be used; for more classes ``a=0.5,b=0.3,c=0.2``.
    guard
        A metric; if it is worse than without calibration on held-out rows, nothing is kept.
    purpose
        What the calibrator must be able to do: ``auto`` chooses among the methods that can, and says what that costs.
    simple
        Whether ``auto`` chooses a single method rather than a pool of several.
    criterion
        The metric by which ``auto`` chooses: a mean over rows, never a calibration error.
    budget
        Seconds that ``auto`` may compare methods; without a limit, the choice depends on rows and seed alone.
    """

    method: str
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    preset: str | None = None
    holdout: str | None = None
    resample_by: str | None = None
    order_by: str | None = None
    exact: bool = False
    prior_shift: str | None = None
    guard: str | None = None
    purpose: Purpose | None = None
    simple: bool = False
    criterion: str = "nll"
    budget: float | None = None
    metrics: str | Sequence[str] = "default"
    flags: Flags = NO_FLAGS
    bad_rows: BadRows = "fail"

    def to_json(self) -> JsonObject:
        """The recipe alone, of a request too."""
        settings = {setting.name: getattr(self, setting.name) for setting in fields(Recipe)}
        return as_json(settings | {"flags": asdict(self.flags)})

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Recipe:
        """The recipe from its JSON, of this version or another; unknown keys are ignored."""
        try:
            flags: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in kept["flags"].items()
                if key in Flags.__match_args__
            }
            known = {field.name: kept[field.name] for field in fields(cls) if field.name in kept}
            return cls(**{**known, "flags": Flags(**flags)})
        except (KeyError, TypeError, AttributeError, UsageError) as error:
            raise ArtifactError(f"the artifact's recipe cannot be read: {error!r}", hint="fit it again") from error

    def check_settings(self, sides: SideFiles) -> None:
        """Refuse, before any rows are read, a method, preset, parameter, side input or criterion that cannot be."""
        if self.method != AUTO:
            self._check_ability(catalog.find(self.method))
        if self.method == AUTO and self.preset is not None:
            raise UsageError("--preset is for one method, and auto fits several", hint="name the method with --method")
        for name in params_by_method(self.params, self.method):
            if self.method not in (AUTO, name):
                raise UsageError(f"parameters are given for {name}, but the method is {self.method}")
        sides.check(self.candidates, self.flags)
        criterion(self.criterion)

    def _check_ability(self, spec: MethodSpec) -> None:
        """Refuse a method that cannot do what it must for any number of classes."""
        if self.simple:
            raise UsageError("--simple is for auto, and one method is named", hint="leave out --simple or --method")
        if self.purpose is not None and not any(spec.can(self.purpose, classes) for classes in (2, 3)):
            able = ", ".join(one.name for one in catalog.specs() if one.can(self.purpose, 2))
            raise UsageError(f"--for {self.purpose}: {spec.name} cannot do that", hint=f"methods that can: {able}")

    def check_installed(self, sides: Collection[str], features: int = 0) -> None:
        """Refuse a method that needs packages which are not installed; `auto` does without such methods."""
        if self.method != AUTO:
            spec = catalog.find(self.method)
            catalog.require(spec, self.resolve(spec), features, sides)

    @property
    def candidates(self) -> tuple[MethodSpec, ...]:
        """The named method; of ``auto`` those for two classes and those for more."""
        if self.method != AUTO:
            return (catalog.find(self.method),)
        return tuple(spec for classes in (2, 3) for spec in catalog.candidates_for(classes))

    @property
    def needs_features(self) -> bool:
        """Whether any candidate reads features."""
        return any(spec.needs_features for spec in self.candidates)

    def resolve(self, spec: MethodSpec) -> Params:
        """All parameters of a method: the defaults, the preset, and those that were given."""
        return spec.resolve(params_by_method(self.params, self.method).get(spec.name, {}), self.preset)


def params_by_method(params: Mapping[str, ParamValue], method: str) -> dict[str, dict[str, ParamValue]]:
    """Parameters written as ``KEY`` or ``METHOD.KEY``, by method."""
    by_method: dict[str, dict[str, ParamValue]] = {}
    for key, value in params.items():
        owner, dot, name = key.rpartition(".")
        if not dot and method == AUTO:
            raise UsageError(f"{key} could be a parameter of several methods", hint=f"try: --set METHOD.{key}={value}")
        spec = catalog.find(owner or method)
        spec.resolve({name: value})
        by_method.setdefault(spec.name, {})[name] = value
    return by_method


def prior_ratio_of(text: str | None, share: FloatArray, classes: Sequence[str]) -> tuple[float, ...] | None:
    """The target rate of each class over its rate among the calibration rows; None without ``--prior-shift``.

    So scores are fitted that will be used at other class rates, as after undersampling (prior-probability shift).

    `share` is the weight of the calibration rows of each class.
    """
    if text is None:
        return None
    rates = parse_rates(text, classes)
    if not share.all():
        absent = classes[int((share == 0).argmax())]
        raise FitError(f"--prior-shift: no row is of class {absent}, so its base rate is unknown")
    return tuple(float(rate) for rate in rates / (share / share.sum()))


def parse_rates(text: str, classes: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The rate of each class, in order."""
    if "=" not in text:
        if len(classes) != 2:
            raise UsageError(
                f"--prior-shift {text}: there are {len(classes)} classes",
                hint=f"give the rate of each: {','.join(f'{name}=RATE' for name in classes)}",
            )
        positive = _rate(text, text)
        return np.array([1.0 - positive, positive])
    given = dict(part.strip().rpartition("=")[::2] for part in text.split(","))
    for name in given:
        if name not in classes:
            raise UsageError(f"--prior-shift: {unknown_name('class', name, classes)}")
    missing = [name for name in classes if name not in given]
    if missing:
        raise UsageError(f"--prior-shift {text}: the rate of {missing[0]} is missing")
    rates = np.array([_rate(given[name], text) for name in classes])
    if abs(rates.sum() - 1.0) > SUM_SLACK:
        raise UsageError(f"--prior-shift {text}: the rates add up to {rates.sum():g}, not to 1")
    return rates


def _rate(text: str, whole: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1:
        raise UsageError(f"--prior-shift {whole}: {text!r} is not a rate between 0 and 1")
    return rate
