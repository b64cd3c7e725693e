"""What decides whether an artifact is replaced by one of new rows, whatever it holds."""

from __future__ import annotations

import math

from calcli.artifacts.manifest import Manifest
from calcli.fitting.splits import Mask
from calcli.reports.label_check import LabelCheck
from calcli.reports.schema import ReportWarning
from calcli.tables.load import Loaded
from calcli.tables.source import Source

IN_PLACE = "in place"
"""The name of what the artifact holds now, in the report."""

EVIDENCE = math.log(365 / 0.05)
"""Nats: an artifact is replaced only if the held-out labels are exp(8.9) = 7,300 times as likely with the new
calibrator. Were the one in place right, a prediction made beforehand would reach that in one night of 7,300 at most
(Markov's inequality): in 5 % of all years of nights. Of a test with the p-value p it is -log p."""


def label_refusal(old: Manifest, now: LabelCheck | None) -> str | None:
    """Why the labels look wrong; None where the raw scores still rank them, or did not at the fit in place."""
    before = LabelCheck.from_json(old.fit.get("ranking"))
    if before is None or not before.beyond_chance(4):
        return None
    if now is None:
        return "all labels of the new rows are of one class (the others may not have come in yet)"
    if now.beyond_chance(2):
        return None
    return (
        f"the scores do not tell the classes apart on the new rows (auc {now.auc:.3f}), though they did on those of "
        f"the fit in place ({before.auc:.3f}); the labels may be wrong"
    )


def seen_before(source: Source, loaded: Loaded, old: Manifest) -> Mask:
    """The rows of files that the artifact in place was made of: on them it has an unfair advantage."""
    files = old.data.get("files")
    hashes = {str(file["sha256"]) for file in files if isinstance(file, dict)} if isinstance(files, list) else set()
    seen = source.rows_in(hashes)
    return seen if loaded.row_numbers is None else seen[loaded.row_numbers]


def seen_warnings(seen: Mask, unseen: Mask) -> tuple[ReportWarning, ...]:
    """What to say of such rows."""
    if not seen.any():
        return ()
    text = f"{int(seen.sum()):,} of {len(seen):,} rows were in the files that the artifact in place was fitted on"
    if unseen.any():
        return (ReportWarning("seen-before", f"{text}, and are left out of the comparison"),)
    return (ReportWarning("seen-before", f"{text}, which favours it in the comparison"),)
