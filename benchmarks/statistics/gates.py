"""How often gates fail scores that are right, and how often they pass scores that are wrong: simulated tables.

python benchmarks/statistics/gates.py [--quick]
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl

import calcli
from calcli.numeric.links import sigmoid
from calcli.tables.binding_types import Flags

ROWS = (200, 1_000, 10_000)

GATES = (
    "score.ece > 0.02",
    "score.ece > 0.05",
    "score.ece.p < 0.05",
    "score.spiegelhalter_z.p < 0.05",
    "score.slope.hi < 1 or score.slope.lo > 1",
    "score.nll.diff > 0",
    "score.nll.diff.hi > 0",
    "score.nll.diff.lo > 0",
)

FLAGS = Flags(label="label", logit="logit")

KINDS = (
    ("right; raw over-confident", 1.0, 0.0, 1.2),
    ("over-confident by a tenth; raw right", 1.1, 0.0, 1.0),
    ("over-confident by a third; raw right", 1.3, 0.0, 1.0),
    ("0.3 too high; raw right", 1.0, 0.3, 1.0),
)
"""What is gated, by what its log-odds are multiplied, what is added, and by what those of the raw score are."""


def failed(seed: int, rows: int, slope: float, shift: float, raw: float) -> list[bool]:
    """Which gates fail on one table."""
    rng = np.random.default_rng((seed, rows))
    z = rng.normal(-1.0, 1.2, rows)
    label = (rng.random(rows) < sigmoid(z)).astype(np.int8)
    frame = pl.DataFrame({"label": label, "logit": raw * z, "score": sigmoid(slope * z + shift)})
    metrics = "nll,ece,spiegelhalter_z,slope"
    report = calcli.evaluate(frame, flags=FLAGS, metrics=metrics, scores=("score",), fail_if=GATES, bootstrap=60)
    return [not gate["passed"] for gate in report.gates]


def main() -> None:
    runs = 10 if "--quick" in sys.argv else 40
    print(f"The share of {runs} tables on which a gate fails, with 200, 1,000 and 10,000 rows; base rate 31 %.\n")
    names = " | ".join(f"`{gate}`".replace("score.", "") for gate in GATES)
    print(f"| the score is | {names} |")
    print("| --- |" + " --- |" * len(GATES))
    for name, slope, shift, raw in KINDS:
        shares = [np.mean([failed(seed, rows, slope, shift, raw) for seed in range(runs)], axis=0) for rows in ROWS]
        cells = [" ".join(f"{share:.2f}" for share in gate) for gate in np.transpose(shares)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
