"""The choice among methods by their held-out predictions."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray
from calcli.metrics import catalog as metrics
from calcli.models.auto import EVIDENCE, STANDARD_ERRORS, TWICE, MethodSelection
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import folds


def contest(count: int, slope: float, seed: int = 0) -> MethodSelection:
    """Calibrated predictions beside log-odds that are `slope` times too large, which are the raw score."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(-1, 1.2, count)
    label = (rng.random(count) < 1 / (1 + np.exp(-truth))).astype(np.int64)
    prob = {"identity": 1 / (1 + np.exp(-slope * truth)), "temperature": 1 / (1 + np.exp(-truth))}
    return MethodSelection(prob, Batch(truth, label), folds(count, 5, rng), metrics.find("nll"), 5)


def test_what_is_shown_to_be_better_is_chosen() -> None:
    chosen = contest(2000, 2.0).choose()
    assert (chosen.name, chosen.best, dict(chosen.weights)) == ("temperature", "temperature", {"temperature": 1.0})
    assert "temperature is the simplest method" in chosen.why


def test_what_is_not_shown_to_be_better_is_not() -> None:
    chosen = contest(200, 1.15).choose()
    assert chosen.name == "identity"
    assert "no method" in chosen.why


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_evidence_is_a_ratio_of_likelihoods(classes: int) -> None:
    """That of the pool, whose weights follow from other rows: 20 sqrt(K - 1) times as likely is enough.

    Half of the rows are of the class that the raw score gives one half, so that nothing is wrong with it by itself.
    """
    names, asked = [], EVIDENCE + np.log(np.sqrt(classes - 1))
    for count in range(4, 40, 4):
        label = np.arange(count) // 2 % 2
        rows = Batch(np.zeros(count if classes == 2 else (count, classes)), label)
        raw = np.tile([0.5 - 0.001 * (classes - 2), 0.5, *[0.001] * (classes - 2)], (count, 1))
        knows = 0.4 * raw + 0.6 * (np.arange(classes) == label[:, None])
        prob = {"identity": raw, "platt": knows} if classes > 2 else {"identity": raw[:, 1], "platt": knows[:, 1]}
        found = MethodSelection(prob, rows, np.arange(count) % 2, metrics.find("nll"), 5)
        chosen = found.choose()
        mixed = replace(chosen, name="pool")
        nats = float((log_loss(prob["identity"], label) - log_loss(found.predicted(mixed), label)).sum())
        assert (chosen.name == "identity") == (nats < asked)
        assert found.least_gain(mixed) == pytest.approx(asked / count)
        names.append(chosen.name)
    assert names[0] == "identity"
    assert names[-1] != "identity"


@pytest.mark.parametrize(("right", "better", "changed"), [(35, 0.895, True), (44, 0.87, False), (35, 0.905, False)])
def test_of_scores_that_are_known_to_be_wrong_no_more_evidence_is_asked_for(
    right: int, better: float, changed: bool
) -> None:
    """Rows are said to be right with 0.9: 70 of 100 is beyond chance, 88 is not. No change adds more than 1.1 nats."""
    label = np.tile(np.arange(50) < right, 2) == (np.arange(100) < 50)
    side = np.arange(100) < 50
    prob = {name: np.where(side, p, 1.0 - p) for name, p in (("identity", 0.9), ("platt", better))}
    rows = Batch(np.zeros(100), label.astype(np.int64))
    found = MethodSelection(prob, rows, np.arange(100) % 5, metrics.find("nll"), 5)
    assert (log_loss(prob["identity"], rows.labels) - log_loss(prob["platt"], rows.labels)).sum() < EVIDENCE
    assert (found.choose().name != "identity") == changed


def test_of_few_rows_the_luckiest_method_is_not_taken() -> None:
    """Of eight methods, each right but for an error of its own, one is as good as their mixture on these rows."""
    rng = np.random.default_rng(5)
    truth = rng.normal(-1, 1.5, 150)
    label = (rng.random(150) < 1 / (1 + np.exp(-truth))).astype(np.int64)
    prob = {"identity": 1 / (1 + np.exp(-3 * truth))}
    prob |= {f"m{place}": 1 / (1 + np.exp(-truth - rng.normal(0, 0.6, 150))) for place in range(8)}
    found = MethodSelection(prob, Batch(truth, label), folds(150, 5, rng), metrics.find("nll"), 8)
    chosen = found.choose()
    assert chosen.name == "pool"
    lead = log_loss(prob[chosen.best], label) - log_loss(found.predicted(chosen), label)
    assert lead.mean() < STANDARD_ERRORS * lead.std() / np.sqrt(150)


