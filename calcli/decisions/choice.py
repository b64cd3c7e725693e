"""Choosing a policy on labelled rows, by what was asked for, and what it is worth beside others on the same rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import get_args

import numpy as np

from calcli.batch import IntArray
from calcli.decisions.abstention import COVERAGES, Gap, by_cost, by_coverage, risks
from calcli.decisions.ask import Ask
from calcli.decisions.class_choice import choose_of_classes
from calcli.decisions.conformal import PredictionSets, SetScore, rows_needed
from calcli.decisions.cost_rule import CostRule, least_expected
from calcli.decisions.costs import Costs, Decisions, cross_fitted
from calcli.decisions.measure import error_bound
from calcli.decisions.options import Choice, Means, Option, splits_of, with_confidence
from calcli.decisions.policy import MatrixRule, Policy, SetRule, ThresholdRule
from calcli.decisions.rates import GRID, GRID_OF_UNITS, NEVER, decided, expected, grid
from calcli.decisions.rows import Number, Rows, rates_of, set_numbers
from calcli.decisions.targets import Target, budget_threshold, certify
from calcli.errors import DataError, UsageError


def choose(ask: Ask, rows: Rows, seed: int) -> Choice:
    """The policy that was asked for."""
    if not rows.mass.sum() > 0:
        raise DataError("the weights add up to zero: no row counts")
    if ask.costs is not None:
        return _by_matrix(ask, rows, seed)
    if ask.sets is not None:
        return _by_sets(ask, rows, seed)
    if rows.prob.ndim > 1:
        return choose_of_classes(ask, rows, seed)
    if ask.top is not None:
        raise UsageError("--top is for more than two classes, and these rows have two", hint="leave it out")
    if not (rows.mass[rows.label > 0] > 0).any():
        raise DataError("no row is positive: what a threshold misses cannot be measured", hint="see: --positive")
    if ask.target is not None:
        return _by_target(Target.parse(ask.target, ask.confidence), ask, rows)
    if ask.budget is not None:
        return _by_budget(ask, rows)
    return _by_costs(ask, rows, seed) if rows.costs is None else _by_row_costs(ask, rows, rows.costs, seed)


def _by_costs(ask: Ask, rows: Rows, seed: int) -> Choice:
    """Bayes' threshold, unless the tuned one costs less beyond chance; with rows left open, if that is asked."""
    costs = ask.four_costs()
    thresholds, yes = _single_thresholds("bayes", costs, ask, rows, seed)
    paid = {name: costs.of_rows(rows.label, decisions) for name, decisions in yes.items()}
    gap = None
    if ask.abstain is not None:
        gap = by_cost(costs, ask.abstain)
        paid["left open"] = np.where(gap.decides(rows.prob), paid["bayes"], ask.abstain)
    elif ask.coverage is not None:
        gap = by_coverage(costs, rows.prob, ask.coverage, rows.weight, rows.uncertainty)
    means = Means.of(paid, rows, ask, seed)
    options = [
        Option(name, thresholds[name], means.numbers(name, "today") | rates_of(rows, decisions))
        for name, decisions in yes.items()
    ]
    if gap is not None:
        paid_open = {} if ask.abstain is None else means.numbers("left open", "today")
        return _leaving_open(ask, rows, gap, (*options, Option("left open", None, paid_open | _open(rows, gap))))
    better = means.difference("bayes", "tuned")
    chosen, why = "bayes", "this threshold follows from the costs if the probabilities are calibrated"
    if better.lo is not None and better.lo > 0.0:
        chosen, why = (
            "tuned",
            "on rows that did not choose it, this threshold costs less than the one that follows from the costs",
        )
    policy = Policy(ThresholdRule.at(thresholds[chosen]), costs=asdict(costs))
    return Choice(policy, chosen, why, tuple(options))


def _single_thresholds(
    name: str, costs: Costs, ask: Ask, rows: Rows, seed: int
) -> tuple[dict[str, float], dict[str, Decisions]]:
    """Thresholds that are the same for all rows, and their decisions; the first follows from the costs."""
    tuned = costs.best_threshold(rows.prob, rows.label, rows.weight)
    thresholds = {name: costs.threshold, "tuned": tuned, "today": ask.threshold, "all yes": 0.0, "all no": NEVER}
    yes = {each: rows.prob >= threshold for each, threshold in thresholds.items()}
    splits = splits_of(rows.units, len(rows.prob), ask.folds, seed)
    yes["tuned"] = cross_fitted(costs, rows.prob, rows.label, rows.weight, splits)
    return thresholds, yes


