"""Trees that kernels grow are those of the definitions, whatever order, blocks and threads the rows come in."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.methods.mbct import grow as growing
from calcli.methods.mbct import kernels
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct.boosting import boosted, fit_trees
from calcli.methods.mbct.buffers import Buffers
from calcli.methods.mbct.forest import Forest, applied, prob_of, score_of
from calcli.methods.mbct.grow import Tree
from calcli.methods.mbct.kernels import split_search
from calcli.methods.mbct.level_passes import Growth, Nodes, Rows, cells_of
from calcli.numeric import losses
from tests.support.drawing import examples
from tests.support.mbct_oracle import Node, Oracle, closed_mvce, mbct_rows

CARDS = (7, 3, 12, 2)
OFFSETS = np.array([0, *np.cumsum(CARDS)])
LINKS = {"odds": kernels.ODDS, "linear": kernels.LINEAR}


def rows_of(count: int = 700, seed: int = 0, *, weighted: bool = False) -> Rows:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, card, count) for card in CARDS]).astype(np.uint16)
    prob = rng.beta(1, 3, count)
    shift = rng.normal(0, 0.8, CARDS[0])[codes[:, 0]] + rng.normal(0, 0.5, CARDS[2])[codes[:, 2]]
    odds = prob / (1 - prob) * np.exp(shift)
    label = (rng.random(count) < odds / (1 + odds)).astype(np.uint8)
    weight = rng.gamma(2.0, 0.5, count) if weighted else None
    return mbct_rows(codes, prob, label, weight)


def grow(rows: Rows, growth: Growth) -> Tree:
    """A tree on a copy of the rows."""
    return growing.grow(buffered(rows, growth), growth)


def buffered(rows: Rows, growth: Growth) -> Buffers:
    return Buffers(copied(rows), OFFSETS, growth, 0)


def copied(rows: Rows) -> Rows:
    return rows.take(np.arange(len(rows)))


def oracle_of(rows: Rows, link: str, growth: Growth) -> Oracle:
    how = (link, growth.split_loss, growth.depth, growth.min_weight, growth.shrink)
    return Oracle(rows.codes.astype(int), rows.prob.copy(), rows.label.astype(float), rows.weights, *how)


def assert_same(tree: Tree, number: int, node: Node, rows: Rows) -> None:
    assert tree.feature[number] == node.feature
    assert tree.pattern[number] == pytest.approx(node.pattern, rel=1e-6, abs=1e-7)
    assert tree.facts[number, kernels.COUNT] == len(node.rows)
    assert tree.facts[number, kernels.MASS] == pytest.approx(rows.weights[node.rows].sum())
    assert tree.facts[number, kernels.POSITIVE] == pytest.approx((rows.weights * rows.label)[node.rows].sum())
    children = range(tree.first[number], tree.first[number] + tree.branches[number])
    assert {int(tree.code[child]) for child in children} == set(node.children)
    for child in children:
        assert_same(tree, child, node.children[int(tree.code[child])], rows)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("loss", ["nll", "mvce"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("depth", "least", "shrink"), [(1, 20.0, 0.0), (3, 25.0, 5.0), (4, 12.0, 30.0)])
def test_trees_are_those_of_the_definition(link, loss, weighted, depth, least, shrink) -> None:
    rows = rows_of(weighted=weighted, seed=depth)
    growth = Growth(LINKS[link], loss, depth, least, shrink)
    wanted = oracle_of(rows, link, growth).grow()
    assert wanted.feature >= 0
    assert_same(grow(rows, growth), 0, wanted, rows)


def grown_in_blocks(rows: Rows, growth: Growth, monkeypatch, block: int, threads: int) -> Tree:
    monkeypatch.setattr(passes, "BLOCK", block)
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    return grow(rows, growth)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_threads_and_the_order_of_rows_change_no_bit(link, weighted, monkeypatch) -> None:
    rows = rows_of(3000, weighted=weighted)
    growth = Growth(LINKS[link], "mvce", 3, 30.0, 5.0)
    whole = grown_in_blocks(rows, growth, monkeypatch, 1 << 18, 1)
    shuffled = rows.take(np.random.default_rng(1).permutation(len(rows)))
    others = [
        grown_in_blocks(rows, growth, monkeypatch, 100, 1),
        grown_in_blocks(rows, growth, monkeypatch, 37, 4),
        grown_in_blocks(shuffled, growth, monkeypatch, 1 << 18, 2),
        grown_in_blocks(shuffled, growth, monkeypatch, 500, 3),
    ]
    for other in others:
        for name in Tree.__match_args__:
            np.testing.assert_array_equal(getattr(other, name), getattr(whole, name), err_msg=name)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_parts_are_the_sums_of_the_whole(link, squares, weighted) -> None:
    rows = rows_of(2000, weighted=weighted)
    cells, size = cells_of(rows, OFFSETS), int(OFFSETS[-1])
    by_label = link == "linear" and squares and not weighted

    def summed(start: int, stop: int) -> np.ndarray:
        histogram, facts = cells.histogram(squares=squares), np.zeros((size, kernels.FACTS))
        rule = kernels.Rule(LINKS[link], squares, 1.0, 1.0)
        split_search.add_to_histogram(rows.arrays, start, stop, cells, rule, histogram)
        for cell in range(size):
            split_search.cell_facts(histogram[cell], by_label, facts[cell])
        return facts

    whole = summed(0, 2000)
    np.testing.assert_array_equal(sum(summed(low, min(low + 170, 2000)) for low in range(0, 2000, 170)), whole)
    p, y, w = rows.prob, rows.label, rows.weights
    one, two = (w * (p - y), w * p * (1 - p)) if link == "odds" else (w * p, w * y)
    terms = (one, two, one * one, one * two, two * two, w, w * y, np.ones(2000))
    for feature, card in enumerate(CARDS):
        for code in range(card):
            held = rows.codes[:, feature] == code
            expected = np.array([term[held].sum() for term in terms])
            kept = [*range(kernels.SUMS if squares else 2), kernels.MASS, kernels.POSITIVE, kernels.COUNT]
            np.testing.assert_allclose(whole[OFFSETS[feature] + code][kept], expected[kept], rtol=1e-9)
    totals = passes.totals(rows, cells, LINKS[link])
    np.testing.assert_allclose(totals, [term.sum() for term in terms], rtol=1e-9)


def test_without_shrinkage_the_least_mvce_is_the_least_brier_score() -> None:
    """With calibrated children the mean error is 0, and the closed form rises with the squared error alone."""
    offsets = np.array([0, *np.cumsum(np.array(CARDS) + 1)])
    for seed in range(20):
        drawn = rows_of(500, seed=seed)
        rows = mbct_rows(drawn.codes + np.uint16(1), drawn.prob, drawn.label)
        growth = Growth(kernels.LINEAR, "mvce", 1, 5.0, 0.0)
        cells = cells_of(rows, offsets)
        root = passes.root_of(passes.totals(rows, cells, kernels.LINEAR), growth)
        outcome = passes.search(rows, root, cells, growth).outcome
        assert (outcome[0, :, kernels.BRANCHES] == np.array(CARDS) + 1).all()
        loss = growth.losses(outcome[0], root.count, root.mass)
        brier = []
        for feature in range(len(CARDS)):
            after = rows.prob.copy()
            for code in range(1, CARDS[feature] + 1):
                part = rows.codes[:, feature] == code
                after[part] *= rows.label[part].sum() / rows.prob[part].sum()
            brier.append(np.mean((after - rows.label) ** 2))
        np.testing.assert_array_equal(np.argsort(loss), np.argsort(brier))


@given(
    seed=st.integers(0, 10_000),
    shrink=st.sampled_from([0.0, 0.1, 3.0, 100.0]),
    parent=st.floats(-6, 6),
    size=st.integers(1, 40),
    scale=st.sampled_from([0.1, 1.0, 20.0]),
)
@examples(80)
def test_a_damped_step_never_raises_the_penalised_log_loss(seed, shrink, parent, size, scale) -> None:
    """And it falls at least by what the search for splits counts on."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-2, scale, size)
    p, w = 1 / (1 + np.exp(-z)), rng.gamma(1.0, 2.0, size)
    y = (rng.random(size) < rng.random()).astype(float)
    sums = np.array([(w * (p - y)).sum(), (w * p * (1 - p)).sum(), 0.0, 0.0, 0.0])

    def penalised(b: float) -> float:
        return float((w * (np.logaddexp(0, z + b) - y * (z + b))).sum() + shrink / 2 * (b - parent) ** 2)

    if sums[1] + shrink < 1e-9:
        return  # saturated scores without shrinkage: no step at all would be finite
    step = split_search.pattern_of(kernels.ODDS, sums[0], sums[1], parent, shrink)
    for rate in (0.1, 0.5, 1.0):
        assert penalised(rate * step) <= penalised(0.0) + 1e-9 * (1 + abs(penalised(0.0)))
    promised = split_search.gain_of(kernels.ODDS, sums, parent, shrink) + shrink * parent**2 / 2
    assert penalised(step) <= penalised(0.0) - promised + 1e-8 * (1 + abs(penalised(0.0)))
    stays = split_search.gain_with(kernels.ODDS, sums, parent)
    log_loss = penalised(parent) - (penalised(0.0) - shrink / 2 * parent**2)
    assert log_loss <= -stays + 1e-8 * (1 + abs(penalised(0.0)) + abs(stays))


