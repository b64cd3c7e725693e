"""`decide` from rows to an artifact, and what the other verbs make of it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import calcli
from calcli.artifacts import store
from calcli.cli.main import main
from calcli.decisions.costs import CostColumns
from calcli.errors import ArtifactError, DataError, UsageError
from calcli.models.policy import asked_of
from calcli.verbs.decide import DecideRequest, decide
from tests.support.reports import ANSWERS_SCHEMA, REPORT_SCHEMA
from tests.support.samples import breeds, clicks

VALID = Path("valid.parquet")
CITY = pl.int_range(pl.len()).mod(3).replace_strict({0: "x", 1: "y", 2: None})


@pytest.fixture(scope="module")
def calibrator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrator")
    calcli.fit(clicks(), method="platt", output=folder / "m")
    clicks(3000, seed=1).with_columns(amount=pl.col("w") * 10, knowledge=pl.col("w") - 1, city=CITY).write_parquet(
        folder / VALID
    )
    return folder


@pytest.fixture
def fitted(here: Path, calibrator: Path) -> Path:
    """A calibrator, and a table of other rows."""
    return shutil.copytree(calibrator, here, dirs_exist_ok=True)


def run(**options: object):
    return decide(DecideRequest(VALID, artifact="m", **options))  # type: ignore[arg-type]


def fresh(seed: int = 2, rows: int = 4000) -> tuple[pl.DataFrame, np.ndarray]:
    """New rows, and whether they are positive."""
    table = clicks(rows, seed=seed).with_columns(knowledge=pl.col("w") - 1, amount=pl.col("w"), city=CITY)
    return table, table["label"].to_numpy()


def decided(policy: str, table: pl.DataFrame) -> pl.DataFrame:
    calcli.apply(policy, table, "out.parquet")
    return pl.read_parquet("out.parquet")


ASKED = {
    "costs": {"cost_fp": 1.0, "cost_fn": 5.0},
    "each row": {"cost_fp": 1.0, "cost_fn": 5.0, "cost": "amount"},
    "columns": {"cost_fp": "w", "cost_fn": "amount", "abstain": 0.3},
    "target": {"target": "precision >= 0.5"},
    "budget": {"budget": 300},
    "left open": {"cost_fp": 1.0, "cost_fn": 2.0, "abstain": 0.3},
    "coverage": {"coverage": 0.8, "uncertainty": "knowledge"},
    "groups": {"target": "precision >= 0.5", "by": "city"},
    "figure": {"target": "fpr <= 0.2", "maximize": "recall"},
    "sets": {"sets": 0.9, "by_class": True},
}


@pytest.mark.parametrize("kind", ASKED)
def test_from_rows_to_decisions_to_what_they_are_worth(kind: str, fitted: Path) -> None:
    """The answer is of its schema; the artifact is applied and evaluated, with the same numbers."""
    result = run(**ASKED[kind])
    ANSWERS_SCHEMA.validate(result.to_json())
    assert result.path == Path("valid.policy")
    kept = calcli.load("valid.policy")
    assert kept.policy == result.choice.policy
    assert kept.manifest.kind == "policy"
    table, label = fresh()
    out = decided("valid.policy", table)
    np.testing.assert_array_equal(out["calibrated"], calcli.load("m").predict(table))
    report = calcli.evaluate(table, artifacts=("valid.policy",))
    REPORT_SCHEMA.validate(report.to_json())
    (entry,) = report.to_json()["decisions"]
    numbers = {name: number["value"] for name, number in entry["numbers"].items()}
    if kind == "sets":
        members = out["set"].str.split("|").to_list()
        held = [str(truth) in member for truth, member in zip(label, members, strict=True)]
        assert numbers["coverage"] == pytest.approx(np.mean(held))
        return
    decision = out["decision"]
    open_rows = decision.is_null().to_numpy()
    if kind in ("left open", "coverage", "columns"):
        assert numbers["coverage"] == pytest.approx(1 - open_rows.mean())
        assert numbers["error"] == pytest.approx(np.mean(decision.to_numpy()[~open_rows] != label[~open_rows]))
        assert entry["promise"]["target"].startswith("error <=")
    else:
        yes = decision.to_numpy() == 1
        assert numbers["precision"] == pytest.approx(label[yes].mean())
        assert numbers["recall"] == pytest.approx(yes[label > 0].mean())
    if kind in ("costs", "each row"):
        scale = table["amount"].to_numpy() if kind == "each row" else np.ones(len(label))
        paid = np.where(yes, 1.0 * (label == 0), 5.0 * scale * (label > 0))
        assert numbers["cost"] == pytest.approx(paid.mean())


def test_a_promise_to_each_group_is_tested_night_after_night(fitted: Path) -> None:
    run(target="precision >= 0.5", by="city")
    report = calcli.evaluate(fresh()[0], artifacts=("valid.policy",), drift="valid.policy")
    assert report.drift is not None
    assert report.to_json()["drift"]["promise"]["target"] == "precision >= 0.5 in each city"
    assert report.to_json()["decisions"][0]["promise"]["target"] == "precision >= 0.5 in each city"


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float64])
def test_a_group_of_numbers_is_found_in_any_type(fitted: Path, dtype: pl.DataType) -> None:
    """As pandas makes floats of integers where one is missing."""
    table = pl.read_parquet(VALID).with_columns(site=(pl.int_range(pl.len()) % 3).cast(dtype))
    decide(DecideRequest(table, artifact="m", target="fpr <= 0.3", by="site", output="p"))
    rows = fresh()[0].with_columns(site=pl.int_range(pl.len()) % 4)
    of_types = [decided("p", rows.with_columns(pl.col("site").cast(kind))) for kind in (pl.Int8, pl.Float32, pl.String)]
    assert len({tuple(out["decision"]) for out in of_types}) == 1
    reasons = of_types[0].filter(pl.col("site") < 3)["decision_reason"]
    assert not reasons.str.contains("another").any()


def test_groups_of_truth_values_are_found_as_python_writes_them(fitted: Path) -> None:
    table = pl.read_parquet(VALID).with_columns(site=pl.int_range(pl.len()) % 3 > 0)
    decide(DecideRequest(table, artifact="m", target="fpr <= 0.3", by="site", output="p"))
    expected = decided("p", table)["decision"]
    written = table.with_columns(pl.col("site").replace_strict({True: "True", False: "False"}, return_dtype=pl.String))
    written.write_csv("in.csv")
    calcli.apply("p", "in.csv", "out.csv")
    assert pl.read_csv("out.csv")["decision"].to_list() == expected.to_list()


def test_an_empty_text_is_the_group_without_a_value(fitted: Path) -> None:
    """It is so in CSV; two groups of one name would decide by the threshold of one of them."""
    kinds = [["x", "", None, "y"], ["x", None, None, "y"]]
    tables = [pl.read_parquet(VALID).with_columns(site=pl.Series(names * 750)) for names in kinds]
    for name, table in zip("ab", tables, strict=True):
        decide(DecideRequest(table, artifact="m", target="fpr <= 0.3", by="site", output=name))
    first, second = (calcli.load(name).policy.rule for name in "ab")
    assert first == second
    assert first.groups == ("x", "y", "")


def test_the_label_is_no_group_of_new_rows(fitted: Path) -> None:
    for options in ({"target": "fpr <= 0.5"}, {"sets": 0.9}):
        with pytest.raises(UsageError, match="--by label is the label, which new rows do not have"):
            run(by="label", **options)


def test_costs_of_the_options(fitted: Path) -> None:
    """Bayes' threshold is that of the costs; a score that was pulled apart is decided at another one."""
    result = run(cost_fp=1.0, cost_fn=9.0, threshold=0.3)
    table = pl.read_parquet(VALID)
    prob, label = calcli.load("m").predict(table), table["label"].to_numpy()
    options = {option.name: option for option in result.choice.options}
    assert options["bayes"].threshold == pytest.approx(0.1)
    for name, threshold in (("bayes", 0.1), ("today", 0.3), ("all yes", 0.0), ("all no", 2.0)):
        yes = prob >= threshold
        cost = np.mean(np.where(yes, 1.0 * (label == 0), 9.0 * (label > 0)))
        assert options[name].numbers["cost"].value == pytest.approx(cost)
    saves = options["bayes"].numbers["saves"]
    assert saves.value == pytest.approx(options["today"].numbers["cost"].value - options["bayes"].numbers["cost"].value)
    assert saves.lo < saves.value < saves.hi


