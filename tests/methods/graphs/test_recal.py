"""RECAL beside graphs that are built for each row, torch-geometric's own network, and its formulas written out."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calcli.batch import NO_SIDE_INPUTS, Batch, Column, Edges, FloatArray, SideInputs
from calcli.errors import DataError, UsageError
from calcli.methods import calibrator, catalog
from calcli.methods.calibrator import FittedMethod
from calcli.methods.graphs import recal, training
from calcli.methods.graphs.mixing import GCN, HIDDEN, LAPLACIAN, Adjacency, Layers, Network, logits
from calcli.numeric.links import log_softmax, probabilities, softmax
from calcli.numeric.losses import log_loss
from calcli.state import State
from tests.support.cases import ordinary
from tests.support.graphs import mixing, nearest
from tests.support.shell import ROOT, environment

ROW = catalog.find("recal")
RELATIONS = ["column:place", "column:flag", "column:number", "knn:x,y", "edges"]


def table(rows: int, classes: int, seed: int) -> Batch:
    """Rows with a feature of each kind, a coarse grid on which many are equally far, and ids."""
    rng = np.random.default_rng(seed)
    batch = ordinary(rows, classes, seed)
    x, y = rng.integers(0, 6, (2, rows)) / 4
    x[rng.random(rows) < 0.05] = np.nan
    names = tuple(f"n{number:03}" for number in range(200))
    node = Column("category", np.where(rng.random(rows) < 0.1, -1, rng.permutation(200)[:rows]).astype(np.int32), names)
    return replace(batch, features={**batch.features, "x": Column("number", x), "y": Column("number", y)}, node=node)


def edge_list(seed: int) -> Edges:
    """Among two hundred nodes, of which the rows are some."""
    return Edges(
        tuple(f"n{number:03}" for number in range(200)), np.random.default_rng(seed).integers(0, 200, (700, 2))
    )


def fitted(batch: Batch, relation: str, **params: object) -> FittedMethod:
    sides = SideInputs(edges=edge_list(0)) if relation == "edges" else NO_SIDE_INPUTS
    given = {"relation": relation, **params}
    return calibrator.fit(ROW, batch, ROW.resolve(given), sides=sides)  # type: ignore[arg-type]


def with_any_weights(model: FittedMethod, batch: Batch, parts: str = "graph own") -> FittedMethod:
    """The same with a network that no rows have taught anything."""
    rng = np.random.default_rng(7)
    inputs = logits(batch.score).shape[1]

    def layers() -> Layers:
        return Layers(rng.normal(size=(inputs, HIDDEN)), rng.normal(size=HIDDEN), rng.normal(size=HIDDEN))

    found = {name: layers() for name in parts.split()}
    network = Network(3.0, 0.4, found.get("graph"), found.get("own"))
    arrays = dict(model.state.arrays)
    scale = Network.from_bytes(model.state.blobs[recal.WEIGHTS]).scale / network.scale
    arrays |= {name: arrays[name] * scale for name in ("values", "sums") if name in arrays}
    state = State(model.state.params, arrays, {recal.WEIGHTS: network.to_bytes()})
    return replace(model, state=state)


def temperatures(network: Network, matrix: np.ndarray, values: FloatArray) -> FloatArray:
    """Two layers with a dense matrix, row by row as the paper has it."""
    total = np.full(len(values), network.offset)
    if network.graph is not None:
        hidden = np.maximum(matrix @ values @ network.graph.weight + network.graph.bias, 0.0)
        total += matrix @ hidden @ network.graph.out
    if network.own is not None:
        total += np.maximum(values @ network.own.weight + network.own.bias, 0.0) @ network.own.out
    return np.clip(np.log1p(np.exp(total)), 0.01, 100.0)


def adjacency(relation: str, batch: Batch, sides: SideInputs) -> np.ndarray:
    """Which rows are linked, by the definition of each relation."""
    count = len(batch)
    found = np.zeros((count, count))
    for i in range(count):
        for j in neighbours(relation, batch, i, batch, sides):
            if i != j:
                found[i, j] = found[j, i] = 1.0
    return found


def neighbours(relation: str, there: Batch, row: int, rows: Batch, sides: SideInputs) -> list[int]:
    """The rows of `there` that `row` of `rows` is tied to by its own account."""
    kind, _, names = relation.partition(":")
    if kind == "edges":
        assert sides.edges is not None
        pairs = {tuple(sides.edges.nodes[end] for end in pair) for pair in sides.edges.pairs}
        mine = name_of(rows, row)
        theirs = [name_of(there, other) for other in range(len(there))]
        return [
            other
            for other, name in enumerate(theirs)
            if name is not None and name != mine and ((mine, name) in pairs or (name, mine) in pairs)
        ]
    if names in ("place", "flag"):
        mine = rows.features[names].values[row]
        return [
            row for row, value in enumerate(there.features[names].values) if np.isclose(value, mine, equal_nan=True)
        ]
    space = np.column_stack([there.features[name].values for name in names.split(",")])
    point = np.array([rows.features[name].values[row] for name in names.split(",")])
    return nearest(space, point, 5, None, row if rows is there else None)


def name_of(batch: Batch, row: int) -> str | None:
    assert batch.node is not None
    code = batch.node.values[row]
    return None if code < 0 else batch.node.levels[code]


def in_kept_order(batch: Batch, model: FittedMethod) -> Batch:
    """Of equally near rows the lower one counts: the rows in the order in which the artifact has them."""
    if "points" not in model.state.arrays:
        return batch
    network = Network.from_bytes(model.state.blobs[recal.WEIGHTS])
    mine = (logits(batch.score) / network.scale).round(9).tolist()
    return batch.take(np.array([mine.index(row) for row in model.state.array("values").round(9).tolist()]))


@pytest.mark.slow
@pytest.mark.parametrize("propagation", ["gcn", "laplacian"])
@pytest.mark.parametrize("parts", ["graph", "graph own"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_online_each_row_joins_the_calibration_rows_alone(
    relation: str, classes: int, parts: str, propagation: str
) -> None:
    """METHODS: the calibration graph stays, the new row is tied to its own neighbours, both ways."""
    batch, new = table(60, classes, 1), table(40, classes, 2)
    model = with_any_weights(fitted(batch, relation, epochs="0", propagation=propagation), batch, parts)
    network = Network.from_bytes(model.state.blobs[recal.WEIGHTS])
    batch = in_kept_order(batch, model)
    within = adjacency(relation, batch, model.sides)
    expected = []
    for row in range(len(new)):
        joined = np.zeros((len(batch) + 1, len(batch) + 1))
        joined[:-1, :-1] = within
        near = neighbours(relation, batch, row, new, model.sides)
        joined[-1, near] = joined[near, -1] = 1.0
        values = np.concatenate([logits(batch.score), logits(new.score)[row : row + 1]]) / network.scale
        scheme = LAPLACIAN if propagation == "laplacian" else GCN
        expected.append(temperatures(network, mixing(joined, scheme), values)[-1])
    found = model.extras(new)["temperature"]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)
    t = np.array(expected) if classes == 2 else np.array(expected)[:, None]
    np.testing.assert_allclose(model.predict(new), probabilities(new.score / t), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("propagation", ["gcn", "laplacian"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_chunks_and_permutations_of_rows_change_no_bit(relation: str, propagation: str) -> None:
    batch, new = table(60, 3, 1), table(150, 3, 2)
    model = with_any_weights(fitted(batch, relation, epochs="0", propagation=propagation), batch)
    whole = model.predict(new)
    chunks = [model.predict(new.take(slice(start, start + 37))) for start in range(0, 150, 37)]
    np.testing.assert_array_equal(np.concatenate(chunks), whole)
    order = np.random.default_rng(0).permutation(150)
    np.testing.assert_array_equal(model.predict(new.take(order)), whole[order])


@pytest.mark.parametrize("relation", RELATIONS)
def test_offline_the_rows_are_a_graph_of_their_own_as_torch_geometric_has_it(relation: str) -> None:
    import torch
    from torch_geometric.nn import GCNConv

    batch, new = table(60, 3, 1), table(50, 3, 2)
    model = with_any_weights(fitted(batch, relation, epochs="0", apply="offline"), batch, "graph")
    network = Network.from_bytes(model.state.blobs[recal.WEIGHTS])
    assert network.graph is not None
    first, second = GCNConv(3, HIDDEN), GCNConv(HIDDEN, 1)
    with torch.no_grad():
        first.lin.weight = torch.nn.Parameter(torch.as_tensor(network.graph.weight.T))
        first.bias = torch.nn.Parameter(torch.as_tensor(network.graph.bias))
        second.lin.weight = torch.nn.Parameter(torch.as_tensor(network.graph.out[None]))
        second.bias = torch.nn.Parameter(torch.tensor([network.offset], dtype=torch.float64))
        edges = torch.as_tensor(np.array(np.nonzero(adjacency(relation, new, model.sides))))
        values = torch.as_tensor(logits(new.score) / network.scale)
        expected = torch.nn.functional.softplus(second(torch.relu(first(values, edges)), edges))[:, 0]
    np.testing.assert_allclose(model.extras(new)["temperature"], expected.clamp(0.01, 100).numpy(), rtol=1e-12, atol=0)
    assert model.whole_table
    assert not model.state.arrays


def test_what_is_trained_is_what_is_applied() -> None:
    """The loss that training sees is that of the network offline, on the calibration rows."""
    import torch

    batch = table(120, 3, 1)
    for relation in RELATIONS:
        model = fitted(batch, relation, apply="offline", epochs="25", margin="0")
        inputs = _inputs(batch, model)
        trainer = training._Trainer(batch, inputs, torch.device("cpu"), 0)
        weights = trainer.begin([1.3])
        with torch.no_grad():
            for tensor in weights.values():
                tensor.copy_(torch.as_tensor(np.random.default_rng(3).normal(size=tensor.shape)))
        loss = next(trainer.losses(weights, 0.1, [0.0], np.ones((120, 1)), 0))[:, 0]
        network = training._network(weights, inputs)
        taught = replace(model, state=replace(model.state, blobs={recal.WEIGHTS: network.to_bytes()}))
        expected = mixed_loss(log_softmax(batch.score / taught.extras(batch)["temperature"][:, None]), batch)
        np.testing.assert_allclose(loss, expected, rtol=1e-10, atol=1e-12)


def mixed_loss(log_prob: FloatArray, batch: Batch) -> FloatArray:
    """The log-loss of each row beside labels of which 1 / (n + 1) is spread over all classes."""
    share = 1.0 / (batch.weights.sum() + 1.0)
    return -(1.0 - share) * log_prob[np.arange(len(batch)), batch.labels] - share * log_prob.mean(axis=1)


def _inputs(batch: Batch, model: FittedMethod) -> training.Inputs:
    related = recal.Relation.from_params(model.state.params)
    values = logits(batch.score)
    graph = related.graph(batch, model.sides)
    return training.Inputs({"graph": recal.first_mixing(graph, values, GCN), "own": values}, 1.0, graph, GCN)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_loss_is_that_of_the_paper(classes: int) -> None:
    """Eq. 6 with mixed labels, and Eq. 7 as a mean: 1 - z_m + z_s of rows predicted right, z_m - z_s of the others."""
    import torch

    batch = ordinary(50, classes)
    inputs = training.Inputs({"own": logits(batch.score)}, 1.0, None, GCN)
    trainer = training._Trainer(batch, inputs, torch.device("cpu"), 0)
    t = np.random.default_rng(1).uniform(0.3, 4, (50, 1))
    found, penalty = trainer._loss(torch.as_tensor(t))
    prob = softmax(logits(batch.score) / t)
    np.testing.assert_allclose(found.numpy()[:, 0], mixed_loss(np.log(prob), batch), rtol=1e-9)
    second, first = np.sort(prob, axis=1).T[-2:]
    right = prob.argmax(axis=1) == batch.labels
    np.testing.assert_allclose(penalty.numpy()[:, 0], np.where(right, 1 - first + second, first - second), rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
def test_without_epochs_it_is_temperature_scaling(classes: int) -> None:
    batch = ordinary(300, classes, weighted=True)
    row = catalog.find("temperature")
    expected = calibrator.fit(row, batch, row.resolve()).predict(batch)
    for relation in ("column:place", "column:number"):
        np.testing.assert_allclose(fitted(batch, relation, epochs="0").predict(batch), expected, rtol=1e-9)


def related_rows(rows: int, seed: int) -> Batch:
    """Scores that shout in one of two places, and can be told by their sign, as their neighbours' can."""
    rng = np.random.default_rng(seed)
    loud = rng.random(rows) < 0.5
    truth = np.abs(rng.normal(1.0, 0.7, rows)) * np.where(loud, 1, -1)
    label = (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.int64)
    score = np.where(loud, 6.0, 1.0) * truth
    place = Column("category", loud.astype(np.int32), ("calm", "loud"))
    return Batch(score, label, None, {"place": place, "x": Column("number", loud + rng.normal(0, 0.05, rows))})