@pytest.mark.parametrize("link", LINKS)
def test_boosting_leaves_rows_where_their_leaves_lead(link) -> None:
    """Rows that move from level to level end up with what a walk through the trees gives their codes."""
    rows = rows_of(900, seed=4, weighted=True)
    growth = Growth(LINKS[link], "mvce", 3, 20.0, 2.0, 0.5)
    buffers = buffered(rows, growth)
    trees = [*islice(boosted(buffers, growth), 4)]
    last = buffers.rows
    forest = Forest.of(trees, LINKS[link], 0.5)
    score = score_of(last.prob, LINKS[link])
    start = score_of(rows.prob, LINKS[link])
    forest.calibrate(rows.codes, start)
    walked = prob_of(start, LINKS[link])
    order, moved = np.lexsort((rows.weight, walked)), np.lexsort((last.weight, last.prob))
    np.testing.assert_allclose(last.prob[moved], walked[order], rtol=1e-9)
    np.testing.assert_array_equal(last.weight[moved], rows.weight[order])
    np.testing.assert_array_equal(last.label[moved], rows.label[order])
    np.testing.assert_array_equal(last.codes[moved], rows.codes[order])
    assert len(score) == len(rows)


def test_the_loss_of_all_rows_after_the_last_split_is_that_of_the_tree() -> None:
    drawn = rows_of(1500, seed=2)
    rare = drawn.label * (np.arange(1500) % 4 == 0).astype(np.uint8)
    rows = mbct_rows(drawn.codes, drawn.prob, rare)
    growth = Growth(kernels.LINEAR, "mvce", 3, 30.0, 0.0)
    tree = grow(rows, growth)
    forest = Forest.of([tree], kernels.LINEAR, 1.0)
    prob = rows.prob.copy()
    forest.calibrate(rows.codes, prob)
    assert (prob < 1).all()  # the sums do not know of the clip
    wanted = closed_mvce(prob - rows.label, np.ones(len(rows)), growth.bin_size)
    assert tree.overall[tree.feature >= 0][-1] == pytest.approx(wanted, rel=1e-9)
    split = tree.feature >= 0
    assert (tree.split[split] < tree.local[split]).all()


