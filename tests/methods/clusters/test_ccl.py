"""CCL beside the paper's two algorithms written out, its limits, and what it says of its clusters."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from sklearn.metrics import homogeneity_score

from calcli.batch import NO_SIDE_INPUTS, Batch, Column, SideInputs
from calcli.errors import DataError, FitError, UsageError
from calcli.methods import catalog
from calcli.methods.base import Chosen
from calcli.methods.calibrator import FittedMethod
from calcli.methods.clusters import ccl, explanation, partition
from calcli.methods.clusters.partition import elbow, homogeneity
from calcli.methods.post_processing import PostProcessing
from calcli.methods.scaling.curved import Beta
from calcli.methods.scaling.linear import Platt
from calcli.numeric.links import logit, sigmoid
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import in_turn
from calcli.state import unnest
from tests.support import methods
from tests.support.cases import ordinary

CENTRES = ((-4.0, 0.0), (4.0, 0.0), (0.0, 7.0), (0.0, 20.0))


def toy(rows: int = 400, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Four blobs, far apart, in each of which the scores are wrong in another way; the last has one label only."""
    rng = np.random.default_rng(seed)
    blob = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    place = np.array(CENTRES)[blob] + rng.normal(0, 0.3, (rows, 2))
    z = rng.normal(0, 1.5, rows)
    truth = np.array([1.0, 0.4, -0.5, 0.0])[blob] * z + np.array([0.0, 1.0, -1.0, 0.0])[blob]
    label = (rng.random(rows) < sigmoid(truth)).astype(np.int64)
    label[blob == 3] = 1
    weight = rng.integers(1, 4, rows).astype(float) if weighted else None
    return Batch(z, label, weight, {"x": Column("number", place[:, 0]), "y": Column("number", place[:, 1])})


def blob_of(batch: Batch) -> np.ndarray:
    place = np.column_stack([column.values for column in batch.features.values()])
    return ((place[:, None, :] - np.array(CENTRES)) ** 2).sum(axis=2).argmin(axis=1)


fitted = partial(methods.fitted, "ccl", embedding="features", clusters=4)


HARD = {"temperature": 0, "tau": 0}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clustering", ["kmeans", "ward"])
def test_the_papers_two_algorithms(weighted: bool, clustering: str) -> None:
    """Fit Platt within each blob, the raw label rate where there is one label; new rows take that of their blob."""
    train, test = toy(weighted=weighted), toy(300, seed=1)
    found = fitted(train, "paper", clustering=clustering).predict(test)
    expected, blobs = np.empty(300), blob_of(train)
    for blob in range(4):
        rows = train.take(blobs == blob)
        if len(set(rows.labels.tolist())) == 1:
            p = np.full(300, float(rows.labels[0]))
        else:
            p = Platt().predict(Platt().fit(rows, NO_SIDE_INPUTS, {}, 0), test, NO_SIDE_INPUTS)
        expected[blob_of(test) == blob] = p[blob_of(test) == blob]
    share = 1 / (round(train.weights.sum()) + 1)  # as the output of every method that can be 0 or 1
    mixed = expected * (1 - share) + 0.5 * share
    np.testing.assert_allclose(found, mixed, rtol=1e-12)


def test_the_label_rate_of_one_label_is_jeffreys_unless_the_paper_is_asked_for() -> None:
    train = toy()
    last, rows = train.take(blob_of(train) == 3), len(train)
    n = len(last)
    assert fitted(train, **HARD).predict(last) == pytest.approx((n + 0.5) / (n + 1))
    exact = fitted(train, "paper").with_post_processing(PostProcessing(exact=True))
    assert exact.predict(last) == pytest.approx(1.0)
    assert fitted(train, "paper").predict(last) == pytest.approx(1 - 0.5 / (rows + 1))


def test_a_cluster_of_few_rows_has_its_label_rate() -> None:
    train = toy()
    third = train.take(blob_of(train) == 2)
    n, ones = len(third), int(third.labels.sum())
    found = fitted(train, rows=n + 1, **HARD).predict(third)
    assert found == pytest.approx((ones + 0.5) / (n + 1))


