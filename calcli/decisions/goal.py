"""The goal of a policy, which its artifact keeps so that a refit chooses for it again, and the policy chosen for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from typing import Any, Self

import numpy as np

from calcli.batch import FloatArray, SamplingUnits
from calcli.decisions.abstention import Risk
from calcli.decisions.conformal import SetScore, Side
from calcli.decisions.costs import MOST_COST, Cost, CostColumns, Costs, bootstrap_means
from calcli.decisions.measure import Number, Rows, intervals
from calcli.decisions.merits import FIGURES, MERITS
from calcli.decisions.policy import IntervalRule, Policy
from calcli.decisions.targets import Target
from calcli.errors import UsageError, unknown_name
from calcli.homes import Brief
from calcli.numeric.seeded import Split, folds, in_turn, splits_of_units, stream
from calcli.state import Json

PREDICTION = "uncertainty_mean"
"""The column of the predictions that `uncertainty apply` adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionGoal:
    """The goal of a policy: costs, a matrix of costs, a target, a budget, or a share of rows to decide.

    Attributes
    ----------
    cost_fp, cost_fn, cost_tp, cost_tn
        What a row costs: a false alarm, a miss, and the two right decisions; numbers, or columns.
    cost
        A column by which the costs of positive rows, a miss and a true alarm, are multiplied, such as an amount.
    costs
        The actions, and the cost of each by class, in the order of the class index; in place of the four numbers.
    target
        What a rate must be: ``precision >= 0.9``; also recall, accuracy, fpr, positive-rate.
    maximize
        The figure that a threshold is to make as large as it can: f1, mcc, balanced-accuracy, youden; beside a target
        also a rate, such as recall.
    budget
        How many of as many rows as these can be acted on.
    confidence
        The probability that target, budget and bounds hold on new rows.
    abstain
        What it costs to leave a row open.
    coverage
        The share of rows to decide; the least sure ones are left open.
    top
        How many classes a row gets at most, where there are more than two.
    uncertainty
        A column, such as ``uncertainty_knowledge``: rows are left open by it, and not by their probability.
    sets
        The probability with which a set of classes holds the true one.
    set_score
        ``lac`` for the smallest sets, ``aps`` for sets that adapt to how hard a row is.
    by_class, by
        Sets hold the truth as often in each class; sets and intervals in each group of this column. Of two classes a
        target has a threshold for each group.
    intervals
        The probability with which an interval holds the amount that comes true.
    prediction
        The column of predicted amounts; None is ``uncertainty_mean``.
    quantiles
        Two columns of predicted quantiles, in place of `prediction`.
    spread, variance
        A column of predicted standard deviations, or of variances, by which intervals are scaled.
    side
        ``lower`` or ``upper`` for intervals with one end.
    threshold
        Today's, with which the others are compared.
    resample_by
        A column: rows that agree in it are never on both sides of a split, and count as one in bounds and intervals.
    folds
        The tuned threshold is judged by cross-fitting over so many.
    bootstrap
        Replicates for the intervals of costs.
    """

    cost_fp: Cost | None = None
    cost_fn: Cost | None = None
    cost_tp: Cost | None = None
    cost_tn: Cost | None = None
    cost: str | None = None
    costs: tuple[tuple[str, ...], tuple[tuple[float, ...], ...]] | None = None
    target: str | None = None
    maximize: str | None = None
    budget: int | None = None
    confidence: float = 0.95
    abstain: float | None = None
    coverage: float | None = None
    top: int | None = None
    uncertainty: str | None = None
    sets: float | None = None
    set_score: SetScore = "lac"
    by_class: bool = False
    by: str | None = None
    intervals: float | None = None
    prediction: str | None = None
    quantiles: Sequence[str] | None = None
    spread: str | None = None
    variance: str | None = None
    side: Side = "both"
    threshold: float = 0.5
    resample_by: str | None = None
    folds: int = 5
    bootstrap: int = 1000

    def to_json(self) -> dict[str, Json]:
        """The fields of the goal alone, also where `self` is a request."""
        return {each.name: getattr(self, each.name) for each in fields(DecisionGoal)}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        known: dict[str, Any] = {each.name: written[each.name] for each in fields(DecisionGoal) if each.name in written}
        if known.get("quantiles") is not None:
            known["quantiles"] = tuple(known["quantiles"])
        if known.get("costs") is not None:
            names, rows = known["costs"]
            known["costs"] = tuple(names), tuple(map(tuple, rows))
        return cls(**known)

    @property
    def predicted(self) -> tuple[str, str]:
        """The columns between which an amount is predicted: two quantiles, or twice the prediction."""
        if self.quantiles is not None:
            return self.quantiles[0], self.quantiles[1]
        return (self.prediction or PREDICTION,) * 2

    @property
    def has_costs(self) -> bool:
        return _any(*self._costs)

    def check(self) -> None:
        """Refuse what contradicts itself, before any rows are read."""
        purposes = {
            "--cost-fp/--cost-fn": self.has_costs,
            "--costs": self.costs is not None,
            "--target": self.target is not None,
            "--maximize": self.maximize is not None and self.target is None,
            "--budget": self.budget is not None,
            "--sets": self.sets is not None,
            "--intervals": self.intervals is not None,
        }
        given = [name for name, is_given in purposes.items() if is_given]
        if len(given) > 1:
            raise UsageError(f"{given[0]} excludes {given[1]}", hint="give only one of them")
        self._check_beside()
        if not given and self.coverage is self.top is None:
            raise UsageError(
                "decide needs a goal",
                hint="give --cost-fp 1 --cost-fn 20, --target 'precision >= 0.9', --maximize f1, or another goal of "
                "calcli decide --help",
            )
        if self.budget is not None and self.budget < 1:
            raise UsageError(f"--budget {self.budget}: give 1 or more")
        self._check_figure()
        if self.target is not None:
            Target.parse(self.target, self.confidence)
        if self.has_costs and not self.by_rows:
            self.four_costs()

    def _check_figure(self) -> None:
        """Refuse figures that there are not, or that one end of all thresholds makes largest."""
        if self.maximize is None:
            return
        if self.maximize not in FIGURES:
            unknown = unknown_name("figure", self.maximize, FIGURES)
            raise UsageError(f"--maximize {self.maximize}: {unknown}", hint="--maximize recall --target 'fpr <= 0.05'")
        if self.maximize not in MERITS and self.target is None:
            raise UsageError(
                f"--maximize {self.maximize} needs something that limits it", hint="add --target 'fpr <= 0.05'"
            )
        if self.by is not None:
            raise UsageError("--by gives each group the threshold of its target", hint="leave out --maximize")

    def _check_beside(self) -> None:
        """Refuse options that lack the options they go with."""
        purpose = (self.costs, self.target, self.maximize, self.budget, self.sets, self.intervals)
        amounts = (self.prediction, self.quantiles, self.spread, self.variance)
        missing = "--cost-fp" if self.cost_fp is None else "--cost-fn"
        refused = (
            (
                (self.sets is None and self.by_class)
                or (self.by is not None and not _any(self.sets, self.intervals, self.target)),
                "--by-class needs --sets, and --by needs --sets, --intervals or --target",
                "add --sets 0.95",
            ),
            (
                self.intervals is None and (self.side != "both" or _any(*amounts)),
                "--prediction, --quantiles, --spread, --variance and --side need --intervals",
                "add --intervals 0.9",
            ),
            (
                self.quantiles is not None and (len(self.quantiles) != 2 or self.prediction is not None),
                "--quantiles takes two columns, LOW,HIGH, and excludes --prediction",
                None,
            ),
            (
                self.spread is not None and self.variance is not None,
                "--spread and --variance are both given",
                "keep one",
            ),
            (
                self.has_costs and (self.cost_fp is None or self.cost_fn is self.cost is None),
                f"{missing} is not given",
                "both errors have a cost: --cost-fp 1 --cost-fn 20",
            ),
            (
                self.cost is not None and not self.has_costs,
                f"--cost {self.cost} multiplies the cost of a false negative, and needs the cost of a false positive",
                "add --cost-fp 5",
            ),
            (
                self.top is not None and _any(self.costs, self.maximize, self.budget, self.sets, self.intervals),
                "--top goes with --target, --coverage, --cost-fp and --cost-fn, or alone",
                "leave it out",
            ),
            (
                self.abstain is not None and not self.has_costs and self.costs is None,
                "--abstain needs the costs of errors",
                "add --cost-fp and --cost-fn, or use --coverage",
            ),
            (
                self.coverage is not None and (self.by_rows or _any(self.abstain, *purpose)),
                "--coverage goes with --cost-fp and --cost-fn that are numbers, no columns, or alone",
                "leave it out",
            ),
            (
                self.uncertainty is not None and self.coverage is None,
                "--uncertainty needs --coverage",
                "add --coverage 0.9",
            ),
        )
        for wrong, message, hint in refused:
            if wrong:
                raise UsageError(message, hint=hint)
        if self.abstain is not None and not 0.0 <= self.abstain <= MOST_COST:
            raise UsageError(f"--abstain {self.abstain:g}: a cost is from 0 to {MOST_COST:g}")
        shares = {
            "--coverage": self.coverage,
            "--confidence": self.confidence,
            "--sets": self.sets,
            "--intervals": self.intervals,
        }
        for name, share in shares.items():
            if share is not None and not 0.0 < share < 1.0:
                raise UsageError(f"{name} {share:g} does not lie between 0 and 1")

    @property
    def matrix(self) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]:
        """The actions, and the cost of each by class."""
        assert self.costs is not None
        for cost in chain(*self.costs[1]):
            if not 0.0 <= cost <= MOST_COST:
                raise UsageError(f"--costs has {cost:g}: a cost is from 0 to {MOST_COST:g}")
        return self.costs

    @property
    def by_rows(self) -> bool:
        """Whether each row has costs of its own."""
        return self.cost is not None or any(isinstance(cost, str) for cost in self._costs)

    @property
    def _costs(self) -> tuple[Cost | None, ...]:
        return self.cost_fp, self.cost_fn, self.cost_tp, self.cost_tn

    def cost_columns(self) -> CostColumns:
        """The costs of each row; a miss costs 1 where nothing is said."""
        fn = 1.0 if self.cost_fn is None else self.cost_fn
        return CostColumns(self.cost_fp or 0.0, fn, self.cost_tp or 0.0, self.cost_tn or 0.0, self.cost)

    def cost_flags(self) -> dict[str, str]:
        """The flag that named each column of costs, the first where there are several."""
        flags = ("--cost-fp", "--cost-fn", "--cost-tp", "--cost-tn", "--cost")
        named = zip(flags, (*self._costs, self.cost), strict=True)
        return {column: flag for flag, column in reversed(list(named)) if isinstance(column, str)}

    def four_costs(self) -> Costs:
        """The four costs, if they are those of all rows; without any, an error costs 1."""
        fp, fn, tp, tn = (None if isinstance(cost, str) else cost for cost in self._costs)
        return Costs(fp or 0.0, fn or 0.0, tp or 0.0, tn or 0.0) if self.has_costs else Costs(1.0, 1.0)


