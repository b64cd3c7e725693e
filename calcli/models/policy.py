"""Policies on tables: the rows that choose one, and the model that keeps it together with its calibrator.

The evidence and the checks of labels by which an artifact is replaced by one of new rows, or is not, are here too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from calcli.artifacts.manifest import Manifest
from calcli.artifacts.strictjson import as_json
from calcli.batch import Batch, FloatArray, IntArray
from calcli.decisions.choice import choose
from calcli.decisions.goal import Choice, DecisionGoal, decision_splits
from calcli.decisions.measure import JudgedScores, Rows
from calcli.decisions.targets import decided
from calcli.diagrams.charts import AtThresholds, thresholds_of
from calcli.errors import UsageError
from calcli.listener import SILENT
from calcli.models.base import Decider, DecisionRows, Given
from calcli.models.calibrator import CalibratorModel, load
from calcli.models.columns import link_remarks
from calcli.models.held_out import Mask
from calcli.models.judged import costs_of, measured_rows
from calcli.models.learn import FitOutcome, learn
from calcli.models.recipe import Recipe
from calcli.models.requests import write
from calcli.models.side_inputs import NOTHING_LOADED
from calcli.numeric.links import probabilities
from calcli.places import Url
from calcli.reports.groups import LabelCheck, groups_of_new_rows, in_units, numbers
from calcli.reports.measuring import Measurements, class_names, data_facts, report_on
from calcli.reports.schema import DataFacts, ReportWarning
from calcli.state import Json, damage_reported
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import Loaded
from calcli.tables.source import Data, Source
from calcli.version import VERSION


@dataclass(frozen=True, slots=True)
class ScoreDecider(Decider):
    """Policies by a score: that of a calibrator, or the score as it is."""

    calibrator: CalibratorModel | None
    linked: CalibratorModel | None = None
    """The calibrator with the edges of these rows, which the policy does not keep."""

    @classmethod
    def of(cls, goal: DecisionGoal, flags: Flags, calibrator: Given | None, edges: Data | None) -> ScoreDecider:
        if calibrator is None:
            if edges is not None:
                raise UsageError("--edges is used by a calibrator fitted with --edges", hint="add --with DIR")
            return cls(goal, flags, None)
        model = load(calibrator)
        return cls(goal, flags, model, model.linked(edges))

    @property
    def features(self) -> bool:
        return self.calibrator is not None and self.calibrator.needs_features

    def bind(self, source: Source) -> Binding:
        if self.calibrator is None:
            return bind(source, self.flags, features=False)
        return self.calibrator.bind(source, self.flags)

    def remarks(self, source: Source, binding: Binding) -> Sequence[str]:
        return () if self.linked is None else link_remarks(self.linked.calibrator, binding, source)

    def rows(self, loaded: Loaded, seed: int) -> ScoreRows:
        model = self.calibrator or uncalibrated(loaded, self.flags, seed)
        prob = (self.linked or model).calibrator.predict(loaded.batch)
        return ScoreRows(self.goal, model, loaded, rows_of(loaded, prob, self.goal))


@dataclass(frozen=True, slots=True)
class ScoreRows(DecisionRows):
    """Rows with the probabilities by which a policy decides."""

    goal: DecisionGoal
    calibrator: CalibratorModel
    loaded: Loaded
    rows: Rows

    def choose(self, seed: int) -> Choice:
        return choose(self.goal, self.rows, seed)

    def curves(self, choice: Choice) -> tuple[AtThresholds, ...]:
        rows = self.rows
        if rows.prob.ndim > 1:
            return ()
        probs = {self.calibrator.method: rows.prob}
        if not self.loaded.batch.ranks:
            probs["raw"] = probabilities(self.loaded.batch.score)
            probs = {"raw": rows.prob} if (probs["raw"] == rows.prob).all() else probs
        known = (one.threshold for one in choice.options if one.threshold is not None)
        thresholds = thresholds_of(probs.values(), known)
        found = []
        for name, prob in probs.items():
            counts = decided(prob, rows.label, thresholds, rows.weight, rates=()).counts
            cost = None
            if self.goal.has_costs:
                costs = self.goal.four_costs() if rows.costs is None else rows.costs
                cost = costs.at_thresholds(prob, rows.label, thresholds, rows.weight)
            found.append(AtThresholds(name, thresholds, *counts, cost=cost))
        return tuple(found)

    def saved(self, paid: FloatArray, mask: Mask, seed: int) -> FloatArray:
        rows, saved = self.rows.taken(mask), np.zeros(len(paid))
        for train, test in decision_splits(rows.units, len(saved), self.goal.folds, seed):
            new = choose(self.goal, rows.taken(train), seed).policy
            if new is not None:
                _, beside = measured_rows(self.loaded, new.rule)
                cost = JudgedScores(new, rows, {name: of[mask] for name, of in beside.items()}).taken(test).paid()
                saved[test] = 0.0 if cost is None else paid[test] - cost
        return saved

    def model(self, choice: Choice, data: DataFacts, seed: int) -> CalibratorModel:
        return with_policy(self.calibrator, self.goal, choice, data)


def rows_of(loaded: Loaded, prob: FloatArray, ask: DecisionGoal) -> Rows:
    """The loaded rows under these probabilities, with the columns that were asked for."""
    costs = None if not ask.by_rows else costs_of(loaded, ask.cost_columns(), ask.cost_flags())
    uncertainty = None if ask.uncertainty is None else numbers(loaded, ask.uncertainty, "--uncertainty")
    batch, group = loaded.batch, None
    names: tuple[str, ...] = ()
    if ask.by is not None:
        names, group = groups_of_new_rows(loaded, ask.by, loaded.binding.label)
    classes = class_names(loaded.binding)
    return Rows(prob, batch.labels, batch.weight, batch.units, costs, uncertainty, group, names, classes)


def uncalibrated(loaded: Loaded, flags: Flags, seed: int) -> CalibratorModel:
    """The score as it is, as a model: the method identity."""
    binding = loaded.binding
    if loaded.batch.ranks:
        raise UsageError(
            "--rank names a number that only ranks, and decisions need probabilities",
            hint="fit a calibrator on other rows, and add --with DIR",
        )
    recipe = Recipe(method="identity", holdout="none", flags=flags)
    learned = learn(recipe, loaded.batch.bare, class_names(binding), seed=seed, listener=SILENT)
    learned = replace(learned, label_check=LabelCheck.of(loaded.batch.bare))
    report = report_on("decide", seed, data_facts(loaded), binding, Measurements({}))
    manifest = write(None, recipe, learned, binding, report, NOTHING_LOADED)
    return CalibratorModel.of(None, manifest, binding, None, learned.calibrator)


def with_policy(model: CalibratorModel, ask: DecisionGoal, choice: Choice, data: DataFacts) -> CalibratorModel:
    """The model with the policy that was chosen on these rows; its artifact keeps both."""
    made = model.manifest
    decision: Mapping[str, object] = {**choice.to_json(), "rows": data.rows - data.rows_bad, "files": data.files}
    asked: dict[str, Json] = {**ask.to_json(), "calibrator": model.sha256}
    return replace(
        model,
        policy=choice.policy,
        manifest=replace(
            made,
            calcli=VERSION,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            kind="policy",
            recipe={**made.recipe, "decision": as_json(asked)},
            fit={**made.fit, "decision": as_json(decision)},
            data=as_json({**made.data, "files": _both(made.data.get("files"), data.files)}),
            payloads=(),
            previous=None,
        ),
    )


def chosen_again(old: CalibratorModel, loaded: Loaded, learned: FitOutcome, seed: int) -> Choice | None:
    """The policy for a new calibrator by its held-out predictions, for the goal of the policy in place."""
    if old.policy is None or learned.rows is None or learned.prob is None:
        return None
    ask = asked_of(old)
    loaded = in_units(loaded, ask.resample_by, None)
    prob = np.full((len(learned.rows), *learned.prob.shape[1:]), np.nan)
    prob[learned.rows] = learned.prob
    return choose(ask, rows_of(loaded, prob, ask).taken(learned.rows), seed)


def asked_of(model: CalibratorModel) -> DecisionGoal:
    """The goal of an artifact's policy."""
    return asked_in(model.manifest, model.path)


