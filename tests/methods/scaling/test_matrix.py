"""Vector, matrix, Dirichlet and structured matrix scaling: beside optimisers on their definitions, and beside peers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from calcli.batch import Batch
from calcli.methods.scaling import matrix
from calcli.numeric import multinomial
from calcli.numeric.links import log_softmax, probabilities
from tests.support.cases import ordinary
from tests.support.methods import fitted, log_loss

Rows = Callable[..., Batch]


def mixed(rows: int, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Three classes of which the model confuses the first two."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1.5, (rows, 3))
    label = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).astype(np.int64)
    score = truth @ np.array([[1.4, 0.9, 0.0], [0.9, 1.4, 0.0], [0.0, 0.3, 1.0]])
    return Batch(score, label, rng.uniform(0, 3, rows) if weighted else None)


def penalised_loss(flat: np.ndarray, batch: Batch, off_diagonal: float, bias: float) -> float:
    """ODIR as in the paper, on centred logits of root mean square 1."""
    W, b = flat[:9].reshape(3, 3), flat[9:]
    V = batch.score - batch.score.mean(axis=1, keepdims=True)
    size = np.sqrt(np.average((V**2).mean(axis=1), weights=batch.weights))
    share = 1 / (batch.weights.sum() + 1)
    target = (1 - share) * np.eye(3)[batch.labels] + share / 3
    own = -(target * log_softmax(V @ W.T + b)).sum(axis=1)
    off = (W * size)[~np.eye(3, dtype=bool)]
    return (
        float(np.average(own, weights=batch.weights))
        + off_diagonal * float((off**2).mean())
        + bias * float((b**2).mean())
    )


@pytest.mark.parametrize(
    ("weighted", "off_diagonal", "bias"), [(False, 0.01, 0.01), (True, 0.01, 0.01), (True, 1.0, 0.0), (False, 0.0, 5.0)]
)
def test_no_matrix_is_better(weighted: bool, off_diagonal: float, bias: float) -> None:
    batch = mixed(400, weighted=weighted)
    coefficients = fitted("matrix", batch, off_diagonal=off_diagonal, bias=bias).state.array("coefficients")
    ours = np.concatenate([coefficients[:, :3].ravel(), coefficients[:, 3]])
    start = np.concatenate([np.eye(3).ravel(), np.zeros(3)])
    best = minimize(penalised_loss, start, (batch, off_diagonal, bias), tol=1e-12)
    assert penalised_loss(ours, batch, off_diagonal, bias) <= best.fun + 1e-10
    assert penalised_loss(ours, batch, off_diagonal, bias) == pytest.approx(best.fun, abs=1e-7)


@pytest.mark.parametrize("how", ["shifted", "scaled"])
def test_a_constant_for_each_row_and_the_size_of_all_logits_change_nothing(how: str) -> None:
    batch = mixed(300)
    score = batch.score * 100 if how == "scaled" else batch.score + np.random.default_rng(0).normal(0, 50, (300, 1))
    other = Batch(score, batch.label)
    one, two = (fitted("matrix", rows, off_diagonal=0.1, bias=0.1).predict(rows) for rows in (batch, other))
    np.testing.assert_allclose(two, one, atol=1e-9)


@pytest.mark.parametrize(("method", "binary"), [("vector", "platt"), ("matrix", "platt"), ("dirichlet", "beta")])
def test_two_classes_are_a_binary_method(method: str, binary: str) -> None:
    batch = ordinary(400)
    np.testing.assert_array_equal(fitted(method, batch).predict(batch), fitted(binary, batch).predict(batch))


def test_many_classes_end_at_the_same_minimum_without_the_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = ordinary(800, 5)
    exact = fitted("matrix", batch, off_diagonal=0.1, bias=0.1).predict(batch)
    monkeypatch.setattr(multinomial, "EXACT", 0)
    found = fitted("matrix", batch, off_diagonal=0.1, bias=0.1).predict(batch)
    np.testing.assert_allclose(found, exact, atol=1e-5)


def uneven(rows: int, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Four classes whose logits are wrong by a factor and a constant of their own."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1.3, (rows, 4))
    label = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).astype(np.int64)
    score = truth * [0.5, 1.0, 2.0, 3.0] + [0.8, 0.0, -0.5, 0.2]
    return Batch(score, label, rng.uniform(0, 3, rows) if weighted else None)


@pytest.mark.parametrize("bias", [0.0, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_slopes_of_vector_scaling_are_better(weighted: bool, bias: float) -> None:
    batch = uneven(500, weighted=weighted)
    V = batch.score - batch.score.mean(axis=1, keepdims=True)
    share = 1 / (batch.weights.sum() + 1)
    target = (1 - share) * np.eye(4)[batch.labels] + share / 4

    def loss(x: np.ndarray) -> float:
        own = -(target * log_softmax(V * x[:4] + x[4:])).sum(axis=1)
        return float(np.average(own, weights=batch.weights)) + bias / 4 * float(x[4:] @ x[4:])

    model = fitted("vector", batch, bias=bias)
    coefficients = model.state.array("coefficients")
    assert np.count_nonzero(coefficients[:, :4]) == 4
    ours = np.concatenate([np.diag(coefficients), coefficients[:, 4]])
    best = minimize(loss, np.concatenate([np.ones(4), np.zeros(4)]), tol=1e-12)
    assert loss(ours) <= best.fun + 1e-10
    expected = probabilities(V * best.x[:4] + best.x[4:])
    np.testing.assert_allclose(model.predict(batch), expected, atol=1e-5)  # BFGS with differences for gradients


@pytest.mark.parametrize(
    ("rows", "method", "simpler", "gain"), [(mixed, "matrix", "vector", 0.005), (uneven, "vector", "temperature", 0.05)]
)
def test_what_a_simpler_map_cannot_say_is_put_right(rows: Rows, method: str, simpler: str, gain: float) -> None:
    train, test = rows(4000, 1), rows(4000, 2)
    ours, other = (log_loss(fitted(name, train).predict(test), test.labels) for name in (method, simpler))
    assert ours < other - gain


def test_the_strength_is_the_one_of_least_held_out_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intercepts that are right as they are: strong regularisation wins, and is as good on new rows as any other."""
    rng = np.random.default_rng(3)

    def even(rows: int) -> Batch:
        truth = rng.normal(0, 1.0, (rows, 6))
        return Batch(2 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).astype(np.int64))

    train, test = even(120), even(20_000)
    chosen = log_loss(fitted("vector", train).predict(test), test.labels)
    single = []
    for strength in matrix.STRENGTHS:
        monkeypatch.setattr(matrix, "STRENGTHS", (strength,))
        single.append(log_loss(fitted("vector", train).predict(test), test.labels))
    assert single[0] < single[-1]
    assert chosen <= single[0] + 0.25 * (single[-1] - single[0])


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize(
    ("rows", "method", "peer", "given", "near"),
    [
        (mixed, "matrix", "MatrixScalingCalibrator", {"off_diagonal": 0, "bias": 0}, 1e-2),
        (uneven, "vector", "VectorScalingCalibrator", {"bias": 0}, 5e-3),
    ],
)
def test_probmetrics_is_not_better_where_nothing_is_regularised(
    rows: Rows, method: str, peer: str, given: dict[str, int], near: float
) -> None:
    """Targets mixed with one row's worth of 1/K cost nothing that 20,000 rows would notice.

    Its vectors are divided by a temperature for each class.
    """
    logistic = pytest.importorskip("probmetrics.calibrators.logistic")
    batch = rows(20_000)
    raw = probabilities(batch.score)
    theirs = log_loss(getattr(logistic, peer)().fit(raw, batch.labels).predict_proba(raw), batch.labels)
    ours = log_loss(fitted(method, Batch(np.log(raw), batch.label), **given).predict(batch), batch.labels)
    assert ours <= theirs + near
    assert method == "vector" or ours >= theirs - near