def soft(train: Batch, test: Batch, temperature: float, tau: float) -> np.ndarray:
    """The mixture, row by row and cluster by cluster. The features are standardised as the encoding does."""
    table = np.column_stack([column.values for column in train.features.values()])
    mean, sd = table.mean(axis=0), table.std(axis=0)
    blobs = blob_of(train)
    x = (table - mean) / sd
    centroids = np.array([x[blobs == blob].mean(axis=0) for blob in range(4)])

    def shares(batch: Batch) -> np.ndarray:
        points = (np.column_stack([column.values for column in batch.features.values()]) - mean) / sd
        squared = ((points[:, None, :] - centroids) ** 2).sum(axis=2)
        if temperature == 0:
            return (squared == squared.min(axis=1, keepdims=True)).astype(float)
        u = np.exp(-squared / (2 * temperature * spread))
        return u / u.sum(axis=1, keepdims=True)

    least = np.sort(((x[:, None, :] - centroids) ** 2).sum(axis=2).min(axis=1))
    spread = least[(len(least) - 1) // 2]
    everyone = Platt().fit(train, NO_SIDE_INPUTS, {}, 0)
    q, q_test = Platt().predict(everyone, train, NO_SIDE_INPUTS), Platt().predict(everyone, test, NO_SIDE_INPUTS)
    u, u_test, p = shares(train), shares(test), np.zeros(len(test))
    for cluster in range(4):
        own = Platt().predict(
            Platt().fit(replace(train, weight=u[:, cluster]), NO_SIDE_INPUTS, {}, 0), test, NO_SIDE_INPUTS
        )
        information = (u[:, cluster] * q * (1 - q)).sum()
        z = (information * logit(own) + tau * logit(q_test)) / (information + tau)
        p += u_test[:, cluster] * sigmoid(z)
    return p


@pytest.mark.parametrize("temperature", [50.0, 400.0])
@pytest.mark.parametrize("tau", [0.0, 3.0, 100.0])
def test_the_soft_mixture(temperature: float, tau: float) -> None:
    """So soft that every blob reaches into the others, the one of a single label too."""
    train, test = toy(), toy(200, seed=1)
    found = fitted(train, temperature=temperature, tau=tau, rows=0).predict(test)
    np.testing.assert_allclose(found, soft(train, test, temperature, tau), rtol=1e-5)


@pytest.mark.parametrize(
    ("inner", "classes"),
    [("platt", 2), ("beta", 2), ("histogram", 2), ("temperature", 4), ("isotonic", 4)],
)
def test_one_cluster_is_the_unified_method_exactly(inner: str, classes: int) -> None:
    batch = ordinary(500, classes)
    unified = methods.fitted(inner, batch).predict(batch)
    for given in ({}, HARD):
        np.testing.assert_array_equal(fitted(batch, clusters=1, inner=inner, **given).predict(batch), unified)


def test_all_shrinkage_is_the_unified_method_and_none_with_no_softness_is_hard() -> None:
    batch = toy()
    unified = methods.fitted("platt", batch).predict(batch)
    np.testing.assert_array_equal(fitted(batch, tau="inf").predict(batch), unified)
    near = fitted(batch, temperature=1, tau=1e9).predict(batch)
    np.testing.assert_allclose(near, unified, atol=1e-4)
    hard, softer = fitted(batch, **HARD).predict(batch), fitted(batch, temperature=1e-4, tau=0).predict(batch)
    np.testing.assert_allclose(softer, hard, atol=1e-9)


def test_cross_validation_finds_clusters_where_there_are_some_and_none_where_there_are_none() -> None:
    assert fitted(toy(2000), temperature=0).state.params["tau"] == 0.0
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, 2000)
    label = (rng.random(2000) < sigmoid(z)).astype(np.int64)
    noise = Batch(z, label, None, {"x": Column("number", rng.normal(size=2000))})
    tau = fitted(noise, clusters=20, temperature=0).state.params["tau"]
    assert tau is None or tau >= 30
    soft = fitted(replace(noise, label=noise.labels[::-1].copy()), clusters=20, temperature=0.5).state.params
    assert (soft["tau"], soft["temperature"]) == (None, 0.5), "the temperature that was given, though it says nothing"


