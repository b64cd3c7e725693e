"""What an artifact says of itself: the manifest, put together from what a fit knows."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import cast

from calcli.artifacts.manifest import JsonObject, Manifest
from calcli.engines.local import BadRows
from calcli.methods.base import Params, ParamValue
from calcli.methods.row import Row
from calcli.state import Json
from calcli.tables.binding import Binding, Flags
from calcli.verbs.report import RAW, Report
from calcli.verbs.splits import Holdout
from calcli.version import VERSION

_PACKAGES = ("calcli", "numpy", "polars", "pyarrow", "scipy")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a refit repeats on other rows: everything that was asked, nothing that was found out."""

    method: str
    params: Mapping[str, ParamValue]
    preset: str | None
    flags: Flags
    holdout: str | None
    metrics: str
    bad_rows: BadRows

    def to_json(self) -> JsonObject:
        return _json(asdict(self))


def manifest_of(
    recipe: Recipe, row: Row, params: Params, binding: Binding, report: Report, holdout: Holdout, held_out_rows: int
) -> Manifest:
    """The manifest of a fit, all but the payloads."""
    plain = report.to_json()
    return Manifest(
        calcli=VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        kind="calibrator",
        task="binary" if len(binding.classes) == 2 else "multiclass",
        method=row.name,
        requested=recipe.method,
        preset=recipe.preset,
        params=_json(dict(params)),
        seed=report.seed,
        label={"type": binding.label_type, "classes": list(binding.classes), "positive": binding.positive},
        binding=binding.to_json(),
        features=tuple(
            {"name": feature.name, "role": feature.role, "dtype": feature.dtype, "cuts": None, "levels": None}
            for feature in binding.features
        ),
        recipe=recipe.to_json(),
        fit=_fit_facts(report, row.name, holdout, held_out_rows),
        definitions=_json(plain["definitions"]),
        data={"files": _json(plain["data"])["files"]},
        sides=(),
        contains_rows=False,
        requires=(),
        versions=_versions(),
    )


def _fit_facts(report: Report, method: str, holdout: Holdout, held_out_rows: int) -> JsonObject:
    """How many rows, how they were held out, and every metric before, after and in difference."""
    scored = {score.name: {name: value.value for name, value in score.metrics.items()} for score in report.scores}
    differences = {
        each.metric: {"value": each.value, "lo": each.lo, "hi": each.hi, "p": each.p} for each in report.differences
    }
    return _json(
        {
            "rows": report.data.rows - report.data.rows_bad,
            "weight_sum": report.data.weight_sum,
            "label_rate": report.data.label_rate,
            "holdout": {"scheme": str(holdout), "rows": held_out_rows, "refit_on_all": holdout.refit_on_all},
            "before": scored.get(RAW, {}),
            "after": scored.get(method, {}),
            "difference": differences,
        }
    )


def _versions() -> JsonObject:
    found: JsonObject = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree that was never installed
            found[name] = None
    return found


def _json(value: object) -> JsonObject:
    """Plain Python as JSON: tuples become lists, as reading the file back gives them."""
    return cast(JsonObject, _plain(value))


def _plain(value: object) -> Json:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return cast(Json, value)
