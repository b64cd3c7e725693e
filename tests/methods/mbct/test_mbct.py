"""MBCT as a method: what it learns, what it says, and what it does with rows that break others."""

from __future__ import annotations

import re
from functools import cache, partial

import numpy as np
import pytest

from calcli.batch import NO_SIDE_INPUTS, Batch, Column, FloatArray
from calcli.methods import catalog
from calcli.methods.mbct import level_passes, mbct
from calcli.methods.mbct.boosting import least_by_equation_13, least_by_rows
from calcli.methods.mbct.coding import learn_codes
from calcli.methods.one_vs_rest import bound_method
from calcli.methods.post_processing import PostProcessing
from calcli.methods.trees import compiled
from calcli.numeric import losses
from calcli.numeric.links import GREATEST, LEAST, sigmoid
from calcli.numeric.seeded import in_turn
from tests.support import methods
from tests.support.cases import of_no_use, wrong_by_feature
from tests.support.mbct_oracle import Node, Oracle
from tests.support.methods import alone, loss_of

ROW = catalog.find("mbct")


def clicks(rows: int = 4000, seed: int = 0, *, effect: float = 1.0) -> Batch:
    """Scores that are wrong by place and by number, and a feature that says nothing."""
    rng = np.random.default_rng(seed)
    place, number = rng.integers(-1, 5, rows).astype(np.int32), rng.normal(size=rows)
    score = rng.normal(-1.0, 1.0, rows)
    shift = np.array([0.9, -0.8, 0.0, 0.4, -0.4, 0.6])[place] + 0.7 * (number > 0.5)
    label = (rng.random(rows) < sigmoid(score + effect * shift)).astype(np.int64)
    number[rng.random(rows) < 0.05] = np.nan
    columns = {
        "place": Column("category", place, ("a", "b", "c", "d", "e")),
        "number": Column("number", number),
        "noise": Column("boolean", rng.integers(0, 2, rows).astype(float)),
    }
    return Batch(score, label, None, columns)


fitted = partial(methods.fitted, "mbct")


def test_it_learns_what_the_score_does_not_know() -> None:
    train, test = clicks(), clicks(seed=1)
    model = fitted(train)
    assert model.state.number("trees") > 0
    assert loss_of(model, test) < 0.97 * loss_of(alone(train), test)
    assert loss_of(alone(clicks(effect=0.0)), clicks(seed=1, effect=0.0)) > 0  # the table is no constant


def test_features_that_say_nothing_leave_platt_scaling() -> None:
    train = clicks(effect=0.0)
    model = fitted(train)
    assert model.state.number("trees") == 0
    np.testing.assert_array_equal(model.predict(train), alone(train).predict(train))


def test_the_papers_preset_is_the_tree_of_the_definition() -> None:
    """Linear, from the raw score, without shrinkage, clipped at 1; here with one tree."""
    train = clicks(3000)
    model = fitted(train, "paper", trees=1, min_rows=100, depth=3, bins=8)
    coder = learn_codes(train, list(train.features), least=100, bins=8, score_bins=100, score_by="width")
    codes, raw = coder.encode(train).astype(int), sigmoid(train.score)
    oracle = Oracle(codes, raw, train.labels.astype(float), np.ones(3000), "linear", "mvce", 3, 100.0, 0.0)
    prob = np.empty(3000)
    for leaf in leaves(oracle.grow()):
        prob[leaf.rows] = leaf.pattern * raw[leaf.rows]
    assert len(np.unique(prob / raw)) > 5
    np.testing.assert_allclose(model.predict(train), np.clip(prob, 0, 1 - 1e-16), rtol=1e-7)


def leaves(node: Node) -> list[Node]:
    return [leaf for child in node.children.values() for leaf in leaves(child)] if node.children else [node]