def _any(*given: object) -> bool:
    return any(one is not None for one in given)


@dataclass(frozen=True, slots=True)
class Option:
    """A policy that was measured."""

    name: str
    threshold: float | None
    """None where the policy is no single threshold."""

    numbers: Mapping[str, Number]
    """By name: ``cost`` a row, how much it ``saves`` beside today's threshold, and rates."""


@dataclass(frozen=True, slots=True, repr=False)
class Choice(Brief):
    """The policy that was chosen, and its alternatives."""

    policy: Policy | None
    """None where no policy reaches the goal."""

    chosen: str | None
    """The name of its option."""

    why: str
    """A sentence: why this one; or why none, and which comes nearest."""

    options: tuple[Option, ...]
    """All alternatives, measured on the same rows."""

    bound: float | None = None
    """How bad the rate of the target, or the number of yeses of the budget, may be on new rows."""

    risks: tuple[Risk, ...] = ()
    """The errors left when rows are left open, by the share of rows that is decided."""

    intervals: IntervalRule | None = None
    """The rule in place of a policy, where amounts are predicted."""

    @property
    def rule(self) -> Policy | IntervalRule | None:
        """The policy, or the rule in its place."""
        return self.policy or self.intervals

    def to_json(self) -> dict[str, Any]:
        """The keys of the object that the verb writes."""
        return {
            "chosen": self.chosen,
            "why": self.why,
            "policy": None if self.rule is None else dict(self.rule.to_state().params),
            "bound": self.bound,
            "options": [asdict(option) for option in self.options],
            "risks": [
                {"coverage": one.coverage, **asdict(one.band), "risk": one.risk, "bound": one.bound}
                for one in self.risks
            ],
        }


