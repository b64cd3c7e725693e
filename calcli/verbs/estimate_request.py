"""The request to `estimate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from calcli.errors import UsageError
from calcli.models.base import Given
from calcli.tables.request import Engine, RowsRequest, check_master
from calcli.tables.source import Data


@dataclass(frozen=True, slots=True)
class EstimateRequest(RowsRequest):
    """The request of `estimate`.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame: rows with scores, of which some have labels.
    artifact
        The calibrator whose probabilities stand in for labels; without labels, what its probabilities promise.
    task
        ``class`` for the rate of a class, ``regression`` for the mean of a label that is a number, such as a grade;
        the score may then be a number on any scale, `prob` or the first column with the name of a score.
    label_prob
        The column with the probability with which each labelled row was drawn; None where all have the same.
    strata
        The column within whose values labels were drawn at random, at another rate in each.
    by
        Columns; the estimate is shown within each of their values too.
    resample_by
        A column: rows that agree in it, those of one user, count as one in intervals.
    versus
        A column that says which of two systems each row is of, or the path of a second table, of another system; the
        difference of the two is estimated too.
    item
        The column that names the item that both systems were judged on.
    prior_shift
        ``estimate``: the class rates of the rows by an artifact's probabilities, if only these rates have moved since
        its fit.
    width
        The width of the interval for which the number of labels is wanted.
    choose
        So many rows are drawn that should be labelled next.
    output
        Where they are written.
    fail_if
        Gates: expressions that must not be true of any number.
    allow_null
        Let a gate pass where its number is not defined.
    engine, master
        As for `apply`; on a cluster no rows are chosen.
    """

    data: Data
    artifact: Given | None = None
    task: Literal["class", "regression"] = "class"
    label_prob: str | None = None
    strata: str | None = None
    by: Sequence[str] = ()
    resample_by: str | None = None
    versus: str | None = None
    item: str | None = None
    prior_shift: Literal["estimate"] | None = None
    width: float | None = None
    choose: int | None = None
    output: str | Path | None = None
    fail_if: Sequence[str] = ()
    allow_null: bool = False
    seed: int = 0
    engine: Engine = "local"
    master: str | None = None

    @property
    def every_row(self) -> bool:
        """Whether all rows are held, and not only those with labels."""
        return (self.prior_shift, self.width, self.choose) != (None, None, None)

    @property
    def tie(self) -> str | None:
        """The column by which rows depend on each other: the unit, or the item that two systems have judged."""
        return self.item if self.resample_by is None else self.resample_by

    @property
    def tie_flag(self) -> str:
        """The flag that names it."""
        return "--id" if self.resample_by is None else "--resample-by"

    def check(self) -> None:
        """Refuse what does not go together."""
        check_master(self.engine, self.master)
        if self.versus is not None and self.item is None:
            raise UsageError("--versus compares two systems on the same items", hint="name the item: --id COLUMN")
        if self.item is not None and self.versus is None:
            raise UsageError("--id names the items of two systems", hint="add --versus COLUMN, or --versus FILE")
        if self.label_prob is not None and self.strata is not None:
            raise UsageError("--label-prob and --strata both say how labels were drawn", hint="give one of them")
        if (self.choose is None) != (self.output is None):
            raise UsageError("--choose N and -o FILE belong together", hint="add the other one")
        if self.versus is not None and (self.choose, self.prior_shift) != (None, None):
            raise UsageError("--choose and --prior-shift are for the rows of one system", hint="leave out --versus")
        if self.prior_shift is not None and self.artifact is None:
            raise UsageError("--prior-shift estimate needs a calibrator", hint="add --with ARTIFACT")
        if self.task == "regression" and self.artifact is not None:
            raise UsageError("--task regression needs no calibrator", hint="leave out --with")
