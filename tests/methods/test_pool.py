"""The mixture of calibrators, against a general optimiser and by its laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.batch import Batch, Column
from calcli.errors import UsageError
from calcli.methods import calibrator, catalog, pool
from calcli.numeric.losses import log_loss, prob_of_label
from calcli.numeric.mixture import PRIOR, likeliest_weights

POOL = catalog.find("pool")


def rows(count: int = 600, seed: int = 0) -> Batch:
    """Scores that are over-confident, and wrong by a category."""
    rng = np.random.default_rng(seed)
    score, code = rng.normal(-1, 1.5, count), rng.integers(0, 3, count)
    truth = 0.6 * score + np.array([-0.8, 0.0, 0.8])[code]
    label = (rng.random(count) < 1 / (1 + np.exp(-truth))).astype(np.int64)
    return Batch(score, label, None, {"kind": Column("category", code.astype(np.int32), ("a", "b", "c"))})


def predictions(count: int, methods: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1, count)
    label = (rng.random(count) < 1 / (1 + np.exp(-truth))).astype(np.int64)
    noise = rng.normal(0, 1, (methods, count)) * rng.uniform(0.2, 1.0, (methods, 1))
    return {f"m{index}": 1 / (1 + np.exp(-truth - one)) for index, one in enumerate(noise)}, label


@pytest.mark.parametrize("seed", range(4))
def test_weights_are_those_of_a_general_optimiser(seed: int) -> None:
    held_out, label = predictions(300, 4, seed)
    likelihood = np.column_stack([prob_of_label(prob, label) for prob in held_out.values()])
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, 300)

    def loss(free: np.ndarray) -> float:
        w = np.exp(free) / np.exp(free).sum()
        return -float(weight @ np.log(likelihood @ w)) - PRIOR / 4 * float(np.log(w).sum())

    found = likeliest_weights(likelihood, weight, np.zeros(4))
    best = min(minimize(loss, start, method="BFGS").fun for start in (np.zeros(4), np.arange(4.0), -np.arange(4.0)))
    assert loss(np.log(found)) == pytest.approx(best, abs=1e-6)


def test_copies_share_their_weight_and_light_members_leave() -> None:
    held_out, label = predictions(500, 2, 1)
    doubled = {"first": held_out["m0"], "second": held_out["m0"], "other": held_out["m1"]}
    weights = pool.weigh(doubled, label)
    assert weights["first"] == pytest.approx(weights["second"], rel=1e-6)
    assert "wrong" not in pool.weigh({**held_out, "wrong": np.where(label == 1, 0.01, 0.99)}, label)
    assert len(pool.weigh(doubled, label, most=1)) == 1


def test_a_row_of_weight_two_is_the_row_twice() -> None:
    held_out, label = predictions(200, 3, 2)
    weight = np.where(np.arange(200) < 50, 2.0, 1.0)
    twice = {name: np.concatenate([prob, prob[:50]]) for name, prob in held_out.items()}
    one, other = pool.weigh(held_out, label, weight), pool.weigh(twice, np.concatenate([label, label[:50]]))
    assert one == pytest.approx(other, abs=1e-6)


def test_it_predicts_the_weighted_mean_of_its_members() -> None:
    batch = rows()
    fitted = calibrator.fit(POOL, batch, POOL.resolve({"members": "platt,isotonic", "weights": "0.25,0.75"}))
    each = [calibrator.fit(spec, batch, spec.resolve()) for spec in (catalog.find("platt"), catalog.find("isotonic"))]
    np.testing.assert_allclose(
        fitted.predict(batch), 0.25 * each[0].predict(batch) + 0.75 * each[1].predict(batch), rtol=1e-12
    )


def test_it_finds_what_one_method_alone_does_not() -> None:
    fitted = calibrator.fit(POOL, rows(), POOL.resolve({"members": "platt,effects"}))
    losses = fitted.state.params["losses"]
    assert set(losses) == {"identity", "platt", "effects", "pool"}
    assert losses["pool"] <= min(losses.values()) + PRIOR / 600
    fresh = rows(20_000, seed=1)
    raw = 1 / (1 + np.exp(-fresh.score))
    assert log_loss(fitted.predict(fresh), fresh.labels).mean() < log_loss(raw, fresh.labels).mean() - 0.05
    assert fitted.explain(["0", "1"])[0].rows[0][1] == pytest.approx(max(fitted.state.arrays["weights"]))


def test_of_many_rows_some_weigh_the_members_and_all_fit_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MOST_ROWS", 500)
    batch = rows(2000)
    fitted = calibrator.fit(POOL, batch, POOL.resolve({"members": "platt,effects"}))
    names = [str(name) for name in fitted.state.params["members"]]
    each = [calibrator.fit(catalog.find(name), batch, catalog.find(name).resolve()).predict(batch) for name in names]
    np.testing.assert_allclose(fitted.predict(batch), fitted.state.arrays["weights"] @ each, rtol=1e-12)
    # The held-out losses, which chance moves by some .02 nats, are those of 500 rows.
    losses = fitted.state.params["losses"]
    assert losses["pool"] < losses["identity"]
    monkeypatch.setattr(pool, "MOST_ROWS", 5000)
    whole = calibrator.fit(POOL, batch, POOL.resolve({"members": "platt,effects"})).state.params["losses"]
    assert losses != whole
    assert losses == pytest.approx(whole, abs=0.08)


def test_of_more_rows_one_fold_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, judged = rows(1000), []
    monkeypatch.setattr(pool, "held_out_losses", lambda *given: judged.append(len(given[2])) or {})
    calibrator.fit(POOL, batch, POOL.resolve({"members": "platt"}))
    monkeypatch.setattr(pool, "CROSS_VALIDATED_ROWS", 900)
    calibrator.fit(POOL, batch, POOL.resolve({"members": "platt"}))
    assert judged == [1000, 200]


def test_what_cannot_be_a_member_is_said() -> None:
    for members, sentence in (("platt,recal", "recal"), ("platt,pool", "pool"), ("plat", "platt")):
        with pytest.raises(UsageError, match=sentence):
            calibrator.fit(POOL, rows(50), POOL.resolve({"members": members}))
    with pytest.raises(UsageError, match="one number between 0 and 1"):
        calibrator.fit(POOL, rows(50), POOL.resolve({"members": "platt,beta", "weights": "1"}))
