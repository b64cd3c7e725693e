"""Batches for testing methods: ordinary ones, ones with a rare class (`RARE`), and degenerate ones (`HARD`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calcli.batch import Batch, Column
from calcli.methods import catalog
from calcli.numeric.links import logit


def every_method() -> list[Any]:
    """To parametrize a test with. Where a fit takes tenths of a second it is slow; the methods' own tests remain."""
    return [
        pytest.param(spec, marks=[pytest.mark.slow] * (spec.needs_features or spec.name == "pool"), id=spec.name)
        for spec in catalog.specs()
    ]


def ordinary(rows: int = 600, classes: int = 2, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Over-confident scores with informative labels, and features of each kind with missing values."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 4, rows).astype(float) if weighted else None
    if classes == 2:
        truth = rng.normal(-0.4, 1.2, rows)
        label = (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.int64)
        score = 2.2 * truth + 0.7
    else:
        truth = rng.normal(0, 1.2, (rows, classes))
        label = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).astype(np.int64)
        score = 2.2 * truth + np.linspace(-0.5, 0.5, classes)
    return Batch(score, label, weight, features(rows, rng))


def features(rows: int, rng: np.random.Generator) -> dict[str, Column]:
    number = rng.normal(size=rows)
    number[rng.random(rows) < 0.1] = np.nan
    return {
        "number": Column("number", number),
        "flag": Column("boolean", rng.integers(0, 2, rows).astype(float)),
        "place": Column("category", rng.integers(-1, 3, rows).astype(np.int32), ("a", "b", "c")),
    }


def of_no_use(rows: int) -> dict[str, Column]:
    """Features that say nothing, and that no split could use or many could.

    Their numbers come from a stream of their own: with the seed of the rows they would be the scores.
    """
    return {
        "constant": Column("number", np.full(rows, 2.5)),
        "nothing": Column("number", np.full(rows, np.nan)),
        "no category": Column("category", np.full(rows, -1, dtype=np.int32), ()),
        "one category": Column("category", np.zeros(rows, dtype=np.int32), ("a",)),
        "as many categories as rows": Column(
            "category", np.arange(rows, dtype=np.int32), tuple(f"v{place:06}" for place in range(rows))
        ),
        "as many numbers as rows": Column("number", np.random.default_rng([0, 1]).normal(size=rows)),
        "infinite": Column("number", np.where(np.arange(rows) % 2, np.inf, -np.inf)),
    }


def wrong_by_feature(rows: int, classes: int = 2, seed: int = 0) -> Batch:
    """Scores that are wrong by their features, so that there is something for trees to find."""
    rng = np.random.default_rng(seed)
    known = features(rows, rng)
    shift = 1.5 * (known["place"].values == 1) - 1.0 * (np.nan_to_num(known["number"].values) > 0.5)
    if classes == 2:
        score = rng.normal(-0.5, 1.5, rows)
        label = (rng.random(rows) < 1 / (1 + np.exp(-score - shift))).astype(np.int64)
    else:
        score = rng.normal(0, 1.5, (rows, classes))
        label = (score + np.outer(shift, np.arange(classes)) / 2 + rng.gumbel(size=score.shape)).argmax(axis=1)
    return Batch(1.5 * score, label, None, known)


def _with(batch: Batch, **changes: object) -> Batch:
    parts = {"score": batch.score, "label": batch.label, "weight": batch.weight, "features": batch.features}
    return Batch(**(parts | changes))  # type: ignore[arg-type]


def one_class_absent(classes: int) -> Batch:
    batch = ordinary(200, classes)
    return _with(batch, label=np.where(batch.labels == 1, 0, batch.labels))


def class_with_one_row(classes: int) -> Batch:
    """Class 1 has one row; of more than two classes the last has none."""
    batch = ordinary(120, classes)
    label = np.where((batch.labels == 1) | (batch.labels == max(classes - 1, 1)), 0, batch.labels)
    label[7] = 1
    return _with(batch, label=label)


def constant_score(classes: int) -> Batch:
    batch = ordinary(200, classes)
    return _with(batch, score=np.full_like(batch.score, 0.3))


def single_row(classes: int) -> Batch:
    return ordinary(1, classes)


def ends_of_probability(classes: int) -> Batch:
    """Probabilities of exactly 0 and 1, as they come out of the tables room: clipped before the logarithm."""
    rng = np.random.default_rng(1)
    label = rng.integers(0, classes, 200)
    label[:classes] = np.arange(classes)
    said = np.where(rng.random(200) < 0.8, label, rng.integers(0, classes, 200))
    if classes == 2:
        return Batch(logit(said.astype(float)), label, None, features(200, rng))
    return Batch(np.log(np.clip(np.eye(classes)[said], 1e-12, 1)), label, None, features(200, rng))


def huge_logits(classes: int) -> Batch:
    batch = ordinary(200, classes)
    return _with(batch, score=np.sign(batch.score) * 700.0)


def all_weight_on_one_row(classes: int) -> Batch:
    weight = np.zeros(200)
    weight[7] = 3.0
    return _with(ordinary(200, classes), weight=weight)


def weights_far_apart(classes: int) -> Batch:
    weight = np.full(200, 1e-31)
    weight[7] = 1.0
    return _with(ordinary(200, classes), weight=weight)


def twenty_rows(classes: int) -> Batch:
    return ordinary(20, classes)


def class_with_two_rows(classes: int) -> Batch:
    batch = ordinary(300, classes)
    label = np.where(batch.labels == 1, 0, batch.labels)
    label[[3, 150]] = 1
    return _with(batch, label=label)


def separable(classes: int) -> Batch:
    batch = ordinary(200, classes)
    if classes == 2:
        return _with(batch, label=(batch.score > 0).astype(np.int64))
    return _with(batch, label=batch.score.argmax(axis=1).astype(np.int64))


def upside_down(classes: int) -> Batch:
    batch = ordinary(400, classes)
    return _with(batch, score=-batch.score)


RARE: dict[str, Callable[[int], Batch]] = {
    case.__name__: case for case in (one_class_absent, class_with_one_row, class_with_two_rows)
}

HARD: dict[str, Callable[[int], Batch]] = {
    case.__name__: case
    for case in (
        constant_score,
        single_row,
        ends_of_probability,
        huge_logits,
        all_weight_on_one_row,
        weights_far_apart,
        twenty_rows,
        separable,
        upside_down,
    )
}
