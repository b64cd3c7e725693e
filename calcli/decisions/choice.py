"""Choosing a policy on labelled rows: by costs, a target, a budget, a share of rows to decide, or sets of classes.

Every policy stands beside others that were measured on the same rows. With more than two classes each class has a
threshold of its own, and only the likeliest classes of a row count. The results of all classes hold at once: each class
has its share of the error (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import get_args

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.decisions.abstention import COVERAGES, AbstentionBand, Risk, by_confidence, by_cost, by_coverage, risks
from calcli.decisions.conformal import PredictionSets, SetScore, of_classes
from calcli.decisions.costs import CostRule, Costs, cross_fitted, least_expected
from calcli.decisions.goal import Choice, DecisionGoal, Means, Option, decision_splits, with_confidence
from calcli.decisions.measure import Rows, class_costs, class_numbers, of_class, rates_of, set_numbers, share_of
from calcli.decisions.policy import ClassRule, MatrixRule, Policy, SetRule, ThresholdRule, group_name, likeliest
from calcli.decisions.target_choice import Certified, by_budget, by_group, by_merit, by_target
from calcli.decisions.targets import NEVER, Mask, Target
from calcli.errors import DataError, UsageError

NOT_IN_TOP_K = -1.0
"""In place of a probability where a class is not among the likeliest: no threshold gives the row that class."""


def choose(goal: DecisionGoal, rows: Rows, seed: int) -> Choice:
    if not rows.mass.sum() > 0:
        raise DataError("the weights add up to zero: no row counts")
    if goal.costs is not None:
        return _by_matrix(goal, rows, seed)
    if goal.sets is not None:
        return _by_sets(goal, rows, seed)
    return _for_two_classes(goal, rows, seed) if rows.prob.ndim == 1 else _for_more_classes(goal, rows, seed)


def _for_two_classes(goal: DecisionGoal, rows: Rows, seed: int) -> Choice:
    if goal.top is not None:
        raise UsageError("--top is for more than two classes, and these rows have two", hint="leave it out")
    if not (rows.mass[rows.label > 0] > 0).any():
        raise DataError("no row is positive: what a threshold misses cannot be measured", hint="see: --positive")
    if goal.target is not None:
        target = Target.parse(goal.target, goal.confidence)
        return by_target(target, goal, rows, seed) if goal.by is None else by_group(target, goal, rows, seed)
    if goal.maximize is not None:
        return by_merit(goal.maximize, goal, rows, seed)
    if goal.budget is not None:
        return by_budget(goal, rows)
    return _by_costs(goal, rows, seed) if rows.costs is None else _by_row_costs(goal, rows, rows.costs, seed)


def _for_more_classes(goal: DecisionGoal, rows: Rows, seed: int) -> Choice:
    classes = rows.prob.shape[1]
    if goal.budget is not None:
        raise UsageError("--budget is for two classes, and these rows have more", hint="try: --target, or --costs FILE")
    if goal.maximize is not None:
        raise UsageError("--maximize is for two classes, and these rows have more", hint="try: --costs FILE")
    if goal.by is not None:
        raise UsageError(
            "--target has no groups with more than two classes", hint="leave out --by, or try: --sets 0.95"
        )
    if goal.cost is not None:
        raise UsageError("costs of each row are for two classes, and these rows have more", hint="try: --costs FILE")
    if goal.top is not None and not 1 <= goal.top <= classes:
        raise UsageError(f"--top {goal.top}: there are {classes} classes", hint=f"try: --top {classes - 1}")
    if goal.has_costs and not goal.abstain is goal.coverage is None:
        raise UsageError(
            "with more than two classes, --cost-fn is also the cost of abstaining",
            hint="leave out --abstain and --coverage, or try --costs FILE --abstain COST",
        )
    if goal.has_costs:
        return _by_class_costs(goal, rows, seed)
    if goal.target is None:
        return _by_class_coverage(goal, rows)
    target = Target.parse(goal.target, goal.confidence)
    return _by_class_accuracy(target, goal, rows) if target.rate == "accuracy" else _by_class_target(target, goal, rows)


# Costs


def _by_costs(goal: DecisionGoal, rows: Rows, seed: int) -> Choice:
    """Bayes' threshold, unless the tuned one costs less beyond chance; with rows left open, if that is asked."""
    costs = goal.four_costs()
    thresholds, yes = _common_thresholds("bayes", costs, goal, rows, seed)
    paid, opposite = (
        {name: costs.of_rows(label, decisions) for name, decisions in yes.items()}
        for label in (rows.label, 1 - rows.label)
    )
    band = None
    if goal.abstain is not None:
        band = by_cost(costs, goal.abstain)
        for each in (paid, opposite):
            each["left open"] = np.where(band.decides(rows.prob), each["bayes"], goal.abstain)
    elif goal.coverage is not None:
        band = by_coverage(costs, rows.prob, goal.coverage, rows.mass, rows.uncertainty)
    means = Means.of(paid, rows, goal, seed, opposite)
    options = _threshold_options(thresholds, yes, means, rows)
    if band is not None:
        numbers = {} if goal.abstain is None else means.numbers("left open", "today")
        clear = band.decides(rows.prob, rows.uncertainty)
        options.append(Option("left open", None, numbers | {"coverage": share_of(rows, clear)}))
        return _leaving_open(goal, rows, band, options)
    chosen, why = "bayes", "this threshold follows from the costs if the probabilities are calibrated"
    if means.saves("tuned", "bayes"):
        chosen = "tuned"
        why = "on rows that did not choose it, this threshold costs less than the one that follows from the costs"
    policy = Policy(ThresholdRule.at(thresholds[chosen]), costs=asdict(costs))
    return Choice(policy, chosen, why, tuple(options))