@pytest.mark.parametrize("relation", ["auto", pytest.param("column:place", marks=pytest.mark.slow), "column:x"])
@pytest.mark.parametrize("preset", [None, pytest.param("paper", marks=pytest.mark.slow)])
def test_it_learns_that_related_rows_share_a_temperature(relation: str, preset: str | None) -> None:
    """One temperature cannot suit both places: the best one for each is what the network must come near to."""
    train, test = related_rows(1000, 1), related_rows(4000, 2)
    model = calibrator.fit(ROW, train, ROW.resolve({"relation": relation}, preset))
    row = catalog.find("temperature")
    one = calibrator.fit(row, train, row.resolve()).predict(test)
    loud = test.features["place"].values == 1
    best = np.where(loud, test.score / 6.0, test.score)
    losses = [float(log_loss(prob, test.labels).mean()) for prob in (one, model.predict(test), probabilities(best))]
    assert losses[1] < losses[2] + 0.25 * (losses[0] - losses[2])
    assert model.remarks()[0].startswith("recal links rows by ")


@pytest.mark.parametrize("rows", [20, 200])
def test_rows_that_the_score_separates_make_it_not_certain(rows: int) -> None:
    """On average it says an error no smaller than one more row of all classes is."""
    score = np.random.default_rng(0).normal(0.0, 2.0, rows)
    batch = Batch(score, (score > 0).astype(np.int64), None, {"x": Column("number", np.arange(float(rows)))})
    prob = calibrator.fit(ROW, batch, ROW.resolve()).predict(batch)
    error = np.where(batch.labels == 1, 1.0 - prob, prob)
    assert error.min() > 1e-6
    assert error.mean() > 0.25 / (rows + 1.0)


