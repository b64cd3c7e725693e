"""Read a table: the rows that pass every check, as a single batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calcli.batch import Batch, Column, IntArray
from calcli.tables.arrays import join_columns
from calcli.tables.binding_types import Binding
from calcli.tables.checks import Tally
from calcli.tables.passes import Reading, read_rows
from calcli.tables.scales import Scale
from calcli.tables.source import Source


@dataclass(frozen=True)
class Loaded:
    """All good rows of a table."""

    tally: Tally
    """The table, and which of its rows are good."""

    binding: Binding
    batch: Batch
    """The good rows, in order."""

    row_numbers: IntArray | None = None
    """The row numbers of the good rows in the table, from 0; None if all are good."""

    @property
    def source(self) -> Source:
        return self.tally.source

    @property
    def halved(self) -> bool:
        """Whether each good row of the table is two, one after the other, as with soft labels."""
        return self.tally.halved


def load(
    source: Source,
    binding: Binding,
    *,
    features: bool,
    bad_rows: Literal["fail", "null"] = "fail",
    label: bool = True,
    check_scale: bool = True,
) -> Loaded:
    """All good rows as one batch, read in chunks; only the bound columns are held.

    Labels and weights are read with `label` only; without `features` a row of two classes costs 24 bytes. With the
    `bad_rows` ``fail`` a table with bad rows is refused, with ``null`` they are dropped and counted. `check_scale`
    refuses logits that look like probabilities, and the reverse.
    """
    tally = Tally(source, keep_going=bad_rows == "null")
    scale = Scale(binding.score) if check_scale and binding.score.columns else None
    wanted = Reading([binding], [scale], features=features, label=label)
    batch = join_batches([batch for (batch,), _ in read_rows(tally, wanted)])
    return Loaded(tally, binding, batch, tally.row_numbers)


def join_batches(batches: list[Batch]) -> Batch:
    """Chunks as one batch; empties the list, so that the memory of each chunk is freed as soon as it is joined."""
    parts: dict[str, list[Any]] = {
        name: [part for batch in batches if (part := getattr(batch, name)) is not None]
        for name in ("score", "label", "weight", "target", "prob", "node")
    }
    features = {name: [batch.features[name] for batch in batches] for name in batches[0].features}
    ranks = batches[0].ranks
    batches.clear()
    joined = {name: _joined(parts.pop(name)) for name in list(parts)}
    return Batch(**joined, features={name: join_columns(features.pop(name)) for name in list(features)}, ranks=ranks)


def _joined(parts: list[Any]) -> Any:
    """Arrays or columns as one; None if there are none."""
    if not parts:
        return None
    if isinstance(parts[0], Column):
        return join_columns(parts)
    return np.concatenate(parts) if len(parts) > 1 else parts[0]