def _by_row_costs(goal: DecisionGoal, rows: Rows, costs: Costs, seed: int) -> Choice:
    """Each row decided by its own costs, beside thresholds that are the same for all rows."""
    thresholds, yes = _common_thresholds("mean costs", costs, goal, rows, seed)
    rule = CostRule(goal.cost_columns(), goal.abstain)
    action = least_expected(rows.prob, costs.fp, costs.fn, costs.tp, costs.tn, abstain=goal.abstain)
    own, done = action == 2, action != 1
    paid, opposite = (
        {"each row": np.where(done, costs.of_rows(label, own), goal.abstain or 0.0)}
        | {name: costs.of_rows(label, decisions) for name, decisions in yes.items()}
        for label in (rows.label, 1 - rows.label)
    )
    means = Means.of(paid, rows, goal, seed, opposite)
    numbers = means.numbers("each row", "today")
    if not done.all():
        numbers["coverage"] = share_of(rows, done)
    numbers |= rates_of(rows, own)
    options = (Option("each row", None, numbers), *_threshold_options(thresholds, yes, means, rows))
    if goal.abstain is not None:
        among = rows.taken(done)
        wrong = own[done] != (among.label > 0)
        bound = Target("error", "<=", 0.5, goal.confidence).bound(*among.worth(wrong))
        why = _share_decided(float(np.average(done, weights=rows.weight)), bound, goal.confidence)
        policy = Policy(rule, Target("error", "<=", bound, goal.confidence))
        return Choice(policy, "each row", why, options, bound)
    if means.saves("tuned", "each row"):
        why = "on rows that did not choose it, one threshold for all rows costs less than that of each row"
        return Choice(Policy(ThresholdRule.at(thresholds["tuned"])), "tuned", why, options)
    why = "this follows from the costs of the row if the probabilities are calibrated"
    return Choice(Policy(rule), "each row", why, options)


def _common_thresholds(
    name: str, costs: Costs, goal: DecisionGoal, rows: Rows, seed: int
) -> tuple[dict[str, float], dict[str, Mask]]:
    """Thresholds that are the same for all rows, and their decisions; the first, called `name`, follows from costs."""
    tuned = costs.best_threshold(rows.prob, rows.label, rows.weight)
    thresholds = {name: costs.threshold, "tuned": tuned, "today": goal.threshold, "all yes": 0.0, "all no": NEVER}
    yes = {each: rows.prob >= threshold for each, threshold in thresholds.items()}
    splits = decision_splits(rows.units, len(rows.prob), goal.folds, seed)
    yes["tuned"] = cross_fitted(costs, rows.prob, rows.label, rows.weight, splits)
    return thresholds, yes


def _threshold_options(
    thresholds: Mapping[str, float], yes: Mapping[str, Mask], means: Means, rows: Rows
) -> list[Option]:
    return [
        Option(name, thresholds[name], means.numbers(name, "today") | rates_of(rows, decisions))
        for name, decisions in yes.items()
    ]