def test_trees_stop_when_the_training_loss_no_longer_falls() -> None:
    rows = rows_of(400, seed=3)
    growth = Growth(kernels.LINEAR, "mvce", 2, 40.0, 0.0)
    trees = fit_trees(buffered(rows, growth), growth, 200)
    assert 0 < len(trees) < 200

    def loss(count: int) -> float:
        prob = rows.prob.copy()
        Forest.of(trees[:count], kernels.LINEAR, 1.0).calibrate(rows.codes, prob)
        return closed_mvce(prob - rows.label, np.ones(len(rows)), 20.0)

    found = [loss(count) for count in range(len(trees) + 1)]
    assert (np.diff(found) < 0).all()
    assert fit_trees(buffered(rows, growth), growth, 3)[2].feature.tolist() == trees[2].feature.tolist()


def test_too_few_rows_make_a_tree_of_its_root() -> None:
    rows = rows_of(30)
    growth = Growth(kernels.ODDS, "nll", 3, 31.0, 1.0)
    grown = grow(rows, growth)
    assert grown.feature.tolist() == [-1]
    assert fit_trees(buffered(rows_of(30), growth), growth, 9)[1:] == []


@pytest.mark.parametrize("loss", ["mvce-sampled", "ece", "ece-sweep"])
@pytest.mark.parametrize("link", LINKS)
def test_losses_of_rows_see_what_a_split_makes_of_them(loss, link) -> None:
    """The first split is the best of all, each tried by hand."""
    rows = rows_of(600, seed=5, weighted=loss == "ece")
    growth = Growth(LINKS[link], loss, 1, 30.0, 2.0)
    tree = grow(rows, growth)
    oracle = oracle_of(rows, link, growth)
    above = oracle.fit_pattern(np.arange(600), 1.0 if link == "linear" else 0.0)
    found = []
    for feature in range(len(CARDS)):
        prob = np.empty(600)
        for code, part in oracle.branches(np.arange(600), feature).items():
            own = code > 0 or rows.weights[part].sum() >= 30
            b = oracle.fit_pattern(part, above) if own else above
            p = rows.prob[part]
            prob[part] = np.minimum(b * p, 1) if link == "linear" else p * np.exp(b) / (1 - p + p * np.exp(b))
        found.append(measured(loss, prob, rows, growth.bin_size))
    assert tree.feature[0] == int(np.argmin(found))
    assert tree.split[0] == pytest.approx(min(found), rel=0.02 if loss == "mvce-sampled" else 1e-9)


