"""The score of a row as terms over the columns of the table: the binding of `calcli.tables` as a formula."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from calcli import expressions as terms
from calcli.expressions import Condition, Every, Input, Inputs, Terms
from calcli.numeric import link_terms
from calcli.tables.arrays import index_order
from calcli.tables.binding_types import Binding
from calcli.tables.scores import SLACK, SUM_SLACK

_MOST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class TableInputs:
    """The terms in which a calibrator reads a table.

    Attributes
    ----------
    score
        The log-odds, or a logit for each class; null where the row is bad.
    features
        By name.
    valid
        Whether a row can be calibrated.
    """

    score: Terms
    features: Inputs
    valid: Condition


def table_inputs(binding: Binding) -> TableInputs:
    """The columns of a binding, checked as `apply` checks them."""
    values = tuple(Input(name) for name in binding.score.columns)
    valid = _validity(values, probabilities=binding.score.kind == "prob")
    score = tuple(terms.choose(valid, one, None) for one in _score(values, binding))
    return TableInputs(score, {feature.name: Input(feature.name, feature.role) for feature in binding.features}, valid)


def _validity(values: tuple[Input, ...], *, probabilities: bool) -> Condition:
    """No value is null, NaN or infinite; probabilities lie in [0, 1] and add up to 1."""
    low, high = (-SLACK, 1.0 + SLACK) if probabilities else (-_MOST, _MOST)
    conditions: list[Condition] = [each for value in values for each in (value >= low, value <= high)]
    if probabilities and len(values) > 1:
        whole = terms.total(values)
        conditions += [whole >= 1.0 - SUM_SLACK, whole <= 1.0 + SUM_SLACK]
    return Every(tuple(conditions))


def _score(values: tuple[Input, ...], binding: Binding) -> Terms:
    probabilities = binding.score.kind == "prob"
    if len(values) == 1 or not binding.binary:
        return link_terms.scores(values) if probabilities else values
    positive = binding.classes.index(index_order(binding)[1])
    pair = (values[positive], values[1 - positive])
    if not probabilities:
        return (pair[0] - pair[1],)
    logs = link_terms.logits(pair)
    return (link_terms.drawn_in(logs[0] - logs[1]),)