def test_a_network_that_gains_too_little_is_not_used() -> None:
    """Where one temperature is the truth, what the network gains on held-out rows is chance."""
    rng = np.random.default_rng(0)
    for seed in range(2):
        truth = rng.normal(size=400)
        label = (rng.random(400) < 1 / (1 + np.exp(-truth))).astype(np.int64)
        batch = Batch(3 * truth, label, None, {"x": Column("number", rng.normal(size=400))})
        model = calibrator.fit(ROW, batch, ROW.resolve(), seed=seed)
        assert model.state.params["epochs"] == 0
        assert "not better than the one temperature" in model.remarks()[-1]


def test_the_mlp_looks_at_nothing_but_the_score() -> None:
    batch = ordinary(300, 3)
    model = fitted(batch, "auto", backbone="mlp", margin="0")
    assert (model.reads, model.whole_table, dict(model.state.arrays)) == ((), False, {})
    np.testing.assert_array_equal(model.predict(Batch(batch.score)), model.predict(batch))


def test_a_weight_of_two_is_the_row_twice_where_there_is_no_graph() -> None:
    batch = ordinary(400, 3, weighted=True)
    repeated = batch.take(np.repeat(np.arange(400), batch.weights.astype(int)))
    given = {"backbone": "mlp", "margin": "0", "epochs": "40"}
    one, other = fitted(batch, "auto", **given), fitted(replace(repeated, weight=None), "auto", **given)
    assert one.state.params["epochs"] == other.state.params["epochs"] != 0
    np.testing.assert_allclose(one.predict(batch), other.predict(batch), rtol=1e-6)


