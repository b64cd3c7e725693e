"""A year of nights, with and without drift: the log-loss with `refit`, beside never and always refitting.

python benchmarks/statistics/refit.py [--quick] [--out DIR]

The probabilities of the labels are known, so that the loss of every night is: what the calibrator in place has beyond
the truth in expectation. Scores lie on a grid of log-odds, so that a night is a table of counts, and years are short.
With ``--out``, the years are drawn there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.methods import calibrator, catalog
from calcli.numeric.e_process import NightSums, directions
from calcli.numeric.links import sigmoid
from calcli.numeric.losses import log_loss
from calcli.verbs.refit_calibrator import MARGIN, Evidence, NightEffect

YEAR = 365
MOVED = 100
"""The night from which on the rows are others."""

FITTED = 5000
"""Rows of the fit in place on the first night."""

FOLDS = 5
POOL = 30

GRID = np.linspace(-4.6, 2.6, 49)
SHARE = np.exp(-0.5 * ((GRID + 1.0) / 1.2) ** 2)
SHARE /= SHARE.sum()


@dataclass(frozen=True)
class Scenario:
    """The log-odds of the labels on a night: a + b z, with a shared effect of the night that has this spread."""

    name: str
    shift: Callable[[int], float] = lambda night: 0.0
    slope: Callable[[int], float] = lambda night: 1.0
    spread: float = 0.0

    def truth(self, night: int) -> FloatArray:
        """The probabilities over the nights that this one might have been."""
        effects = self.spread * np.linspace(-2.5, 2.5, 21)
        weight = np.exp(-0.5 * np.linspace(-2.5, 2.5, 21) ** 2)
        center = self.shift(night) + self.slope(night) * GRID
        return np.average(sigmoid(center + effects[:, None]), axis=0, weights=weight)

    def draw(self, rng: np.random.Generator, night: int, rows: int) -> FloatArray:
        """The counts of a night's rows, by fold, cell and label."""
        prob = sigmoid(self.shift(night) + rng.normal(0.0, self.spread) + self.slope(night) * GRID)
        cells = np.concatenate([SHARE * (1.0 - prob), SHARE * prob])
        return rng.multinomial(rows, np.tile(cells, FOLDS) / FOLDS).reshape(FOLDS, 2, len(GRID)).swapaxes(1, 2) * 1.0


SCENARIOS = (
    Scenario("nothing moves"),
    Scenario("nothing moves; nights differ, sd 0.2", spread=0.2),
    Scenario("nothing moves; nights differ, sd 0.3", spread=0.3),
    Scenario("log-odds +0.3 from night 100 on", shift=lambda night: 0.3 * (night >= MOVED)),
    Scenario("log-odds +0.3 from night 100 on; sd 0.2", shift=lambda night: 0.3 * (night >= MOVED), spread=0.2),
    Scenario("log-odds x 0.75 from night 100 on", slope=lambda night: 1.0 - 0.25 * (night >= MOVED)),
    Scenario("log-odds +0.5 slowly, from night 50 on", shift=lambda night: 0.5 * max(0, night - 50) / (YEAR - 50)),
)


def fit(method: str, counts: FloatArray) -> FloatArray:
    """What a method says of each cell when it was fitted on these rows."""
    label = np.repeat([0, 1], len(GRID))
    rows = Batch(score=np.tile(GRID, 2), label=label, weight=counts.T.ravel())
    spec = catalog.find(method)
    return calibrator.fit(spec, rows.take(rows.weights > 0), spec.resolve(), seed=0).predict(Batch(score=GRID))


@dataclass(frozen=True)
class Nights:
    """Nights that were fitted together: the rows of each, what folds say of each other, and the fit on all."""

    counts: list[FloatArray]
    held_out: FloatArray
    new: FloatArray

    @classmethod
    def of(cls, counts: list[FloatArray], method: str) -> Nights:
        folds = np.sum(counts, axis=0)
        held_out = np.stack([fit(method, folds.sum(axis=0) - fold) for fold in folds])
        return cls(counts, held_out, fit(method, folds.sum(axis=0)))

    def evidence(self, in_place: FloatArray, unseen: int) -> tuple[Evidence, float]:
        """That of the last nights, and their log-loss without calibration, summed."""
        counts = np.sum(self.counts[-unseen:], axis=0).astype(np.int64)
        fold, cell, label = (np.repeat(place, counts.ravel()) for place in np.indices(counts.shape).reshape(3, -1))
        rows = Batch(score=GRID[cell], label=label)
        effect = NightEffect.of([[sums_of(one, in_place)] for one in self.counts[-unseen:]], None)
        found = Evidence.of(rows, in_place[cell], self.held_out[fold, cell], effect)
        return found, float(log_loss(sigmoid(rows.score), label).sum())


def sums_of(counts: FloatArray, in_place: FloatArray) -> NightSums:
    """The sums over the residuals of a night, under the calibrator in place."""
    positive, rows = counts.sum(axis=0)[:, 1], counts.sum(axis=(0, 2))
    along, chance = directions(GRID, -1.0, 1.2), rows * in_place * (1.0 - in_place)
    sums = np.stack([along @ (positive - rows * in_place), along**2 @ chance, np.abs(along) @ chance])
    return NightSums(int(rows.sum()), float(rows.sum()), sums)


Rule = Callable[[Nights, FloatArray, int], bool]
"""Whether the new calibrator replaces the one in place, which has not seen so many of the last nights."""


def never(nights: Nights, in_place: FloatArray, unseen: int) -> bool:
    return False


def always(nights: Nights, in_place: FloatArray, unseen: int) -> bool:
    return True


