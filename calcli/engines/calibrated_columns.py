"""The columns that `apply` adds to a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray
from calcli.engines.local import Computed
from calcli.export.inputs import table_inputs
from calcli.expressions import Term, Terms, choose
from calcli.methods.calibrator import FittedMethod
from calcli.methods.formula import formula_of
from calcli.numeric import link_terms
from calcli.numeric.links import logits
from calcli.tables.arrays import Levels
from calcli.tables.binding_types import Binding
from calcli.tables.checks import bound_columns, encode
from calcli.tables.labels import class_text

Scale: TypeAlias = Literal["prob", "logit"]


@dataclass(frozen=True, slots=True)
class CalibratedColumns:
    """The columns that a calibrator adds.

    Attributes
    ----------
    stem
        Their name; with more than two classes the name of the class follows.
    scale
        Whether they hold probabilities, or what `logits` makes of them.
    extra
        Whether to add the logits, and the interval and the extras of the method where it has them.
    features
        Whether the method reads them.
    """

    stem: str
    calibrator: FittedMethod
    binding: Binding
    scale: Scale = "prob"
    extra: bool = False
    features: bool = False

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
    def types(self) -> dict[str, pl.DataType]:
        return {}

    @property
    def _extras(self) -> tuple[str, ...]:
        """Outputs of the method for a row as a whole, without a column for each class."""
        return self.calibrator.spec.extras if self.extra else ()

    def formula(self) -> Terms:
        """The probabilities of rows that can be used, by the columns of the table."""
        table = table_inputs(self.binding)
        return formula_of(self.calibrator, table.score, table.features)

    def terms(self, prob: Terms) -> dict[str, Term]:
        """The columns without extras, of the probabilities of `formula`; null where `compute` finds a bad row."""
        valid = table_inputs(self.binding).valid
        values = prob if self.scale == "prob" else link_terms.logits(prob)
        return {name: choose(valid, value, None) for name, value in zip(self.names, values, strict=True)}

    def formulas(self) -> dict[str, Term]:
        """The columns as terms of the columns of the table."""
        return self.terms(self.formula())

    def numbers(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        """The values of `formulas`."""
        return self.compute(rows, levels)

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
