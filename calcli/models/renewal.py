"""The evidence and the checks of labels by which an artifact is replaced by one of new rows, or is not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import numpy as np

from calcli.artifacts.manifest import Manifest
from calcli.batch import Batch
from calcli.fitting.held_out import Mask
from calcli.models.calibrator import CalibratorModel
from calcli.reports.checks import LabelCheck
from calcli.reports.measuring import class_names
from calcli.reports.schema import ReportWarning
from calcli.tables.load import Loaded

IN_PLACE = "in place"
"""The name of what the artifact holds now, in the report."""

EVIDENCE = math.log(365 / 0.05)
"""Nats: an artifact is replaced only if the held-out labels are exp(8.9) = 7,300 times as likely with the new
calibrator. Were the one in place right, a prediction made beforehand would reach that in one night of 7,300 at most
(Markov's inequality): in 5 % of all years of nights. Of a test with the p-value p it is -log p."""


IMPOSSIBLE = 1e-4
"""The labels of a file that are as unlikely as this, if nothing went wrong, are taken for wrong."""


def label_refusal(old: Manifest, now: LabelCheck | None, rows: str = "the new rows") -> str | None:
    """Why the labels look wrong; None where the raw scores still rank them, or did not at the fit in place."""
    before = _ranking(old)
    if before is None:
        return None
    if now is None:
        return f"all labels of {rows} are of one class (the others may not have come in yet)"
    if now.beyond_chance(2):
        return None
    return (
        f"the scores do not tell the classes apart on {rows} (auc {now.auc:.3f}), though they did on those of the fit "
        f"in place ({before.auc:.3f}); the labels may be wrong"
    )


def file_refusal(old: CalibratorModel, loaded: Loaded, seen: Mask) -> str | None:
    """Why the labels of one new file look wrong. Wrong labels of one night are not seen in the rows of all nights."""
    before = _ranking(old.manifest)
    if before is None:
        return None
    for name, rows in _new_files(loaded, seen):
        now = LabelCheck.of(rows)
        by_chance = _one_class(old, rows) >= IMPOSSIBLE if now is None else before.auc - now.auc <= 4 * now.error
        if not by_chance and (why := label_refusal(old.manifest, now, name)):
            return why
    return None


def _ranking(old: Manifest) -> LabelCheck | None:
    """How well the raw scores ranked the labels at the fit in place; None where they did not."""
    before = LabelCheck.from_json(old.fit.get("ranking"))
    return before if before is not None and before.beyond_chance(4) else None


def _one_class(old: CalibratorModel, rows: Batch) -> float:
    """How likely it is that all these labels are of the class that they are of, at the rates of the fit in place."""
    rate, place = old.manifest.fit["label_rate"], int(rows.labels[0])
    if isinstance(rate, dict):
        share = cast("float", rate[class_names(old.fitted_binding)[place]])
    else:
        share = abs(cast("float", rate) - (place == 0))
    return float(share ** len(rows))


def _new_files(loaded: Loaded, seen: Mask) -> Iterator[tuple[str, Batch]]:
    """The names and rows of files that are new, where there are several."""
    counts = loaded.source.rows_of_files()
    if len(counts) < 2:
        return
    place = np.repeat(np.arange(len(counts)), counts)
    place = place if loaded.row_numbers is None else place[loaded.row_numbers]
    for index in np.unique(place[~seen]).tolist():
        yield str(loaded.source.paths[index]), loaded.batch.take(place == index)


def seen_before(loaded: Loaded, old: Manifest) -> Mask:
    """The rows of files that the artifact in place was made of: on them it has an unfair advantage."""
    files = old.data.get("files")
    hashes = {str(file["sha256"]) for file in files if isinstance(file, dict)} if isinstance(files, list) else set()
    seen = loaded.source.rows_in(hashes)
    return seen if loaded.row_numbers is None else seen[loaded.row_numbers]


def seen_warnings(seen: Mask, unseen: Mask) -> tuple[ReportWarning, ...]:
    """Warnings of rows that the artifact in place was fitted on."""
    if not seen.any():
        return ()
    text = f"{int(seen.sum()):,} of {len(seen):,} rows were in the files that the artifact in place was fitted on"
    if unseen.any():
        return (ReportWarning("seen-before", f"{text}, and are left out of the comparison"),)
    return (ReportWarning("seen-before", f"{text}, which favours it in the comparison"),)