@pytest.mark.parametrize(
    "how",
    [
        {"trees": 5, "link": "odds", "depth": 3},
        {"preset": "paper", "trees": 8, "min_rows": 100},
        {"link": "linear", "trees": 3, "split_loss": "mvce", "depth": 3},
    ],
)
def test_the_rules_read_by_hand_give_the_predictions(how) -> None:
    train, test = clicks(3000), clicks(40, seed=3)
    model = fitted(train, **how)
    _, _, rules, splits = model.explain(("0", "1"))
    odds = model.state.params["link"] == "odds"
    slope, intercept = model.state.number("a"), model.state.number("b")
    average, paper = (train.labels.sum() + 1) / (len(train) + 2), how.get("preset") == "paper"
    prob = model.predict(test)
    assert len(rules.rows) > 5
    for row in range(len(test)):
        z = slope * test.score[row] + intercept
        p = 1 / (1 + np.exp(-z))
        for tree in sorted({rule[0] for rule in rules.rows}):
            pattern, rows = the_one_that_holds([rule for rule in rules.rows if rule[0] == tree], test, row)
            low, high = (0.0, 1.0) if paper else (2 * average / (rows + 2), 1 - 2 * (1 - average) / (rows + 2))
            z, p = z + pattern, min(max(p * pattern, min(p, low)), max(p, high))
        wanted = 1 / (1 + np.exp(-z)) if odds else min(p, np.nextafter(1, 0))
        assert prob[row] == pytest.approx(wanted, rel=1e-12)
    assert sum(rule[2] for rule in rules.rows if rule[0] == 1) == len(train)
    assert next(split[2] for split in splits.rows if split[0] == 1) in {"place", "number", "score"}


def the_one_that_holds(rules: list[tuple], batch: Batch, row: int) -> tuple[float, int]:
    """The pattern and the rows of the rule whose conditions hold.

    Another value is one that no other rule of the split names.
    """
    paths = [tuple(rule[1].split(" and ")) for rule in rules]
    found = []
    for path, rule in zip(paths, rules, strict=True):
        holds = True
        for depth, condition in enumerate(path):
            if condition.endswith("is another value"):
                siblings = {p[depth] for p in paths if p[:depth] == path[:depth]} - {condition}
                holds &= not any(true_of(each, batch, row) for each in siblings)
            else:
                holds &= true_of(condition, batch, row)
        if holds:
            found.append((rule[5], rule[2]))
    assert len(found) == 1
    return found[0]


def true_of(condition: str, batch: Batch, row: int) -> bool:
    if match := re.fullmatch(r"(\w+) is (.+)", condition):
        name, value = match.groups()
        column = batch.features[name]
        here = column.values[row]
        if value == "missing":
            return bool(here == -1 if column.role == "category" else np.isnan(here))
        if column.role == "category":
            return bool(here >= 0) and column.levels[here] == value
        return bool(here == {"true": 1.0, "false": 0.0}[value])
    match = re.fullmatch(r"(?:(\S+) < )?(\w+)(?: <= (\S+))?", condition)
    assert match, condition
    low, name, high = match.groups()
    value = sigmoid(batch.score[row : row + 1])[0] if name == "score" else batch.features[name].values[row]
    return bool((low is None or value > float(low)) and (high is None or value <= float(high)) and value == value)


def test_rules_tell_rows_pud_and_the_bound_of_theorem_1() -> None:
    train = clicks(2000)
    model = fitted(train, "paper", trees=1, depth=1, min_rows=100, features=1)
    _, _, rules, splits = model.explain(("0", "1"))
    assert splits.rows[0][:4] == (1, "all rows", "place", 7)
    raw, place = sigmoid(train.score), train.features["place"].values
    for _, condition, rows, rate, pud, pattern, bound in rules.rows:
        code = {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "missing": -1}.get(condition.removeprefix("place is "))
        inside = place == code if code is not None else np.zeros(2000, dtype=bool)
        assert rows == inside.sum()
        if not rows:
            assert (rate, pud, bound) == (None, None, None)
            continue
        y = train.labels[inside].mean()
        assert rate == pytest.approx(y)
        assert pud == pytest.approx(raw[inside].mean() / y, rel=1e-6)
        assert pattern == pytest.approx(1 / pud, rel=1e-9)
        log = np.log(3 * len(rules.rows) / 0.05)
        assert bound == pytest.approx(np.sqrt(2 * y * (1 - y) * log / rows) + 3 * log / rows)


