"""Heterogeneous calibration: its limits, the paper's lemma, and trees beside scikit-learn's."""

from __future__ import annotations

import re
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from calcli.batch import NO_SIDE_INPUTS, Batch, Column, SideInputs
from calcli.errors import UsageError
from calcli.methods import catalog
from calcli.methods.calibrator import FittedMethod
from calcli.methods.heterogeneous import heterogeneous
from calcli.methods.heterogeneous.cells import platt_each
from calcli.methods.heterogeneous.coding import Coding
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.heterogeneous.tree import grow
from calcli.methods.scaling.linear import Platt
from calcli.methods.trees.held_out_choice import least_loss
from calcli.numeric.links import logit, probabilities, sigmoid
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import in_turn
from tests.support import methods
from tests.support.cases import ordinary, wrong_by_feature
from tests.support.methods import alone, loss_of

PARTITIONS = ("tree", "forest", "boosted")


ROW = catalog.find("heterogeneous")
fitted = partial(methods.fitted, ROW.name)


def partition(model: FittedMethod) -> Partition:
    return Partition.from_state(model.state)


def two_places(rows: int = 3000, seed: int = 0) -> Batch:
    """Scores that shout in one place, and are too low in the other; the other features say nothing."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 2, rows).astype(np.int32)
    z = rng.normal(0, 2, rows)
    label = (rng.random(rows) < sigmoid(np.where(place == 0, 0.4 * z - 0.5, 1.2 * z + 1.0))).astype(np.int64)
    columns = {
        "place": Column("category", place, ("here", "there")),
        "noise": Column("number", rng.normal(size=rows)),
    }
    return Batch(z, label, rng.integers(1, 4, rows).astype(float), columns)


@pytest.mark.parametrize(
    ("classes", "method", "how"),
    [*((2, "platt", how) for how in PARTITIONS), (4, "sms", "tree"), (4, "sms", "boosted")],
)
@pytest.mark.parametrize("given", [{"depth": 0}, {"tau": "inf"}, {"min_rows": 5000, "depth": 2, "tau": 3}])
def test_one_cell_is_the_calibrator_of_all_rows(classes: int, method: str, how: str, given: dict) -> None:
    batch = ordinary(500, classes, weighted=True)
    found = fitted(batch, partition=how, trees=2, **given).predict(batch)
    np.testing.assert_allclose(found, alone(batch, method).predict(batch), rtol=1e-6)


@pytest.mark.parametrize("how", ["tree", "forest"])
def test_scores_that_say_nothing_leave_the_tree(how: str) -> None:
    """a = 0 in every cell: the label rates of the leaves, here of scikit-learn's tree, with Platt's targets."""
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.integers(0, 12, 800), rng.integers(0, 9, 800), rng.integers(0, 2, 800)]).astype(float)
    label = (rng.random(800) < sigmoid(0.4 * x[:, 0] - 0.5 * x[:, 1] * x[:, 2])).astype(np.int64)
    columns = {name: Column("number", column) for name, column in zip("abc", x.T, strict=True)}
    batch = Batch(np.full(800, 0.3), label, None, columns)
    given = {"partition": how, "target": "label", "depth": 3, "min_rows": 20, "tau": 0}
    if how == "tree":
        tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=20).fit(x, label)
        positive = tree.predict_proba(x)[:, 1] * (rows := np.bincount(tree.apply(x))[tree.apply(x)])
        expected = smoothed(positive, rows)
        assert len(np.unique(expected)) == 8
        model = fitted(batch, **given)
        np.testing.assert_allclose(model.predict(batch), expected, rtol=1e-9)
        importance = {row[0]: row[2] for row in model.explain(["0", "1"])[0].rows}
        assert importance == pytest.approx(dict(zip("abc", 100 * tree.feature_importances_, strict=True)), rel=1e-9)
    else:
        model = fitted(batch, trees=3, **given)
        each = []
        for tree, _ in partition(model).trees:
            leaf = tree.path(partition(model).coding.encode(batch.features))[-1]
            held = np.bincount(leaf)
            each.append(smoothed(np.bincount(leaf, weights=label), np.maximum(held, 1))[leaf])
        assert not np.allclose(each[0], each[1])
        np.testing.assert_allclose(model.predict(batch), np.mean(each, axis=0), rtol=1e-9)


def smoothed(positive: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What rows of one score get by Platt's targets."""
    high, low = (positive + 1) / (positive + 2), 1 / (rows - positive + 2)
    return (high * positive + low * (rows - positive)) / rows


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_of_labels_are_those_of_the_gini_index(classes: int, weighted: bool) -> None:
    rng = np.random.default_rng(classes)
    x = np.column_stack([rng.integers(0, 30, 900), rng.integers(0, 60, 900), rng.integers(0, 5, 900)]).astype(float)
    label = (x[:, 0] / 8 + rng.normal(0, 1, 900) > x[:, 1] / 20).astype(np.int64)
    if classes == 3:
        label[rng.random(900) < x[:, 2] / 12] = 2
    weight = rng.integers(1, 4, 900).astype(float) if weighted else np.ones(900)
    batch = Batch(np.zeros(900), label, weight, {n: Column("number", c) for n, c in zip("abc", x.T, strict=True)})
    coding = Coding.of(batch)
    target = np.eye(classes)[label][:, 1:] if classes == 2 else np.eye(classes)[label]
    tree = grow(coding, coding.encode(batch.features), target, weight, depth=4, least=1.0)
    leaf = tree.path(coding.encode(batch.features))[-1]
    theirs = DecisionTreeClassifier(max_depth=4).fit(x, label, sample_weight=weight).apply(x)
    pairs = {(int(one), int(other)) for one, other in zip(leaf, theirs, strict=True)}
    assert len(pairs) == len(set(leaf.tolist())) == len(set(theirs.tolist())) > 8


