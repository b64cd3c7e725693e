"""Whether rows belong to units that nobody has named: a column of ids whose rows are alike beyond their scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.methods import calibrator, catalog
from calcli.numeric.seeded import stream
from calcli.numeric.sums import totals
from calcli.reports.groups import codes
from calcli.reports.schema import ReportWarning
from calcli.tables.features import named_like_units
from calcli.tables.load import Loaded
from calcli.tables.text import TEXT_TYPES

LEVEL = 0.01

DRAWS = 499

MOST_ROWS = 20_000
"""Of more rows those of some units are looked at."""


def unit_warnings(loaded: Loaded) -> Iterator[ReportWarning]:
    """The columns of ids by which rows should be held out, where no column says how."""
    binding, schema = loaded.binding, loaded.source.raw.collect_schema()
    taken = {binding.label, binding.weight, binding.node_id, *binding.score.columns}
    ids = (name for name, dtype in schema.items() if dtype.is_integer() or dtype in TEXT_TYPES)
    names = [name for name in ids if named_like_units(name) and name not in taken]
    if loaded.batch.units is not None or not names:
        return
    residual = _residuals(loaded.batch)
    for name in names:
        unit = codes(loaded, name)
        count = int(unit.max(initial=-1)) + 1
        if 2 <= count <= len(unit) / 2 and alike(residual, unit) <= LEVEL:
            each = len(unit) / count
            yield ReportWarning(
                "units",
                f"rows with the same {name!r} ({each:.3g} on average) have correlated residuals: held-out "
                f"results are too optimistic and intervals too narrow; --resample-by {name} keeps them together",
            )


def alike(residual: FloatArray, unit: IntArray) -> float:
    """The p-value of the sum of the products of residuals over all pairs of rows of a unit.

    If rows are independent, and right on average, each residual is about as likely with the other sign: signs are drawn
    by row. `residual` has a column for each class.
    """
    if len(unit) > MOST_ROWS:
        drawn = stream(0, "units looked at").permutation(int(unit.max()) + 1)[unit]
        some = drawn < np.sort(drawn)[MOST_ROWS]
        residual, unit = residual[some], unit[some]
    count, rng = int(unit.max()) + 1, stream(0, "alike")

    def squares(sign: IntArray) -> float:
        return float(sum(np.square(totals(unit, sign * column, count)).sum() for column in residual.T))

    found = squares(np.ones(len(unit), dtype=np.int64))
    above = sum(squares(2 * rng.integers(0, 2, len(unit)) - 1) >= found for _ in range(DRAWS))
    return (1.0 + above) / (1.0 + DRAWS)


def _residuals(batch: Batch) -> FloatArray:
    """Labels less their probabilities once the scores are right on average, a column for each class (of two one)."""
    spec = catalog.find("platt" if batch.classes == 2 else "temperature")
    prob = calibrator.fit(spec, batch.bare, spec.resolve()).predict(Batch(batch.score))
    if batch.classes == 2:
        return (batch.labels - prob)[:, None]
    return np.eye(batch.classes)[batch.labels] - prob