def test_values_that_were_never_seen_take_the_rest() -> None:
    train = clicks()
    model = fitted(train, link="odds", trees=4)
    levels = ("a", "b", "c", "d", "e")
    row = train.take(np.array([7]))

    def with_place(code: int, known: tuple[str, ...]) -> float:
        column = Column("category", np.array([code], dtype=np.int32), known)
        return float(model.predict(Batch(row.score, None, None, {**row.features, "place": column}))[0])

    assert with_place(0, ("new",)) == with_place(0, ("other new",))
    assert with_place(0, ("new",)) != with_place(0, levels)
    assert with_place(1, ("new", "a")) == with_place(0, levels)


@pytest.mark.parametrize("preset", [None, "paper"])
def test_threads_and_blocks_change_no_bit(preset, monkeypatch) -> None:
    train = clicks(1500)
    states = []
    for threads, block in (("1", 1 << 18), ("4", 100)):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        monkeypatch.setattr(level_passes, "BLOCK", block)
        states.append(fitted(train, preset, **({"min_rows": 50} if preset else {"rate": 0.5})).state)
    assert states[0].params == states[1].params
    for name, array in states[0].arrays.items():
        np.testing.assert_array_equal(array, states[1].arrays[name])


def test_fewer_rows_than_a_branch_must_have() -> None:
    train = clicks(60)
    np.testing.assert_array_equal(fitted(train, min_rows=61).predict(train), alone(train).predict(train))
    paper = fitted(train, "paper")
    k = train.labels.sum() / sigmoid(train.score).sum()
    np.testing.assert_allclose(paper.predict(train), np.minimum(k * sigmoid(train.score), 1 - 1e-16), rtol=1e-7)


