"""Models that CatBoost wrote pass; numbers that lead out of a model do not."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calcli.learners import cbm
from calcli.learners.catboost import read

catboost = pytest.importorskip("catboost")

RNG = np.random.default_rng(0)
ROWS = 300
TABLE = pd.DataFrame(RNG.normal(size=(ROWS, 4)), columns=list("wxyz")).assign(
    place=RNG.choice(["a", "b", "c"], ROWS), town=RNG.integers(0, 60, ROWS).astype(str)
)
LABEL = (TABLE["w"] + (TABLE["place"] == "a") + RNG.normal(size=ROWS) > 0.5).astype(int)
KINDS: dict[str, dict[str, Any]] = {
    "binary": {},
    "multiclass": {"loss_function": "MultiClass"},
    "uncertain": {"loss_function": "RMSEWithUncertainty"},
    "posterior": {"posterior_sampling": True},
    "one-hot": {"one_hot_max_size": 10},
    "depthwise": {"grow_policy": "Depthwise"},
    "lossguide": {"grow_policy": "Lossguide"},
    "many borders": {"border_count": 600},
    "ignored": {"ignored_features": [0, 4]},
}


def trained(**more: Any) -> bytes:
    told = {"loss_function": "Logloss", "iterations": 12, "depth": 3, "verbose": 0, "allow_writing_files": False}
    label = RNG.integers(0, 3, ROWS) if more.get("loss_function") == "MultiClass" else LABEL
    model = catboost.CatBoost({**told, "thread_count": 1, **more})
    return bytes(model.fit(catboost.Pool(TABLE, label, cat_features=[4, 5]))._serialize_model())


@pytest.mark.parametrize("kind", KINDS)
def test_what_catboost_wrote_passes(kind: str) -> None:
    model = trained(**KINDS[kind])
    cbm.check(model)
    assert len(read(model).predict(TABLE)) == ROWS


FORGERIES = {
    "splits": (cbm._SPLITS, "<i4", 2**31 - 1, "splits that do not exist"),
    "splits below": (cbm._SPLITS, "<i4", -1, "splits that do not exist"),
    "bins": (cbm._BINS, "<u2", 2**16 - 1, "splits that do not exist"),
    "sizes": (cbm._SIZES, "<i4", 30, "laid out"),
    "starts": (cbm._STARTS, "<i4", 10**6, "laid out"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_numbers_that_lead_out_of_the_model_are_refused(name: str) -> None:
    field, dtype, value, message = FORGERIES[name]
    model = trained()
    size = struct.unpack_from("<I", model, 4)[0]
    core = bytearray(model[8 : 8 + size])
    trees = cbm._root(core).table(1)  # type: ignore[arg-type]
    assert trees is not None
    trees.array(field, dtype)[0] = value  # writes into core
    forged = model[:8] + bytes(core) + model[8 + size :]
    with pytest.raises(ValueError, match=message):
        read(forged)


def test_statistics_of_categories_that_are_not_there_are_refused() -> None:
    model = trained()
    rest = 8 + struct.unpack_from("<I", model, 4)[0]
    part = bytearray(model[rest + 8 :])
    buckets = cbm._root(part).array(1, "u1")  # type: ignore[arg-type]
    found = buckets[: len(buckets) // 12 * 12].view(cbm._BUCKET)
    found["place"] = 10**6
    with pytest.raises(ValueError, match="statistics that do not exist"):
        read(model[: rest + 8] + bytes(part))
    found["hash"], found["place"] = 1, 0
    with pytest.raises(ValueError, match="no room"):
        read(model[: rest + 8] + bytes(part))


@pytest.mark.parametrize("cut", [0, 3, 8, 100, -1])
def test_less_than_a_model_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match="CatBoost"):
        read(trained()[:cut])