def test_levels_are_divided_as_the_best_of_all_divisions() -> None:
    """Of a category the cut is looked for in the order of the label rates: beside all divisions in two."""
    rng = np.random.default_rng(5)
    level = rng.integers(0, 6, 6000).astype(np.int32)
    label = (rng.random(6000) < np.array([0.2, 0.7, 0.4, 0.9, 0.3, 0.6])[level]).astype(np.int64)
    batch = Batch(np.zeros(6000), label, None, {"level": Column("category", level, tuple("abcdef"))})
    coding = Coding.of(batch)
    codes = coding.encode(batch.features)
    tree = grow(coding, codes, label[:, None].astype(float), batch.weights, depth=1, least=1.0)

    def error(left: np.ndarray) -> float:
        return sum(len(part) * part.var() for part in (label[left], label[~left]))

    divisions = [np.isin(level, [i for i in range(6) if number >> i & 1]) for number in range(1, 63)]
    assert error(tree.path(codes)[-1] == 1) == pytest.approx(min(map(error, divisions)))


def test_cells_are_drawn_to_the_calibrator_of_all_rows() -> None:
    batch = two_places()
    model = fitted(batch, partition="tree", depth=1, min_rows=100, tau=40)
    everyone, place = alone(batch).predict(batch), batch.features["place"].values
    expected = np.empty(len(batch))
    for code in (0, 1):
        mine = place == code
        told = (batch.weights * everyone * (1 - everyone))[mine].sum()
        own = logit(alone(batch.take(mine)).predict(batch.take(mine)))
        expected[mine] = sigmoid((told * own + 40 * logit(everyone)[mine]) / (told + 40))
    np.testing.assert_allclose(model.predict(batch), expected, rtol=1e-6)
    assert loss_of(model, two_places(seed=1)) < 0.98 * loss_of(alone(batch), two_places(seed=1))


def test_a_boosted_tree_goes_a_part_of_the_way() -> None:
    batch = two_places()
    model = fitted(batch, partition="boosted", trees=1, depth=1, min_rows=100, tau=40, rate=0.5)
    start, place = alone(batch).predict(batch), batch.features["place"].values
    expected = np.empty(len(batch))
    for code in (0, 1):
        mine = place == code
        told = (batch.weights * start * (1 - start))[mine].sum()
        now = Batch(logit(start)[mine], batch.labels[mine], batch.weights[mine])
        own = logit(alone(now).predict(now))
        expected[mine] = sigmoid(now.score + 0.5 * told / (told + 40) * (own - now.score))
    np.testing.assert_allclose(model.predict(batch), expected, rtol=1e-6)