def test_the_amount_moves_the_threshold_of_each_row(fitted: Path) -> None:
    """Yes where p * benefit > (1 - p) * cost, which costs less on fresh rows than one threshold for all."""
    result = run(cost_fp=1.0, cost_fn=0.5, cost="amount")
    assert result.choice.chosen == "each row"
    options = {option.name: option.numbers["cost"].value for option in result.choice.options}
    table, _ = fresh()
    prob, amount = calcli.load("m").predict(table), table["amount"].to_numpy()
    out = decided("valid.policy", table)
    yes = out["decision"].to_numpy() == 1
    np.testing.assert_array_equal(yes, prob * 0.5 * amount > (1 - prob) * 1.0)
    assert set(out["decision_reason"]) == {"p * 0.5 * amount > (1 - p) * 1", "p * 0.5 * amount <= (1 - p) * 1"}
    assert str(CostColumns(1.0, 1.0, positive="amount")) == "p * amount > (1 - p) * 1"
    known = pl.read_parquet(VALID)
    single = 1.0 / (1.0 + 0.5 * known["amount"].mean())
    all_at = calcli.load("m").predict(known) >= single
    truth, at_stake = known["label"].to_numpy(), known["amount"].to_numpy()
    paid = np.where(all_at, 1.0 * (truth == 0), 0.5 * at_stake * (truth > 0))
    assert options["mean costs"] == pytest.approx(paid.mean())
    assert options["each row"] < options["tuned"]