def test_given_numbers_are_kept() -> None:
    params = fitted(toy(), temperature=0.25, tau=7).state.params
    assert (params["temperature"], params["tau"]) == (0.25, 7.0)
    for given in ({"temperature": "warm"}, {"tau": -1}, {"clusters": 0}, {"inner": "ccl"}, {"inner": "auto?"}):
        with pytest.raises(UsageError):
            fitted(toy(), **given)


@pytest.mark.parametrize("embedding", ["shap", "leaves", "top", "features"])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_embedding_predicts(embedding: str, classes: int) -> None:
    batch = ordinary(250, classes)
    model = fitted(batch, embedding=embedding, clusters=5, **HARD)
    prob = model.predict(batch)
    assert prob.shape == batch.score.shape
    places = {*model.extras(batch)["cluster"].tolist()}
    assert len(places) == (4 if embedding == "top" and classes == 3 else 5), "one category: three levels and none"


def test_columns_are_named_by_how_they_begin() -> None:
    batch = toy()
    named = replace(batch, features={f"emb_{name}": column for name, column in batch.features.items()} | {
        "noise": Column("number", np.random.default_rng(0).normal(0, 100, len(batch)))
    })  # fmt: skip
    alone = fitted(batch, embedding="columns", columns="", **HARD).predict(batch)
    np.testing.assert_array_equal(fitted(named, embedding="columns", **HARD).predict(named), alone)
    with pytest.raises(DataError, match="starts with 'emb_'"):
        fitted(batch, embedding="columns")


@pytest.mark.parametrize("embedding", ["features", "top"])
def test_words_that_seldom_repeat_are_one_cluster(embedding: str) -> None:
    batch = toy()
    words = Column("category", np.arange(len(batch)) % 250, tuple(map(str, range(250))))
    batch = replace(batch, features={"word": words})
    platt = methods.fitted("platt", batch).predict(batch)
    np.testing.assert_allclose(fitted(batch, embedding=embedding, inner="platt", **HARD).predict(batch), platt)


def test_embedding_data_moves_the_centroids_and_nothing_else() -> None:
    """Rows of a fifth blob, which no calibration row is in: its cluster has none, and rows there get the global map.

    Of the others one has its rate instead of a calibrator.
    """
    train, rng = toy(), np.random.default_rng(3)
    far = {name: Column("number", rng.normal(100, 0.3, 200)) for name in ("x", "y")}
    beside = SideInputs(batches={"embedding-data": Batch(np.zeros(200), None, None, far)})
    model = fitted(train, sides=beside, clusters=5, **HARD)
    there = Batch(np.linspace(-2, 2, 200), features=far)
    unified = methods.fitted("platt", train).predict(there)
    np.testing.assert_allclose(model.predict(there), unified, rtol=1e-12)
    without = fitted(train, **HARD)
    np.testing.assert_allclose(model.predict(train), without.predict(train), rtol=1e-9)
    assert table(model, "Clusters")["calibrator"] == ["platt", "platt", "platt", "its rate", "none"]
    parts = unnest(model.state, ["mixture"])["mixture"]
    assert sorted(parts.params) == ["0", "1", "2", "everyone"]
    assert parts.array("rates")[3].sum() == pytest.approx(1.0)


def test_missing_and_unseen_values_have_a_cluster_too() -> None:
    batch = ordinary(400)
    model = fitted(batch, clusters=40)
    strange = {
        "number": Column("number", np.array([np.nan, np.inf, 1e300])),
        "flag": Column("boolean", np.array([np.nan, 0.0, 1.0])),
        "place": Column("category", np.array([0, 1, -1], dtype=np.int32), ("never seen", "b")),
    }
    assert np.isfinite(model.predict(Batch(np.zeros(3), features=strange))).all()