@pytest.mark.slow
def test_lemma_4_4() -> None:
    """No way to put the pairs of cell and score in order has a larger AUC than calibrating each cell exactly."""
    rng = np.random.default_rng(8)
    cell, level = rng.integers(0, 2, 600), rng.integers(0, 3, 600)
    rate = np.array([[0.2, 0.5, 0.6], [0.1, 0.3, 0.9]])  # rises with the score, so that isotonic regression is exact
    label = (rng.random(600) < rate[cell, level]).astype(np.int64)
    columns = {"cell": Column("boolean", cell.astype(float))}
    batch = Batch(np.array([-1.0, 0.0, 1.0])[level], label, None, columns)
    model = fitted(batch, partition="tree", depth=1, min_rows=1, tau=0, leaf="isotonic")
    pair = 3 * cell + level
    best = max(roc_auc_score(label, np.array(order)[pair]) for order in permutations(range(6)))
    found = model.predict(batch)
    assert roc_auc_score(label, found) == pytest.approx(best, abs=1e-12)
    assert best > roc_auc_score(label, alone(batch, "isotonic").predict(batch)) + 0.02
    for each in range(6):
        assert found[pair == each][0] == pytest.approx(label[pair == each].mean(), abs=1 / (pair == each).sum())


def test_platt_scaling_of_many_cells_is_platt_scaling() -> None:
    rng = np.random.default_rng(2)
    cell = rng.integers(0, 9, 900)
    cell[cell == 7] = 6  # an empty cell
    slope = np.linspace(-1, 2, 9)
    z = rng.normal(0, 3, 900)
    z[cell == 3] = 0.7  # a cell with one score
    label = (rng.random(900) < sigmoid(slope[cell] * z)).astype(np.int64)
    label[cell == 2] = 1
    label[cell == 5] = (z[cell == 5] > 0).astype(np.int64)  # separable
    rows = Batch(z, label, rng.integers(1, 4, 900).astype(float))
    a, b = platt_each(rows, cell, 9, rising=False)
    for each in range(9):
        mine = rows.take(cell == each)
        if len(mine):
            state = Platt().fit(mine, NO_SIDE_INPUTS, {}, 0)
            expected = sigmoid(state.number("a") * mine.score + state.number("b"))
            np.testing.assert_allclose(sigmoid(a[each] * mine.score + b[each]), expected, rtol=1e-5)
    assert (a[7], b[7]) == (1.0, 0.0)
    up, level = platt_each(rows, cell, 9, rising=True)
    assert (up >= 0).all()
    assert a[0] < 0
    first = rows.take(cell == 0)
    heavy, all_rows = (first.weights * first.labels).sum(), first.weights.sum()
    assert sigmoid(level[:1])[0] == pytest.approx(smoothed(np.array(heavy), np.array(all_rows)))


def test_nothing_is_chosen_that_is_not_better_by_a_standard_error() -> None:
    rng = np.random.default_rng(0)
    nothing = rng.random(400)
    slightly, clearly = nothing - rng.normal(0.001, 0.1, 400), nothing - rng.normal(0.1, 0.1, 400)
    assert least_loss([nothing, slightly], np.ones(400)) == 0
    assert least_loss([nothing, slightly, clearly], np.ones(400)) == 2
    assert least_loss([nothing, clearly], np.r_[1.0, np.zeros(399)]) in (0, 1)


@pytest.mark.parametrize("how", PARTITIONS)
def test_features_that_say_nothing_leave_platt_scaling(how: str) -> None:
    rng = np.random.default_rng(6)
    z = rng.normal(0, 2, 1000)
    label = (rng.random(1000) < sigmoid(0.5 * z)).astype(np.int64)
    batch = Batch(z, label, None, {"noise": Column("number", rng.normal(size=1000))})
    assert partition(fitted(batch, partition=how)).trees == ()