def test_rows_of_weight_zero_teach_nothing_but_stay_neighbours() -> None:
    batch = related_rows(600, 1)
    weight = np.where(np.arange(600) % 3 == 0, 0.0, 1.0)
    turned = np.where(weight == 0, 1 - batch.labels, batch.labels)
    kept = [
        fitted(replace(batch, label=label, weight=weight), "knn:x", epochs="60") for label in (batch.labels, turned)
    ]
    assert len(kept[0].state.arrays["values"]) == 600
    one, other = (np.sort(model.extras(batch)["temperature"]) for model in kept)
    assert np.ptp(one) > 0.1
    np.testing.assert_allclose(one, other, atol=0.5)


@pytest.mark.slow
def test_rates_and_penalties_are_chosen_where_auto_is_asked() -> None:
    batch = related_rows(500, 1)
    known = fitted(batch, "column:place", rate="auto", **{"lambda": "auto"}).state.params
    assert known["rate"] in training.RATES
    assert known["lambda"] in training.PENALTIES
    assert fitted(batch, "column:place", **{"lambda": "0.3"}).state.params["lambda"] == 0.3


def test_each_network_learns_as_if_it_were_alone() -> None:
    """Networks that are trained side by side, with other rows and lambdas, do not see each other."""
    import torch

    batch = ordinary(80, 3)
    inputs = training.Inputs({"own": logits(batch.score)}, 1.0, None, GCN)
    trainer = training._Trainer(batch, inputs, torch.device("cpu"), 0)
    shares = np.random.default_rng(0).random((80, 3))
    starts, penalties = [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]
    *_, together = trainer.losses(trainer.begin(starts), 0.01, penalties, shares, 10)
    for index in range(3):
        one = slice(index, index + 1)
        *_, alone = trainer.losses(trainer.begin(starts[one]), 0.01, penalties[one], shares[:, one], 10)
        np.testing.assert_allclose(together[:, one], alone, rtol=1e-12)


