"""How a calibrator is made: what `fit` is told, and what `refit` repeats on other rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from calcli.artifacts.manifest import JsonObject
from calcli.artifacts.strictjson import as_json
from calcli.engines.local import BadRows
from calcli.errors import ArtifactError, UsageError
from calcli.methods import catalog
from calcli.methods.base import Params, ParamValue
from calcli.methods.spec import MethodSpec
from calcli.tables.binding import NO_FLAGS, Flags

AUTO = catalog.AUTO

BUDGET = 300.0
"""Seconds that `auto` may compare methods, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that was asked, nothing that was found out.

    Attributes
    ----------
    method
        A name of the catalog, or ``auto``.
    params
        Parameters that differ from the defaults, as ``KEY`` or ``METHOD.KEY``.
    exact
        Whether outputs may be exactly 0 or 1.
    prior_shift
        The positives' share where the scores will be used, as ``0.02``; for more classes ``a=0.5,b=0.3,c=0.2``.
    criterion
        The metric by which ``auto`` chooses.
    guard
        The metric in which the result must not be worse than no calibration on held-out rows, if any.
    """

    method: str
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    preset: str | None = None
    holdout: str | None = None
    exact: bool = False
    prior_shift: str | None = None
    guard: str | None = None
    criterion: str = "nll"
    budget: float = BUDGET
    metrics: str = "default"
    flags: Flags = NO_FLAGS
    bad_rows: BadRows = "fail"

    def to_json(self) -> JsonObject:
        return as_json(asdict(self))

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Recipe:
        """What `to_json` wrote, now or in another version; keys that are not known are ignored."""
        try:
            flags: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in found["flags"].items()
                if key in Flags.__match_args__
            }
            known = {key: value for key, value in found.items() if key in cls.__match_args__}
            return cls(**{**known, "flags": Flags(**flags)})
        except (KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"the artifact's recipe cannot be read: {error!r}", hint="fit it again") from error

    def check(self) -> None:
        """Refuse, before any rows are read, what no method has."""
        if self.method != AUTO:
            catalog.find(self.method)
        if self.method == AUTO and self.preset is not None:
            raise UsageError("--preset is for one method, and auto is several", hint="name the method with --method")
        for name in params_by_method(self.params, self.method):
            if self.method not in (AUTO, name):
                raise UsageError(f"parameters are given for {name}, but the method is {self.method}")

    def resolve(self, row: MethodSpec) -> Params:
        """All parameters of `row`."""
        return row.resolve(params_by_method(self.params, self.method).get(row.name, {}), self.preset)


def params_by_method(params: Mapping[str, ParamValue], method: str) -> dict[str, dict[str, ParamValue]]:
    """Parameters written as ``KEY`` or ``METHOD.KEY``, by method."""
    found: dict[str, dict[str, ParamValue]] = {}
    for key, value in params.items():
        owner, dot, name = key.rpartition(".")
        if not dot and method == AUTO:
            raise UsageError(f"{key} could be a parameter of several methods", hint=f"try: --set METHOD.{key}={value}")
        row = catalog.find(owner or method)
        row.resolve({name: value})
        found.setdefault(row.name, {})[name] = value
    return found
