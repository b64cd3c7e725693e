"""Manifests of artifacts that were fitted: what all kinds have in common, and the versions of packages."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from calcli.artifacts.manifest import JsonObject, Manifest
from calcli.artifacts.strictjson import as_json
from calcli.reports.schema import DataFacts
from calcli.tables.binding_types import Binding
from calcli.version import VERSION

_PACKAGES = ("numpy", "polars", "pyarrow", "scipy")


def manifest_of(
    data: DataFacts,
    binding: Binding,
    *,
    params: Mapping[str, object],
    recipe: Mapping[str, object],
    fit: Mapping[str, object],
    definitions: Mapping[str, object],
    packages: tuple[str, ...] = (),
    **others: Any,
) -> Manifest:
    """The manifest of a calibrator or an ensemble, all but the payloads; `others` are attributes of `Manifest`."""
    rows = data.rows - data.rows_bad
    return Manifest(
        calcli=VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        params=as_json(params),
        label={"type": binding.label_type, "classes": list(binding.classes), "positive": binding.positive},
        binding=binding.to_json(),
        features=tuple(
            {"name": feature.name, "role": feature.role, "dtype": feature.dtype, "cuts": None, "levels": None}
            for feature in binding.features
        ),
        recipe=as_json(recipe),
        fit=as_json({"rows": rows, "weight_sum": data.weight_sum, "label_rate": data.label_rate, **fit}),
        definitions=as_json(definitions),
        data=as_json({"files": data.files}),
        requires=(),
        versions=versions(*packages),
        **others,
    )


def versions(*more: str) -> JsonObject:
    """The versions of Python, of calcli, of the packages that it always uses, and of `more`."""
    installed: JsonObject = {"python": platform.python_version(), "calcli": VERSION}
    return installed | {name: _installed(name) for name in (*_PACKAGES, *more)}


@cache
def _installed(name: str) -> str | None:
    """The version of a package, whose description is read once in a process; it may take longer than a fit."""
    with suppress(PackageNotFoundError):  # installed under another name, as polars-lts-cpu
        return version(name)
    return None