@pytest.mark.parametrize(
    ("leaf", "how"),
    [
        ("isotonic-centered", "tree"),
        ("beta", "forest"),
        ("temperature", "boosted"),
        ("venn-abers", "tree"),
        ("histogram", "forest"),
    ],
)
def test_any_method_in_the_cells(leaf: str, how: str) -> None:
    train, test = two_places(), two_places(seed=1)
    model = fitted(train, partition=how, leaf=leaf, depth=1, min_rows=200, tau=10, trees=3)
    assert len(partition(model).trees) > 0
    assert loss_of(model, test) < loss_of(alone(train, leaf), test)
    again = FittedMethod.from_state("heterogeneous", model.to_state())
    np.testing.assert_array_equal(again.predict(test), model.predict(test))


def test_more_than_two_classes() -> None:
    """A place in which one class is more common than the scores say."""

    def rows(seed: int) -> Batch:
        rng = np.random.default_rng(seed)
        place, z = rng.integers(0, 2, 2000).astype(np.int32), rng.normal(0, 1.5, (2000, 3))
        truth = z + np.outer(place, [2.0, 0.0, -1.0])
        label = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).astype(np.int64)
        return Batch(z, label, None, {"place": Column("category", place, ("a", "b"))})

    for how in PARTITIONS:
        given = {"depth": 2, "min_rows": 100, "tau": 10, "trees": 3}
        assert loss_of(fitted(rows(0), partition=how, **given), rows(1)) < 0.9 * loss_of(alone(rows(0), "sms"), rows(1))


def test_partition_data_grow_the_tree_and_calibrate_nothing() -> None:
    """There the label follows the noise: so the cells are cut by it, each calibrated on the calibration rows."""
    batch = two_places()
    rng = np.random.default_rng(3)
    noise = rng.normal(size=1000)
    columns = {
        "place": Column("category", rng.integers(0, 2, 1000).astype(np.int32), ("there", "here")),
        "noise": Column("number", noise),
    }
    other = Batch(np.zeros(1000), (noise > 0.4).astype(np.int64), None, columns)
    given = {"partition": "tree", "depth": 1, "min_rows": 100, "tau": 0}
    model = fitted(batch, sides=SideInputs({"partition-data": other}), **given)
    (cut,) = partition(model).coding.features
    assert cut.name == "noise"
    low = batch.features["noise"].values <= noise[noise <= 0.4].max()
    expected = np.empty(len(batch))
    for mine in (low, ~low):
        expected[mine] = alone(batch.take(mine)).predict(batch.take(mine))
    same_side = np.abs(batch.features["noise"].values - 0.4) > 0.2  # bins of quantiles end near it
    np.testing.assert_allclose(model.predict(batch)[same_side], expected[same_side], rtol=0.02)


@pytest.mark.parametrize("given", [{"partition": "boosted"}, {"target": "residual"}])
def test_partition_data_where_they_are_no_use(given: dict) -> None:
    with pytest.raises(UsageError, match="partition-data"):
        fitted(two_places(), sides=SideInputs({"partition-data": two_places(seed=1)}), **given)
    with pytest.raises(UsageError, match="target=label"):
        fitted(two_places(), partition="boosted", target="label")


def test_only_some_columns_are_split_on() -> None:
    batch = two_places()
    columns = {**batch.features, "emb_0": batch.features["noise"], "emb_1": Column("number", batch.score**2)}
    rows = Batch(batch.score, batch.label, batch.weight, columns)
    model = fitted(rows, columns="emb_", depth=2, tau=0, min_rows=50)
    assert {feature.name for feature in partition(model).coding.features} <= {"emb_0", "emb_1"}
    with pytest.raises(UsageError, match="columns=emc_: no feature name begins with it"):
        fitted(rows, columns="emc_")


