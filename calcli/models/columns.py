"""The columns that a calibrator adds to a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray
from calcli.errors import UsageError
from calcli.methods.calibrator import FittedMethod, formula_of
from calcli.models.base import Scale
from calcli.models.stream import Computed, ModelColumns
from calcli.numeric.links import logits
from calcli.tables.arrays import Levels
from calcli.tables.binding_types import Binding
from calcli.tables.checks import bound_columns, doubt_of_scale, encode
from calcli.tables.labels import class_text
from calcli.tables.source import Source

if TYPE_CHECKING:  # only exports need formulas
    from calcli.expressions import Term, Terms


def link_remarks(calibrator: FittedMethod, binding: Binding, source: Source) -> tuple[str, ...]:
    """How an edge list links the rows of a table, and how many it does not link."""
    if binding.node_id is None:
        return ()
    from calcli.tables.side_tables import load_nodes

    return calibrator.remarks(load_nodes(source, binding.node_id))


@dataclass(frozen=True, slots=True)
class CalibratedColumns(ModelColumns):
    """The columns that a calibrator adds."""

    stem: str
    """Their name; with more than two classes the name of the class follows."""

    calibrator: FittedMethod
    scale: Scale = "prob"
    """Whether they hold probabilities, or what `logits` makes of them."""

    extra: bool = False
    """Whether to add the logits, and the interval and the extras of the method where it has them."""

    features: bool = False
    """Whether the method reads them."""

    task = "calibrating"
    rename = "try: --column NAME"

    @property
    def whole_table(self) -> bool:
        return self.calibrator.whole_table

    @property
    def reads(self) -> list[str]:
        return bound_columns(self.binding, label=False, features=self.features)

    @property
    def names(self) -> tuple[str, ...]:
        stems = [self.stem]
        if self.extra:
            stems.append(f"{self.stem}__logit")
            if self.calibrator.spec.interval:
                stems += [f"{self.stem}__lo", f"{self.stem}__hi"]
        if len(self.binding.classes) > 2:
            stems = [f"{stem}_{class_text(label)}" for stem in stems for label in self.binding.classes]
        return (*stems, *(f"{self.stem}__{name}" for name in self._extras))

    @property
    def _extras(self) -> tuple[str, ...]:
        """Outputs of the method for a row as a whole, without a column for each class."""
        return self.calibrator.extra_names if self.extra else ()

    def formula(self) -> Terms:
        """The probabilities of rows that can be used, by the columns of the table."""
        from calcli.export.document import table_inputs

        table = table_inputs(self.binding)
        return formula_of(self.calibrator, table.score, table.features)

    def terms(self, prob: Terms) -> dict[str, Term]:
        """The columns without extras, of the probabilities of `formula`; null where `compute` finds a bad row."""
        from calcli import expressions
        from calcli.export.document import table_inputs

        valid = table_inputs(self.binding).valid
        values = prob if self.scale == "prob" else expressions.logits(prob)
        return {name: expressions.choose(valid, value, None) for name, value in zip(self.names, values, strict=True)}

    def formulas(self) -> dict[str, Term]:
        """The columns as terms of the columns of the table."""
        return self.terms(self.formula())

    def written_terms(self) -> dict[str, Term] | None:
        with suppress(UsageError):
            return None if self.extra else self.formulas()
        return None

    def doubt(self, source: Source) -> str | None:
        return doubt_of_scale(source, self.binding)

    def remarks(self, source: Source) -> Sequence[str]:
        """Notes on rows that an edge list links."""
        return link_remarks(self.calibrator, self.binding, source)

    def refuse_bad_rows(self, source: Source) -> None:
        from calcli.tables.load import load

        load(source, self.binding, features=self.features, label=False, check_scale=False)

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        encoded = encode(rows, self.binding, label=False, features=self.features, levels=levels)
        if encoded.bad is None or not self.calibrator.whole_table:
            return Computed(self._values(encoded.batch), encoded.bad)
        # Where rows depend on each other, the bad ones must not take part.
        good = ~encoded.bad
        values = []
        for of_good in self._values(encoded.batch.take(good)):
            values.append(np.zeros((len(good), *of_good.shape[1:])))
            values[-1][good] = of_good
        return Computed(values, encoded.bad)

    def _values(self, batch: Batch) -> list[FloatArray]:
        prob = self.calibrator.predict(batch)
        values = [prob if self.scale == "prob" else logits(prob)]
        if self.extra:
            values.append(logits(prob))
            if self.calibrator.spec.interval:
                values += self.calibrator.interval(batch)
        if self._extras:
            extras = self.calibrator.extras(batch)
            values += [extras[name] for name in self._extras]
        return values