def test_the_top_class_survives_a_network_that_says_anything() -> None:
    batch, new = table(60, 3, 1), table(150, 3, 2)
    model = with_any_weights(fitted(batch, "knn:x,y", epochs="0"), batch)
    np.testing.assert_array_equal(model.predict(new).argmax(axis=1), new.score.argmax(axis=1))
    binary = with_any_weights(fitted(table(60, 2, 1), "knn:x,y", epochs="0"), table(60, 2, 1))
    some = table(150, 2, 2)
    np.testing.assert_array_equal(binary.predict(some) > 0.5, some.score > 0)


def test_threads_of_pytorch_change_no_byte_and_come_back() -> None:
    import torch

    batch, found = related_rows(400, 1), []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(fitted(batch, "knn:x", epochs="20", margin="0").state.blobs)
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    assert found[0] == found[1]
    assert not torch.are_deterministic_algorithms_enabled()


def test_few_rows_and_rows_that_are_nowhere() -> None:
    batch = replace(ordinary(4), features={"x": Column("number", np.array([0.0, np.nan, 1.0, np.nan]))})
    model = with_any_weights(fitted(batch, "column:x", epochs="0"), batch)
    links = Adjacency(model.state.arrays["start"], model.state.arrays["ends"])
    assert sorted(links.degree.tolist()) == [0, 0, 1, 1]
    assert np.isfinite(model.predict(batch)).all()