def not_worse(nights: Nights, in_place: FloatArray, unseen: int) -> bool:
    """By more than a thousandth of the log-loss without calibration: what `refit` once asked for."""
    found, raw = nights.evidence(in_place, unseen)
    return -found.evidence <= MARGIN * raw


def shown_better(nights: Nights, in_place: FloatArray, unseen: int) -> bool:
    return nights.evidence(in_place, unseen)[0].lacking("") is None


RULES: dict[str, tuple[Rule, int]] = {
    "never": (never, 1),
    "always": (always, 1),
    "unless worse": (not_worse, 1),
    "refit": (shown_better, 1),
    f"refit --pool-nights {POOL}": (shown_better, POOL),
}


@dataclass
class Year:
    """What became of one artifact: its excess log-loss each night, and how it was replaced."""

    in_place: FloatArray
    excess: list[float] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)
    worse: int = 0

    @property
    def seen(self) -> int:
        """The last night that the calibrator in place was fitted on."""
        return self.replaced[-1] if self.replaced else -1

    @property
    def times(self) -> int:
        return len(self.replaced)


def beyond(truth: FloatArray, prob: FloatArray) -> float:
    """The expected log-loss of probabilities less that of the truth."""
    return float(SHARE @ (truth * np.log(truth / prob) + (1.0 - truth) * np.log((1.0 - truth) / (1.0 - prob))))


def live(seed: int, scenario: Scenario, rows: int, method: str) -> dict[str, Year]:
    """One year under every rule: the same nights for all."""
    rng = np.random.default_rng(seed)
    first = fit(method, Scenario("").draw(rng, 0, FITTED).sum(axis=0))
    years, counts = {name: Year(first) for name in RULES}, []
    for night in range(YEAR):
        truth = scenario.truth(night)
        counts = [*counts, scenario.draw(rng, night, rows)][-POOL:]
        nights = {pool: Nights.of(counts[-pool:], method) for pool in (1, POOL)}
        for name, (rule, pool) in RULES.items():
            year, now = years[name], nights[pool]
            year.excess.append(beyond(truth, year.in_place))
            if rule(now, year.in_place, min(night - year.seen, len(now.counts))):
                year.worse += beyond(truth, now.new) > beyond(truth, year.in_place) + 1.0 / rows
                year.in_place = now.new
                year.replaced.append(night)
    return years


Drawn = dict[str, list[dict[str, Year]]]


def table(method: str, runs: int, settings: Iterator[tuple[Scenario, int]], drawn: Drawn) -> None:
    """A row for each rule; the years of 1,000 rows a night are kept to be drawn."""
    print(f"\n#### {method}\n")
    print("| what moves | rows a night | rule | excess log-loss, 1e-4 nats | replaced | by a worse one | first after |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for scenario, rows in settings:
        years = [live(seed, scenario, rows, method) for seed in range(runs)]
        if rows == 1000 and method == "platt":
            drawn[scenario.name] = years
        for name in RULES:
            own = [one[name] for one in years]
            excess = [1e4 * np.mean(year.excess) for year in own]
            replaced, worse = (np.mean([getattr(year, what) for year in own]) for what in ("times", "worse"))
            after = [min((night for night in year.replaced if night >= MOVED), default=YEAR) - MOVED for year in own]
            moves = "from night" in scenario.name and "slowly" not in scenario.name
            found = f"{np.median(after) + 1:.0f}" if moves and min(after) < YEAR - MOVED else ""
            print(
                f"| {scenario.name} | {rows:,} | {name} | {np.mean(excess):.1f} ± {np.std(excess) / runs**0.5:.1f} | "
                f"{replaced:.1f} | {worse:.1f} | {found} |",
                flush=True,
            )


def picture(drawn: Drawn, path: Path) -> None:
    """The excess log-loss of every night, the mean of the years, one panel for each scenario."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.1 * len(drawn)), layout="constrained")
    panels = figure.subplots(len(drawn), 1, sharex=True, sharey=True)
    colours = ("#888888", "#d1722c", "#c9a227", "#7a4fa3", "#1b6ca8")
    for axes, (title, years) in zip(panels, drawn.items(), strict=True):
        for name, colour in zip(RULES, colours, strict=True):
            mean = np.mean([one[name].excess for one in years], axis=0)
            width = 1.8 if name == list(RULES)[-1] else 0.9
            axes.plot(1e4 * mean, color=colour, linewidth=width, alpha=0.6 if width < 1 else 1.0, label=name)
        axes.set_yscale("log")
        axes.set_ylim(0.2, 300)
        axes.set_title(title, fontsize=9, loc="left")
        axes.grid(axis="y", color="0.9", linewidth=0.6)
    panels[-1].set_xlabel("night")
    figure.supylabel("log-loss beyond the truth's, 1e-4 nats a row", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(RULES), fontsize=8, frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    runs, sizes = (1, (1000,)) if given.quick else (4, (200, 1000, 5000))
    drawn: Drawn = {}
    print(
        f"The first calibrator is fitted on {FITTED:,} earlier rows. Each number is the mean of {runs} years, with the "
        "same nights under every rule. The excess log-loss is the mean over all nights of the log-loss minus that of "
        "the true probabilities. `unless worse` replaces unless the new fit is worse by more than 0.1 %. `by a worse "
        "one` counts the replacements that raised the true log-loss by more than the noise of a fit on one night, "
        "1 / rows, and `first after` is the median number of nights from the change to the first replacement."
    )
    table("platt", runs, ((scenario, rows) for scenario in SCENARIOS for rows in sizes), drawn)
    table("isotonic", runs, ((scenario, 1000) for scenario in SCENARIOS[:3]), drawn)
    if given.out is not None:
        picture(drawn, given.out / "refit.png")
        print("\n#### Years with 1,000 rows a night, platt\n\n![Years of nights](refit.png)")


if __name__ == "__main__":
    main()
