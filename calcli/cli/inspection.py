"""Artifacts and explanations of scores as answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from calcli.cli.output import Answer
from calcli.cli.results import headline, numbers_table
from calcli.cli.screen import Screen, aligned, fact_list, notes, shown_width, wrapped
from calcli.methods.base import SETTINGS
from calcli.reporting import facts
from calcli.reporting.tables import Findings
from calcli.reporting.typesetting import decimals, number, settings, short, spelled
from calcli.state import Json, State

if TYPE_CHECKING:
    from calcli.artifacts.manifest import Manifest
    from calcli.methods.base import Section
    from calcli.verbs.inspect import Explanation, Inspection


_CONDITIONS = ("if", "at")
"""The columns that say which rows of data a row of a table is about."""


_WORDS = {"ensemble": "an ensemble", "multi": "a calibrator of each of several labels", "policy": "a policy"}
"""The words for kinds of artifacts."""


def inspected(inspection: Inspection, most: int | None) -> Answer:
    """An artifact: its manifest, its numbers, its files; or what it learned, `most` rows of each long table."""
    return Answer(partial(_artifact, inspection, most), inspection.to_json)


def _artifact(inspection: Inspection, most: int | None, screen: Screen) -> list[str]:
    """Method, data, metrics and files of an artifact; ``--format json`` has more."""
    if most is not None and inspection.sections:
        return [line for section in inspection.sections for line in [*_section(section, most, screen), ""]][:-1]
    manifest = inspection.manifest
    numbers = Findings.of_manifest(manifest)
    day, _, time = manifest.created.partition("T")
    when = f"{day} {time[:5]} UTC" if time.endswith("+00:00") else manifest.created
    what = _WORDS.get(manifest.kind, "a calibrator")
    title = f"{inspection.path} is {what} ({manifest.method}), fitted {when}"
    lines = wrapped(f"{title} by calcli {manifest.calcli}.", screen.prose)
    if numbers.scores:
        lines += ["", *headline(numbers, screen), "", *numbers_table(numbers, screen)]
    holdout = facts.holdout_fact(cast("dict[str, Any]", manifest.fit)["holdout"])
    pairs = [*_decides(manifest), *_learned(inspection), *_shifted(manifest), facts.fit_data(manifest), holdout]
    pairs += [*facts.binding_facts(manifest.binding), *_files(manifest)]
    lines += ["", *fact_list(pairs, screen)]
    for section in inspection.sections:
        lines += ["", *_section(section, most, screen)]
    return [*lines, "", *notes(numbers.terms(), screen)] if numbers.scores else lines


def _decides(manifest: Manifest) -> list[tuple[str, str]]:
    """The rule of a policy, and the reason for it."""
    choice = cast("dict[str, Any]", manifest.fit.get("decision", {}))
    if not choice:
        return []
    from calcli.decisions.policy import Policy
    from calcli.reporting import decisions

    kept = State(choice["policy"])
    rule = "" if manifest.task == "regression" else f"{decisions.rule(Policy.from_state(kept))}; "
    return [("policy", f"{rule}{choice['why']}")]


def explained(explanation: Explanation) -> Answer:
    """The contribution of each column: on average over the rows, or in the one row."""
    entries = cast("list[dict[str, Any]]", explanation.to_json()["contributions"])

    def lines(screen: Screen) -> list[str]:
        if explanation.row is None:
            heading = ["column", "mean |change|", "mean change"]
            rows = [[each["column"], f"{each['mean_absolute']:.4f}", f"{each['mean']:+.4f}"] for each in entries]
        else:
            heading = ["column", "value", "change"]
            rows = [[each["column"], short(each["value"]), f"{each['mean']:+.4f}"] for each in entries]
        note = (
            "Shapley values (SHAP): what each column adds to the calibrated log-odds minus the raw ones. With "
            f"{explanation.base:+.4f}, the expectation before any column is known, they add up to the difference of a "
            "row."
        )
        title = wrapped(f"{explanation.title}.", screen.prose)
        return [*title, "", *aligned([heading, *rows], "lrr"), "", *wrapped(note, screen.prose)]

    return Answer(lines, explanation.to_json)


def _section(section: Section, most: int | None, screen: Screen) -> list[str]:
    """A table of fitted parameters: numbers to the right, words to the left.

    Of a table that can be long it has the rows that move most, with their conditions last.
    """
    columns, rows = list(section.columns), [list(row) for row in section.brief or section.rows]
    lines = [screen.bold(section.title), *(wrapped(section.note, screen.prose) if section.note else ())]
    if section.moves:
        rows = [rows[place] for place in sorted(range(len(rows)), key=lambda place: -section.moves[place])[:most]]
        for at in [place for place, name in enumerate(columns) if name in _CONDITIONS]:
            columns.append(columns.pop(at))
            for row in rows:
                row.append(row.pop(at))
        if (whole := len(section.rows)) > len(rows):
            more = f"The {len(rows):,} of {whole:,} that move predictions most; --rules N shows N, --format json all."
            lines += wrapped(more, screen.prose)
    words = [any(isinstance(value, bool | str) for value in column) for column in zip(*rows, strict=True)]
    align = "".join("l" if of_words else "r" for of_words in words)
    cells = [columns, *map(list, zip(*map(_column, zip(*rows, strict=True)), strict=True))]
    if columns[-1] in _CONDITIONS:
        cells = _in_lines(cells, screen.width)
    return [*lines, *(aligned(cells, align) if rows else ())]


def _column(values: Sequence[Json]) -> list[str]:
    """The cells of a column, with the decimal points of its numbers below each other."""
    digits = decimals([value for value in values if isinstance(value, float)])

    def cell(value: Json) -> str:
        if isinstance(value, float):
            return number(value, digits)
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{value:,}"
        return "" if value is None else spelled(value)

    return [cell(value) for value in values]


def _in_lines(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Rows whose last cell takes as many lines as it needs beside the others on so wide a screen."""
    others = sum(2 + max(map(shown_width, column)) for column in list(zip(*rows, strict=True))[:-1])
    lines: list[list[str]] = []
    for *first, last in rows:
        start, *rest = wrapped(last, width - 2 - others)
        lines += [[*first, start], *([*[""] * len(first), line] for line in rest)]
    return lines