def test_no_edge_between_calibration_rows_is_an_error_with_both_kinds_of_ids() -> None:
    batch = replace(table(60, 2, 1), node=Column("category", np.arange(60, dtype=np.int32), tuple(map(str, range(60)))))
    with pytest.raises(DataError, match=r"none of the 700 edges links two of the 60 rows; .* 0, 1, 2, .* n000, n001"):
        fitted(batch, "edges")


def test_where_labels_of_one_class_show_no_important_feature_auto_is_the_first_by_name() -> None:
    batch = replace(ordinary(50), label=np.zeros(50, dtype=np.int64))
    first = min(batch.features)
    np.testing.assert_array_equal(fitted(batch, "auto").predict(batch), fitted(batch, f"column:{first}").predict(batch))


def test_a_gpu_that_is_not_there_is_named() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(UsageError, match="PyTorch finds no GPU"):
        fitted(ordinary(50), "column:flag", device="cuda")
    fitted(ordinary(50), "column:flag", device="auto")


FIT = """
import sys
sys.path.insert(0, {root!r})
from calcli.methods import calibrator, catalog
from tests.support.cases import ordinary
row = catalog.find("recal")
model = calibrator.fit(row, ordinary(), row.resolve({{"relation": {relation!r}, "epochs": "3"}}))
print("torch_geometric" in sys.modules)
"""

PREDICT = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from calcli.artifacts import store
from calcli.methods.calibrator import FittedMethod
from tests.support.cases import ordinary
FittedMethod.from_state("recal", store.read(Path({kept!r})).states["state"]).predict(ordinary())
print(sorted(name for name in ("torch", "catboost", "torch_geometric", "pandas") if name in sys.modules))
"""


def run(code: str, **values: str) -> str:
    """What a fresh interpreter prints, with a temporary directory of its own that must be empty at the end."""
    scratch = Path(values.pop("scratch"))
    scratch.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", code.format(root=str(ROOT), **values)],
        env=environment(TMPDIR=str(scratch)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [path.name for path in scratch.iterdir()] == []
    return done.stdout.strip()


@pytest.mark.slow
def test_torch_geometric_is_imported_for_its_layer_alone_and_leaves_no_file(tmp_path: Path) -> None:
    scratch = str(tmp_path / "tmp")
    assert run(FIT, relation="column:place", scratch=scratch) == "False"
    assert run(FIT, relation="column:number", scratch=scratch) == "True"


def test_predicting_imports_no_learner(tmp_path: Path) -> None:
    from calcli.artifacts import store
    from tests.support.artifacts import draft

    batch = ordinary()
    kept = tmp_path / "kept"
    store.write(kept, draft(), {"state": with_any_weights(fitted(batch, "column:number"), batch).to_state()})
    assert run(PREDICT, kept=str(kept), scratch=str(tmp_path / "tmp")) == "[]"


def test_what_was_learned_is_explained() -> None:
    relation, learned = fitted(table(60, 2, 1), "edges").explain(("0", "1"))
    assert relation.columns == ("linked by", "rows", "links", "alone", "edges given", "edges left out")
    assert relation.rows[0][:2] == ("the edges of --edges", 60)
    assert learned.columns[2] == "epochs"


def test_logits_are_centred_and_symmetric() -> None:
    z = np.array([-3.0, 0.0, 900.0])
    np.testing.assert_array_equal(logits(z), [[1.5, -1.5], [0, 0], [-450, 450]])
    V = ordinary(20, 4).score + 5
    np.testing.assert_allclose(log_softmax(logits(V)), log_softmax(V), atol=1e-12)
    np.testing.assert_allclose(logits(V).sum(axis=1), 0, atol=1e-12)
