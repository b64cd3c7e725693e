"""Rows of a table under a policy that is there: the columns that its rule reads, and what it is worth on them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calcli.batch import FloatArray, IntArray, SamplingUnits
from calcli.decisions.costs import CostColumns, CostRule, Costs
from calcli.decisions.measure import JudgedScores, Rows
from calcli.decisions.policy import AnyRule, GroupRule, Policy, SetRule
from calcli.errors import DataError
from calcli.models.decided import codes
from calcli.reports.groups import TableRows, numbers, values_of
from calcli.reports.measuring import class_names
from calcli.tables.binding_types import Binding


def judged(
    policy: Policy,
    binding: Binding,
    table: TableRows,
    prob: FloatArray,
    label: IntArray,
    weight: FloatArray | None,
    units: SamplingUnits | None,
) -> JudgedScores:
    """The rows of a table under a policy that decides by these probabilities."""
    group, beside = measured_rows(table, policy.rule)
    rows = Rows(prob, label, weight, units, group=group, classes=class_names(binding))
    return JudgedScores(policy, rows, beside)


def costs_of(loaded: TableRows, columns: CostColumns, given: Mapping[str, str]) -> Costs:
    """The costs of each row; all must be known. `given` is what names each column, for messages."""
    beside = {name: numbers(loaded, name, given[name]) for name in columns.reads}
    for name, values in beside.items():
        if (unknown := int((~(np.isfinite(values) & (values >= 0.0))).sum())) > 0:
            raise DataError(
                f"{given[name]}: the column {name!r} has no cost of 0 or more in {unknown:,} of {len(values):,} rows",
                hint="fill in these costs, or leave the rows out of the table",
            )
    return columns.of(beside)


def measured_rows(loaded: TableRows, rule: AnyRule) -> tuple[IntArray | None, dict[str, FloatArray]]:
    """The group of each row among those that a rule knows, and the columns of numbers that it reads."""
    if isinstance(rule, SetRule | GroupRule):
        if rule.column is None:
            return None, {}
        return codes(values_of(loaded, rule.column, "the policy"), rule.groups), {}
    if isinstance(rule, CostRule):
        costs_of(loaded, rule.costs, dict.fromkeys(rule.costs.reads, "the policy"))  # all must be known
    return None, {name: numbers(loaded, name, "the policy") for name in rule.reads}