def test_no_rows_are_no_trouble() -> None:
    batch = ordinary(200)
    model = fitted(batch, clusters=40)
    none = batch.take(slice(0, 0))
    assert model.predict(none).shape == (0,)
    assert model.extras(none)["cluster"].shape == (0,)


def test_the_elbow() -> None:
    """Scaled to the unit square: 0.8 - 0.25 is the furthest above the diagonal; falls do not count."""
    counts = [5, 10, 15, 20, 25]
    assert elbow([0.1, 0.5, 0.45, 0.55, 0.6], counts) == 10
    assert elbow([0.0, 0.25, 0.5, 0.75, 1.0], counts) == 5, "on the line: the smallest"
    assert elbow([0.3] * 5, counts) == 5
    assert elbow([0.3], [7]) == 7


def test_auto_counts() -> None:
    assert fitted(toy(900), clusters="auto").state.params["clusters"] == 4, "900 / 200, below the first that is tried"
    assert 5 <= fitted(toy(2000), clusters="auto").state.params["clusters"] <= 10


def test_homogeneity_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    label, cluster = rng.integers(0, 3, 500), rng.integers(0, 6, 500)
    label[cluster == 2] = 1
    times = rng.integers(1, 4, 500)
    expected = homogeneity_score(np.repeat(label, times), np.repeat(cluster, times))
    assert homogeneity(label, cluster, times.astype(float)) == pytest.approx(expected)
    assert homogeneity(np.zeros(9, dtype=np.int64), np.arange(9), np.ones(9)) == 1.0


def test_memberships_of_rows_at_one_place_are_whole() -> None:
    """Every distance is 0, and so is their median."""
    batch = ordinary(100)
    same = replace(batch, features={"x": Column("number", np.full(100, 3.0))})
    model = methods.fitted("ccl", same)
    assert model.state.params["clusters"] == 1
    np.testing.assert_array_equal(model.predict(same), methods.fitted("platt", same).predict(same))


def table(model: FittedMethod, title: str) -> dict[str, list]:
    section = next(each for each in model.explain(["0", "1"]) if each.title == title)
    return dict(zip(section.columns, map(list, zip(*section.rows, strict=True)), strict=True))


def test_clusters_are_described() -> None:
    train = toy(2000)
    model, blobs = fitted(train, **HARD), blob_of(train)
    found, sizes = table(model, "Clusters"), np.bincount(blobs)
    order = np.argsort(-sizes)
    assert found["rows"] == sizes[order].tolist()
    rates = np.array([train.labels[blobs == blob].mean() for blob in order])
    assert found["label_rate"] == pytest.approx(rates)
    raw = [sigmoid(train.score[blobs == blob]).mean() for blob in order]
    assert found["pud_raw"] == pytest.approx(np.array(raw) / rates)
    assert found["calibrator"] == ["platt", "platt", "platt", "its rate"]
    assert found["set_apart_by"][3].startswith("y 20 (all ")
    whole = dict(zip(*table(model, "CCL").values(), strict=True))
    assert whole["variance of sizes"] == pytest.approx(np.var(sizes))
    assert whole["variance of label rates"] == pytest.approx(np.var(rates))
    assert whole["homogeneity"] == pytest.approx(homogeneity_score(train.labels, blobs))
    assert whole["share of rows in clusters with a lower ECE than unified"] > 0.5


