"""Choosing a rule for more than two classes: thresholds of the classes by costs or targets, or the likeliest ones.

What is shown of each class holds for all of them at once: each has its share of the error (Bonferroni).
"""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from calcli.batch import FloatArray
from calcli.decisions.abstention import COVERAGES, Gap, Risk, by_confidence, risks
from calcli.decisions.ask import Ask
from calcli.decisions.class_rule import ClassRule, likeliest
from calcli.decisions.costs import Costs
from calcli.decisions.measure import class_costs, class_numbers, of_class
from calcli.decisions.options import Choice, Means, Option, splits_of, with_confidence
from calcli.decisions.policy import Policy
from calcli.decisions.rates import GRID, GRID_OF_UNITS, NEVER, Decided, decided, expected, grid
from calcli.decisions.rows import Rows, rates_of
from calcli.decisions.targets import Target, certify
from calcli.errors import UsageError

UNLED = -1.0
"""In place of a probability where a class is not among the likeliest: no threshold gives the row that class."""


def choose_of_classes(ask: Ask, rows: Rows, seed: int) -> Choice:
    """The rule that was asked for."""
    classes = rows.prob.shape[1]
    if ask.budget is not None:
        raise UsageError("--budget is for two classes, and these rows have more", hint="try: --target, or --costs FILE")
    if ask.cost is not None:
        raise UsageError("costs of each row are for two classes, and these rows have more", hint="try: --costs FILE")
    if ask.top is not None and not 1 <= ask.top <= classes:
        raise UsageError(f"--top {ask.top}: there are {classes} classes", hint=f"try: --top {classes - 1}")
    if ask.has_costs and not ask.abstain is ask.coverage is None:
        raise UsageError(
            "with more than two classes, --cost-fn is also the cost of abstaining",
            hint="leave out --abstain and --coverage, or try --costs FILE --abstain COST",
        )
    if ask.has_costs:
        return _by_costs(ask, rows, seed)
    if ask.target is None:
        return _by_coverage(ask, rows)
    target = Target.parse(ask.target, ask.confidence)
    return _by_accuracy(target, ask, rows) if target.rate == "accuracy" else _by_target(target, ask, rows)


def _led(rows: Rows, top: int) -> FloatArray:
    """The probabilities of the likeliest classes, shape (n, K)."""
    return np.where(likeliest(rows.prob, top), rows.prob, UNLED)


def _options(name: str, rule: ClassRule, rows: Rows) -> tuple[Option, ...]:
    """The rule as a whole, then by class."""
    members = rule.members(rows.prob, _beside(rows, rule))
    each = [
        Option(f"  class {of}", rule.thresholds[place], rates_of(of_class(rows, place), members[:, place]))
        for place, of in enumerate(rows.classes)
    ]
    return (Option(name, None, class_numbers(rows, members)), *each)


def _beside(rows: Rows, rule: ClassRule) -> dict[str, FloatArray]:
    return {} if rule.column is None or rows.uncertainty is None else {rule.column: rows.uncertainty}


def _today(rows: Rows, top: int) -> Option:
    """The likeliest classes, whatever their probabilities are."""
    return Option("likeliest", None, class_numbers(rows, likeliest(rows.prob, top)))


def _by_costs(ask: Ask, rows: Rows, seed: int) -> Choice:
    """The threshold that follows from the costs for each class, unless tuned ones cost less beyond chance."""
    costs, top, classes = ask.four_costs(), ask.top or 1, rows.prob.shape[1]
    led = _led(rows, top)

    def tuned(some: np.ndarray) -> tuple[float, ...]:
        return tuple(_best(costs, led[some, place], rows.taken(some), place) for place in range(classes))

    everything = np.ones(len(led), dtype=np.bool_)
    rules = {"bayes": (costs.threshold,) * classes, "tuned": tuned(everything)}
    members = {"bayes": led >= costs.threshold, "tuned": np.zeros_like(led, dtype=np.bool_)}
    for train, test in splits_of(rows.units, len(led), ask.folds, seed):
        members["tuned"][test] = led[test] >= np.array(tuned(train))
    members |= {"likeliest": likeliest(rows.prob, top), "no class": np.zeros_like(led, dtype=np.bool_)}
    paid = {name: class_costs(costs, rows, named) for name, named in members.items()}
    means = Means.of(paid, rows, ask, seed)
    options = [
        Option(name, None, means.numbers(name, "likeliest") | class_numbers(rows, named))
        for name, named in members.items()
    ]
    better = means.difference("bayes", "tuned")
    chosen, why = "bayes", "this follows from the costs if the probabilities are calibrated"
    if better.lo is not None and better.lo > 0.0:
        chosen, why = "tuned", "on rows that did not choose them, they cost less than the one that follows from costs"
    rule = ClassRule(rules[chosen], top)
    options += _options(chosen, rule, rows)[1:]
    return Choice(Policy(rule, costs=asdict(costs)), chosen, why, tuple(options))


def _best(costs: Costs, led: FloatArray, rows: Rows, place: int) -> float:
    """The threshold of a class that costs least on these rows."""
    leads = led >= 0.0
    mass = None if rows.weight is None else rows.weight[leads]
    return costs.best_threshold(led[leads], (rows.label[leads] == place).astype(np.int64), mass)