def _learned(inspection: Inspection) -> list[facts.Pair]:
    """The numbers and arrays that were learned, and the parameters that were set."""
    pairs: list[facts.Pair] = []
    numbers = {name: value for name, value in inspection.numbers.items() if not isinstance(value, dict)}
    if numbers:
        pairs.append(("learned", settings(numbers, " = ")))
    if shapes := inspection.arrays:
        # Nested states with the number of their arrays.
        arrays = [f"{name} ({' x '.join(map(str, shape))})" for name, shape in shapes.items() if "/" not in name]
        nested = Counter(name.partition("/")[0] for name in shapes if "/" in name)
        pairs.append(("arrays", ", ".join([*arrays, *(f"{count} in {part}" for part, count in nested.items())])))
    if isinstance(chosen := inspection.numbers.get(SETTINGS), dict):
        pairs.append(("chosen", settings(chosen)))
    params = inspection.manifest.params
    if params:
        text, preset = settings(params), inspection.manifest.preset
        pairs.append(("set to", f"{text} (preset {preset})" if preset else text))
    return pairs


def _shifted(manifest: Manifest) -> list[facts.Pair]:
    """The rates that the probabilities are made for, where the rows of the fit have others."""
    shift, rate = manifest.recipe.get("prior_shift"), manifest.fit.get("label_rate")
    if shift is None:
        return []
    if isinstance(rate, dict):
        here = ", ".join(f"{name}={share:.3g}" for name, share in rate.items())
        there = f"the class shares {shift}"
    else:
        here, there = f"{rate:.3g}", f"a base rate of {shift} of {manifest.label['positive']}"
    return [("prior", f"probabilities are for {there}; the calibration rows have {here}")]


def _files(manifest: Manifest) -> list[facts.Pair]:
    """The payload of the artifact, and the versions that wrote it."""
    size = sum(payload.bytes for payload in manifest.payloads)
    count = len(manifest.payloads)
    files = f"{count} file{'s' if count != 1 else ''}, {size:,} bytes, all hashes valid"
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items() if version)
    pairs = [("files", files), ("seed", str(manifest.seed)), ("made with", versions)]
    if manifest.requires:
        pairs.append(("needs", f"to be applied, the extra {', '.join(manifest.requires)} of the installation"))
    if manifest.contains_rows:
        pairs.append(("rows", "contains rows of the calibration data: treat it as confidentially as them"))
    if manifest.previous is not None:
        pairs.append(("before", "the previous version is kept"))
    return pairs