def _by_row_costs(ask: Ask, rows: Rows, costs: Costs, seed: int) -> Choice:
    """Each row by its own costs, beside thresholds that are the same for all rows."""
    thresholds, yes = _single_thresholds("mean costs", costs, ask, rows, seed)
    rule = CostRule(ask.cost_columns(), ask.abstain)
    action = least_expected(rows.prob, *costs.arrays(len(rows.prob)), abstain=ask.abstain)
    own, done = action == 2, action != 1
    paid = {"each row": np.where(done, costs.of_rows(rows.label, own), ask.abstain or 0.0)}
    paid |= {name: costs.of_rows(rows.label, decisions) for name, decisions in yes.items()}
    means = Means.of(paid, rows, ask, seed)
    share = {} if done.all() else {"coverage": rates_of(rows, done)["positive-rate"]}
    options = [Option("each row", None, means.numbers("each row", "today") | share | rates_of(rows, own))]
    options += [
        Option(name, thresholds[name], means.numbers(name, "today") | rates_of(rows, decisions))
        for name, decisions in yes.items()
    ]
    if ask.abstain is not None:
        among = rows.taken(done)
        bound = error_bound(among, own[done] != (among.label > 0), ask.confidence)
        why = _share_decided(float(np.average(done, weights=rows.weight)), bound, ask.confidence)
        policy = Policy(rule, Target("error", "<=", bound, ask.confidence))
        return Choice(policy, "each row", why, tuple(options), bound)
    better = means.difference("each row", "tuned")
    if better.lo is not None and better.lo > 0.0:
        why = "on rows that did not choose it, one threshold for all rows costs less than that of each row"
        return Choice(Policy(ThresholdRule.at(thresholds["tuned"])), "tuned", why, tuple(options))
    why = "this follows from the costs of the row if the probabilities are calibrated"
    return Choice(Policy(rule), "each row", why, tuple(options))


def _share_decided(coverage: float, bound: float, confidence: float) -> str:
    return (
        f"{100 * coverage:.1f} % of the rows are decided, at most {100 * bound:.2f} % of these wrongly "
        f"{with_confidence(confidence)}, and the policy abstains on the others"
    )


def _leaving_open(ask: Ask, rows: Rows, gap: Gap, options: tuple[Option, ...]) -> Choice:
    """The gap between the thresholds, with a bound on the errors outside it, beside other gaps."""
    costs = ask.four_costs()
    shares = [at for at in COVERAGES if at != ask.coverage]
    gaps = [gap, *(by_coverage(costs, rows.prob, at, rows.weight, rows.uncertainty) for at in shares)]
    found = risks(
        gaps,
        rows.prob,
        (rows.prob >= costs.threshold) != (rows.label > 0),
        rows.weight,
        rows.uncertainty,
        confidence=ask.confidence,
    )
    own, table = found[0], tuple(sorted(found, key=lambda one: -one.coverage))
    why = _share_decided(own.coverage, own.bound, ask.confidence)
    promise = Target("error", "<=", own.bound, ask.confidence)
    policy = Policy(ThresholdRule(gap, ask.uncertainty), promise, asdict(costs))
    return Choice(policy, "left open", why, options, own.bound, table)


def _by_target(target: Target, ask: Ask, rows: Rows) -> Choice:
    """The threshold whose target holds with the confidence, if there is one."""
    thresholds = grid(rows.prob, GRID if rows.together is None else GRID_OF_UNITS)
    found = decided(rows.prob, rows.label, thresholds, rows.weight, rows.together, rates=(target.rate,))
    passed = certify(target, found, expected(rows.prob, thresholds, rows.weight))
    hits, worth = found.worth(target.rate)
    places = {"chosen": passed.place, "without confidence": passed.without}
    if passed.place is None:
        places = {"best": passed.best}
    at = {name: float(thresholds[place]) for name, place in places.items() if place is not None}
    options = tuple(
        Option(name, threshold, rates_of(rows, rows.prob >= threshold))
        for name, threshold in {**at, "today": ask.threshold}.items()
    )
    place = passed.best
    bound = target.bound(float(hits[place]), float(worth[place]))
    sure = with_confidence(target.confidence)
    if passed.place is None:
        side = "at least" if target.relation == ">=" else "at most"
        best = f"the best one, {thresholds[place]:.6g}, has a {target.rate} of {side} {bound:.3g} with that confidence"
        why = f"no threshold has {target} {sure}; {best}"
        return Choice(None, None, why, options, bound)
    why = f"{target} holds {sure}"
    return Choice(Policy(ThresholdRule.at(at["chosen"]), target), "chosen", why, options, bound)