def dirichlets(rows: int, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Probabilities that are Dirichlet distributed in each class: the family is exactly right."""
    rng = np.random.default_rng(seed)
    alpha = np.array([[3.0, 1.0, 0.8], [0.7, 2.0, 1.5], [1.0, 0.6, 4.0]])
    label = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    prob = rng.standard_gamma(alpha[label])
    prob /= prob.sum(axis=1, keepdims=True)
    return Batch(np.log(np.clip(prob, 1e-9, 1)), label, rng.uniform(0, 3, rows) if weighted else None)


@pytest.mark.parametrize(("weighted", "off_diagonal", "bias"), [(False, 0.01, 0.01), (True, 0.3, 0.0)])
def test_nothing_on_log_probabilities_is_better(weighted: bool, off_diagonal: float, bias: float) -> None:
    batch = dirichlets(400, weighted=weighted)
    log_p = log_softmax(batch.score)
    share = 1 / (batch.weights.sum() + 1)
    target = (1 - share) * np.eye(3)[batch.labels] + share / 3

    def loss(flat: np.ndarray) -> float:
        W, b = flat[:9].reshape(3, 3), flat[9:]
        own = -(target * log_softmax(log_p @ W.T + b)).sum(axis=1)
        off = W[~np.eye(3, dtype=bool)]
        odir = off_diagonal * float((off**2).mean()) + bias * float((b**2).mean())
        return float(np.average(own, weights=batch.weights)) + odir

    coefficients = fitted("dirichlet", batch, off_diagonal=off_diagonal, bias=bias).state.array("coefficients")
    ours = np.concatenate([coefficients[:, :3].ravel(), coefficients[:, 3]])
    best = minimize(loss, np.concatenate([np.eye(3).ravel(), np.zeros(3)]), tol=1e-12)
    assert loss(ours) == pytest.approx(best.fun, abs=1e-7)
    assert loss(ours) <= best.fun + 1e-10


def test_it_finds_the_posterior_where_the_family_is_right() -> None:
    """By Bayes' rule ln P(k | p) is sum_j (alpha_kj - 1) ln p_j plus a constant for each class."""
    from scipy.special import gammaln

    train, test = dirichlets(40_000, 1), dirichlets(2000, 2)
    alpha = np.array([[3.0, 1.0, 0.8], [0.7, 2.0, 1.5], [1.0, 0.6, 4.0]])
    constant = gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1) + np.log([0.5, 0.3, 0.2])
    truth = np.exp(log_softmax(log_softmax(test.score) @ (alpha - 1).T + constant))
    ours = fitted("dirichlet", train).predict(test)
    assert np.abs(ours - truth).mean() < 0.01


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_dirichletcal_is_not_better() -> None:
    pytest.importorskip("dirichletcal")
    from dirichletcal.calib.fulldirichlet import FullDirichletCalibrator

    batch = dirichlets(20_000)
    prob = np.exp(log_softmax(batch.score))
    peer = FullDirichletCalibrator().fit(prob, batch.labels).predict_proba(prob)
    ours = fitted("dirichlet", batch, off_diagonal=0, bias=0).predict(batch)
    np.testing.assert_allclose(ours, peer, atol=1e-3)