def test_rows_without_costs_are_not_decided(fitted: Path) -> None:
    """Null, NaN and negative costs in `apply`; `decide` and `evaluate`, which add costs up, say how many there are."""
    run(cost_fp=1.0, cost_fn=0.5, cost="amount")
    table = fresh(rows=5)[0].with_columns(amount=pl.Series([1.0, None, float("nan"), -1.0, 2.0]))
    out = decided("valid.policy", table)
    assert out["decision"].is_null().to_list() == [False, True, True, True, False]
    assert out["decision_reason"][1] == "a cost is missing, or less than 0"
    with pytest.raises(DataError, match="the policy: the column 'amount' has no cost of 0 or more in 3 of 5 rows"):
        calcli.evaluate(table, artifacts=("valid.policy",))
    with pytest.raises(DataError, match=r"^--cost-fp: .* in 3 of 5 rows"):
        decide(DecideRequest(table, artifact="m", cost_fp="amount", cost_fn=1.0))
    with pytest.raises(DataError, match="not numbers"):
        decide(DecideRequest(table.with_columns(amount=pl.lit("x")), artifact="m", cost_fp="amount", cost_fn=1.0))


@pytest.mark.parametrize("flag", ["cost_fp", "cost_fn", "cost_tp", "cost_tn", "cost"])
def test_a_column_of_costs_that_is_not_there_is_named_with_its_flag(fitted: Path, flag: str) -> None:
    given: dict = {"cost_fp": 1.0, "cost_fn": 1.0, flag: "amuont"}
    with pytest.raises(DataError, match=rf"^--{flag.replace('_', '-')}: no column 'amuont'; did you mean 'amount'"):
        decide(DecideRequest(fresh(rows=5)[0].with_columns(amount=pl.lit(1.0)), artifact="m", **given))


def test_a_score_that_is_wrong_is_cut_where_it_costs_least(fitted: Path) -> None:
    """Without calibration the threshold that follows from the costs is wrong, which the rows show."""
    table = clicks(6000, seed=3).select("label", logit=pl.col("logit") - 3.0)
    result = decide(DecideRequest(table, cost_fp=1.0, cost_fn=9.0))
    assert result.choice.chosen == "tuned"
    assert result.path is None
    assert result.model.policy is not None
    assert result.model.method == "identity"


