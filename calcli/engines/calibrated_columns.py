"""What `apply` adds to a table: which columns, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.methods.calibrator import Calibrator
from calcli.numeric.links import scores
from calcli.tables.binding import Binding
from calcli.tables.labels import class_text

Scale: TypeAlias = Literal["prob", "logit"]


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """The columns that a calibrator adds.

    Attributes
    ----------
    stem
        Their name; with more than two classes the name of the class follows.
    scale
        Whether they hold probabilities, or what `scores` makes of them.
    extra
        Whether the logits come too, and what else the method can say of a row.
    """

    stem: str
    calibrator: Calibrator
    classes: tuple[str, ...]
    scale: Scale = "prob"
    extra: bool = False

    @classmethod
    def of(cls, stem: str, calibrator: Calibrator, binding: Binding, scale: Scale, *, extra: bool) -> AddedColumns:
        return cls(stem, calibrator, tuple(class_text(label) for label in binding.classes), scale, extra)

    @property
    def names(self) -> tuple[str, ...]:
        stems = [self.stem]
        if self.extra:
            stems.append(f"{self.stem}__logit")
            if self.calibrator.spec.interval:
                stems += [f"{self.stem}__lo", f"{self.stem}__hi"]
        if len(self.classes) > 2:
            stems = [f"{stem}_{name}" for stem in stems for name in self.classes]
        return (*stems, *(f"{self.stem}__{name}" for name in self._more))

    @property
    def _more(self) -> tuple[str, ...]:
        """What the method can say of a row as a whole."""
        return self.calibrator.spec.extras if self.extra else ()

    def values(self, batch: Batch) -> list[FloatArray]:
        """An array for each of the names."""
        prob = self.calibrator.predict(batch)
        found = [prob if self.scale == "prob" else scores(prob)]
        if self.extra:
            found.append(scores(prob))
            if self.calibrator.spec.interval:
                found += self.calibrator.interval(batch)
        if self._more:
            said = self.calibrator.extras(batch)
            found += [said[name] for name in self._more]
        return [column for values in found for column in _columns(values)]


def _columns(values: FloatArray) -> Sequence[FloatArray]:
    return [np.ascontiguousarray(part) for part in (values[None] if values.ndim == 1 else values.T)]