def measured(loss: str, prob: np.ndarray, rows: Rows, bin_size: float) -> float:
    """By the metrics, whose definitions are their own."""
    from calcli.metrics.adaptive import sweep_of
    from calcli.metrics.base import Options, Scored

    if loss == "mvce-sampled":
        return closed_mvce(prob - rows.label, rows.weights, bin_size)
    if loss == "ece-sweep":
        return sweep_of(Scored(rows.label.astype(np.int64), prob).ties, Options(), norm=2.0)
    order = np.argsort(prob)
    place = np.arange(len(prob)) * int(len(prob) // bin_size) // len(prob)
    parts = [order[place == each] for each in range(place[-1] + 1)]
    w, e = rows.weights, rows.weights * (prob - rows.label)
    return float(np.sqrt(sum(e[part].sum() ** 2 / w[part].sum() for part in parts) / w.sum()))


def test_the_closed_form_is_the_limit_of_many_shuffles() -> None:
    rows = rows_of(4000, seed=6)
    growth = Growth(kernels.ODDS, "mvce-sampled", 1, 200.0, 0.0)
    sampled, closed = (buffered(rows, replace(growth, split_loss=loss)).loss() for loss in ("mvce-sampled", "mvce"))
    assert closed == pytest.approx(closed_mvce(rows.prob - rows.label, np.ones(4000), 100.0), rel=1e-9)
    assert sampled == pytest.approx(closed, rel=0.03)
    assert losses.shuffled_bins(4000, growth.bin_size) == 40


def test_the_rate_is_a_fraction_of_the_way_from_doing_nothing() -> None:
    pattern = np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(applied(pattern, kernels.ODDS, 0.3), 0.3 * pattern)
    np.testing.assert_allclose(applied(pattern, kernels.LINEAR, 0.3), [0.85, 1.0, 1.3])


def test_no_nodes_are_no_nodes() -> None:
    assert len(Nodes.joined([])) == 0