def test_errors_within_clusters_are_those_of_the_metrics_in_each_fold() -> None:
    """On average over the folds, by their weight; `calcli.metrics` is the oracle: the method may not import it."""
    from calcli.metrics import catalog as metrics
    from calcli.metrics.base import Clusters, Options, Scored

    rows, rng = toy(1500, weighted=True), np.random.default_rng(8)
    blobs, fold = blob_of(rows), rng.choice(3, 1500, p=[0.5, 0.3, 0.2])
    probs = {name: sigmoid(rows.score * slope) for name, slope in (("raw", 1.0), ("unified", 0.8), ("ccl", 0.5))}
    known, cece = explanation.of_clusters(rows, blobs, 4, fold, probs)
    found = dict(zip(explanation.COLUMNS, known.T, strict=True))
    for score, forms in zip(explanation.SCORES, cece.T, strict=False):
        scored = Scored(rows.labels, probs[score], rows.weight, Clusters(blobs, 4, "blobs"))
        parts = [scored.take(fold == place) for place in range(3)]
        mass = [part.weight.sum() for part in parts]
        for form, value in zip(explanation.FORMS, forms, strict=True):
            each = [metrics.measure([metrics.find(form)], part, Options())[form].value for part in parts]
            assert value == pytest.approx(np.average(each, weights=mass))
        for blob in range(4):
            parts = [replace(scored, clusters=None).take((fold == place) & (blobs == blob)) for place in range(3)]
            mass = [part.weight.sum() for part in parts]
            for name in explanation.ERRORS:
                each = [metrics.measure([metrics.find(name)], part, Options())[name].value for part in parts]
                assert found[f"{name}_{score}"][blob] == pytest.approx(np.average(each, weights=mass), abs=1e-12)
            if score == "ccl":
                off = [abs(np.log((p.weight @ p.prob) / (p.weight @ p.label))) for p in parts]
                assert found["pud_ccl"][blob] == pytest.approx(np.exp(np.average(off, weights=mass)))


@pytest.mark.slow
def test_held_out_errors_are_those_of_fresh_rows() -> None:
    """CECE and the factor by which PUD is off, of tables as large as a fold, under calibrators of the other folds."""
    held, fresh = [], []
    for seed in range(12):
        train = toy(1000, seed)
        model = fitted(train, **HARD)
        known = model.state.array("facts")[:, explanation.COLUMNS.index("pud_ccl")]
        held.append([*model.state.array("cece")[:, 2], *known[:3]])
        smaller = fitted(train.take(np.arange(1000) % 5 > 0), **HARD)
        order = np.argsort(-np.bincount(blob_of(train)))
        for draw in range(8):
            rows = toy(200, 1000 + 8 * seed + draw)
            probs = dict.fromkeys(explanation.SCORES, smaller.predict(rows))
            place = np.argsort(order)[blob_of(rows)]
            known, cece = explanation.of_clusters(rows, place, 4, np.zeros(200, dtype=np.int64), probs)
            fresh.append([*cece[:, 2], *known[:3, explanation.COLUMNS.index("pud_ccl")]])
    error = np.sqrt(np.var(held, axis=0) / 12 + np.var(fresh, axis=0) / 96)
    assert (np.abs(np.mean(held, axis=0) - np.mean(fresh, axis=0)) < 3.0 * error).all()


def test_the_floor_is_the_cece_of_calibrated_scores() -> None:
    """Labels drawn from the probabilities themselves."""
    rows, rng = toy(2000), np.random.default_rng(5)
    prob, fold, blobs = sigmoid(rows.score), rng.integers(0, 5, 2000), blob_of(rows)
    drawn = []
    for _ in range(60):
        labelled = replace(rows, label=(rng.random(2000) < prob).astype(np.int64))
        found = explanation.of_clusters(labelled, blobs, 4, fold, dict.fromkeys(explanation.SCORES, prob))[1]
        drawn.append(found[:, 2])
    floor = found[:, 3]
    np.testing.assert_allclose(np.mean(drawn, axis=0), floor, rtol=0.05)


def test_a_stand_in_for_the_model_is_told() -> None:
    train = toy(300)
    (said,) = methods.fitted("ccl", train, embedding="shap", clusters=3).remarks()
    assert said.startswith("ccl clusters by SHAP values of a stand-in for the model")
    assert "--model FILE" in said
    assert fitted(train).remarks() == ()