def test_the_target_that_was_promised_is_tested(fitted: Path) -> None:
    """On rows of the same kind it holds; on rows whose positives became rare it does not, by scipy's test."""
    run(target="precision >= 0.5")
    table, label = fresh()
    rare = table.filter(pl.Series((label == 0) | (np.arange(len(label)) % 4 == 0)))
    for rows, broken in ((table, False), (rare, True)):
        report = calcli.evaluate(rows, artifacts=("valid.policy",))
        promise = report.decisions[0]["promise"]
        assert promise["broken"] is broken
        yes = decided("valid.policy", rows)["decision"].to_numpy() == 1
        hits = int(rows["label"].to_numpy()[yes].sum())
        test = stats.binomtest(hits, int(yes.sum()), 0.5, alternative="less")
        assert promise["p"] == pytest.approx(test.pvalue)


def test_a_target_that_nothing_meets_keeps_nothing(fitted: Path) -> None:
    result = run(target="precision >= 0.999")
    assert result.refused is not None
    assert re.search(
        r"the best one, 0\.\d+, has a precision of at least 0\.\d+ with that confidence: nothing was saved",
        result.refused,
    )
    assert result.path is None
    assert not Path("valid.policy").exists()
    ANSWERS_SCHEMA.validate(result.to_json())


def test_the_best_of_many_thresholds_is_not_said_to_reach_a_target_that_none_reaches(here: Path) -> None:
    """14 of the likeliest 15 rows are positive, and a quarter of all others: the tests begin where that is over."""
    rows = pl.int_range(2000, eager=True)
    lucky = (rows >= 1985) & (rows < 1999)
    frame = pl.DataFrame({"prob": 0.2 + rows / 20_000, "label": ((rows % 4 == 0) | lucky).cast(pl.Int8)})
    refused = decide(DecideRequest(frame, target="precision >= 0.6")).refused
    assert re.search(
        r"a precision of at least 0\.7\d+ with that confidence, but only if no other had been", refused or ""
    )


def test_units_that_repeat_their_rows_promise_no_more_than_one_of_each(fitted: Path) -> None:
    """A table written five times says as much as once, if the copies are units; without, it boasts."""
    table = pl.read_parquet(VALID).head(600)
    copies = pl.concat([table] * 5)

    def bound(rows: pl.DataFrame, **options: str) -> float:
        found = decide(DecideRequest(rows, artifact="m", target="recall >= 0.7", **options)).choice  # type: ignore[arg-type]
        return found.options[0].threshold or 0.0

    assert bound(copies, resample_by="row_id") <= bound(table) < bound(copies)


def test_costs_of_more_classes(here: Path) -> None:
    """Each row gets the action that brute force finds; the file's classes may be in any order."""
    calcli.fit(breeds(), method="temperature", output="m")
    matrix = {"c": [5, 1, 0, 2, 0.6], "a": [0, 1, 4, 1, 0.6], "d": [3, 3, 3, 0, 0.6], "b": [1, 0, 1, 1, 0.6]}
    order = [4, 3, 1, 0, 2]  # of the columns in the file
    lines = [",person,d,b,a,c"]
    lines += [",".join([name, *(str(costs[place]) for place in order)]) for name, costs in matrix.items()]
    Path("costs.csv").write_text("\n".join(lines))
    table = breeds(800, seed=1)
    result = decide(DecideRequest(table, artifact="m", cost_file="costs.csv", output="p"))
    out = decided("p", table)
    prob = calcli.load("m").predict(table)
    expected = prob @ np.array([matrix[name] for name in "abcd"])
    actions = np.array(["a", "b", "c", "d", "person"])
    assert out["decision"].to_list() == actions[expected.argmin(axis=1)].tolist()
    paid = [
        matrix[truth][int(np.flatnonzero(actions == one)[0])]
        for truth, one in zip(table["label"], out["decision"], strict=True)
    ]
    assert result.choice.options[0].numbers["cost"].value == pytest.approx(np.mean(paid))
    options = {option.name: option for option in result.choice.options}
    likeliest = actions[prob.argmax(axis=1)]
    assert options["likeliest"].numbers["accuracy"].value == pytest.approx(
        (likeliest == table["label"].to_numpy()).mean()
    )
    (entry,) = calcli.evaluate(table, artifacts=("p",)).decisions
    assert entry["numbers"]["cost"]["value"] == pytest.approx(np.mean(paid))