def _by_target(target: Target, ask: Ask, rows: Rows) -> Choice:
    """The threshold of each class whose target holds, all of them at once with the confidence."""
    top, classes = ask.top or 1, rows.prob.shape[1]
    led, each = _led(rows, top), replace(target, confidence=1.0 - (1.0 - target.confidence) / classes)
    sure = with_confidence(target.confidence)
    may_be_never = target.rate in ("precision", "fpr") or target.relation == "<="
    thresholds: list[float] = []
    bounds: list[float] = []
    never: list[str] = []
    for place, name in enumerate(rows.classes):
        own = of_class(rows, place)
        steps, found = _at(each, own, led[:, place])
        passed = certify(each, found, expected(own.prob, steps, rows.weight, led[:, place]))
        hits, worth = (float(of[passed.best]) for of in found.worth(target.rate))
        bound = each.bound(hits, worth)
        if passed.place is None and not may_be_never:
            why = f"no threshold of class {name} has {target} {sure}; the best has at least {bound:.3g}"
            if top < classes:
                why += f" (a row gets {top} of {classes} classes at most: see --top)"
            return Choice(None, None, why, (_today(rows, top),), bound)
        thresholds.append(NEVER if passed.place is None else max(float(steps[passed.place]), 0.0))
        if passed.place is None:
            never.append(name)
        else:
            bounds.append(bound)
    if len(never) == classes:
        why = f"no threshold of any class has {target} {sure}"
        return Choice(None, None, why, (_today(rows, top),), None)
    rule = ClassRule(tuple(thresholds), top)
    why = f"{target} holds in each class, in all at once {sure}"
    if never:
        why += f"; no row gets {', '.join(never)}, of which nothing is sure enough"
    worst = min if target.relation == ">=" else max
    options = (*_options("chosen", rule, rows), _today(rows, top))
    return Choice(Policy(rule, target), "chosen", why, options, float(worst(bounds)))


def _at(target: Target, rows: Rows, score: FloatArray) -> tuple[FloatArray, Decided]:
    """A grid of thresholds of a score, and the rows at each."""
    steps = grid(score, GRID if rows.together is None else GRID_OF_UNITS)
    return steps, decided(score, rows.label, steps, rows.weight, rows.together, rates=(target.rate,))


def _by_accuracy(target: Target, ask: Ask, rows: Rows) -> Choice:
    """Rows are left open until the likeliest classes of the others hold the truth as often as the target says."""
    top, classes = ask.top or 1, rows.prob.shape[1]
    leading = likeliest(rows.prob, top)
    together = np.where(leading, rows.prob, 0.0).sum(axis=1)
    right = replace(rows, label=leading[np.arange(len(together)), rows.label].astype(np.int64))
    precision = replace(target, rate="precision")
    steps, found = _at(precision, right, together)
    passed = certify(precision, found, expected(np.clip(together, 0.0, 1.0), steps, rows.weight, together))
    hits, worth = (float(of[passed.best]) for of in found.worth("precision"))
    bound, sure = target.bound(hits, worth), with_confidence(target.confidence)
    if passed.place is None:
        best = f"the best one, {steps[passed.best]:.6g}, has an accuracy of at least {bound:.3g} with that confidence"
        why = f"no threshold has {target} {sure}; {best}"
        return Choice(None, None, why, (_today(rows, top),), bound)
    rule = _surest(float(steps[passed.place]), top, classes)
    promise = Target("error", "<=", 1.0 - target.value, target.confidence)
    why = f"{target} holds among the rows that get a class {sure}"
    return Choice(Policy(rule, promise), "chosen", why, (*_options("chosen", rule, rows), _today(rows, top)), bound)


def _surest(threshold: float, top: int, classes: int) -> ClassRule:
    """The likeliest classes, where they have this probability together."""
    if top == 1:
        return ClassRule((threshold,) * classes)
    return ClassRule((0.0,) * classes, top, threshold)


def _by_coverage(ask: Ask, rows: Rows) -> Choice:
    """The likeliest classes of the surest rows, or of all, with a bound on how often they do not hold the truth."""
    top, classes = ask.top or 1, rows.prob.shape[1]
    leading = likeliest(rows.prob, top)
    together = np.where(leading, rows.prob, 0.0).sum(axis=1)
    wrong = ~leading[np.arange(len(together)), rows.label]
    gaps = [Gap(0.0, 0.0)]
    if ask.coverage is not None:
        shares = dict.fromkeys((ask.coverage, *COVERAGES))
        gaps = [by_confidence(together, at, rows.weight, rows.uncertainty) for at in shares]
    found = risks(gaps, together, wrong, rows.weight, rows.uncertainty, confidence=ask.confidence)
    own = found[0]
    rule = replace(_surest(own.gap.high, top, classes), limit=own.gap.limit, column=ask.uncertainty)
    sure = with_confidence(ask.confidence)
    what = "a class" if top == 1 else f"{top} classes"
    missed = f"the true class is another for at most {100 * own.bound:.2f} % of new rows among them {sure}"
    why = f"{100 * own.coverage:.1f} % of the rows get {what}; {missed}"
    table: tuple[Risk, ...] = () if ask.coverage is None else tuple(sorted(found, key=lambda one: -one.coverage))
    policy = Policy(rule, Target("error", "<=", own.bound, ask.confidence))
    return Choice(policy, "chosen", why, (*_options("chosen", rule, rows), _today(rows, top)), own.bound, table)
