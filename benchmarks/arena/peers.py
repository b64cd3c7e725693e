"""Calibrators of other packages, all in one form: from a `Batch` to something that predicts others.

Each is used at its defaults, on log-odds where it takes them. Packages that are not installed are left out.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Mapping

import numpy as np

from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.methods import calibrator, catalog
from calcli.numeric.links import against_rest, probabilities, sigmoid

Predict = Callable[[Batch], FloatArray]
Fit = Callable[[Batch], Predict]
Fits = dict[str, Fit]
BinaryFit = Callable[[FloatArray, IntArray], Callable[[FloatArray], FloatArray]]

MODULES = {
    "scikit-learn": "sklearn",
    "netcal": "netcal",
    "probmetrics": "probmetrics",
    "betacal": "betacal",
    "venn-abers": "venn_abers",
    "uncertainty-calibration": "calibration",
    "probcal": "probcal",
    "MCGrad": "mcgrad",
    "LightGBM": "lightgbm",
}
"""What each package is imported as."""


def ours(name: str, preset: str | None = None, params: Mapping[str, int] | None = None) -> Fit:
    """One of calcli's own, in the same form."""
    row = catalog.find(name)
    return lambda train: calibrator.fit(row, train, row.resolve(params, preset)).predict


# From what a package takes to a `Fit`.


def each_against_rest(fit: BinaryFit) -> Fit:
    """A peer for two classes, one-vs-rest for more as all of these libraries do it."""

    def whole(train: Batch) -> Predict:
        if train.classes == 2:
            predict = fit(train.score, train.labels)
            return lambda test: predict(test.score)
        scores = against_rest(train.score)
        parts = [fit(scores[:, k], (train.labels == k).astype(np.int64)) for k in range(train.classes)]

        def predict_all(test: Batch) -> FloatArray:
            prob = np.column_stack([part(score) for part, score in zip(parts, against_rest(test.score).T, strict=True)])
            total = prob.sum(axis=1, keepdims=True)
            return np.where(total > 0, prob / np.where(total > 0, total, 1.0), probabilities(test.score))

        return predict_all

    return whole


def pair(z: FloatArray) -> FloatArray:
    """The probabilities of both classes."""
    return np.column_stack([sigmoid(-z), sigmoid(z)])


def table(batch: Batch) -> FloatArray:
    """A probability for each class, also of two."""
    return pair(batch.score) if batch.classes == 2 else probabilities(batch.score)


def on_tables(make: Callable[[], object], fit: str = "fit", predict: str = "predict_proba") -> Fit:
    """A peer with an interface like scikit-learn's on tables of probabilities."""

    def whole(train: Batch) -> Predict:
        peer = make()
        getattr(peer, fit)(table(train), train.labels)

        def predict_all(test: Batch) -> FloatArray:
            prob = np.asarray(getattr(peer, predict)(table(test)))
            return prob[:, 1] if test.classes == 2 else prob

        return predict_all

    return whole


def two_classes(batch: Batch) -> Batch:
    if batch.classes > 2:
        raise NotImplementedError("two classes only")
    return batch


# Methods that look at the score alone, under the names that calcli has for them.