OF_CLASSES = {
    "precision": {"target": "precision >= 0.6"},
    "two of them": {"target": "accuracy >= 0.85", "top": 2},
    "likeliest": {"top": 3},
    "surest": {"coverage": 0.6},
    "known": {"coverage": 0.6, "uncertainty": "knowledge"},
    "costs": {"cost_fp": 1.0, "cost_fn": 2.0, "top": 2},
}


@pytest.mark.parametrize("kind", OF_CLASSES)
def test_more_classes_from_rows_to_what_they_are_worth(kind: str, here: Path) -> None:
    calcli.fit(breeds(), method="temperature", output="m")
    known = pl.Series(np.random.default_rng(0).random(3000))
    table = breeds(3000, seed=1).with_columns(knowledge=known)
    result = decide(DecideRequest(table, artifact="m", output="p", **OF_CLASSES[kind]))  # type: ignore[arg-type]
    ANSWERS_SCHEMA.validate(result.to_json())
    assert calcli.load("p").policy == result.choice.policy
    fresh = breeds(2000, seed=2).with_columns(knowledge=known.head(2000))
    out = decided("p", fresh)
    if "top" in OF_CLASSES[kind]:
        got = [set(text.split("|")) - {""} for text in out["set"]]
    else:
        got = [set() if one is None else {one} for one in out["decision"]]
        assert out["decision_reason"].null_count() == 0
    report = calcli.evaluate(fresh, artifacts=("p",))
    REPORT_SCHEMA.validate(report.to_json())
    (entry,) = report.decisions
    numbers = {name: number["value"] for name, number in entry["numbers"].items()}
    pairs = list(zip(fresh["label"], got, strict=True))
    some = [(truth, classes) for truth, classes in pairs if classes]
    assert numbers["coverage"] == pytest.approx(len(some) / 2000)
    assert numbers["error"] == pytest.approx(np.mean([truth not in classes for truth, classes in some]))
    assert numbers["precision of b"] == pytest.approx(
        np.mean([truth == "b" for truth, classes in some if "b" in classes])
    )
    if kind == "costs":
        paid = [
            len(classes - {truth}) + 2.0 * (truth not in classes)
            for truth, classes in zip(fresh["label"], got, strict=True)
        ]
        assert numbers["cost"] == pytest.approx(np.mean(paid))
    else:
        assert entry["promise"]["broken"] is False
    assert main(["inspect", "p"]) == 0


def test_a_matrix_of_costs_may_leave_rows_open(here: Path) -> None:
    """Where all actions are expected to cost more than that."""
    calcli.fit(breeds(), method="temperature", output="m")
    Path("costs.csv").write_text(",a,b,c,d\na,0,1,1,1\nb,1,0,1,1\nc,1,1,0,1\nd,1,1,1,0\n")
    decide(DecideRequest(breeds(800, seed=1), artifact="m", cost_file="costs.csv", abstain=0.5, output="p"))
    table = breeds(800, seed=2)
    likely = calcli.load("m").predict(table).max(axis=1)
    assert decided("p", table)["decision"].is_null().to_list() == (likely < 0.5).tolist()


def test_sets_of_groups_that_were_not_there(here: Path) -> None:
    """Each group has its own threshold; a new one that of the most careful."""
    calcli.fit(breeds(), method="temperature", output="m")
    table = breeds(1000, seed=1).with_columns(site=pl.Series(["x", "y", None, "y"] * 250))
    decide(DecideRequest(table, artifact="m", sets=0.9, by="site", output="p"))
    rows = breeds(900, seed=2).with_columns(site=pl.Series(["x", "new", None] * 300))
    out = decided("p", rows)
    sizes = out["set"].str.split("|").list.len()
    rule = calcli.load("p").policy.rule
    assert rule.groups == ("x", "y", "")
    prob = calcli.load("m").predict(rows)
    limits = {name: rule.sets.thresholds.values[place][0] for place, name in enumerate(rule.groups)}
    limits["new"] = max(limits.values())
    limit = np.array([limits[name or ""] for name in rows["site"].to_list()])
    assert sizes.to_list() == (1.0 - prob <= limit[:, None]).sum(axis=1).tolist()