@dataclass(frozen=True, slots=True)
class Means:
    """Mean costs of several policies, and their replicates."""

    names: tuple[str, ...]
    means: FloatArray
    replicates: FloatArray
    rows: Rows

    otherwise: FloatArray | None = None
    """By how much the cost of each row under each policy would be higher if the row had the other label."""

    @classmethod
    def of(
        cls,
        paid: Mapping[str, FloatArray],
        rows: Rows,
        goal: DecisionGoal,
        seed: int,
        opposite: Mapping[str, FloatArray] | None = None,
    ) -> Self:
        """The means of what rows pay under each policy; with `opposite`, what each would pay with the other label."""
        means = np.array([np.average(cost, weights=rows.weight) for cost in paid.values()])
        drawn = np.empty((0, len(paid)))
        if goal.bootstrap:
            drawn = bootstrap_means([*paid.values()], rows.weight, rows.together, replicates=goal.bootstrap, seed=seed)
        otherwise = None if opposite is None else np.array([opposite[name] - cost for name, cost in paid.items()])
        return cls((*paid,), means, drawn, rows, otherwise)

    def difference(self, first: str, second: str) -> Number:
        """The mean cost of the first less that of the second."""
        a, b = self.names.index(first), self.names.index(second)
        found = intervals(float(self.means[a] - self.means[b]), self.replicates[:, a] - self.replicates[:, b])
        if self.otherwise is None or found.value is None or found.lo is None or found.hi is None:
            return found
        end = found.value + self._unseen(self.otherwise[a] - self.otherwise[b])
        return replace(found, lo=min(found.lo, end), hi=max(found.hi, end))

    def _unseen(self, moved: FloatArray) -> float:
        """How far the difference of two policies may move by a label that no row has on which they decide differently.

        No replicate has it either. Its share is below 1 - 0.025^(1/n) in 97.5 of 100 samples, of n rows without it.
        """
        differ = np.flatnonzero((moved != 0.0) & (self.rows.mass > 0.0))
        if not len(differ) or len(np.unique(self.rows.label[differ])) > 1:
            return 0.0
        weight = self.rows.mass[differ]
        unit = None if self.rows.together is None else np.unique(self.rows.together[differ], return_inverse=True)[1]
        masses = weight if unit is None else np.bincount(unit, weight)
        worth = float(masses.sum() ** 2 / np.square(masses).sum())
        share: float = 1.0 - 0.025 ** (1.0 / worth)
        return share * float(weight @ moved[differ]) / float(self.rows.mass.sum())

    def number(self, name: str) -> Number:
        place = self.names.index(name)
        return intervals(float(self.means[place]), self.replicates[:, place])

    def saves(self, first: str, second: str) -> bool:
        """Whether the first costs less than the second beyond chance."""
        least = self.difference(second, first).lo
        return least is not None and least > 0.0

    def numbers(self, name: str, today: str) -> dict[str, Number]:
        """The cost of a policy per row, and how much it saves beside today's."""
        return {"cost": self.number(name)} | ({} if name == today else {"saves": self.difference(today, name)})


def decision_splits(units: SamplingUnits | None, rows: int, count: int, seed: int) -> Sequence[Split]:
    """Folds of the rows, or of the units that they belong to."""
    rng = stream(seed, "decision folds")
    return in_turn(folds(rows, count, rng), count) if units is None else splits_of_units(units, count, rng)


def with_confidence(confidence: float) -> str:
    return f"with {100 * confidence:g} % confidence"
