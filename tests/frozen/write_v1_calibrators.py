"""How ``v1-platt``, ``v1-isotonic-3-classes`` and ``v1-multi`` were written, each once: see `write_v1_minimal`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

import calcli


def main(folder: Path) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(-1, 2, 300).round(3)
    label = (rng.random(300) < 1 / (1 + np.exp(-z / 2))).astype(np.int8)
    calcli.fit(pl.DataFrame({"label": label, "logit": z}), method="platt", output=folder / "v1-platt")
    v = rng.normal(0, 2, (120, 3)).round(2)
    names = np.array(["a", "b", "c"])[(v / 2 + rng.gumbel(size=v.shape)).argmax(axis=1)]
    frame = pl.DataFrame({"label": names} | {f"logit_{name}": v[:, place] for place, name in enumerate("abc")})
    options = {"prior_shift": "a=0.5,b=0.3,c=0.2"}
    calcli.fit(frame, method="isotonic", output=folder / "v1-isotonic-3-classes", **options)


def several_labels(folder: Path) -> None:
    rng = np.random.default_rng(2)
    columns = {}
    for slope, name in enumerate(("spam", "threat"), 1):
        columns[f"score_{name}"] = z = rng.normal(-1, 2, 200).round(3)
        columns[f"label_{name}"] = (rng.random(200) < 1 / (1 + np.exp(-z / slope))).astype(np.int8)
    calcli.fit(pl.DataFrame(columns), method="platt", multi=("label_*", "score_*"), output=folder / "v1-multi")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    several_labels(Path(sys.argv[1]))