def test_sets_by_class_show_the_coverage_of_each_class(here: Path) -> None:
    """By how many rows they have, the numbers of the classes add up to those of all rows."""
    calcli.fit(breeds(), method="temperature", output="m")
    table = breeds(1000, seed=1)
    choice = decide(DecideRequest(table, artifact="m", sets=0.9, by_class=True)).choice
    assert "new rows of each class" in choice.why
    options = {option.name: option.numbers for option in choice.options}
    shares = {name: count / len(table) for name, count in table["label"].value_counts().iter_rows()}
    for name in ("coverage", "size", "single"):
        mean = sum(share * options[f"  class {of}"][name].value for of, share in shares.items())
        assert options["lac"][name].value == pytest.approx(mean)


def test_rows_left_open_where_nothing_is_known(fitted: Path) -> None:
    run(coverage=0.8, uncertainty="knowledge")
    table, _ = fresh(rows=10)
    out = decided("valid.policy", table.with_columns(knowledge=pl.Series([None, 99.0, -99.0] + [0.0] * 7)))
    assert out["decision"].is_null().to_list()[:3] == [True, True, False]
    with pytest.raises(DataError, match="'knowledge'"):
        calcli.apply("valid.policy", table.drop("knowledge"), "out.parquet")


def test_text_stays_text_and_reasons_are_the_same(fitted: Path) -> None:
    run(cost_fp=1.0, cost_fn=5.0)
    table, _ = fresh(rows=50)
    table.write_csv("new.csv")
    calcli.apply("valid.policy", "new.csv", "out.csv")
    assert (
        pl.read_csv("out.csv")["decision_reason"].to_list()
        == decided("valid.policy", table)["decision_reason"].to_list()
    )


def test_logits_are_decided_as_probabilities_are(fitted: Path) -> None:
    run(cost_fp=1.0, cost_fn=5.0)
    table, _ = fresh()
    calcli.apply("valid.policy", table, "logit.parquet", scale="logit")
    assert pl.read_parquet("logit.parquet")["decision"].equals(decided("valid.policy", table)["decision"])


def test_bad_rows_are_not_decided(fitted: Path) -> None:
    run(cost_fp=1.0, cost_fn=5.0)
    table = fresh(rows=3)[0].with_columns(logit=pl.Series([0.0, None, 5.0]))
    calcli.apply("valid.policy", table, "out.parquet", bad_rows="null")
    assert pl.read_parquet("out.parquet")["decision"].to_list()[1] is None


def test_the_artifact_names_its_calibrator_and_all_files(fitted: Path) -> None:
    clicks(seed=9).write_parquet("train.parquet")
    calcli.fit("train.parquet", method="platt", output="m")
    run(cost_fp=1.0, cost_fn=5.0)
    manifest = store.describe("valid.policy")
    assert manifest.recipe["decision"]["calibrator"] == calcli.load("m").sha256
    assert {file["path"] for file in manifest.data["files"]} == {"train.parquet", "valid.parquet"}
    seen = calcli.evaluate(VALID, artifacts=("valid.policy",))
    assert "seen-before" in {warning.code for warning in seen.warnings}
    assert {warning.code for warning in decide(DecideRequest("train.parquet", artifact="m", budget=9)).warnings} == {
        "seen-before"
    }