def scikit_learn() -> Fits:
    from sklearn import calibration
    from sklearn.isotonic import IsotonicRegression

    def sigmoids(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        return calibration._SigmoidCalibration().fit(z, label).predict

    def isotonic(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        peer = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(sigmoid(z), label)
        return lambda at: peer.predict(sigmoid(at))

    found = {"platt": each_against_rest(sigmoids), "isotonic": each_against_rest(isotonic)}
    if hasattr(calibration, "_TemperatureScaling"):
        found["temperature"] = on_tables(calibration._TemperatureScaling, predict="predict")
    return found


def netcal() -> Fits:
    from netcal.binning import BBQ, HistogramBinning, IsotonicRegression
    from netcal.scaling import BetaCalibration, LogisticCalibration, TemperatureScaling

    def binary(make: Callable[[], object]) -> Fit:
        def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
            peer = make().fit(sigmoid(z), label)  # type: ignore[attr-defined]
            return lambda at: np.asarray(peer.transform(sigmoid(at))).reshape(len(at))

        return each_against_rest(fit)

    return {
        "platt": binary(LogisticCalibration),
        "temperature": binary(TemperatureScaling),
        "beta": binary(BetaCalibration),
        "isotonic": binary(IsotonicRegression),
        "histogram": binary(lambda: HistogramBinning(bins=15)),  # of equal width: all that it offers
        "bbq": binary(BBQ),
    }


def probmetrics() -> Fits:
    from probmetrics.calibrators import get_calibrator
    from probmetrics.calibrators.logistic import MatrixScalingCalibrator, VectorScalingCalibrator

    def binary(name: str) -> Fit:
        def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
            peer = get_calibrator(name).fit(pair(z), label)
            return lambda at: np.asarray(peer.predict_proba(pair(at)))[:, 1]

        return each_against_rest(fit)

    return {
        "platt": binary("affine-scaling"),
        "temperature": on_tables(lambda: get_calibrator("temp-scaling")),
        "quadratic": binary("quadratic-scaling"),
        "sms": on_tables(lambda: get_calibrator("sms")),
        "vector": on_tables(VectorScalingCalibrator),
        "matrix": on_tables(MatrixScalingCalibrator),
    }


def betacal() -> Fits:
    from betacal import BetaCalibration

    def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        peer = BetaCalibration().fit(sigmoid(z), label)
        return lambda at: peer.predict(sigmoid(at))

    return {"beta": each_against_rest(fit)}


def venn_abers() -> Fits:
    from venn_abers import VennAbers

    def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        peer = VennAbers()
        peer.fit(pair(z), label)
        return lambda at: np.asarray(peer.predict_proba(pair(at))[0])[:, 1]

    return {"venn-abers": each_against_rest(fit)}


def kumar() -> Fits:
    from calibration.calibrators import PlattBinnerCalibrator

    def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        peer = PlattBinnerCalibrator(num_calibration=len(z), num_bins=30)
        peer.train_calibration(sigmoid(z), label)
        return lambda at: np.asarray(peer.calibrate(sigmoid(at)))

    return {"scaling-binning": each_against_rest(fit)}


# What a package itself would choose, or what its users get without choosing.


def sigmoid_of_probabilities(train: Batch) -> Predict:
    """What ``CalibratedClassifierCV`` fits to models without a ``decision_function``, which is all of boosted trees."""
    from sklearn.calibration import _SigmoidCalibration

    def fit(z: FloatArray, label: IntArray) -> Callable[[FloatArray], FloatArray]:
        peer = _SigmoidCalibration().fit(sigmoid(z), label)
        return lambda at: peer.predict(sigmoid(at))

    return each_against_rest(fit)(train)


def scikit_learn_choice(train: Batch) -> Predict:
    """Its newest method, temperature; its default, sigmoid, for two classes."""
    return scikit_learn()["platt" if train.classes == 2 else "temperature"](train)


def probmetrics_choice(train: Batch) -> Predict:
    """What its authors recommend: structured matrix scaling, quadratic scaling for two classes."""
    return probmetrics()["quadratic" if train.classes == 2 else "sms"](train)


def probcal_choice(train: Batch) -> Predict:
    """Its selector, by log-loss; two classes only."""
    from probcal import CalibratorSelector

    two_classes(train)
    chosen = CalibratorSelector().fit(sigmoid(train.score), train.labels)

    def predict(test: Batch) -> FloatArray:
        prob = np.asarray(chosen.predict_proba(sigmoid(test.score)))
        return prob[:, 1] if prob.ndim == 2 else prob

    return predict


# Methods that look at features; two classes only.


def told(column: Column) -> np.ndarray:
    """Values as pandas has them."""
    if column.role != "category":
        return column.values
    return np.array([*column.levels, None], dtype=object)[column.values]


def mcgrad(train: Batch) -> Predict:
    """MCGrad at its defaults."""
    import pandas as pd
    from mcgrad import methods

    logging.getLogger("mcgrad").setLevel(logging.ERROR)
    columns: dict[str, list[str]] = {
        f"{what}_feature_column_names": [
            name for name, column in train.features.items() if (column.role == "category") == (what == "categorical")
        ]
        for what in ("categorical", "numerical")
    }

    def frame(rows: Batch) -> pd.DataFrame:
        found = pd.DataFrame({name: told(column) for name, column in rows.features.items()})
        return found.assign(calcli_prediction=probabilities(rows.score))

    model = methods.MCGrad()
    data = frame(two_classes(train)).assign(calcli_label=train.labels)
    model.fit(data, "calcli_prediction", "calcli_label", **columns)
    return lambda rows: np.asarray(model.predict(frame(rows), "calcli_prediction", **columns))


def lightgbm(train: Batch) -> Predict:
    """LightGBM with Platt's log-odds as offset: 40 rounds of 8 leaves."""
    import lightgbm
    import pandas as pd

    row = catalog.find("platt")
    platt = calibrator.fit(row, Batch(two_classes(train).score, train.label), row.resolve()).state
    levels = {name: column.levels for name, column in train.features.items()}

    def frame(rows: Batch) -> pd.DataFrame:
        found = {
            name: pd.Categorical(told(column), categories=levels[name]) if column.role == "category" else column.values
            for name, column in rows.features.items()
        }
        return pd.DataFrame(found).set_axis([f"f{place}" for place in range(len(found))], axis=1)

    def start(rows: Batch) -> FloatArray:
        return platt.number("a") * rows.score + platt.number("b")

    settings = {"objective": "binary", "num_leaves": 8, "verbose": -1, "deterministic": True, "seed": 0}
    data = lightgbm.Dataset(frame(train), train.labels, init_score=start(train))
    model = lightgbm.train(settings, data, num_boost_round=40)
    return lambda rows: sigmoid(start(rows) + np.asarray(model.predict(frame(rows), raw_score=True)))


_SCORE_ONLY: dict[str, Callable[[], Fits]] = {
    "scikit-learn": scikit_learn,
    "netcal": netcal,
    "probmetrics": probmetrics,
    "betacal": betacal,
    "venn-abers": venn_abers,
    "uncertainty-calibration": kumar,
}
_CHOICES: Fits = {"scikit-learn": scikit_learn_choice, "probcal": probcal_choice, "probmetrics": probmetrics_choice}
_FEATURE_AWARE: Fits = {"MCGrad": mcgrad, "LightGBM": lightgbm}


def installed(package: str) -> bool:
    return importlib.util.find_spec(MODULES[package]) is not None


def score_only() -> dict[str, Fits]:
    """For each package its methods that look at the score alone."""
    return {package: make() for package, make in _SCORE_ONLY.items() if installed(package)}


def choices() -> Fits:
    """For each package what it would choose."""
    return {package: fit for package, fit in _CHOICES.items() if installed(package)}


def feature_aware() -> Fits:
    """For each package its method that looks at features."""
    return {package: fit for package, fit in _FEATURE_AWARE.items() if installed(package)}
