"""The catalogs of methods and metrics as answers: a line for each entry, or one entry in full.

No method is imported for them, and nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from calcli.cli.output import Answer
from calcli.cli.screen import Screen, described, wrapped
from calcli.extras import install_line
from calcli.reporting.typesetting import spelled

if TYPE_CHECKING:
    from calcli.cli.serial import Flat
    from calcli.methods.spec import MethodSpec, Param
    from calcli.metrics.catalog import MetricSpec

_COLUMNS = {
    "methods": (
        *("name", "family", "summary", "multiclass", "order", "weights", "needs_features", "sums", "closed_form"),
        "reference",
    ),
    "metrics": ("name", "family", "summary", "direction", "kind", "default"),
}
"""The columns of the catalogs as CSV."""

_ORDER = {
    "kept": "kept, except for ties",
    "kept or reversed": "kept, or reversed if the scores rank worse than chance",
    "changed": "may change",
}
_BETTER = {"lower": "; lower is better", "higher": "; higher is better", "target": ""}
_SUMS = {
    "yes": "sums over rows",
    "binary": "sums over rows, for two classes",
    "scores": "sums over the rows of each score",
    "levels": "sums over rows, level by level, for two classes",
    "no": "rows",
}


def methods(name: str | None) -> Answer:
    """The methods by family, or one of them with all details."""
    from calcli.methods import catalog

    chosen = catalog.specs() if name is None else (catalog.find(name),)
    entries = [{**asdict(spec), "needs": [*spec.packages]} for spec in chosen]
    told = [(spec.family, spec.name, spec.summary) for spec in chosen]
    lines = partial(_by_family, told, "methods") if name is None else partial(_method, chosen[0])
    return _catalog("methods", entries, lines)


def metrics(name: str | None) -> Answer:
    """The metrics by family, or one of them with all details."""
    from calcli.metrics import catalog

    chosen = catalog.specs() if name is None else (catalog.find(name),)
    told = [(spec.family, spec.name, spec.summary + _BETTER[spec.direction]) for spec in chosen]
    lines = partial(_by_family, told, "metrics") if name is None else partial(_metric, chosen[0])
    return _catalog("metrics", [asdict(spec) for spec in chosen], lines)


def _catalog(name: str, entries: list[dict[str, Any]], lines: Callable[[Screen], list[str]]) -> Answer:
    def flat(form: Flat) -> str:
        from calcli.cli import serial  # not above: its imports would take a tenth of the time of the list

        header = _COLUMNS[name]
        return serial.flat(header, [[entry[key] for key in header] for entry in entries], form)

    return Answer(lines, lambda: {"schema": f"calcli.{name}/1", name: entries}, flat)


def _by_family(entries: Sequence[tuple[str, str, str]], command: str, screen: Screen) -> list[str]:
    least = max((len(name) for _, name, _ in entries), default=0)
    lines: list[str] = []
    for family in dict.fromkeys(family for family, _, _ in entries):
        pairs = [(name, summary) for owner, name, summary in entries if owner == family]
        lines += [screen.bold(family), *described(pairs, screen.prose, least=least), ""]
    return [*lines, f"For details, run calcli {command} NAME."]


def _method(spec: MethodSpec, screen: Screen) -> list[str]:
    """One method in full, without importing it."""
    # What holds for every method, then what only some have.
    native = spec.multiclass == "native"
    pairs = [
        ("family", spec.family),
        ("classes", "two or more" if native else "two; more are calibrated one-vs-rest"),
        ("ranking", _ORDER[spec.order]),
        ("weights", "yes" if spec.weights else "no"),
        ("features", "needed" if spec.needs_features else "not used"),
        ("export", "to SQL, JSON and ONNX" if spec.closed_form else "no"),
        ("fitted from", _SUMS[spec.sums]),
    ]
    if spec.keeps_top_class:
        pairs.append(("top class", "kept"))
    if spec.sides:
        pairs.append(("can use", ", ".join(f"--{role}" for role in spec.sides)))
    if packages := spec.packages:
        pairs.append(("needs", f"{', '.join(packages)}, to be fitted: {install_line(packages)}"))
    if spec.contains_rows:
        pairs.append(("its artifact", "contains rows of the calibration data"))
    if spec.reference:
        pairs.append(("reference", spec.reference))
    lines = [*wrapped(f"{spec.name}: {spec.summary}", screen.prose), "", *described(pairs, screen.prose)]
    # Parameters and presets.
    if spec.params:
        lines += ["", screen.bold("Parameters, for --set KEY=VALUE:")]
        params = [(f"{one.name}={spelled(one.default)}", f"{one.help}; {_taken(one)}") for one in spec.params]
        lines += described(params, screen.prose)
    if spec.presets:
        lines += ["", screen.bold("Presets, for --preset NAME:")]
        presets = [(name, ", ".join(f"{k}={v}" for k, v in values.items())) for name, values in spec.presets.items()]
        lines += described(presets, screen.prose)
    return lines


def _taken(param: Param) -> str:
    """The values that a parameter takes."""
    kinds = {"int": "a whole number", "float": "a number", "bool": "true or false", "text": "a text"}
    kind = kinds.get(param.kind, "")
    if param.low is not None and param.high is not None:
        kind += f" from {param.low:,g} to {param.high:,g}"
    elif param.low is not None:
        kind += f", at least {param.low:,g}"
    elif param.high is not None:
        kind += f", at most {param.high:,g}"
    return " or ".join(filter(None, [kind, *param.choices]))


def _metric(spec: MetricSpec, screen: Screen) -> list[str]:
    """One metric in full, without importing it."""
    pairs = [
        ("family", spec.family),
        *([] if spec.direction == "target" else [("better", spec.direction)]),
        ("by default", "shown" if spec.default else "shown with --metrics"),
        ("differences", "have intervals" if spec.row_mean else "have none, because it is not a mean over rows"),
    ]
    if spec.kind == "gap":
        pairs.append(("zero", "never reached on finite data, even by a calibrated score"))
    return [*wrapped(f"{spec.name}: {spec.summary}", screen.prose), "", *described(pairs, screen.prose)]