def test_a_refit_renews_the_policy_with_its_calibrator(fitted: Path) -> None:
    """After a shift both are new, and chosen for the same; on a quiet night neither is."""
    run(target="precision >= 0.5", resample_by="row_id")
    before = calcli.load("valid.policy")
    shifted = clicks(6000, seed=4).with_columns(logit=pl.col("logit") - 8.0)
    assert calcli.refit("valid.policy", clicks(seed=5)).kept is not None
    assert calcli.load("valid.policy").sha256 == before.sha256
    result = calcli.refit("valid.policy", shifted)
    assert result.kept is None
    after = calcli.load("valid.policy")
    assert after.policy is not None
    assert before.policy is not None
    assert after.policy.target == before.policy.target
    assert after.policy.rule != before.policy.rule
    assert asked_of(after) == asked_of(before)
    assert after.manifest.previous is not None
    report = calcli.evaluate(
        clicks(6000, seed=6).with_columns(logit=pl.col("logit") - 8.0), artifacts=("valid.policy",)
    )
    assert report.decisions[0]["promise"]["broken"] is False


def test_a_refit_whose_target_nothing_meets_changes_nothing(fitted: Path) -> None:
    run(target="precision >= 0.6")
    sha256 = calcli.load("valid.policy").sha256
    few = clicks(20_000, seed=4).with_columns(logit=pl.col("logit") + 3.0)
    label = few["label"].to_numpy() * (np.arange(len(few)) % 20 == 0)
    result = calcli.refit("valid.policy", few.with_columns(label=label))
    assert "no threshold has precision >= 0.6" in (result.kept or "")
    assert calcli.load("valid.policy").sha256 == sha256


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "--target"),
        ({"cost_fp": 1.0}, "--cost-fn"),
        ({"cost_fp": -1.0, "cost_fn": 1.0}, "0 or more"),
        ({"cost_fp": 1.0, "cost_fn": 1.0, "target": "recall >= 0.9"}, "excludes --target"),
        ({"budget": 5, "target": "recall >= 0.9"}, "--target excludes --budget"),
        ({"budget": 3000}, "3,000 rows"),
        ({"budget": 0}, "--budget 0"),
        ({"target": "f1 >= 0.9"}, "rates: precision >=.* positive-rate <= or >="),
        ({"target": "precision > 0.9"}, "give a rate, >= or <="),
        ({"abstain": 0.3, "budget": 5}, "--abstain"),
        ({"coverage": 0.9, "target": "recall >= 0.9"}, "--coverage"),
        ({"uncertainty": "w", "cost_fp": 1.0, "cost_fn": 1.0}, "--coverage"),
        ({"cost": "w", "target": "recall >= 0.9"}, "--cost w"),
        ({"cost_fn": "w"}, "--cost-fp"),
        ({"cost_fp": "w", "cost_fn": 1.0, "coverage": 0.9}, "--coverage"),
        ({"cost_fp": "w", "cost_fn": -1.0}, "0 or more"),
        ({"top": 2, "cost_fp": 1.0, "cost_fn": 1.0}, "two"),
        ({"by_class": True, "budget": 5}, "--sets"),
        ({"sets": 1.5}, "between 0 and 1"),
        ({"cost_fp": 1.0, "cost_fn": 1.0, "cost_file": "x.csv"}, "--costs"),
        ({"cost": "w", "cost_file": "x.csv"}, "--cost w"),
        ({"cost": "w"}, "--cost w .* --cost-fp 5"),
        ({"abstain": 0.3}, "--abstain"),
        ({"by_class": True}, "--sets"),
        ({"uncertainty": "w"}, "--coverage"),
    ],
)
def test_what_cannot_be_asked(options: dict[str, object], word: str, fitted: Path) -> None:
    with pytest.raises(UsageError, match=word):
        run(**options)


def test_rows_that_look_like_units_are_warned_of(here: Path) -> None:
    """Bounds count rows; users whose rows agree say less."""
    users = clicks(500).select("label", "logit", user_id=pl.col("row_id"))
    table = pl.concat([users] * 4)
    calcli.fit(clicks(), method="platt", output="m")
    (warning,) = decide(DecideRequest(table, artifact="m", target="recall >= 0.7")).warnings
    assert "--resample-by user_id" in warning.message
    assert not decide(DecideRequest(table, artifact="m", target="recall >= 0.7", resample_by="user_id")).warnings


