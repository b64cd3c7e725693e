"""A policy in words and tables: the decision, the reason, and the other options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calcli.decisions.costs import CostRule
from calcli.decisions.merits import MERITS
from calcli.decisions.policy import ClassRule, GroupRule, MatrixRule, SetRule, ThresholdRule
from calcli.decisions.targets import shown
from calcli.reporting.tables import difference_cells
from calcli.reporting.typesetting import NOTHING, Table, decimals, number

if TYPE_CHECKING:
    from calcli.decisions.abstention import AbstentionBand
    from calcli.decisions.goal import Choice, Option
    from calcli.decisions.policy import Policy

_NAMES = ("precision", "recall", "accuracy", "fpr", "coverage", "error", "size", "single", "empty", "width")
_RATES = {"positive-rate": "yes", **{name: name for name in _NAMES}}
"""The headers of rates; beside costs a table has only some of them."""

_BESIDE_COSTS = ("positive-rate", "precision", "recall", "coverage", "error")


def headline(choice: Choice) -> str:
    """The decision and its reason; empty where there is no decision."""
    why = f"{choice.why[:1].upper()}{choice.why[1:]}."
    if choice.policy is None:
        return "" if choice.intervals is None else why
    return f"{rule(choice.policy)}. {why}"


def rule(policy: Policy) -> str:
    """The rule of a policy in words."""
    match policy.rule:
        case SetRule():
            return "Predict sets of classes"
        case CostRule(costs, abstain):
            left = "" if abstain is None else f", and abstain where both have an expected cost above {abstain:g}"
            return f"Decide yes where {costs}{left}"
        case ClassRule():
            return _classes(policy.rule)
        case MatrixRule(names):
            left = " or none" if None in names else ""
            among = ", ".join(name for name in names if name is not None)
            return f"Decide between {among}{left} by the least expected cost"
        case GroupRule():
            return f"Decide yes from the probability on that each {policy.rule.column} has of its own"
        case ThresholdRule(band, column):
            return _threshold(band, column)


def _threshold(band: AbstentionBand, column: str | None) -> str:
    """The rule of one threshold or two in words."""
    at_once = f"Decide yes if the probability is at least {shown(band.high)}"
    if band.limit is not None:
        return f"{at_once}, and abstain where {column} > {band.limit:.6g}"
    if band.low == band.high:
        return at_once
    return (
        f"Decide no if the probability is below {shown(band.low)}, yes if it is at least {shown(band.high)}, and "
        "abstain in between"
    )


def _classes(found: ClassRule) -> str:
    """The rule of more classes in words."""
    one = found.top == 1
    limits = []
    if len(alike := set(found.thresholds)) > 1:
        limits.append(
            "if it reaches the threshold of that class" if one else "that reach the thresholds of their class"
        )
    elif (least := alike.pop()) > 0.0:
        limits.append(f"if {'its probability is' if one else 'their probabilities are'} at least {shown(least)}")
    if found.sure > 0.0:
        limits.append(f"where their probabilities add up to {shown(found.sure)} or more")
    if found.limit is not None:
        limits.append(f"where {found.column} <= {found.limit:.6g}")
    return " ".join(
        ["Decide for the likeliest class" if one else f"Decide for the {found.top} likeliest classes", *limits]
    )


def tables(choice: Choice) -> Iterator[Table]:
    """The table of options and, where the policy abstains, that of errors by the share of rows that are decided."""
    yield _options(choice)
    if choice.risks:
        header = ["decided", "no below", "yes from", "errors", "at most"]
        of_classes = choice.policy is not None and isinstance(choice.policy.rule, ClassRule)
        if choice.risks[0].band.limit is not None:
            header[1:3] = ["up to an uncertainty of"]
        elif of_classes:
            header[1:3] = ["from a probability of"]
        rows = []
        for risk in choice.risks:
            band = risk.band
            limits = [shown(band.low), shown(band.high)][of_classes:] if band.limit is None else [f"{band.limit:.6g}"]
            error = NOTHING if risk.risk is None else f"{100 * risk.risk:.2f} %"
            rows.append([f"{100 * risk.coverage:.1f} %", *limits, error, f"{100 * risk.bound:.2f} %"])
        yield Table("errors among the rows that are decided", header, rows, 0)


def _options(choice: Choice) -> Table:
    options = choice.options
    merit = next((name for option in options for name in option.numbers if name in MERITS), None)
    value, change = ("cost", "saves") if merit is None else (merit, "gains")
    costs = [option.numbers[name].value for option in options for name in (value, change) if name in option.numbers]
    known = [value for value in costs if value is not None]
    digits = decimals(known)
    columns = [("", [option.name for option in options])]
    if any(option.threshold is not None for option in options):
        cells = ["" if option.threshold is None else shown(option.threshold) for option in options]
        columns.append(("threshold", cells))
    if known:
        saves = [difference_cells(option.numbers.get(change), digits) for option in options]
        columns.append((value, _cells(options, value, digits)))
        columns += [(change, [cell for cell, _ in saves]), ("95 % interval", [cell for _, cell in saves])]
    names = [name for name in (_BESIDE_COSTS if known else _RATES) if any(name in each.numbers for each in options)]
    columns += [(_RATES[name], _cells(options, name, 3)) for name in names]
    return Table.of_columns(columns)


def _cells(options: Sequence[Option], name: str, digits: int) -> list[str]:
    return [number(each.numbers[name].value, digits) if name in each.numbers else "" for each in options]


def measured(entry: Mapping[str, Any]) -> str:
    """The numbers that `evaluate` found for a policy, and whether its promise holds, in a sentence or two."""
    found = {name: each for name, each in entry["numbers"].items() if each["value"] is not None}
    digits = {name: decimals([each["value"]]) if name == "cost" else 3 for name, each in found.items()}
    parts = [
        f"{_RATES.get(name, name)} {number(each['value'], digits[name])}"
        + ("" if each["lo"] is None else f" ({number(each['lo'], digits[name])} to {number(each['hi'], digits[name])})")
        for name, each in found.items()
    ]
    text = f"the policy of {entry['score']}: {', '.join(parts)}"
    promise = entry["promise"]
    if promise is None:
        return f"{text}."
    kept = "these rows refute it" if promise["broken"] else "these rows do not refute it"
    return f"{text}. It promised {promise['target']}: {kept} (p = {promise['p']:.3g})."