def test_many_classes_are_described_by_the_predicted_one() -> None:
    batch = ordinary(800, 4)
    model = fitted(batch, clusters=3)
    section = next(each for each in model.explain(list("abcd")) if each.title == "Clusters")
    found = dict(zip(section.columns, zip(*section.rows, strict=True), strict=True))
    right = batch.score.argmax(axis=1) == batch.labels
    place = model.extras(batch)["cluster"]
    assert found["accuracy"] == pytest.approx([right[place == cluster].mean() for cluster in range(3)])


def test_the_share_of_each_cluster_is_walked_through_once() -> None:
    rng = np.random.default_rng(0)
    near = partition.shares(
        partition.NearestCentroids(
            rng.permuted(np.tile(np.arange(6), (50, 1)), axis=1)[:, :3], np.sort(rng.random((50, 3)))
        ),
        1,
        0.1,
    )
    for cluster, (rows, share) in enumerate(near.of_each(6)):
        expected = np.where(near.cluster == cluster, near.share, 0.0).sum(axis=1)
        np.testing.assert_array_equal(rows, np.flatnonzero(expected))
        np.testing.assert_array_equal(share, expected[rows])


def test_a_cluster_that_determines_no_calibrator_has_its_label_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = Beta.fit

    def fails_on_few(self: Beta, batch: Batch, *rest: object) -> object:
        if len(batch) < 100:
            raise FitError("these rows do not determine it")
        return fit(self, batch, *rest)

    monkeypatch.setattr(Beta, "fit", fails_on_few)
    train = toy()
    third = train.take(blob_of(train) == 2)
    assert len(third) < 100 < (blob_of(train) == 1).sum()
    found = fitted(train, inner="beta", **HARD).predict(third)
    assert found == pytest.approx((third.labels.sum() + 0.5) / (len(third) + 1))


def test_chosen_by_given_folds_each_is_judged_by_the_shrinkage_that_the_others_prefer() -> None:
    """The blobs are so far apart that fits on some of the rows find the same clusters."""
    train, given = toy(600, seed=3), {"embedding": "features", "clusters": 4, "temperature": 0}
    splits = in_turn(np.arange(600) % 3, 3)
    spec = catalog.find("ccl")
    found = ccl.choose(train, NO_SIDE_INPUTS, spec.resolve(given), 0, splits)
    loss, prob = {}, {}
    for tau, (place, (seen, unseen)) in product(ccl.TAUS, enumerate(splits)):
        text = "inf" if np.isinf(tau) else tau
        prob[tau, place] = fitted(train.take(seen), temperature=0, tau=text).predict(train.take(unseen))
        loss[tau, place] = log_loss(prob[tau, place], train.labels[unseen]).sum()
    for place, split in enumerate(splits):
        others = {tau: sum(loss[tau, other] for other in range(3) if other != place) for tau in ccl.TAUS}
        expected = prob[min(others, key=others.__getitem__), place]
        held_out = ccl.predict(found.states[place], train.take(split.test), NO_SIDE_INPUTS)
        np.testing.assert_allclose(held_out, expected, rtol=1e-9)
    assert found.whole is not None
    best = min(ccl.TAUS, key=lambda tau: sum(loss[tau, place] for place in range(3)))
    whole = fitted(train, temperature=0, tau="inf" if np.isinf(best) else best)
    np.testing.assert_allclose(ccl.predict(found.whole, train, NO_SIDE_INPUTS), whole.predict(train), rtol=1e-12)


def test_nothing_is_chosen_by_folds_where_labels_have_formed_the_clusters() -> None:
    splits = in_turn(np.arange(400) % 4, 4)
    for params, weighted in (({"clusters": "auto"}, False), ({"temperature": 0, "tau": 3}, False), ({}, True)):
        train = toy()
        train = replace(train, weight=np.arange(400) % 2.0) if weighted else train
        given = catalog.find("ccl").resolve({"embedding": "features", **params})
        assert ccl.choose(train, NO_SIDE_INPUTS, given, 0, splits) == Chosen()
