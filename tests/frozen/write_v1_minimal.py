"""How ``v1-minimal`` was written, once: ``python tests/frozen/write_v1_minimal.py DIR``.

It is kept to say what is in the artifact, not to be run again. A frozen artifact that no longer loads shows that the
reader is broken; writing it anew would only hide that. `calcli.artifacts.manifest` has the law.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.state import State

EDGES = b"source,target\n0,1\n"

STATE = State(
    params={"slope": 1.25, "intercept": -0.0, "levels": ["a", "ü", None], "large": 2**60, "flags": {"odd": True}},
    arrays={
        "0/edges": np.array([[-np.inf, -0.0], [5e-324, np.nan]]),
        "0/counts": np.array([1, 2, 3], dtype="<i8"),
        "1/edges": np.asfortranarray(np.arange(6, dtype="<f4").reshape(2, 3)),
        "mask": np.array([True, False]),
        "small": np.array(-7, dtype="i1"),
        "none": np.zeros((0, 2), dtype=">f8"),
    },
    blobs={"0/model.bin": b"\x00\x01\x02"},
)


def manifest(seed: int) -> Manifest:
    return Manifest(
        calcli="0.1.0",
        created="2026-01-31T12:00:00+00:00",
        kind="calibrator",
        task="binary",
        method="platt",
        requested="auto",
        preset=None,
        params={"smooth": True},
        seed=seed,
        label={"type": "int", "classes": [0, 1], "positive": 1},
        binding={"label": "y", "score": {"kind": "logit", "columns": ["logit"]}, "weight": None, "features": ["größe"]},
        features=({"name": "größe", "role": "number", "dtype": "Float64", "cuts": [0.1, 2.5], "levels": None},),
        recipe={"method": "auto", "params": {}, "preset": None},
        fit={"rows": 1000, "label_rate": 0.1, "before": {"nll": 0.31}, "after": {"nll": None}, "difference": {}},
        definitions={"nll": {"direction": "lower"}},
        data={"files": []},
        sides=({"role": "edges", "name": "edges.csv", "sha256": hashlib.sha256(EDGES).hexdigest()},),
        contains_rows=False,
        requires=(),
        versions={"python": "3.11.7", "numpy": "2.4.0"},
    )


def write(directory: Path) -> None:
    """Two generations, so that there is a previous one."""
    store.write(directory, manifest(1), {"state": State({"slope": 1.0})})
    store.write(directory, manifest(2), {"state": STATE, "edges": State(blobs={"edges.csv": EDGES})})
    (directory / ".lock").unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