@cache
def of_useful_features() -> FloatArray:
    return fitted(clicks(2500), "paper", min_rows=100).predict(clicks(2500, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", of_no_use(2))
def test_features_that_are_no_use_do_no_harm(name) -> None:
    plain, test = clicks(2500), clicks(2500, seed=1)
    odd = of_no_use(2500)[name]
    train, other = (Batch(b.score, b.label, None, {**b.features, "odd": odd}) for b in (plain, test))
    assert loss_of(fitted(train), other) < 0.99 * loss_of(alone(train), other)
    paper = fitted(train, "paper", min_rows=100).predict(other)
    assert ((paper > 0) & (paper < 1)).all()
    if name not in ("as many numbers as rows", "infinite"):
        np.testing.assert_array_equal(paper, of_useful_features())
    single = Batch(train.score, train.label, None, {"odd": odd})
    for preset in (None, "paper"):
        prob = fitted(single, preset).predict(single)
        assert ((prob > 0) & (prob < 1)).all()


@pytest.mark.slow
def test_seventy_thousand_categories() -> None:
    rows = 150_000
    rng = np.random.default_rng(0)
    place = rng.integers(0, 70_000, rows).astype(np.int32)
    score = rng.normal(size=rows)
    label = (rng.random(rows) < sigmoid(score)).astype(np.int64)
    column = Column("category", place, tuple(f"v{i:05}" for i in range(70_000)))
    train = Batch(score, label, None, {"place": column})
    prob = fitted(train, trees=1, min_rows=2, link="odds").predict(train)
    assert np.isfinite(prob).all()


def test_saturated_scores() -> None:
    """Log-odds of hundreds, many of them wrong: every link and loss gives probabilities."""
    train = clicks(1500)
    loud = Batch(400 * np.sign(train.score) + train.score, train.label, None, train.features)
    for link in ("odds", "linear"):
        for start in ("platt", "raw"):
            prob = fitted(loud, link=link, start=start, trees=4, min_rows=50).predict(loud)
            assert ((prob > 0) & (prob < 1)).all()
    assert loss_of(fitted(loud, rate=0.5), loud) <= loss_of(alone(loud), loud)


@pytest.mark.parametrize("how", [{"trees": 4, "depth": 3, "link": "odds"}, {"preset": "paper", "depth": 2}])
def test_the_importance_of_a_feature_is_what_its_splits_gain(how: dict) -> None:
    """From the tables of rules and splits: the rows below each split, and how much the split lowers the loss."""
    features, _, rules, splits = fitted(clicks(3000), min_rows=80, **how).explain(("0", "1"))
    gains: dict[tuple, float] = {}
    for (tree, at, feature, _, before, after, _), moved in zip(splits.rows, splits.moves, strict=True):
        below = [
            rule for rule in rules.rows if rule[0] == tree and (at == "all rows" or rule[1].startswith(f"{at} and "))
        ]
        gain = sum(rule[2] for rule in below) * (before - after)
        assert moved == pytest.approx(gain)
        level = 1 if at == "all rows" else 2 + at.count(" and ")
        gains[feature, level] = gains.get((feature, level), 0.0) + gain
    whole = sum(gains.values())
    assert len(gains) > 2
    for feature, count, importance, *levels in features.rows:
        assert count == sum(split[2] == feature for split in splits.rows)
        assert importance == pytest.approx(sum(levels))
        assert levels == pytest.approx(
            [100 * gains.get((feature, level), 0.0) / whole for level in range(1, len(levels) + 1)]
        )
    assert [row[2] for row in features.rows] == sorted((row[2] for row in features.rows), reverse=True)


def test_the_leaf_of_a_row_and_the_outline_of_the_first_tree_are_those_of_the_rules() -> None:
    train = clicks(3000)
    model = fitted(train, trees=2, depth=3, min_rows=80)
    _, tree, rules, _ = model.explain(("0", "1"))
    of_first = [rule for rule in rules.rows if rule[0] == 1]
    leaf = model.extras(train)["leaf"].astype(int)
    assert np.bincount(leaf, minlength=len(of_first) + 1).tolist() == [0, *(rule[2] for rule in of_first)]
    assert np.array_equal(model.extras(train.take(slice(5, 9)))["leaf"], leaf[5:9])
    # Each leaf of the outline, with the conditions above it, is a rule.
    above: list[str] = []
    drawn = []
    for place, (node, rows, _, pattern) in enumerate(tree.rows):
        level = (len(node) - len(node.lstrip())) // 4
        above[level:] = [node.strip()]
        later = [(len(each[0]) - len(each[0].lstrip())) // 4 for each in tree.rows[place + 1 :]]
        inside = tree.rows[place + 1 :][: next((at for at, one in enumerate(later) if one <= level), len(later))]
        children = [each for each, one in zip(inside, later, strict=False) if one == level + 1]
        assert (pattern is None) == bool(children)
        assert not children or sum(each[1] for each in children) == rows
        if pattern is not None:
            drawn.append((" and ".join(above[1:]), rows, pattern))
    assert sorted(drawn) == sorted((rule[1], rule[2], rule[5]) for rule in of_first)
    assert tree.brief[-1][0].strip() == "1 more"
    assert fitted(clicks(effect=0.0)).extras(train)["leaf"].tolist() == [1.0] * 3000


def test_of_many_rows_deeper_trees_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error where three features meet needs three conditions; where one errs alone, two are enough."""

    def rows(seed: int, *, meet: bool) -> Batch:
        rng = np.random.default_rng(seed)
        signs = rng.choice([-1.0, 1.0], (3, 3000))
        score = rng.normal(size=3000)
        label = (rng.random(3000) < sigmoid(score + (signs.prod(axis=0) if meet else signs[0]))).astype(np.int64)
        return Batch(score, label, None, {f"sign {place}": Column("number", one) for place, one in enumerate(signs)})

    given = {"link": "odds", "lambda": 30, "rate": 0.5}  # of the depth alone there is a choice
    model = fitted(rows(0, meet=True), **given)
    assert model.state.number("depth") == 2
    shallow = loss_of(model, rows(1, meet=True))
    monkeypatch.setattr("calcli.methods.mbct.mbct.LARGE", 3000)
    model = fitted(rows(0, meet=True), **given)
    assert model.state.number("depth") >= 3
    assert loss_of(model, rows(1, meet=True)) < 0.95 * shallow
    assert fitted(rows(0, meet=True), depth=2, **given).state.number("depth") == 2
    assert fitted(rows(0, meet=False), **given).state.number("depth") <= 3


def test_the_rules_say_what_rows_support_only_where_it_is_held() -> None:
    for hold in (True, False):
        model = fitted(clicks(1500), link="linear", split_loss="mvce", trees=1, depth=1, min_rows=100, hold=hold)
        assert ("not beyond what the rows of the leaf support" in model.explain(("0", "1"))[2].note) is hold


def test_more_features_than_are_wanted() -> None:
    train = clicks(2000)
    rng = np.random.default_rng(5)
    noise = {f"noise{place:02}": Column("number", rng.normal(size=2000)) for place in range(20)}
    wide = Batch(train.score, train.label, None, {**noise, **train.features})
    *_, splits = fitted(wide, features=3, trees=4, link="odds").explain(("0", "1"))
    assert {split[2] for split in splits.rows} <= {"place", "number", "score", *noise}
    assert len({split[2] for split in splits.rows} - {"score"}) <= 3
    assert "place" in {split[2] for split in splits.rows}


@pytest.mark.parametrize("loss", ["mvce", "mvce-sampled", "ece", "ece-sweep"])
def test_every_split_loss_fits(loss) -> None:
    train = clicks(1200)
    model = fitted(train, split_loss=loss, trees=2, min_rows=100, depth=2, link="odds", rate=0.5, **{"lambda": 10})
    assert loss_of(model, train) < loss_of(alone(train), train)
    *_, splits = model.explain(("0", "1"))
    assert loss in splits.note
    assert all(split[5] < split[4] for split in splits.rows)


def test_each_class_against_the_rest() -> None:
    batch = wrong_by_feature(3000, 3)
    model = fitted(batch, trees=3, link="odds")
    prob = model.predict(batch)
    np.testing.assert_allclose(prob.sum(axis=1), 1.0)
    assert model.extras(batch) == {}
    titles = [section.title for section in model.explain(("x", "y", "z"))]
    assert titles[:4] == [f"x: {what}" for what in ("features", "first tree", "rules", "splits")]
    assert {title[:2] for title in titles} == {"x:", "y:", "z:"}


def test_equation_13_as_printed() -> None:
    """39,359 for the calibration rows of Porto Seguro, where the paper has 800."""
    found = least_by_equation_13(0.036448, 208_000, alpha=0.05, error=0.1)
    assert found == 39_359

    def right_side(c: float) -> float:
        log = np.log(3 * 208_000 / (c * 0.05))
        return (np.sqrt(2 * 0.036448 * (1 - 0.036448) * log / c) + 3 * log / c) / 0.1

    assert right_side(found) >= 0.036448 > right_side(found + 1)
    assert fitted(clicks(500), min_rows="eq13", trees=1).state.number("min_rows") <= 500


def test_branches_grow_with_the_root_of_the_rows() -> None:
    assert [least_by_rows(rows) for rows in (100.0, 10_000.0, 12e6)] == [10, 30, 1039]


def test_compiled_code_is_kept_where_the_platform_keeps_such(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(compiled.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compiled.cache_directory().startswith(str(tmp_path / "cache" / "calcli"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert compiled.cache_directory().startswith(str(tmp_path / ".cache" / "calcli"))


def test_without_a_place_for_it_code_is_compiled_and_forgotten(monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compiled.cache_directory() == ""
    monkeypatch.setattr(compiled, "cache_directory", lambda: "")
    assert compiled.compiled(lambda x: x + 1)(2) == 3


@pytest.mark.slow
def test_predictions_from_several_threads_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    train = clicks(3000)
    model = fitted(train)
    wanted = model.predict(train)
    parts = [slice(start, start + 50) for start in range(0, 3000, 50)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda part: model.predict(train.take(part)), parts))
    np.testing.assert_array_equal(np.concatenate(found), wanted)
    with ThreadPoolExecutor(4) as pool:
        fits = list(pool.map(lambda seed: fitted(train, seed=seed).predict(train), [0, 0, 0, 0]))
    for fit in fits:
        np.testing.assert_array_equal(fit, wanted)


def test_state_of_one_fit_is_not_taken_for_that_of_another() -> None:
    train = clicks(2000)
    models = [fitted(train, trees=trees, link="odds", min_rows=40) for trees in (1, 2, 3)]
    first = [model.predict(train) for model in models]
    again = [bound_method(ROW, 2).predict(model.state, train, NO_SIDE_INPUTS) for model in models]
    assert not np.array_equal(first[0], first[1])
    for one, other in zip(first, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def factors(rows: int, seed: int) -> Batch:
    """Groups in which the label rate is a multiple of the score, but never above 98.5 %."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 6, rows)
    prob = rng.beta(0.8, 2.5, rows)
    truth = np.minimum(prob * np.array([0.3, 0.5, 0.8, 1.0, 1.4, 1.9])[group], 0.985)
    label = (rng.random(rows) < truth).astype(np.int64)
    columns = {"group": Column("category", group.astype(np.int32), tuple("abcdef"))}
    return Batch(np.log(prob) - np.log1p(-prob), label, None, columns)


def test_a_factor_takes_no_row_to_certainty() -> None:
    """Unless it is asked for: by the paper's preset, or with exact outputs."""
    train, test = factors(8000, 0), factors(20_000, 1)
    model = fitted(train, link="linear", trees=5)
    prob = model.predict(test)
    exact = model.with_post_processing(PostProcessing(exact=True)).predict(test)
    bare = fitted(train, link="linear", trees=5, hold=False).predict(test)
    assert ((exact == 1) & (test.labels == 0)).any()
    assert prob.max() < 0.999
    assert loss_of(model, test) < losses.log_loss(exact, test.labels).mean()
    np.testing.assert_array_equal(bare, np.clip(exact, LEAST, GREATEST))


def test_chosen_by_given_folds_each_is_judged_by_the_trees_that_the_others_prefer() -> None:
    """By the sum of held-out changes of the log-loss, and 1.5 standard errors, of fits with so many trees."""
    train, given = clicks(1500), {"link": "odds", "lambda": 30, "rate": 0.5}
    splits = in_turn(np.arange(1500) % 3, 3)
    found = mbct.choose(train, NO_SIDE_INPUTS, ROW.resolve(given), 0, splits)
    change, prob = {}, {}
    for place, (seen, unseen) in enumerate(splits):
        for trees in range(16):
            prob[place, trees] = fitted(train.take(seen), trees=trees, **given).predict(train.take(unseen))
            loss = losses.log_loss(prob[place, trees], train.labels[unseen])
            change[place, trees] = loss if trees == 0 else loss - change[place, 0]

    def bound(places: list[int], trees: int) -> float:
        of_rows = np.concatenate([change[place, trees] for place in places])
        total = float(of_rows.sum())
        return total + 1.5 * float(np.sqrt(np.square(of_rows).sum() - total**2 / len(of_rows)))

    def best(places: list[int]) -> int:
        least = min(range(1, 16), key=lambda trees: bound(places, trees))
        return least if bound(places, least) < 0.0 else 0

    for place, split in enumerate(splits):
        expected = best([other for other in range(3) if other != place])
        assert 0 < expected < 10
        assert found.states[place].number("trees") == expected
        held_out = mbct.predict(found.states[place], train.take(split.test), NO_SIDE_INPUTS)
        np.testing.assert_allclose(held_out, prob[place, expected], rtol=1e-9)
    assert found.whole is not None
    whole = fitted(train, trees=best([0, 1, 2]), **given)
    np.testing.assert_array_equal(mbct.predict(found.whole, train, NO_SIDE_INPUTS), whole.predict(train))