def test_values_that_were_never_seen_and_missing_ones() -> None:
    """An unseen level is as a rare one; missing goes where it was best, or with the heavier side where none was."""
    rng = np.random.default_rng(9)
    level = rng.choice([-1, 0, 1, 2], 3000, p=[0.2, 0.4, 0.39, 0.01]).astype(np.int32)
    z = rng.normal(0, 1, 3000)
    label = (rng.random(3000) < sigmoid(z + np.array([1.0, -1.0, 0.0, 2.0])[level])).astype(np.int64)
    number = Column("number", rng.normal(size=3000))
    batch = Batch(z, label, None, {"level": Column("category", level, ("a", "b", "rare")), "number": number})
    model = fitted(batch, partition="tree", depth=2, min_rows=100, tau=0)

    def at(code: int, levels: tuple[str, ...]) -> np.ndarray:
        columns = {
            "number": Column("number", np.full(5, np.nan)),
            "level": Column("category", np.full(5, code), levels),
        }
        return model.predict(Batch(np.linspace(-2, 2, 5), None, None, columns))

    np.testing.assert_array_equal(at(0, ("unheard of",)), at(2, ("a", "b", "rare")))
    assert (at(-1, ("a",)) > at(0, ("a",)) + 0.02).any()  # missing is a value of its own
    np.testing.assert_array_equal(at(1, ("b", "a")), at(0, ("a",)))


def test_seventy_thousand_categories() -> None:
    batch = ordinary(70_000)
    column = Column("category", np.arange(70_000, dtype=np.int32), tuple(f"level {i}" for i in range(70_000)))
    rows = Batch(batch.score, batch.label, None, {"id": column})
    model = fitted(rows, partition="tree", depth=2, min_rows=100)
    np.testing.assert_allclose(model.predict(rows), alone(rows).predict(rows), rtol=1e-6)


def test_the_rules_read_by_hand_give_the_cells() -> None:
    batch = ordinary(3000, weighted=True)
    model = fitted(batch, partition="tree", depth=3, min_rows=60, tau=5)
    _, section = model.explain(["0", "1"])
    assert section.columns == ("tree", "if", "rows", "label rate", "pud", "calibrator", "share")
    rows = [dict(zip(section.columns, row, strict=True)) for row in section.rows]
    held = np.stack([fulfilled(str(row["if"]), batch) for row in rows])
    assert len(rows) > 3
    np.testing.assert_array_equal(held.sum(axis=0), 1)  # a row lies in one cell
    raw, everyone = probabilities(batch.score), logit(alone(batch).predict(batch))
    for row, mine in zip(rows, held, strict=True):
        weight, label = batch.weights[mine], batch.labels[mine]
        assert row["rows"] == weight.sum()
        assert row["label rate"] == pytest.approx(weight @ label / weight.sum())
        assert row["pud"] == pytest.approx(weight @ raw[mine] / (weight @ label))
        a, _, b = str(row["calibrator"]).split()
        own = float(a) * batch.score[mine] + float(b)
        z = everyone[mine] + float(row["share"]) * (own - everyone[mine])
        np.testing.assert_allclose(model.predict(batch)[mine], sigmoid(z), rtol=1e-4)


@pytest.mark.parametrize(("how", "classes"), [("tree", 2), ("tree", 3), ("boosted", 2)])
def test_the_cell_of_a_row_is_that_of_the_rules(how: str, classes: int) -> None:
    batch = wrong_by_feature(900, classes)
    model = fitted(batch, partition=how, depth=2, min_rows=60, tau=5, trees=2)
    cells = [row[2] for row in model.explain(("0", "1", "2")[:classes])[1].rows if row[0] == 1]
    cell = model.extras(batch)["cell"].astype(int)
    assert len(cells) > 2
    assert np.bincount(cell, minlength=len(cells) + 1).tolist() == [0, *cells]


def test_rules_are_whole_for_programs_and_short_for_people() -> None:
    rng = np.random.default_rng(3)
    shop, paid = rng.integers(0, 24, 4000).astype(np.int32), rng.random(4000) < 0.5
    score = rng.normal(size=4000)
    label = (rng.random(4000) < sigmoid(score + 1.5 * paid * np.where(shop % 2, 1, -1))).astype(np.int64)
    levels = tuple(f"s{place:02}" for place in range(24))
    batch = Batch(score, label, None, {"shop": Column("category", shop, levels), "paid": Column("boolean", paid * 1.0)})
    model = fitted(batch, partition="tree", depth=2, min_rows=60, tau=5)
    _, cells = FittedMethod.from_state("heterogeneous", model.to_state()).explain(["0", "1"])
    assert "In each cell" in cells.note
    assert "mean over trees" not in cells.note
    held = np.stack([named(str(row[1]), levels, shop, paid) for row in cells.rows])
    np.testing.assert_array_equal(held.sum(axis=0), 1)
    np.testing.assert_array_equal(held.sum(axis=1), [row[2] for row in cells.rows])
    assert any(str(row[1]).count("s") > 10 for row in cells.rows)
    for row, brief in zip(cells.rows, cells.brief, strict=True):
        assert (row[0], *row[2:]) == (brief[0], *brief[2:])
        assert len(str(brief[1])) < 90
    assert any(str(brief[1]).endswith("more") or " more and " in str(brief[1]) for brief in cells.brief)


