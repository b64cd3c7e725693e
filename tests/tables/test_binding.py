"""Which column plays which part: every rule of the contract, as a table of cases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calcli.errors import CalcliError, DataError, UsageError
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Feature, Flags, Label, Score
from calcli.tables.source import open_source
from tests.support.tables import ordinary, put, put_text, table

LABELS = {
    "01": [0, 1, 0, 1],
    "012": [0, 1, 2, 1],
    "abc": ["b", "a", "c", "a"],
    "13": [1, 3, 1, 3],
    "ones": [1, 1, 1, 1],
    "YN": ["N", "Y", "N", "Y"],
    "ab": ["a", "b", "a", "b"],
}


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def columns(label: str, names: Sequence[str]) -> dict[str, list[Any]]:
    """A label and columns of harmless numbers."""
    return {"label": LABELS[label], **{name: [0.25, 0.5, 0.5, 0.75] for name in names}}


def bound(label: str, names: Sequence[str], flags: Flags = Flags()) -> Binding:
    return bind(table(columns(label, names)), flags, features=False)


@pytest.mark.parametrize(
    ("label", "names", "flags", "kind", "found", "classes"),
    [
        ("01", ["logit"], {}, "logit", ["logit"], (0, 1)),
        ("01", ["prob"], {}, "prob", ["prob"], (0, 1)),
        *(("01", [name], {}, "prob", [name], (0, 1)) for name in ("proba", "probability", "pred_proba")),
        *(("01", [name], {}, "prob", [name], (0, 1)) for name in ("y_pred", "prediction", "proba_1")),
        ("01", ["p", "p_value", "p_0"], {}, "prob", ["p"], (0, 1)),
        ("01", ["score", "score_home", "score_away"], {}, "prob", ["score"], (0, 1)),
        ("01", ["prob_1", "prob_0"], {}, "prob", ["prob_0", "prob_1"], (0, 1)),
        ("13", ["prob_3", "prob_1"], {}, "prob", ["prob_1", "prob_3"], (1, 3)),
        ("13", ["prob_0", "prob_1"], {}, "prob", ["prob_0", "prob_1"], (1, 3)),
        ("13", ["p_1", "p_2", "p_3"], {}, "prob", ["p_1", "p_2", "p_3"], (1, 2, 3)),
        ("012", ["logit_2", "logit_0", "logit_1"], {}, "logit", ["logit_0", "logit_1", "logit_2"], (0, 1, 2)),
        ("012", ["prob", "prob_0", "prob_1", "prob_2"], {}, "prob", ["prob_0", "prob_1", "prob_2"], (0, 1, 2)),
        ("01", ["p_0", "p_1", "p_2"], {}, "prob", ["p_0", "p_1", "p_2"], (0, 1, 2)),
        ("ones", ["p_0", "p_1"], {}, "prob", ["p_0", "p_1"], (0, 1)),
        ("abc", ["prob_c", "prob_a", "prob_b"], {}, "prob", ["prob_a", "prob_b", "prob_c"], ("a", "b", "c")),
        ("abc", ["p_a", "p_b", "p_c", "p_d"], {}, "prob", ["p_a", "p_b", "p_c", "p_d"], ("a", "b", "c", "d")),
        ("abc", ["p_0", "p_1", "p_2"], {"classes": "cab"}, "prob", ["p_0", "p_1", "p_2"], ("c", "a", "b")),
        ("abc", ["p_a", "p_b", "p_c"], {"classes": "cab"}, "prob", ["p_c", "p_a", "p_b"], ("c", "a", "b")),
        ("ones", ["prob"], {"classes": "01"}, "prob", ["prob"], (0, 1)),
        ("01", ["prob", "mine"], {"prob": "mine"}, "prob", ["mine"], (0, 1)),
        ("01", ["prob", "mine"], {"logit": "mine"}, "logit", ["mine"], (0, 1)),
        ("01", ["prob", "proba"], {"prob": "proba"}, "prob", ["proba"], (0, 1)),
        ("01", ["prob", "prob_0", "prob_1"], {"prob": "prob"}, "prob", ["prob"], (0, 1)),
        ("01", ["prob_0", "prob_1"], {"prob": "prob_1"}, "prob", ["prob_1"], (0, 1)),
        ("01", ["m_0", "m_1"], {"logit": "m"}, "logit", ["m_0", "m_1"], (0, 1)),
        ("012", ["m_0", "m_1", "m_2", "m"], {"prob": "m"}, "prob", ["m_0", "m_1", "m_2"], (0, 1, 2)),
        ("01", ["prob", "proba"], {"ignore": ("proba",)}, "prob", ["prob"], (0, 1)),
        ("01", ["y_score", "prediction"], {}, "prob", ["y_score"], (0, 1)),
        ("01", ["y_pred", "y_prob"], {}, "prob", ["y_prob"], (0, 1)),
        ("01", ["y_pred", "proba_1"], {}, "prob", ["proba_1"], (0, 1)),
        ("01", ["y_pred_1", "y_pred_0"], {}, "prob", ["y_pred_0", "y_pred_1"], (0, 1)),
        ("01", ["probability_1", "probability_mean"], {}, "prob", ["probability_1"], (0, 1)),
        ("01", ["probability_1", "probability_0"], {}, "prob", ["probability_0", "probability_1"], (0, 1)),
        ("13", ["prob_3"], {}, "prob", ["prob_3"], (1, 3)),
        ("YN", ["prob_Y"], {}, "prob", ["prob_Y"], ("N", "Y")),
        ("YN", ["prob_N"], {"positive": "N"}, "prob", ["prob_N"], ("N", "Y")),
        *(("ab", ["prob"], {"positive": name}, "prob", ["prob"], ("a", "b")) for name in "ab"),
        ("012", ["y_prob_0", "y_prob_1", "y_prob_2"], {}, "prob", ["y_prob_0", "y_prob_1", "y_prob_2"], (0, 1, 2)),
        *(("01", [name, "x"], {}, "prob", [name], (0, 1)) for name in ("y_proba", "p1", "Predicted", "Prob", "p_hat")),
        ("01", ["Logit", "x"], {}, "logit", ["Logit"], (0, 1)),
        ("01", ["p1", "prob"], {}, "prob", ["prob"], (0, 1)),
        ("01", ["y_proba", "y_pred"], {}, "prob", ["y_pred"], (0, 1)),
        ("01", ["y_proba_1"], {}, "prob", ["y_proba_1"], (0, 1)),
        ("012", ["Proba_0", "Proba_1", "Proba_2"], {}, "prob", ["Proba_0", "Proba_1", "Proba_2"], (0, 1, 2)),
        ("01", ["prob_1", "prob_2"], {}, "prob", ["prob_1", "prob_2"], (0, 1)),
        ("01", ["prob", "prob_1", "prob_2"], {}, "prob", ["prob"], (0, 1)),
        ("012", ["p_3", "p_1", "p_2"], {}, "prob", ["p_1", "p_2", "p_3"], (0, 1, 2)),
        ("012", ["m_3", "m_1", "m_2"], {"logit": "m"}, "logit", ["m_1", "m_2", "m_3"], (0, 1, 2)),
    ],
)
def test_score_columns(
    label: str, names: list[str], flags: dict[str, Any], kind: str, found: list[str], classes: tuple[Label, ...]
) -> None:
    flags = {**flags, "classes": tuple(flags["classes"])} if "classes" in flags else flags
    binding = bound(label, names, Flags(**flags))
    assert binding.label == "label"
    assert binding.score == Score(kind, tuple(found))  # type: ignore[arg-type]
    assert binding.classes == classes
    assert binding.positive == (flags.get("positive", classes[1]) if len(classes) == 2 else None)


@pytest.mark.parametrize(
    ("label", "names", "flags", "message", "code"),
    [
        ("01", ["probs"], {}, r"no score column; available: label, probs; did you mean 'probs'\? use --prob probs", 3),
        ("01", ["x"], {}, r"no score column; available: label, x; name it with --logit COL or --prob COL", 3),
        ("01", ["prob", "y_prob"], {}, r"2 scores are possible: prob; y_prob", 3),
        ("01", ["y_pred", "prediction"], {}, r"2 scores are possible: y_pred; prediction", 3),
        ("01", ["proba_0"], {}, r"no score column", 3),
        ("01", ["p_1"], {}, r"no score column", 3),
        ("13", ["prob_1"], {}, r"no score column", 3),
        ("YN", ["prob_N"], {}, r"no score column", 3),
        ("YN", ["prob_1"], {}, r"no score column", 3),
        ("012", ["prob_1"], {}, r"no score column", 3),
        ("012", ["prob_1", "prob_2"], {}, r"no score column; available: label, prob_1, prob_2; name it with", 3),
        ("012", ["p_1", "p_2", "p_3", "p_4"], {}, r"no score column", 3),
        ("13", ["p_2", "p_3"], {}, r"no score column", 3),
        ("abc", ["p_1", "p_2", "p_3"], {}, r"no score column", 3),
        ("01", ["prob", "proba"], {}, r"2 scores are possible: prob; proba; choose one, for example --prob prob", 3),
        ("01", ["prob", "prob_0", "prob_1"], {}, r"2 scores are possible", 3),
        ("01", ["prob", "p"], {"prob": "q"}, r"--prob: no columns q_<class>, and no column 'q'", 3),
        ("01", ["prob"], {"prob": "prov"}, r"did you mean 'prob'", 3),
        ("01", ["prob", "logit"], {"prob": "prob", "logit": "logit"}, r"both given", 2),
        ("012", ["prob"], {}, r"'prob' is one column, but there are 3 classes; .* prob_0, prob_1, prob_2", 3),
        ("012", ["prob"], {"prob": "prob"}, r"--prob prob is one column, but there are 3 classes", 3),
        ("012", ["prob_0", "prob_1"], {}, r"no score column", 3),
        ("13", ["p_0", "p_1", "p_2"], {}, r"no score column", 3),
        ("abc", ["p_0", "p_1", "p_2"], {}, r"p_0 … p_2 do not say which class is which.*--classes", 3),
        ("ones", ["prob"], {}, r"has one class only: 1; if there is another one, name both: --classes", 3),
        ("01", ["prob"], {"classes": ("0", "2")}, r"the label 1 is not a class of", 3),
        ("01", ["prob"], {"classes": ("0", "x")}, r"--classes names 'x'", 3),
        ("01", ["prob"], {"classes": ("0",)}, r"two or more different classes", 2),
        ("01", ["prob"], {"classes": ("0", "0")}, r"two or more different classes", 2),
        ("01", ["prob"], {"label": "lable"}, r"--label: no column 'lable'.*did you mean 'label'", 3),
        ("01", ["prob"], {"weight": "w"}, r"--weight: no column 'w'", 3),
        ("01", ["prob"], {"ignore": ("x",)}, r"--ignore: no column 'x'", 3),
        ("01", ["prob"], {"weight": "label"}, r"'label' is the label and the weight", 2),
        ("01", ["prob"], {"prob": "label"}, r"'label' is the label and the score", 2),
        ("01", ["prob"], {"positive": "2"}, r"--positive: no class '2'; available: 0, 1", 3),
        ("012", ["p_0", "p_1", "p_2"], {"positive": "1"}, r"there are 3 classes, and it is for two", 2),
    ],
)
def test_refusals(label: str, names: list[str], flags: dict[str, Any], message: str, code: int) -> None:
    with pytest.raises(CalcliError, match=message) as caught:
        bound(label, names, Flags(**flags))
    assert caught.value.exit_code == code


def test_the_division_by_sums_is_for_the_columns_of_classes_and_stays_in_the_artifact() -> None:
    data = columns("012", ["p_0", "p_1", "p_2"])
    known = bind(table(data), Flags(normalise=True))
    assert known.normalise
    assert Binding.from_json(json.loads(json.dumps(known.to_json()))) == known
    assert bind(table(data), known=known).normalise
    assert not bind(table(data)).normalise
    for names in (["prob"], ["logit_0", "logit_1"]):
        with pytest.raises(UsageError, match="--normalise divides the probabilities of the classes by their sum"):
            bound("01", names, Flags(normalise=True))


@pytest.mark.parametrize("name", ["y_pred", "prediction"])
def test_predicted_classes_are_no_scores_unless_they_are_named(tmp_path: Path, name: str) -> None:
    data = {"y_true": [0, 1, 1, 0], name: [0, 1, 0, None], "x": [1.5, 2.5, 1.5, 2.5]}
    path = put(tmp_path / "a.csv", pl.DataFrame(data))
    for source in (table(data), open_source(path)):
        with pytest.raises(
            DataError, match=f"{name} holds 0 and 1 only: predicted classes.*--prob COL; .*--prob {name}"
        ):
            bind(source)
        assert bind(source, Flags(prob=name)).score == Score("prob", (name,))
    beside = bind(table({**data, "y_prob": [0.5] * 4}))
    assert beside.score == Score("prob", ("y_prob",))
    assert [feature.name for feature in beside.features] == ["x"]


DECIDED = [0, 1, 1, 0, 1] * 8
PROBABLE = [0.2, 0.9, 0.5, 0.1, 0.6] * 8
GRADE = [20.0, 90.0, 50.0, 10.0, 60.0] * 8


@pytest.mark.parametrize(
    ("data", "label", "score"),
    [
        ({"y_test": DECIDED, "y_proba": PROBABLE}, "y_test", "y_proba"),
        ({"Actual": DECIDED, "Predicted": PROBABLE}, "Actual", "Predicted"),
        ({"Actual": DECIDED, "Predicted": DECIDED, "Probability": PROBABLE}, "Actual", "Probability"),
        ({"y_true": DECIDED, "y_pred": DECIDED, "p1": PROBABLE}, "y_true", "p1"),
        ({"y_true": DECIDED, "prediction": DECIDED, "y_pred": PROBABLE}, "y_true", "y_pred"),
        ({"y_true": DECIDED, "score": DECIDED, "prob": PROBABLE}, "y_true", "prob"),
        ({"y_true": DECIDED, "score": GRADE, "y_proba": PROBABLE}, "y_true", "y_proba"),
        ({"outcome": DECIDED, "proba": PROBABLE, "p1": GRADE}, "outcome", "proba"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_probabilities_beside_decisions_and_grades_are_the_score(
    tmp_path: Path, data: dict[str, Any], label: str, score: str, suffix: str
) -> None:
    with open_source(put(tmp_path / f"a.{suffix}", pl.DataFrame(data))) as source:
        binding = bind(source, features=False)
    assert (binding.label, binding.score) == (label, Score("prob", (score,)))
    passed_over = [f"{score} is the score, because 'score' holds no probabilities"] if "score" in data else []
    assert list(binding.notes) == passed_over


def test_one_column_of_the_positive_class_is_not_asked_whether_it_holds_decisions() -> None:
    assert bind(table({"label": DECIDED, "proba_1": DECIDED}), features=False).score.columns == ("proba_1",)


def test_classes_that_columns_count_from_1_are_said() -> None:
    label = [0, 1, 2, 3, 4]
    binding = bind(table({"label": label, **{f"prob_{at}": [0.2] * 5 for at in range(1, 6)}}), features=False)
    assert binding.classes == (0, 1, 2, 3, 4)
    assert binding.notes == ("prob_1 … prob_5 are taken in order for the classes 0 … 4, which count from 0",)


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"label": DECIDED, "probs": GRADE}, "name it with --logit COL or --prob COL"),
        ({"label": DECIDED, "probs": DECIDED}, "name it with --logit COL or --prob COL"),
        ({"label": DECIDED, "probs": PROBABLE}, "did you mean 'probs'? use --prob probs"),
        ({"label": DECIDED, "logits": PROBABLE}, "name it with --logit COL or --prob COL"),
        ({"label": DECIDED, "logits": GRADE}, "did you mean 'logits'? use --logit logits"),
        ({"prob": PROBABLE, "lable": [at + 0.5 for at in range(40)]}, "name it with --label COL"),
        ({"prob": PROBABLE, "lable": [*range(20), *range(20)]}, "name it with --label COL"),
        ({"prob": PROBABLE, "lable": DECIDED}, "did you mean 'lable'? use --label lable"),
    ],
)
def test_only_what_would_work_is_suggested(data: dict[str, Any], hint: str) -> None:
    with pytest.raises(DataError) as caught:
        bind(table(data), features=False)
    assert caught.value.hint == hint


@pytest.mark.parametrize("name", ["y_test", "Label", "Y", "Target", "CLASS", "Actual", "Outcome", "ground_truth"])
def test_label_names_that_count_last(name: str) -> None:
    assert bind(table({name: [0, 1], "prob": [0.1, 0.9]}), features=False).label == name
    assert bind(table({name: [0, 1], "labels": [1, 0], "prob": [0.1, 0.9]}), features=False).label == "labels"


@pytest.mark.parametrize("name", ["label", "y", "target", "class", "y_true", "actual", "labels"])
def test_label_names(name: str) -> None:
    assert bind(table({name: [0, 1], "prob": [0.1, 0.9], "Label": [5, 6]}), features=False).label == name


def test_the_label_that_is_not_found_or_not_clear() -> None:
    with pytest.raises(
        DataError, match=r"no label column; available: lable, prob; did you mean 'lable'\? use --label lable"
    ):
        bind(table({"lable": [0, 1], "prob": [0.1, 0.9]}))
    both = {"y": [0, 1], "target": [0, 1], "prob": [0.1, 0.9]}
    with pytest.raises(DataError, match="the label could be 'y' or 'target'; choose with --label y"):
        bind(table(both))
    assert bind(table(both), Flags(ignore=("y",))).label == "target"
    assert bind(table(both), need_label=False).label is None


@pytest.mark.parametrize(
    ("values", "kind", "classes", "positive"),
    [
        ([0, 1], "int", (0, 1), 1),
        ([1, 2, 10], "int", (1, 2, 10), None),
        ([-1, 1], "int", (-1, 1), 1),
        ([True, False], "bool", (False, True), True),
        ([1.0, 0.0, None, float("nan")], "float", (0, 1), 1),
        (["yes", "no"], "string", ("no", "yes"), "yes"),
        (["True", "FALSE"], "string", ("FALSE", "True"), "True"),
        (["pos", "neg", None], "string", ("neg", "pos"), "pos"),
        (["1", "0"], "string", ("0", "1"), "1"),
        (["Y", "N"], "string", ("N", "Y"), "Y"),
        (["t", "f"], "string", ("f", "t"), "t"),
        (["Positive", "Negative"], "string", ("Negative", "Positive"), "Positive"),
        (["c", "b", "a", "b"], "string", ("a", "b", "c"), None),
        (pl.Series(["yes", "no", None], dtype=pl.Categorical), "string", ("no", "yes"), "yes"),
        (pl.Series([0, 1]).cast(pl.Decimal(5, 2)), "float", (0, 1), 1),
        ([np.uint64(2**63 + 1), np.uint64(1)], "int", (1, 2**63 + 1), 2**63 + 1),
    ],
)
def test_classes(values: Any, kind: str, classes: tuple[Label, ...], positive: Label | None) -> None:
    dtype = pl.UInt64 if isinstance(values[0], np.uint64) else None
    label = values if isinstance(values, pl.Series) else pl.Series(values, dtype=dtype)
    names = [f"p_{value}" for value in classes] if len(classes) > 2 else ["p"]
    many = {name: [1 / len(classes)] * len(values) for name in names}
    binding = bind(table({"label": label, **many}), features=False)
    assert (binding.label_type, binding.classes, binding.positive) == (kind, classes, positive)
    assert [type(value) for value in binding.classes] == [type(value) for value in classes]


@pytest.mark.parametrize(
    ("texts", "kind", "classes"),
    [
        (["0", "1", "NA", ""], "int", (0, 1)),
        (["10", "9", "1"], "int", (1, 9, 10)),
        (["0.0", "1.0", "nan"], "float", (0, 1)),
        (["true", "False"], "bool", (False, True)),
        (["no", "yes"], "string", ("no", "yes")),
        (["a", "NA", "b"], "string", ("NA", "a", "b")),
        (["01", "02", "10"], "string", ("01", "02", "10")),
        (["1_0", "2", "3"], "string", ("1_0", "2", "3")),
        (["9223372036854775813", "7"], "int", (7, 2**63 + 5)),
    ],
)
def test_classes_of_a_text_file(tmp_path: Path, texts: list[str], kind: str, classes: tuple[Label, ...]) -> None:
    scores = [f"p_{value}" for value in classes] if len(classes) > 2 else ["p"]
    lines = [",".join(["label", *scores]), *[",".join([value, *["0.5"] * len(scores)]) for value in texts]]
    with open_source(put_text(tmp_path / "a.csv", "\n".join(lines))) as source:
        binding = bind(source, features=False)
    assert (binding.label_type, binding.classes) == (kind, classes)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, 2.0], "holds 2.0: it looks like a regression target"),
        ([1.0, float("inf")], "looks like a regression target"),
        ([None, None], "has no value in any row"),
        (["a", "b"], "which of the classes 'a' and 'b' is the positive one.*--positive a or --positive b"),
        (["", "a b"], "use --positive '' or --positive 'a b'"),  # as they are typed
        ([[1], [2]], r"is List\(Int64\)"),
        (pl.Series(["2024-01-01", "2024-01-02"]).str.to_date(), "is Date"),
        (list(range(10_001)), "more than 10,000 distinct"),
        ([row / 7 for row in range(10_001)], "looks like a regression target"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_labels_that_are_no_classes(values: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        bind(table({"label": values, "prob": [0.5] * len(values)}))


def two_scores(noise: float = 0.0) -> dict[str, Any]:
    z = np.random.default_rng(0).normal(scale=5, size=3000)
    z[:3] = [40.0, -40.0, 0.0]  # beyond the clip both say 1e-12
    p = sigmoid(z)
    p[2500] += noise
    return {"label": [0, 1] * 1500, "logit": z, "prob": p}


def test_logit_and_prob_that_agree() -> None:
    binding = bind(table(two_scores()), features=False)
    assert binding.score == Score("logit", ("logit",))
    assert binding.notes == ("logit and prob agree: using logit",)
    assert bind(table(two_scores(9e-7)), features=False).score.kind == "logit"


def test_logit_and_prob_that_disagree() -> None:
    message = "'logit' and 'prob' disagree in row 2501; choose with --logit logit or --prob prob"
    parts = pl.DataFrame(two_scores(2e-6))
    chunks = pl.concat([parts.slice(start, 100).lazy() for start in range(0, 3000, 100)])
    for data in (parts, chunks):
        with pytest.raises(DataError, match=message) as caught:
            bind(open_source(data))
        assert caught.value.exit_code == 3
    assert bind(open_source(parts), Flags(prob="prob"), features=False).score.kind == "prob"


def test_a_score_that_is_no_probability_does_not_agree() -> None:
    data = {"label": [0, 1], "logit": [1.0, -1.0], "score": [650.0, 420.0]}
    with pytest.raises(DataError, match="'logit' and 'score' disagree in row 1; choose with --logit logit"):
        bind(table(data))
    binding = bind(table(data), Flags(logit="logit"))
    assert [(gone.column, gone.reason) for gone in binding.dropped] == [("score", "named like a score")]


def test_logits_and_probabilities_of_many_classes() -> None:
    v = np.random.default_rng(0).normal(size=(50, 3))
    p = np.exp(v) / np.exp(v).sum(axis=1, keepdims=True)
    data = {
        "label": [0, 1] * 25,
        **{f"logit_{k}": v[:, k] for k in range(3)},
        **{f"prob_{k}": p[:, k] for k in range(3)},
    }
    binding = bind(table(data), features=False)
    assert binding.score == Score("logit", ("logit_0", "logit_1", "logit_2"))
    data |= {"prob_1": p[:, 2], "prob_2": p[:, 1]}
    with pytest.raises(DataError, match="disagree in row 1"):
        bind(table(data), features=False)


def test_scores_and_weights_are_numbers() -> None:
    with pytest.raises(DataError, match="the score 'prob' is String, not a number"):
        bind(table({"label": [0, 1], "prob": ["0.5", "0.5"]}))
    with pytest.raises(DataError, match="the weight 'w' is Boolean, not a number"):
        bind(table({"label": [0, 1], "prob": [0.5, 0.5], "w": [True, False]}), Flags(weight="w"))


# ------------------------------------------------------------------------------------------------ with an artifact


def artifact(**changes: Any) -> Binding:
    binding = bind(open_source(ordinary()))
    return replace(binding, **changes)


def test_the_artifact_comes_before_names() -> None:
    known = artifact(score=Score("prob", ("mine",)), label="outcome")
    data = {"mine": [0.2, 0.8], "logit": [1.0, 2.0], "label": [5, 6], "outcome": [0, 1]}
    binding = bind(table(data), known=known, features=False)
    assert binding.score == Score("prob", ("mine",))
    assert binding.label == "outcome"
    flagged = bind(table({**data, "label": [0, 1]}), Flags(logit="logit", label="label"), known=known, features=False)
    assert flagged.score == Score("logit", ("logit",))
    assert flagged.label == "label"


OTHER_TABLES = [
    (["prob"], "no column 'mine', the score .*; available: outcome, prob; .* name it: --prob prob"),
    (["logit", "score"], "no column 'mine', .* name it: --logit logit"),
    (["p_0", "p_1"], "no column 'mine', .* name it: --prob p"),
    (["other"], "no column 'mine', .* name it: --prob COL"),
]


@pytest.mark.parametrize(("names", "said"), OTHER_TABLES)
def test_no_column_stands_in_for_the_score_of_an_artifact(names: list[str], said: str) -> None:
    known = artifact(score=Score("prob", ("mine",)), label="outcome")
    source = table({"outcome": [0, 1], **{name: [0.4, 0.6] for name in names}})
    for need_label in (True, False):
        with pytest.raises(DataError, match=said):
            bind(source, known=known, need_label=need_label, features=False)


@pytest.mark.parametrize("text", [True, False])
def test_only_a_column_of_numbers_is_suggested_as_a_score(tmp_path: Path, text: bool) -> None:
    """Both names are near `logit`, and the nearer one is that of a column of text."""
    frame = pl.DataFrame({"label": [0, 1], "logi": ["feed", "banner"], "logitz_": [0.4, 0.6]})
    source = open_source(put(tmp_path / "a.csv", frame)) if text else open_source(frame)
    with pytest.raises(DataError, match=r"name it: --logit logitz_$"):
        bind(source, known=artifact(), features=False)
    with pytest.raises(DataError, match=r"use --logit logitz_$"):
        bind(source, features=False)
    without = open_source(frame.drop("logitz_"))
    with pytest.raises(DataError, match=r"name it: --logit COL$"):
        bind(without, known=artifact(), features=False)


def test_one_column_of_many_does_not_stand_for_the_score_of_an_artifact() -> None:
    known = artifact(score=Score("prob", ("p_0", "p_1")))
    with pytest.raises(DataError, match=r"no column 'p_0', the score .* name it: --prob p"):
        bind(table({"label": [0, 1], "p_1": [0.4, 0.6], "p": [0.4, 0.6]}), known=known, features=False)


def test_no_column_stands_in_for_the_label_of_an_artifact_which_is_not_needed_to_apply() -> None:
    known = artifact(label="outcome")
    source = table({"logit": [1.0, 2.0], "y": [0, 1]})
    said = r"no column 'outcome', the label that the artifact was fitted with; available: logit, y; .* use --label y"
    with pytest.raises(DataError, match=said):
        bind(source, known=known, features=False)
    assert bind(source, Flags(label="y"), known=known, features=False).label == "y"
    assert bind(source, known=known, need_label=False, features=False).label is None


def test_flags_do_not_replace_the_features_of_an_artifact() -> None:
    known = artifact()
    source = open_source(ordinary(seed=1))
    named = tuple(feature.name for feature in known.features)
    assert bind(source, Flags(features=(*reversed(named), "day")), known=known).features == known.features
    with pytest.raises(UsageError, match="--features leaves out 'site', a feature that the artifact was fitted with"):
        bind(source, Flags(features=("age", "member")), known=known)


@pytest.mark.parametrize("values", [[0, 1], [True, False], [0.0, 1.0], ["0", "1"], ["1", "1"]])
def test_labels_of_another_type_but_the_same_values(values: list[Any]) -> None:
    assert bind(table({"label": values, "logit": [1.0, 2.0]}), known=artifact(), features=False).classes == (0, 1)


@pytest.mark.parametrize(("values", "said"), [([0, 2], "2"), (["0", "yes"], "'yes'"), ([0, 1, -1], "-1")])
def test_an_unseen_label(values: list[Any], said: str) -> None:
    data, known = table({"label": values, "logit": [1.0] * len(values)}), artifact()
    for one in (known, replace(known, label_type="bool", classes=(False, True), positive=True)):
        with pytest.raises(DataError, match=f"the label {said} is not a class of"):
            bind(data, known=one, features=False)
    assert bind(data, known=known, need_label=False, features=False).label == "label"


def test_what_an_artifact_froze_stays() -> None:
    source = table({"label": [0, 1], "logit": [1.0, 2.0]})
    with pytest.raises(UsageError, match="--classes: the artifact's classes are 0, 1"):
        bind(source, Flags(classes=("1", "0")), known=artifact(), features=False)
    with pytest.raises(UsageError, match="--positive: the artifact's positive class is 1"):
        bind(source, Flags(positive="0"), known=artifact(), features=False)
    same = bind(source, Flags(classes=("0", "1"), positive="1"), known=artifact(), features=False)
    assert same.positive == 1
    words = artifact(label_type="string", classes=("0", "1"), positive="0")
    assert bind(source, Flags(classes=("0", "1"), positive="0"), known=words, features=False).positive == "0"


def test_the_weight_of_an_artifact() -> None:
    known = artifact(weight="w")
    data = {"label": [0, 1], "logit": [1.0, 2.0]}
    assert bind(table({**data, "w": [1, 2]}), known=known, features=False).weight == "w"
    without = bind(table(data), known=known, features=False)
    assert without.weight is None
    assert "all rows count the same" in without.notes[0]
    assert bind(table({**data, "w": [1, 2]}), known=known, need_label=False, features=False).weight is None


def test_features_of_an_artifact() -> None:
    known = artifact()
    frame = ordinary(seed=1)
    assert bind(open_source(frame.select(reversed(frame.columns))), known=known).features == known.features
    with pytest.raises(DataError, match=r"no column 'site', a feature .* did you mean 'sites'"):
        bind(open_source(frame.rename({"site": "sites"})), known=known)
    assert bind(open_source(frame.drop("site")), known=known, features=False).features == ()


@pytest.mark.parametrize(
    ("column", "dtype", "fine"),
    [
        ("age", pl.Int32, True),
        ("age", pl.Float32, True),
        ("age", pl.Decimal(10, 2), True),
        ("age", pl.Null, True),
        ("age", pl.String, False),
        ("site", pl.Categorical, True),
        ("site", pl.Enum(["north", "south", "east, west", 'q"uote']), True),
        ("site", pl.Null, True),
        ("member", pl.Int8, True),
        ("member", pl.Float64, False),
        ("member", pl.String, False),
    ],
)
def test_casts_of_features(column: str, dtype: Any, fine: bool) -> None:
    frame = ordinary()
    column_values = pl.lit(None) if dtype == pl.Null else pl.col(column).cast(dtype)
    source = open_source(frame.with_columns(column_values.alias(column)))
    if fine:
        assert bind(source, known=artifact()).features == artifact().features
    else:
        with pytest.raises(DataError, match=f"the feature '{column}' is"):
            bind(source, known=artifact())


def test_text_files_need_no_pass_for_the_features_of_an_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "a.csv", ordinary())
    monkeypatch.setattr("calcli.tables.source.infer_schema", lambda _: pytest.fail("a pass over all rows"))
    with open_source(path) as source:
        assert bind(source, known=artifact()).features == artifact().features
        bind(source, features=False)


# ------------------------------------------------------------------------------------------------------------ JSON


def test_json_round_trip() -> None:
    source = open_source(ordinary().with_columns(w=pl.lit(2.0)))
    for flags in (Flags(), Flags(weight="w", features=("site", "id"))):
        binding = bind(source, flags)
        said = binding.to_json()
        assert Binding.from_json(json.loads(json.dumps(said))) == binding
        contract = {"label", "positive", "classes", "score", "weight", "features", "dropped"}
        assert contract <= said.keys()
        assert said["features"] == [feature.name for feature in binding.features]
    boolean = Binding(
        "y", "bool", (False, True), True, Score("prob", ("p",)), features=(Feature("a", "number", "Int64"),)
    )
    assert Binding.from_json(json.loads(json.dumps(boolean.to_json()))) == boolean
    assert Binding.from_json({**boolean.to_json(), "from the future": 1}) == boolean


def test_ids_of_groups_are_features_only_when_they_are_named() -> None:
    frame = pl.DataFrame(
        {"label": [0, 1, 0, 1], "logit": [0.1, 0.2, 0.3, 0.4], "user_id": [1, 1, 2, 2], "x": [1.0] * 4}
    )
    with open_source(frame) as source:
        unasked, asked = bind(source), bind(source, Flags(features=("user_id", "x")))
    assert [one.name for one in unasked.features] == ["x"]
    assert unasked.notes == (
        "'user_id' looks like a group id and is not used as a feature; name it in --features to use it",
    )
    assert [one.name for one in asked.features] == ["user_id", "x"]
    assert not asked.notes