@pytest.mark.parametrize(
    ("first", "second"), [(0.6, 0.8), (0.65, 0.7), (0.6, 0.55), (0.7, 0.45), (0.5, 0.9), (0.9, 0.3)]
)
def test_what_two_deals_add_is_weighed_together(first: float, second: float) -> None:
    """Each label has the probability `first` where it had one half, and `second` where rows are in other folds."""
    label = np.arange(16) // 2 % 2

    def dealt(right: float) -> tuple[MethodSelection, FloatArray]:
        prob = {"identity": np.full(16, 0.5), "platt": np.where(label == 1, right, 1.0 - right)}
        found = MethodSelection(prob, Batch(np.zeros(16), label), np.arange(16) % 2, metrics.find("nll"), 5)
        mixed = found.predicted(found.pool())
        return found, np.log(2.0) - log_loss(mixed, label)

    (found, gain), (found.again, other) = dealt(first), dealt(second)
    nats, others = float(gain.sum()), float(other.sum())
    assert found.undecided == (0.0 < nats < 2.0 * EVIDENCE)
    assert (found.choose().name != "identity") == (nats > 0.0 and (nats + others) / 2.0 >= TWICE * EVIDENCE)
    assert found.least_gain(found.pool()) == pytest.approx(TWICE * EVIDENCE / 16)
    assert found.deals == pytest.approx(((others - nats) / 32.0, np.std((other - gain) / 2.0) / 4.0))


def halves() -> tuple[np.random.Generator, Batch, FloatArray, NDArray[np.bool_]]:
    """Rows with their true probabilities, and which of two halves each is in."""
    rng = np.random.default_rng(3)
    truth, side = rng.normal(0, 2, 4000), rng.random(4000) < 0.5
    known = 1 / (1 + np.exp(-truth))
    label = (rng.random(4000) < known).astype(np.int64)
    return rng, Batch(truth, label), known, side


def test_two_that_err_in_different_places_are_mixed() -> None:
    """Each knows half of the rows and says 0.5 of the others; together they know all."""
    rng, batch, known, side = halves()
    prob = {
        "identity": np.full(4000, 0.5),
        "platt": np.where(side, known, 0.5),
        "beta": np.where(side, 0.5, known),
    }
    chosen = MethodSelection(prob, batch, folds(4000, 5, rng), metrics.find("nll"), 5).choose()
    assert chosen.name == "pool"
    assert set(chosen.weights) == {"platt", "beta"}
    assert sum(chosen.weights.values()) == pytest.approx(1.0)


def test_what_a_limit_costs_is_said() -> None:
    """The best keeps no order; of those that do, two know half of the rows each, and only one of them is on sums."""
    rng, batch, known, side = halves()
    prob = {
        "identity": np.full(4000, 0.5),
        "beta": np.where(side, known, 0.5),
        "isotonic-centered": np.where(side, 0.5, known),
        "boost": known,
    }
    every = MethodSelection(prob, batch, folds(4000, 5, rng), metrics.find("nll"), 5)
    assert every.choose().name == "boost"
    assert every.limited(None, simple=False)[1:] == (every.choose(), None)

    among, chosen, cost = every.limited("monotone", simple=False)
    assert set(among.prob) == {"identity", "beta", "isotonic-centered"}
    assert chosen.name == "pool"
    difference = log_loss(among.predicted(chosen), batch.labels) - log_loss(known, batch.labels)
    half = 1.96 * difference.std() / np.sqrt(4000)
    assert cost is not None
    value, lo, hi = map(float, re.findall(r"\d\.\d{5}", cost)[:3])
    assert value == pytest.approx(difference.mean(), abs=1e-5)
    assert (lo, hi) == (pytest.approx(value - half, rel=0.02), pytest.approx(value + half, rel=0.02))
    assert cost.startswith("--for monotone costs")

    _, single, cost = every.limited("monotone", simple=True)
    mean = {name: log_loss(one, batch.labels).mean() for name, one in among.prob.items()}
    assert (single.name, single.weights) == (min(mean, key=lambda name: mean[name]), {single.name: 1.0})
    assert str(cost).startswith("--for monotone --simple costs")
    assert every.limited("rules", simple=False)[1].name == "boost"
    assert every.limited("sql", simple=False)[2] == "--for sql costs nothing: what is best of all can do that"
    assert every.limited("spark", simple=False)[1].name in ("beta", "isotonic-centered")  # pools are on no sums