def _by_class_costs(goal: DecisionGoal, rows: Rows, seed: int) -> Choice:
    """The threshold that follows from the costs for each class, unless tuned ones cost less beyond chance."""
    costs, top, classes = goal.four_costs(), goal.top or 1, rows.prob.shape[1]
    score = _top_scores(rows, top)

    def tuned(some: np.ndarray) -> tuple[float, ...]:
        return tuple(_best_threshold(costs, score[some, place], rows.taken(some), place) for place in range(classes))

    rules = {"bayes": (costs.threshold,) * classes, "tuned": tuned(np.ones(len(score), dtype=np.bool_))}
    members = {"bayes": score >= costs.threshold, "tuned": np.zeros_like(score, dtype=np.bool_)}
    for train, test in decision_splits(rows.units, len(score), goal.folds, seed):
        members["tuned"][test] = score[test] >= np.array(tuned(train))
    members |= {"likeliest": likeliest(rows.prob, top), "no class": np.zeros_like(score, dtype=np.bool_)}
    means = Means.of({name: class_costs(costs, rows, named) for name, named in members.items()}, rows, goal, seed)
    options = [
        Option(name, None, means.numbers(name, "likeliest") | class_numbers(rows, named))
        for name, named in members.items()
    ]
    chosen, why = "bayes", "this follows from the costs if the probabilities are calibrated"
    if means.saves("tuned", "bayes"):
        chosen, why = "tuned", "on rows that did not choose them, they cost less than the one that follows from costs"
    rule = ClassRule(rules[chosen], top)
    options += _each_class(rule, rows, rule.members(rows.prob, {}))
    return Choice(Policy(rule, costs=asdict(costs)), chosen, why, tuple(options))


def _top_scores(rows: Rows, top: int) -> FloatArray:
    """The probabilities of the likeliest classes, shape (n, K), and `NOT_IN_TOP_K` for the others."""
    return np.where(likeliest(rows.prob, top), rows.prob, NOT_IN_TOP_K)


def _best_threshold(costs: Costs, score: FloatArray, rows: Rows, place: int) -> float:
    """The threshold of a class that costs least on the rows where it is among the likeliest."""
    in_top = score >= 0.0
    mass = None if rows.weight is None else rows.weight[in_top]
    return costs.best_threshold(score[in_top], (rows.label[in_top] == place).astype(np.int64), mass)


# Targets


def _by_class_target(target: Target, goal: DecisionGoal, rows: Rows) -> Choice:
    """The threshold of each class whose target holds, all of them at once with the confidence."""
    top, classes = goal.top or 1, rows.prob.shape[1]
    score, each = _top_scores(rows, top), replace(target, confidence=1.0 - (1.0 - target.confidence) / classes)
    sure = with_confidence(target.confidence)
    may_be_never = target.rate in ("precision", "fpr") or target.relation == "<="
    thresholds, bounds, never = [NEVER] * classes, [], []
    for place, name in enumerate(rows.classes):
        found = Certified.of(each, of_class(rows, place), score[:, place])
        if found.threshold is not None:
            thresholds[place] = max(found.threshold, 0.0)
            bounds.append(found.bound)
        elif may_be_never:
            never.append(name)
        else:
            why = f"no threshold of class {name} has {target} {sure}; the best has at least {found.bound:.3g}"
            why += found.by_weights
            if top < classes:
                why += f" (a row gets {top} of {classes} classes at most: see --top)"
            return Choice(None, None, why, (_today(rows, top),), found.bound)
    if not bounds:
        return Choice(None, None, f"no threshold of any class has {target} {sure}", (_today(rows, top),))
    why = f"{target} holds in each class, in all at once {sure}"
    if never:
        why += f"; no row gets {', '.join(never)}, of which nothing is sure enough"
    worst = min if target.relation == ">=" else max
    policy = Policy(rule := ClassRule(tuple(thresholds), top), target)
    return Choice(policy, "chosen", why, _class_options(rule, rows), float(worst(bounds)))


