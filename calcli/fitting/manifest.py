"""What an artifact says of itself: the manifest, put together from what a fit knows."""

from __future__ import annotations

import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from calcli.artifacts.manifest import JsonObject, Manifest
from calcli.artifacts.strictjson import as_json
from calcli.fitting.learn import Learned
from calcli.fitting.recipe import Recipe
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.label_check import LabelCheck
from calcli.reports.schema import RAW, Report
from calcli.tables.binding import Binding
from calcli.version import VERSION

_PACKAGES = ("calcli", "numpy", "polars", "pyarrow", "scipy")


def manifest_of(
    recipe: Recipe,
    learned: Learned,
    binding: Binding,
    report: Report,
    held_out_rows: int,
    ranking: LabelCheck | None,
    residuals: DriftBaseline | None,
    sides: tuple[JsonObject, ...],
) -> Manifest:
    """The manifest of a fit, all but the payloads."""
    return Manifest(
        calcli=VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        kind="calibrator",
        task="binary" if binding.binary else "multiclass",
        method=learned.row.name,
        requested=recipe.method,
        preset=recipe.preset,
        params=as_json(learned.params),
        seed=report.seed,
        label={"type": binding.label_type, "classes": list(binding.classes), "positive": binding.positive},
        binding=binding.to_json(),
        features=feature_facts(binding),
        recipe=recipe.to_json() | {"selection": None if learned.choice is None else as_json(asdict(learned.choice))},
        fit=_fit_facts(report, learned, held_out_rows)
        | {
            "ranking": None if ranking is None else as_json(ranking.to_json()),
            "residuals": None if residuals is None else as_json(residuals.to_json()),
        },
        definitions=as_json({name: asdict(one) for name, one in report.definitions.items()}),
        data=as_json({"files": report.data.files}),
        sides=sides,
        contains_rows=learned.row.contains_rows,
        requires=(),
        versions=versions(),
    )


def _fit_facts(report: Report, learned: Learned, held_out_rows: int) -> JsonObject:
    """How many rows, how they were held out, and every metric before, after and in difference."""
    scored = {score.name: {name: value.value for name, value in score.metrics.items()} for score in report.scores}
    floors = {
        score.name: {name: value.floor for name, value in score.metrics.items() if value.floor is not None}
        for score in report.scores
    }
    differences = {
        each.metric: {"value": each.value, "lo": each.lo, "hi": each.hi, "p": each.p}
        for each in report.differences
        if (each.score, each.versus) == (learned.row.name, RAW)
    }
    holdout = learned.holdout
    return as_json(
        {
            "rows": report.data.rows - report.data.rows_bad,
            "weight_sum": report.data.weight_sum,
            "label_rate": report.data.label_rate,
            "holdout": {
                "scheme": str(holdout),
                "rows": held_out_rows,
                "refit_on_all": holdout.refit_on_all,
            },
            "before": scored.get(RAW, {}),
            "after": scored.get(learned.row.name, {}),
            "difference": differences,
            "floors": {"before": floors.get(RAW, {}), "after": floors.get(learned.row.name, {})},
        }
    )


def feature_facts(binding: Binding) -> tuple[JsonObject, ...]:
    """The features, as a manifest lists them."""
    return tuple(
        {"name": feature.name, "role": feature.role, "dtype": feature.dtype, "cuts": None, "levels": None}
        for feature in binding.features
    )


def versions(*more: str) -> JsonObject:
    """The versions of Python, of what calcli always uses, and of `more` packages."""
    found: JsonObject = {"python": platform.python_version()}
    for name in (*_PACKAGES, *more):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree that was never installed
            found[name] = None
    return found