def asked_in(manifest: Manifest, path: Path | Url | None) -> DecisionGoal:
    """The goal that the manifest of a policy or of intervals keeps."""
    with damage_reported(path, "a policy"):
        return DecisionGoal.from_json(cast("dict[str, Any]", manifest.recipe["decision"]))


def _both(fitted: Any, chosen: Any) -> list[Any]:
    """The files of the fit and those that chose the policy, each once."""
    return list({file["sha256"]: file for file in (*(fitted or ()), *chosen)}.values())


IN_PLACE = "in place"
"""The name of what the artifact holds now, in the report."""

EVIDENCE = math.log(365 / 0.05)
"""Nats: an artifact is replaced only if the held-out labels are exp(8.9) = 7,300 times as likely with the new
calibrator. Were the one in place right, a prediction made beforehand would reach that in one night of 7,300 at most
(Markov's inequality): in 5 % of all years of nights. Of a test with the p-value p it is -log p."""


IMPOSSIBLE = 1e-4
"""The labels of a file that are as unlikely as this, if nothing went wrong, are taken for wrong."""


def label_refusal(old: Manifest, now: LabelCheck | None, rows: str = "the new rows") -> str | None:
    """Why the labels look wrong; None where the raw scores still rank them, or may, or did not at the fit in place."""
    before = _ranking(old)
    if before is None:
        return None
    if now is None:
        return f"all labels of {rows} are of one class (the others may not have come in yet)"
    if now.beyond_chance(2) or before.auc - now.auc <= 4 * now.error:
        return None
    return (
        f"the scores do not tell the classes apart on {rows} (auc {now.auc:.3f}), though they did on those of the fit "
        f"in place ({before.auc:.3f}); the labels may be wrong"
    )


def too_few(old: Manifest, now: LabelCheck | None) -> str | None:
    """Why the labels may be wrong, though they do not look so; None where the raw scores rank them, or never did."""
    before = _ranking(old)
    if before is None or now is None or now.beyond_chance(2):
        return None
    return (
        f"the new rows are too few to tell whether the scores still tell the classes apart (auc {now.auc:.3f}, and "
        f"{before.auc:.3f} on those of the fit in place)"
    )


def file_refusal(old: CalibratorModel, loaded: Loaded, seen: Mask) -> str | None:
    """Why the labels of one new file look wrong. Wrong labels of one night are not seen in the rows of all nights."""
    for name, rows in _new_files(loaded, seen):
        now = LabelCheck.of(rows)
        by_chance = now is None and _one_class(old, rows) >= IMPOSSIBLE
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


def file_of_rows(loaded: Loaded) -> IntArray:
    """The file of each row, 0 where there is only one."""
    counts = loaded.source.rows_of_files()
    if len(counts) < 2:
        return np.zeros(len(loaded.batch), dtype=np.int64)
    place = np.repeat(np.arange(len(counts)), counts)
    return place if loaded.row_numbers is None else place[loaded.row_numbers]


def _new_files(loaded: Loaded, seen: Mask) -> Iterator[tuple[str, Batch]]:
    """The names and rows of files that are new, where there are several."""
    place = file_of_rows(loaded)
    if not place.any():
        return
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
