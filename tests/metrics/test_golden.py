"""Values that peers computed with their own code, each at the peer's name and version, in golden/values.json."""

import json
from pathlib import Path

import numpy as np
import pytest

from calcli.metrics.base import Options, Scored
from calcli.metrics.ece import ece

GOLDEN = Path(__file__).parent / "golden"
VALUES = json.loads((GOLDEN / "values.json").read_text())


def load(name: str, *, weighted: bool) -> Scored:
    table = np.loadtxt(GOLDEN / f"{name}.csv", delimiter=",", skiprows=1)
    if name == "multi":
        return Scored(table[:, 3].astype(np.int64), table[:, :3])
    return Scored(table[:, 1].astype(np.int64), table[:, 0], table[:, 2] if weighted else None)


@pytest.mark.parametrize("known", VALUES, ids=lambda known: f"{known['peer']} of {known['data']}, {known['bins']} bins")
def test_ece(known):
    name, _, how = known["data"].partition(" ")
    measured = ece(load(name, weighted=how == "weighted"), Options(bins=known["bins"], binning=known["binning"]))
    value = np.mean(measured.per_class) if how == "classwise" else measured.value
    assert value == pytest.approx(known["value"], rel=1e-9)
