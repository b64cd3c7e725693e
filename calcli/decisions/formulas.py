"""Policies as formulas, in which SQL, JSON and ONNX decide.

A decision is 1 where a row gets a class or an action, or else 0; an interval is its two ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from calcli import expressions as terms
from calcli.decisions.conformal import SLACK, Thresholds
from calcli.decisions.policy import (
    DECISION,
    ENDS,
    AnyRule,
    ClassRule,
    GroupRule,
    IntervalRule,
    MatrixRule,
    SetRule,
    spellings,
)
from calcli.errors import UsageError
from calcli.expressions import MOST, Among, Condition, Every, Input, Missing, Some, Term, Terms

_MEMBER = "in_"
"""The prefix of the columns of classes where a row may get several; that of others is `decision_`."""


def names_of(rule: AnyRule, classes: Sequence[str]) -> tuple[str, ...]:
    """The columns of `outputs`."""
    if isinstance(rule, SetRule) or (isinstance(rule, ClassRule) and rule.top > 1):
        return tuple(f"{_MEMBER}{name}" for name in classes)
    if isinstance(rule, ClassRule):
        return tuple(f"{DECISION}_{name}" for name in classes)
    if isinstance(rule, MatrixRule):
        return tuple(f"{DECISION}_{name}" for name in rule.names if name is not None)
    return (DECISION,)


def outputs(rule: AnyRule, prob: Terms) -> Terms:
    """A term for each of `names_of`, of the probabilities: one for two classes, and K for K."""
    if isinstance(rule, ClassRule):
        return rule.formula(prob)
    if isinstance(rule, SetRule | MatrixRule):
        each = (1.0 - prob[0], prob[0]) if len(prob) == 1 else prob
        return _sets(rule, each) if isinstance(rule, SetRule) else _least(rule, each)
    if isinstance(rule, GroupRule):
        least = _of_group(rule.column, rule.groups, list(map(terms.term, rule.thresholds)), terms.term(rule.unseen))
        return (terms.choose(prob[0] >= least, 1.0, 0.0),)
    return (rule.formula(prob[0]),)


def _least(rule: MatrixRule, prob: Terms) -> Terms:
    """Whether each action has the least expected cost; of equal ones the first."""
    expected = [terms.linear(column, prob) for column in zip(*rule.costs, strict=True)]
    found = []
    for place, own in enumerate(expected):
        beside: list[Condition] = [
            own < other if at < place else own <= other for at, other in enumerate(expected) if at != place
        ]
        if rule.names[place] is not None:
            found.append(terms.choose(Every(tuple(beside)), 1.0, 0.0) if beside else terms.term(1.0))
    return tuple(found)


def _sets(rule: SetRule, prob: Terms) -> Terms:
    """Whether the set holds each class."""
    if rule.sets.score == "aps-randomised":
        raise UsageError(
            "randomised sets depend on the bits of the probabilities, which other languages do not have",
            hint="decide with --set-score lac or aps",
        )
    limits = _thresholds(rule.sets.thresholds, rule.column, rule.groups, SLACK)
    limits = limits * len(prob) if len(limits) == 1 else limits
    scores: list[Term] = [1.0 - p for p in prob]
    if rule.sets.score == "aps":
        scores = [1.0 - terms.total([terms.choose(other < p, other, 0.0) for other in prob]) for p in prob]
    return tuple(terms.choose(score <= limit, 1.0, 0.0) for score, limit in zip(scores, limits, strict=True))


def _thresholds(found: Thresholds, column: str | None, groups: Sequence[str], slack: float = 0.0) -> list[Term]:
    """The threshold of the row's group for each class, with some slack; infinite ones exceed any score."""

    def limit(value: float) -> Term:
        return terms.term(value + slack)

    if column is None:
        return [limit(value) for value in found.values[0]]
    return [
        _of_group(column, groups, list(map(limit, of)), limit(unseen))
        for of, unseen in zip(zip(*found.values, strict=True), found.unseen, strict=True)
    ]


def _of_group(column: str, groups: Sequence[str], values: Sequence[Term], unseen: Term) -> Term:
    group = Input(column, "category")
    tests: list[Condition] = [
        Some((Missing(group), Among(group, texts))) if texts == ("",) else Among(group, texts)
        for texts in spellings(groups)
    ]
    return terms.Choice(tuple(zip(tests, values, strict=True)), unseen)


def ends(rule: IntervalRule) -> dict[str, Term]:
    """The finite ends of an interval, by name; missing where `apply` has infinite ends, or none."""
    low, high = Input(rule.lower), Input(rule.upper)
    known: list[Condition] = [each for column in (low, high) for each in (column >= -MOST, column <= MOST)]
    scale: Term | None = None
    if rule.spread is not None:
        spread = Input(rule.spread)
        known += [spread >= 0.0, spread <= MOST]
        # the square root of a variance
        scale = terms.choose(spread > 0.0, terms.exp(0.5 * terms.ln(spread)), 0.0) if rule.squared else spread
    found = rule.intervals.thresholds
    (threshold,) = _thresholds(found, rule.column, rule.groups)
    reach = threshold if scale is None else threshold * scale
    lo, hi = low - reach, high + reach
    middle = (lo + hi) / 2.0
    crossed = lo > hi
    known.append(threshold < MOST)
    chosen = {"lower": (ENDS[0],), "upper": (ENDS[1],)}.get(rule.intervals.side, ENDS)
    of = dict(zip(ENDS, (terms.choose(crossed, middle, lo), terms.choose(crossed, middle, hi)), strict=True))
    return {name: terms.choose(Every(tuple(known)), of[name], None) for name in chosen}