def _by_budget(ask: Ask, rows: Rows) -> Choice:
    """The least threshold that the budget is enough for."""
    assert ask.budget is not None
    if rows.weight is not None or rows.units is not None:
        raise UsageError(
            "--budget counts rows, which have no weights or units", hint="try: --target 'positive-rate <= 0.01'"
        )
    threshold = budget_threshold(rows.prob, ask.budget, ask.confidence)
    without = float(np.sort(rows.prob)[::-1][ask.budget - 1])
    thresholds = {"chosen": threshold, "without confidence": without, "today": ask.threshold}
    options = tuple(Option(name, at, rates_of(rows, rows.prob >= at)) for name, at in thresholds.items())
    count = len(rows.prob)
    sure = with_confidence(ask.confidence)
    if threshold == NEVER:
        why = f"no threshold keeps to {ask.budget:,} of {count:,} new rows {sure}: equal probabilities, or too few rows"
        return Choice(None, None, why, options)
    why = f"at most {ask.budget:,} of {count:,} new rows reach this threshold {sure}"
    target = Target("positive-rate", "<=", ask.budget / count, ask.confidence)
    return Choice(Policy(ThresholdRule.at(threshold), target), "chosen", why, options, float(ask.budget))


def _by_matrix(ask: Ask, rows: Rows, seed: int) -> Choice:
    """The action of the least expected cost, beside the likeliest class and each action for all rows."""
    assert ask.costs is not None
    names: tuple[str | None, ...]
    names, table = ask.costs
    if ask.abstain is not None:
        names, table = (*names, None), tuple((*row, ask.abstain) for row in table)
    rule = MatrixRule(names, table)
    matrix = np.array(table)
    prob = np.column_stack([1.0 - rows.prob, rows.prob]) if rows.prob.ndim == 1 else rows.prob
    actions = {"bayes": rule.decide(rows.prob, {})}
    place = np.array(
        [names.index(name) if name in names else -1 for name in rows.classes]
    )  # of each class's own action
    if (place >= 0).all():
        actions["likeliest"] = place[prob.argmax(axis=1)]
    actions |= {
        f"all {'left open' if name is None else name}": np.full(len(prob), column) for column, name in enumerate(names)
    }
    paid = {name: matrix[rows.label, action] for name, action in actions.items()}
    means = Means.of(paid, rows, ask, seed)
    today = "likeliest" if "likeliest" in actions else f"all {names[0]}"
    options = []
    for name, action in actions.items():
        right = rates_of(rows, action == place[rows.label])["positive-rate"]
        options.append(Option(name, None, means.numbers(name, today) | {"accuracy": right}))
    why = f"of {len(names)} actions, the one with the least expected cost"
    return Choice(Policy(rule), "bayes", why, tuple(options))


def _by_sets(ask: Ask, rows: Rows, seed: int) -> Choice:
    """Conformal sets of the asked level, and how they do on rows that did not choose them, by cross-fitting."""
    assert ask.sets is not None
    level = ask.sets

    def fitted(some: Rows, score: SetScore) -> PredictionSets:
        return PredictionSets.fit(
            some.prob,
            some.label.astype(np.int64),
            level,
            confidence=ask.confidence,
            score=score,
            by_class=ask.by_class,
            group=some.group,
            weight=some.weight,
            unit=some.together,
        )

    rule = SetRule(fitted(rows, ask.set_score), ask.by, rows.groups)
    fewest = min(min(each) for each in rule.sets.thresholds.rows)
    options = []
    for score in dict.fromkeys((ask.set_score, *get_args(SetScore))):
        classes = 2 if rows.prob.ndim == 1 else rows.prob.shape[1]
        members = np.zeros((len(rows.prob), classes), dtype=np.bool_)
        for train, test in splits_of(rows.units, len(rows.prob), ask.folds, seed):
            members[test] = fitted(rows.taken(train), score).predict(
                rows.prob[test], None if rows.group is None else rows.group[test]
            )
        options.append(Option(score, None, set_numbers(rows, members)))
        if score == ask.set_score:
            options += _of_parts(ask.by, rows.group, rows.groups, rows, members)
            if ask.by_class:
                options += _of_parts("class", rows.label, rows.classes, rows, members)
    each = [*([] if ask.by is None else [ask.by]), *(["class"] if ask.by_class else [])]
    where = f" of each {' and '.join(each)}" if each else ""
    why = (
        f"the sets contain the true class of at least {level:.4g} of new rows{where} {with_confidence(ask.confidence)}"
    )
    if fewest < (needed := rows_needed(level, ask.confidence)):
        why += f"; where there are fewer than {needed} rows (here {fewest}), they hold every class"
    return Choice(Policy(rule), ask.set_score, why, tuple(options))


def _of_parts(
    kind: str | None, of: IntArray | None, names: tuple[str, ...], rows: Rows, members: Decisions
) -> list[Option]:
    """The sets of each group, or of each class, that has rows."""
    if of is None:
        return []
    parts = ((name, of == place) for place, name in enumerate(names))
    return [
        Option(f"  {kind} {name}", None, set_numbers(rows.taken(part), members[part]))
        for name, part in parts
        if part.any()
    ]


def _open(rows: Rows, gap: Gap) -> dict[str, Number]:
    """The share of rows that is decided."""
    clear = gap.decides(rows.prob, rows.uncertainty)
    return {"coverage": rates_of(rows, clear)["positive-rate"]}
