"""The findings of `estimate` in sentences, tables and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

from calcli.diagrams.svg import IntervalRow
from calcli.reporting import facts
from calcli.reporting.facts import JsonObject, Pair
from calcli.reporting.typesetting import Table, decimals, number, signed

if TYPE_CHECKING:
    from calcli.reports.schema import Report

TERMS: tuple[Pair, ...] = (
    ("estimate", "mean label of all rows, from the labels of some and the scores of all, with its 95 % interval"),
    ("labels alone", "mean label of the labelled rows, with its 95 % interval"),
    ("mean score", "mean of the scores as they are, which no label has corrected"),
    ("worth", "number of labels that would be as good without scores"),
)
"""The meaning of the columns."""

_PROMISED = "promised"
"""The method of estimates without labels, and the code of the warning that says on what they stand."""

_TIE = 0.05
"""Two systems are told apart by a p-value of less."""


def entries(report: Report) -> list[JsonObject]:
    return [cast("JsonObject", entry) for entry in report.estimates]


def headline(report: Report) -> Iterator[str]:
    """A sentence or two for each system and class over all rows, and for each difference."""
    found = [entry for entry in entries(report) if entry["group"] is None]
    if found and found[0]["method"] == _PROMISED:
        said = next(one.message for one in report.warnings if one.code == _PROMISED)
        yield f"{said[:1].upper()}{said[1:]}."
    for entry in found:
        if entry["method"] == _PROMISED:
            of = "" if len(found) == 1 else f" of {entry['class']}"
            yield f"The promised rate{of} is {_with_ends(entry, _digits([entry]))}."
        elif entry["value"] is None:
            yield f"{_name(entry, found)}: no estimate, because {entry['reason']}."
        elif entry["method"] == "paired":
            yield _compared(entry, found)
        else:
            yield _estimated(entry, found, next(iter(report.definitions)))
    if report.plan is not None:
        yield from _planned(cast("JsonObject", report.plan))


def data(report: Report) -> list[Pair]:
    """The rows and the roles of their columns; the rates of the few labels are in the tables."""
    return facts.measured(replace(report.data, label_rate=None), report.binding)


def terms(report: Report) -> list[Pair]:
    """The meaning of the columns, and the definition of the number."""
    if report.scores and report.scores[0].name == _PROMISED:
        same: dict[str, list[str]] = {}
        for name, definition in report.definitions.items():
            same.setdefault(str(definition.approximation), []).append(name)
        return [(", ".join(names), text) for text, names in same.items()]
    more = [(name, str(definition.approximation)) for name, definition in report.definitions.items()]
    return [*TERMS, *more]


def _planned(plan: JsonObject) -> Iterator[str]:
    """How many labels are needed, and which rows were drawn."""
    width = plan.get("width")
    if width is not None and plan["more"] is None:
        yield (
            f"No number of labels gives an interval of width {width:g}: if all rows had labels, it would be "
            f"{plan['reachable']:.4f} wide. More rows are needed."
        )
    elif width is not None:
        condition = ", if the scores are calibrated" if plan["assumes"] != "labels" else ""
        yield (
            f"An interval of width {width:g} needs {plan['more']:,} more labels of rows drawn at random, or "
            f"{plan['more_planned']:,} of rows drawn by --choose{condition}."
        )
    if "chosen" in plan:
        yield (
            f"{plan['chosen']:,} rows to label are in {plan['output']}; once they have labels in the table, add "
            f"--label-prob {plan['column']}."
        )


def _estimated(entry: JsonObject, found: Sequence[JsonObject], metric: str) -> str:
    digits, mean, worth = _digits([entry]), entry["scores_mean"], entry["worth"]
    what = f"The {metric}" if len(found) == 1 else f"{_name(entry, found)}: the {metric}"
    said = f"{what} is {_with_ends(entry, digits)}"
    if mean is not None and entry["lo"] is not None:
        inside = "within" if entry["lo"] <= mean <= entry["hi"] else "not within"
        said += f"; the mean score, {number(mean, digits)}, is {inside} that interval"
    if worth is not None:
        alone = _with_ends(entry["labels_only"], digits)
        said += f". The {entry['labels']:,} labels are worth {worth:,.0f}: alone they say {alone}"
    return f"{said}."


def _compared(entry: JsonObject, found: Sequence[JsonObject]) -> str:
    """The difference of two systems, and whether they are told apart."""
    first, second = str(entry["system"]).split(" - ", 1)
    digits, value = _digits([entry]), entry["value"]
    of = f" ({entry['class']})" if len({one["class"] for one in found}) > 1 else ""
    if value == 0.0:
        return f"{first} and {second}{of} are tied: their difference is 0."
    ends = "" if entry["lo"] is None else f" ({signed(entry['lo'], digits)} to {signed(entry['hi'], digits)})"
    higher = first if value > 0 else second
    said = f"{first} minus {second}{of}: {signed(value, digits)}{ends}."
    if entry["better"] is None:
        return said
    chance = f"{higher} is the higher one with a probability of {100 * entry['better']:.3g} %"
    return f"{said} {chance}{'.' if entry['p'] < _TIE else ', which is a tie as far as these labels can tell.'}"


def _with_ends(entry: JsonObject, digits: int) -> str:
    ends = _ends(entry, digits)
    return f"{number(entry['value'], digits)}{ends and f' ({ends})'}"


def _ends(entry: JsonObject, digits: int) -> str:
    return "" if entry["lo"] is None else f"{number(entry['lo'], digits)} to {number(entry['hi'], digits)}"


def _digits(found: Sequence[JsonObject]) -> int:
    return decimals(end for entry in found for end in _interval(entry))


def _interval(entry: JsonObject) -> tuple[Any, Any, Any]:
    return entry["value"], entry["lo"], entry["hi"]


def _several(found: Sequence[JsonObject]) -> bool:
    return len({(one["system"], one["class"]) for one in found}) > 1


def _name(entry: JsonObject, found: Sequence[JsonObject]) -> str:
    """The system and the class, where there are several."""
    parts = [] if entry["system"] is None else [str(entry["system"])]
    if len({one["class"] for one in found}) > 1:
        parts.append(str(entry["class"]))
    return " ".join(parts) or "all rows"


def _where(entry: JsonObject) -> tuple[str | None, str | None]:
    """The column and the value of its group."""
    return (None, None) if entry["group"] is None else next(iter(entry["group"].items()))


def tables(report: Report) -> Iterator[Table]:
    """The estimates over all rows, then those of the groups of each column."""
    found = entries(report)
    if found and found[0]["method"] == _PROMISED:
        yield _promised(report)
        return
    for by in dict.fromkeys(_where(entry)[0] for entry in found):
        yield _table(by, [entry for entry in found if _where(entry)[0] == by])


def _table(by: str | None, found: Sequence[JsonObject]) -> Table:
    header = ["", "estimate", "95 % interval", "labels alone", "95 % interval", "mean score", "rows", "labels", "worth"]
    digits, rows = _digits(found), []
    for entry in found:
        name = _name(entry, found)
        if by is not None:
            group = str(entry["group"][by] if entry["group"][by] is not None else "null")
            name = f"{group}, {name}" if _several(found) else group
        alone, mean, worth = entry["labels_only"], entry["scores_mean"], entry["worth"]
        rows.append(
            [
                name,
                number(entry["value"], digits),
                _ends(entry, digits),
                *(("", "") if alone is None else (number(alone["value"], digits), _ends(alone, digits))),
                "" if mean is None else number(mean, digits),
                f"{entry['rows']:,}",
                f"{entry['labels']:,}",
                "" if worth is None else f"{worth:,.0f}",
            ]
        )
    return Table("" if by is None else f"By {by}", header, rows)


def ever_narrower(shown: Table) -> Iterator[Table]:
    """The table, then without ever more of its columns: the labels alone, and the mean of the scores."""
    yield shown
    for column in (4, 3, 3):
        shown = shown.without(column)
        yield shown


def _promised(report: Report) -> Table:
    """The promised numbers, a line each."""
    metrics = report.scores[0].metrics
    digits = decimals(one.value for one in metrics.values())
    rows = [[name, number(one.value, digits), _ends(asdict(one), digits)] for name, one in metrics.items()]
    return Table("", ["", "promised", "95 % interval"], rows)


def picture(report: Report) -> list[IntervalRow]:
    """The rows of the picture: estimates with the labels alone and the mean score; no differences."""
    found = [one for one in entries(report) if one["method"] not in ("paired", _PROMISED) and one["value"] is not None]
    shown = []
    for entry in found:
        where = "all rows" if entry["group"] is None else " = ".join(map(str, _where(entry)))
        name = f"{where}, {_name(entry, found)}" if _several(found) else where
        alone = None if entry["labels_only"] is None else _interval(entry["labels_only"])
        shown.append(IntervalRow(name, _interval(entry), alone, entry["scores_mean"]))
    return shown


LONG = ("system", "class", "by", "group", "value", "lo", "hi", "labels_value", "labels_lo", "labels_hi", "scores_mean")
LONG_COUNTS = ("rows", "labels", "worth", "method", "p", "better", "reason")
"""`LONG`, `LONG_COUNTS`: the columns of the estimates as CSV. Scripts rely on them: new ones go to the end."""


def long_rows(report: Report) -> list[list[str | float | int | None]]:
    rows = []
    for entry in entries(report):
        alone = (None, None, None) if entry["labels_only"] is None else _interval(entry["labels_only"])
        row = [entry["system"], entry["class"], *_where(entry), *_interval(entry), *alone, entry["scores_mean"]]
        rows.append([*row, *(entry[key] for key in LONG_COUNTS)])
    return rows