@pytest.mark.parametrize("asked", [{"sets": 0.9}, {"budget": 5}, {"cost_fp": 1.0, "cost_fn": 1.0}])
def test_rows_that_weigh_nothing(asked: dict[str, object], fitted: Path) -> None:
    table = clicks(50).with_columns(w=pl.lit(0.0))
    with pytest.raises(DataError, match="add up to zero"):
        decide(DecideRequest(table, artifact="m", flags=calcli.Flags(weight="w"), **asked))  # type: ignore[arg-type]


def test_rows_without_positives(fitted: Path) -> None:
    table = pl.read_parquet(VALID).filter(pl.col("label") == 0)
    with pytest.raises(DataError, match="no row is positive"):
        decide(DecideRequest(table, artifact="m", budget=5))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no matrix"),
        (",0,1\n0,0,1\n", "no costs of the class '1'"),
        (",0,1\n0,0,1\n2,1,0\n", "'2'"),
        (",0,1\n0,0,-1\n1,1,0\n", "'-1'"),
        (",0,1\n0,0\n1,1,0\n", "2 costs"),
        (",0,0\n0,0,1\n1,1,0\n", "twice"),
    ],
)
def test_matrices_of_costs_that_are_none(text: str, word: str, fitted: Path) -> None:
    Path("costs.csv").write_text(text)
    with pytest.raises(DataError, match=word):
        run(cost_file="costs.csv")


def test_a_forged_policy_is_refused(fitted: Path) -> None:
    """A state that is none of a policy, though its hashes are right."""
    run(cost_fp=1.0, cost_fn=5.0)
    model = calcli.load("valid.policy")
    state = model.states["threshold"]
    matrix = {"names": ["a"], "costs": [[1.0], [1.0], [1.0]]}
    for params in (
        {"kind": "classes", "rule": matrix},
        {"kind": "none"},
        {"rule": {"low": 2, "high": 1, "limit": None, "column": None}},
        {"target": 5},
    ):
        forged = type(state)({**state.params, **params})
        store.write("forged", model.manifest, {**model.states, "threshold": forged})
        with pytest.raises(ArtifactError, match="does not hold"):
            calcli.load("forged")


def test_the_command(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["decide", str(VALID), "--with", "m"]
    assert main([*words, "--cost-fp", "1", "--cost-fn", "5"]) == 0
    out = capsys.readouterr()
    assert out.out == "valid.policy\n"
    assert "0.166667" in out.err
    assert main([*words, "--target", "precision >= 0.999"]) == 1
    refused = capsys.readouterr().err
    assert "nothing was saved" in " ".join(refused.split())
    assert not refused.startswith("\n")
    assert main([*words, "--budget", "30", "--format", "json", "-q"]) == 0
    ANSWERS_SCHEMA.validate(json.loads(capsys.readouterr().out))
    assert main([*words, "--budget", "30", "--format", "csv", "-q"]) == 0
    assert capsys.readouterr().out.startswith("option,threshold,number,value,lo,hi\nchosen,")
    assert main(["inspect", "valid.policy"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "is a policy (platt)" in told
    assert f"data {clicks().height:,} rows; the policy is chosen on 3,000 rows from {VALID} " in told
    assert main(["evaluate", str(VALID), "--with", "valid.policy", "-q"]) == 0
    assert "It promised positive-rate <= 0.01" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "costs",
    [
        ["--cost-fp", "1e308", "--cost-fn", "1e308"],
        ["--cost-fp", "1e307", "--cost-fn", "1"],
        ["--cost-fp", "1", "--cost-fn", "amount"],
        ["--cost-fp", "1", "--cost", "amount"],
        ["--costs", "costs.csv"],
    ],
)
def test_costs_beyond_all_sums_are_a_line_and_not_a_bug(
    costs: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = clicks().with_columns(amount=pl.when(pl.int_range(pl.len()) % 7 == 0).then(1.7e308).otherwise(2.0))
    table.write_parquet("train.parquet")
    Path("costs.csv").write_text("class,no,yes\n0,0,1e308\n1,1e308,0\n")
    assert main(["decide", "train.parquet", *costs, "-o", "policy"]) == 2
    assert "a cost is" in capsys.readouterr().err
    assert not Path("policy").exists()