def _by_class_accuracy(target: Target, goal: DecisionGoal, rows: Rows) -> Choice:
    """Rows are left open until the likeliest classes of the others hold the truth as often as the target says."""
    top, classes = goal.top or 1, rows.prob.shape[1]
    together, held = _likeliest_together(rows, top)
    outcome = replace(rows, prob=np.clip(together, 0.0, 1.0), label=held.astype(np.int64))
    found = Certified.of(replace(target, rate="precision"), outcome, together)
    if found.threshold is None:
        return Choice(None, None, found.refusal(target), (_today(rows, top),), found.bound)
    rule = _surest(found.threshold, top, classes)
    policy = Policy(rule, Target("error", "<=", 1.0 - target.value, target.confidence))
    why = f"{target} holds among the rows that get a class {with_confidence(target.confidence)}"
    return Choice(policy, "chosen", why, _class_options(rule, rows), found.bound)


# Shares of rows to decide


def _leaving_open(goal: DecisionGoal, rows: Rows, band: AbstentionBand, options: Sequence[Option]) -> Choice:
    """The band between the thresholds, with a bound on the errors outside it, beside other bands."""
    costs = goal.four_costs()
    others = (at for at in COVERAGES if at != goal.coverage)
    bands = [band, *(by_coverage(costs, rows.prob, at, rows.mass, rows.uncertainty) for at in others)]
    own, table = _risks(bands, rows.prob, (rows.prob >= costs.threshold) != (rows.label > 0), goal, rows)
    why = _share_decided(own.coverage, own.bound, goal.confidence)
    promise = Target("error", "<=", own.bound, goal.confidence)
    policy = Policy(ThresholdRule(band, goal.uncertainty), promise, asdict(costs))
    return Choice(policy, "left open", why, tuple(options), own.bound, table)


def _by_class_coverage(goal: DecisionGoal, rows: Rows) -> Choice:
    """The likeliest classes of the surest rows, or of all, with a bound on how often they do not hold the truth."""
    top, classes = goal.top or 1, rows.prob.shape[1]
    together, held = _likeliest_together(rows, top)
    bands = [AbstentionBand(0.0, 0.0)]
    if goal.coverage is not None:
        shares = dict.fromkeys((goal.coverage, *COVERAGES))
        bands = [by_confidence(together, at, rows.mass, rows.uncertainty) for at in shares]
    own, table = _risks(bands, together, ~held, goal, rows)
    rule = replace(_surest(own.band.high, top, classes), limit=own.band.limit, column=goal.uncertainty)
    sure = with_confidence(goal.confidence)
    what = "a class" if top == 1 else f"{top} classes"
    missed = f"the true class is another for at most {100 * own.bound:.2f} % of new rows among them {sure}"
    why = f"{100 * own.coverage:.1f} % of the rows get {what}; {missed}"
    policy = Policy(rule, Target("error", "<=", own.bound, goal.confidence))
    table = () if goal.coverage is None else table
    return Choice(policy, "chosen", why, _class_options(rule, rows), own.bound, table)


def _risks(
    bands: Sequence[AbstentionBand], score: FloatArray, wrong: Mask, goal: DecisionGoal, rows: Rows
) -> tuple[Risk, tuple[Risk, ...]]:
    """The risk of the first band, and a table of all, those that decide the most rows first."""
    found = risks(bands, score, wrong, rows.mass, rows.uncertainty, confidence=goal.confidence)
    return found[0], tuple(sorted(found, key=lambda one: -one.coverage))


def _likeliest_together(rows: Rows, top: int) -> tuple[FloatArray, Mask]:
    """The probability of the likeliest classes of each row together, and whether they hold the truth."""
    in_top = likeliest(rows.prob, top)
    return np.where(in_top, rows.prob, 0.0).sum(axis=1), rows.held(in_top)


def _surest(threshold: float, top: int, classes: int) -> ClassRule:
    """The likeliest classes, where they have this probability together."""
    if top == 1:
        return ClassRule((threshold,) * classes)
    return ClassRule((0.0,) * classes, top, threshold)


def _share_decided(coverage: float, bound: float, confidence: float) -> str:
    return (
        f"{100 * coverage:.1f} % of the rows are decided, at most {100 * bound:.2f} % of these wrongly "
        f"{with_confidence(confidence)}, and the policy abstains on the others"
    )


# Options of more than two classes


