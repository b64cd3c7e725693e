"""How the members of a pool are mixed: a mixture of probabilities beside one of log-odds, and beside stacking.

``python benchmarks/arena/mixtures.py FOLDER [--kept DIR] [--quick]``: FOLDER holds pairs ``NAME.cal.parquet`` and
``NAME.test.parquet``. The methods that `auto` compares predict the rows of the first out of fold and those of the
second; every mixture is found on the former and judged on the latter, all on the same numbers. DIR keeps these, so that
another mixture need not wait for them. The table shows the log-loss that is gained relative to no calibration.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from pairs import Pair, pairs
from scipy.optimize import minimize

from calcli.batch import FloatArray, IntArray
from calcli.methods import calibrator, catalog, pool
from calcli.models.auto import FOLDS
from calcli.numeric.links import log_softmax
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import folds, stream

RIDGE = 1.0
"""The penalty of stacking: half of this times the squared distance of its coefficients from an even mixture's."""

Predictions = Mapping[str, FloatArray]
"""Of each member, the simplest first."""

Mixture = Callable[[Predictions], FloatArray]

LINEAR = "probabilities"


def linear(held_out: Predictions, label: IntArray) -> Mixture:
    """`pool`, as it is."""
    weights = pool.weigh(held_out, label)
    return lambda members: pool.mixed(members, weights)


def tempered(held_out: Predictions, label: IntArray) -> Mixture:
    """`pool`, and a last temperature."""
    first = linear(held_out, label)
    second = _log_linear({"pool": first(held_out)}, label, bounds=[(0.0, None)])
    return lambda members: second({"pool": first(members)})


def log_odds(held_out: Predictions, label: IntArray) -> Mixture:
    """Log-odds, with weights that are not negative and add up to 1."""
    return _log_linear(held_out, label, bounds=[(0.0, 1.0)] * len(held_out), whole=True)


def stacked(held_out: Predictions, label: IntArray) -> Mixture:
    """A regression on the log-odds, drawn to an even mixture."""
    return _log_linear(held_out, label, ridge=RIDGE)


def even(held_out: Predictions, label: IntArray) -> Mixture:
    """The mean of all probabilities."""
    return lambda members: np.mean(list(members.values()), axis=0)


WAYS = {
    LINEAR: linear,
    "probabilities, then a temperature": tempered,
    "log-odds": log_odds,
    "stacking by a regression": stacked,
    "the mean of all": even,
}


def _logs(members: Predictions) -> FloatArray:
    """Logarithms of probabilities, shape (members, rows, classes)."""
    whole = [np.column_stack([1.0 - prob, prob]) if prob.ndim == 1 else prob for prob in members.values()]
    return np.log(np.maximum(np.stack(whole), 1e-15))


def _log_linear(
    held_out: Predictions,
    label: IntArray,
    *,
    bounds: list[tuple[float, float | None]] | None = None,
    whole: bool = False,
    ridge: float = 0.0,
) -> Mixture:
    """softmax(sum of c_m ln p_m) with the c of least held-out loss; `whole`: which add up to 1."""
    logs = _logs(held_out)
    start, rows = np.full(len(logs), 1.0 / len(logs)), np.arange(len(label))
    of_label = logs[:, rows, label]

    def value(c: FloatArray) -> tuple[float, FloatArray]:
        log_p = log_softmax(np.tensordot(c, logs, axes=1))
        expected = (np.exp(log_p) * logs).sum(axis=2)
        off = ridge * (c - start)
        loss = -float(log_p[rows, label].sum()) + float(off @ (c - start)) / 2
        return loss / len(label), ((expected - of_label).sum(axis=1) + off) / len(label)

    constraints = {"type": "eq", "fun": lambda c: c.sum() - 1.0, "jac": np.ones_like} if whole else ()
    found = minimize(
        value, start, jac=True, bounds=bounds, constraints=constraints, method="SLSQP", options={"maxiter": 500}
    ).x

    def mixture(members: Predictions) -> FloatArray:
        prob = np.exp(log_softmax(np.tensordot(found, _logs(members), axes=1)))
        return prob[:, 1] if next(iter(members.values())).ndim == 1 else prob

    return mixture


def predicted(pair: Pair) -> dict[str, np.ndarray]:
    """The labels, and what every method predicts out of fold and of the rows to judge on."""
    train, test = pair.read()
    fold = folds(len(train), FOLDS, stream(0, "folds"))
    found: dict[str, np.ndarray] = {"label": train.labels, "test": test.labels}
    for spec in catalog.candidates_for(train.classes):
        if spec.lacks_columns(train):
            continue
        member = calibrator.fit(spec, train, spec.resolve())
        out = np.empty(train.score.shape)
        for index in range(FOLDS):
            of_fold = calibrator.fit(spec, train.take(fold != index), spec.resolve() | member.settings)
            out[fold == index] = of_fold.predict(train.take(fold == index))
        found |= {f"oof/{spec.name}": out, f"new/{spec.name}": member.predict(test)}
    return found


def gains(found: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Of each way to mix, and of the best member with hindsight."""
    names = [name.removeprefix("oof/") for name in found if name.startswith("oof/")]
    held_out, new = ({name: found[f"{part}/{name}"] for name in names} for part in ("oof", "new"))
    raw = float(log_loss(new["identity"], found["test"]).mean())

    def gain(prob: FloatArray) -> float:
        return 1.0 - float(log_loss(prob, found["test"]).mean()) / raw

    mixed = {way: gain(mix(held_out, found["label"])(new)) for way, mix in WAYS.items()}
    return mixed | {"the best member with hindsight": max(map(gain, new.values()))}


def kept_or_predicted(pair: Pair, kept: Path | None) -> Mapping[str, np.ndarray]:
    if kept is None:
        return predicted(pair)
    path = kept / f"{pair.name}.npz"
    if not path.exists():
        kept.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **predicted(pair))
    return dict(np.load(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kept", type=Path, help="where predictions are kept, and taken from if they are there")
    parser.add_argument("--quick", action="store_true", help="the two smallest files")
    given = parser.parse_args()
    files = sorted(pairs(given.folder), key=Pair.size)[: 2 if given.quick else None]
    by_file = [gains(kept_or_predicted(pair, given.kept)) for pair in files]
    print("| mixture of | mean | median | worst | ahead of probabilities | behind |")
    print("| --- | --- | --- | --- | --- | --- |")
    for way in by_file[0]:
        own, beside = (np.array([of_file[name] for of_file in by_file]) for name in (way, LINEAR))
        print(
            f"| {way} | {own.mean():+.2%} | {np.median(own):+.2%} | {own.min():+.2%} | {int((own > beside).sum())} | "
            f"{int((own < beside).sum())} |"
        )
    print(f"\n{len(files)} files; positive where the log-loss is lower than without calibration.")


if __name__ == "__main__":
    main()