def named(rule: str, levels: tuple[str, ...], shop: np.ndarray, paid: np.ndarray) -> np.ndarray:
    """The rows of a rule about a shop and a boolean, read word by word."""
    found = np.ones(len(shop), dtype=bool)
    for condition in rule.replace(" (or missing)", "").split(" and "):
        name, words = condition.split(" is ")
        if name == "paid":
            found &= paid == {"true": True, "false": False}[words]
        else:
            listed = np.isin(shop, [levels.index(level) for level in re.findall(r"s\d\d", words)])
            found &= ~listed if words.startswith(("none of", "not ")) else listed
    return found


def fulfilled(rule: str, batch: Batch) -> np.ndarray:
    """Which rows fulfil a rule: what it says, read word by word."""
    found = np.ones(len(batch), dtype=bool)
    for condition in rule.split(" and "):
        some = np.zeros(len(batch), dtype=bool)
        name = next(name for name in batch.features if name in condition)
        column = batch.features[name]
        for part in condition.replace(" (or missing)", f" or {name} is missing").split(" or "):
            words = part.split()
            absent = column.values < 0 if column.role == "category" else np.isnan(column.values)
            if words[-1] == "missing":
                some |= absent if "not" not in words else ~absent
            elif column.role == "category":
                named = [column.levels.index(word.strip(",")) for word in words if word.strip(",") in column.levels]
                some |= (
                    np.isin(column.values, named)
                    if "not" not in words and "none" not in words
                    else ~(np.isin(column.values, named) | absent)
                )
            else:
                low, _, high = part.partition(name)
                below = column.values <= float(high.split()[-1]) if high.strip() else ~absent
                some |= below & (column.values > float(low.split()[0]) if low.strip() else ~absent)
        found &= some
    return found


def test_chosen_by_given_folds_each_is_judged_by_the_depth_that_the_others_prefer() -> None:
    """Depth 0, no partition, unless another is better by a standard error of the rows that choose."""
    train, given = wrong_by_feature(600, seed=2), {"partition": "tree", "min_rows": 20, "tau": 3}
    splits = in_turn(np.arange(600) % 3, 3)
    found = heterogeneous.choose(train, NO_SIDE_INPUTS, ROW.resolve(given), 0, splits)
    loss, prob = {}, {}
    for place, (seen, unseen) in enumerate(splits):
        for depth in range(7):
            prob[place, depth] = fitted(train.take(seen), depth=depth, **given).predict(train.take(unseen))
            loss[place, depth] = log_loss(prob[place, depth], train.labels[unseen])

    def best(places: list[int]) -> int:
        each = np.array([np.concatenate([loss[place, depth] for place in places]) for depth in range(7)])
        lead = each[0] - each[least := int(each.mean(axis=1).argmin())]
        return least if lead.mean() > lead.std() / np.sqrt(len(lead)) else 0

    chosen = [best([other for other in range(3) if other != place]) for place in range(3)]
    assert len({*chosen, best([0, 1, 2])}) > 1
    for place, split in enumerate(splits):
        held_out = heterogeneous.predict(found.states[place], train.take(split.test), NO_SIDE_INPUTS)
        np.testing.assert_allclose(held_out, prob[place, chosen[place]], rtol=1e-6)
    assert found.whole is not None
    whole = fitted(train, depth=best([0, 1, 2]), **given)
    np.testing.assert_array_equal(heterogeneous.predict(found.whole, train, NO_SIDE_INPUTS), whole.predict(train))