def _class_options(rule: ClassRule, rows: Rows) -> tuple[Option, ...]:
    """The rule as a whole, then by class, then the likeliest classes in its place."""
    beside = {} if rule.column is None or rows.uncertainty is None else {rule.column: rows.uncertainty}
    members = rule.members(rows.prob, beside)
    whole = Option("chosen", None, class_numbers(rows, members))
    return (whole, *_each_class(rule, rows, members), _today(rows, rule.top))


def _each_class(rule: ClassRule, rows: Rows, members: Mask) -> list[Option]:
    return [
        Option(f"  class {name}", rule.thresholds[place], rates_of(of_class(rows, place), members[:, place]))
        for place, name in enumerate(rows.classes)
    ]


def _today(rows: Rows, top: int) -> Option:
    """The likeliest classes, whatever their probabilities are."""
    return Option("likeliest", None, class_numbers(rows, likeliest(rows.prob, top)))


# Actions and sets


def _by_matrix(goal: DecisionGoal, rows: Rows, seed: int) -> Choice:
    """The action of the least expected cost, beside the likeliest class and each action for all rows."""
    names: tuple[str | None, ...]
    names, table = goal.matrix
    if goal.abstain is not None:
        names, table = (*names, None), tuple((*row, goal.abstain) for row in table)
    rule = MatrixRule(names, table)
    matrix = np.array(table)
    actions = {"bayes": rule.decide(rows.prob, {})}
    own_action = np.array([names.index(name) if name in names else -1 for name in rows.classes])  # of each class
    today = f"all {names[0]}"
    if (own_action >= 0).all():
        today = "likeliest"
        actions[today] = own_action[of_classes(rows.prob).argmax(axis=1)]
    actions |= {
        f"all {'left open' if name is None else name}": np.full(len(rows.prob), column)
        for column, name in enumerate(names)
    }
    means = Means.of({name: matrix[rows.label, action] for name, action in actions.items()}, rows, goal, seed)
    options = []
    for name, action in actions.items():
        right = share_of(rows, action == own_action[rows.label])
        options.append(Option(name, None, means.numbers(name, today) | {"accuracy": right}))
    why = f"of {len(names)} actions, the one with the least expected cost"
    return Choice(Policy(rule), "bayes", why, tuple(options))


def _by_sets(goal: DecisionGoal, rows: Rows, seed: int) -> Choice:
    """Conformal sets of the goal's level, and how they do on rows that did not choose them, by cross-fitting."""
    assert goal.sets is not None
    level = goal.sets

    def fitted(some: Rows, score: SetScore) -> PredictionSets:
        return PredictionSets.fit(
            some.prob,
            some.label.astype(np.int64),
            level,
            score=score,
            by_class=goal.by_class,
            **some.held_out(goal.confidence),
        )

    rule = SetRule(fitted(rows, goal.set_score), goal.by, rows.groups)
    options = []
    for score in dict.fromkeys((goal.set_score, *get_args(SetScore))):
        members = np.zeros(of_classes(rows.prob).shape, dtype=np.bool_)
        for train, test in decision_splits(rows.units, len(rows.prob), goal.folds, seed):
            group = None if rows.group is None else rows.group[test]
            members[test] = fitted(rows.taken(train), score).predict(rows.prob[test], group)
        options.append(Option(score, None, set_numbers(rows, members)))
        if score == goal.set_score:
            if rows.group is not None:
                options += _set_parts(goal.by, rows.group, tuple(map(group_name, rows.groups)), rows, members)
            if goal.by_class:
                options += _set_parts("class", rows.label, rows.classes, rows, members)
    each = [*([] if goal.by is None else [goal.by]), *(["class"] if goal.by_class else [])]
    where = f" of each {' and '.join(each)}" if each else ""
    sure = with_confidence(goal.confidence) + (" for each by itself" if each else "")
    why = f"the sets contain the true class of at least {level:.4g} of new rows{where} {sure}"
    why += rule.sets.thresholds.shortage("they hold every class")
    return Choice(Policy(rule), goal.set_score, why, tuple(options))


def _set_parts(kind: str | None, of: IntArray, names: tuple[str, ...], rows: Rows, members: Mask) -> list[Option]:
    """The sets of each group, or of each class, that has rows."""
    parts = ((name, of == place) for place, name in enumerate(names))
    return [
        Option(f"  {kind} {name}", None, set_numbers(rows.taken(part), members[part]))
        for name, part in parts
        if part.any()
    ]