def definition(batch: Batch, method: str) -> np.ndarray:
    """Minimised by BFGS with differences for gradients."""
    n, classes = batch.weights.sum(), batch.classes
    beta = fitted("temperature", batch).state.number("inverse_temperature")
    V = batch.score if classes > 2 else np.column_stack([np.zeros(len(batch)), batch.score])
    L = np.log((1 - 1 / (n + 1)) * probabilities(beta * V) + 1 / ((n + 1) * classes))
    diagonal = np.eye(classes, dtype=bool)

    def logits(flat: np.ndarray) -> np.ndarray:
        M = flat[: classes**2].reshape(classes, classes) * (1.0 if method == "sms" else diagonal)
        return L + L @ M.T + flat[classes**2 :]

    def loss(flat: np.ndarray) -> float:
        M, b = flat[: classes**2].reshape(classes, classes), flat[classes**2 :]
        own = -log_softmax(logits(flat))[np.arange(len(L)), batch.labels]
        near = classes / n * (b @ b + M[diagonal] @ M[diagonal])
        far = classes * (classes - 1) / n * (M[~diagonal] @ M[~diagonal])
        return float(np.average(own, weights=batch.weights) + near + far)

    found = minimize(loss, np.zeros(classes * (classes + 1)), tol=1e-10)
    return probabilities(logits(found.x))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["sms", "svs"])
def test_structured_scaling_is_its_definition(classes: int, weighted: bool, method: str) -> None:
    batch = ordinary(300, classes, weighted=weighted)
    ours = fitted(method, batch).predict(batch)
    expected = definition(batch, method)
    np.testing.assert_allclose(ours, expected if classes > 2 else expected[:, 1], atol=2e-6)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("method", ["sms", "svs"])
def test_probmetrics_has_a_loss_no_lower(method: str, classes: int) -> None:
    """Its optimiser works in float32 and stops early: outputs are near, and what both minimise is lower for ours."""
    pytest.importorskip("probmetrics")
    from probmetrics.calibrators.logistic import SMSCalibrator, SVSCalibrator

    batch = ordinary(2000, classes)
    prob = probabilities(batch.score)
    table = prob if classes > 2 else np.column_stack([1 - prob, prob])
    peer = (SMSCalibrator if method == "sms" else SVSCalibrator)(penalty="ridge").fit(table, batch.labels)
    expected = peer.predict_proba(table)
    model = fitted(method, batch)
    np.testing.assert_allclose(model.predict(batch), expected if classes > 2 else expected[:, 1], atol=1e-3)

    log_p = np.log(peer.ts_.predict_proba(table))
    price = np.full((classes, classes + 1), classes * (classes - 1) / 2000)
    price[np.eye(classes, classes + 1) > 0] = price[:, -1] = classes / 2000

    def loss(coefficients: np.ndarray) -> float:
        own = log_softmax(log_p @ coefficients[:, :-1].T + coefficients[:, -1])[np.arange(2000), batch.labels]
        return float((price * (coefficients - np.eye(classes, classes + 1)) ** 2).sum() - own.mean())

    theirs = peer.W_ if method == "sms" else np.column_stack([np.diag(peer.v_), peer.b_])
    assert loss(model.state.array("coefficients")) <= loss(theirs) + 1e-9


def test_the_number_of_threads_changes_no_digit() -> None:
    """Of ten classes, whose 110 coefficients are enough for the linear algebra library to share the work."""
    rng = np.random.default_rng(0)
    score = 2.0 * rng.normal(size=(300, 10))
    batch = Batch(score, (score / 2.0 + rng.gumbel(size=score.shape)).argmax(axis=1))
    fits = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            fits.append(fitted("sms", batch).state.array("coefficients"))
    np.testing.assert_array_equal(fits[1], fits[0])
    np.testing.assert_array_equal(fits[2], fits[0])
