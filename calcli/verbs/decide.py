"""`decide`: from probabilities to decisions, by costs or by a target that holds on new rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from calcli.artifacts.strictjson import as_json
from calcli.decisions.goal import Choice, DecisionGoal
from calcli.diagrams.charts import AtThresholds
from calcli.files import as_text
from calcli.homes import Brief
from calcli.listener import SILENT, Listener, stage
from calcli.models.base import Given, Model, decider_of
from calcli.models.requests import target_of
from calcli.places import Url
from calcli.reports.groups import in_units, unit_warnings
from calcli.reports.measuring import class_names, data_facts
from calcli.reports.schema import DataFacts, ReportWarning
from calcli.state import Json
from calcli.tables.binding_types import Binding
from calcli.tables.load import load as load_rows
from calcli.tables.request import RowsRequest, open_table
from calcli.tables.side_tables import read_costs
from calcli.tables.source import Data
from calcli.verbs.compared_scores import seen_before
from calcli.version import VERSION

SCHEMA = "calcli.decision/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideRequest(RowsRequest, DecisionGoal):
    """The request of `decide`.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame: labelled rows that the calibrator was not fitted on.
    artifact
        A calibrator's directory, or the model itself; None takes the score as it is.
    output
        Where the policy is kept. None is ``<input stem>.policy`` in the current one; frames are then kept nowhere.
    cost_file
        A CSV file with the cost of each action by class, in place of the four costs.
    edges
        Pairs of ids of linked rows, in place of those of the calibrator's fit.
    """

    data: Data = field(kw_only=False)
    artifact: Given | None = None
    output: str | Path | None = None
    cost_file: str | Path | None = None
    edges: Data | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class DecideResult(Brief):
    """The policy, and what it is worth beside others."""

    path: Path | Url | None
    """The artifact, if it was kept."""

    model: Model
    """The calibrator with the policy; without one where nothing is as it must be."""

    choice: Choice
    data: DataFacts
    binding: Binding
    seed: int
    refused: str | None = None
    """Why nothing was kept, if so."""

    warnings: tuple[ReportWarning, ...] = ()
    scores: tuple[AtThresholds, ...] = ()
    """The score that decides, and the raw one, at many thresholds; none of more than two classes."""

    def to_json(self) -> dict[str, Json]:
        path = None if self.model.path is None else as_text(self.model.path)
        calibrator = {"path": path, "method": self.model.method, "sha256": self.model.sha256}
        return as_json(
            {
                "schema": SCHEMA,
                "version": VERSION,
                "seed": self.seed,
                "artifact": None if self.path is None else as_text(self.path),
                "calibrator": calibrator,
                "data": asdict(self.data),
                "binding": self.binding.to_json(),
                **self.choice.to_json(),
                "curves": [one.to_json() for one in self.scores],
                "warnings": [asdict(warning) for warning in self.warnings],
            }
        )


def decide(request: DecideRequest, listener: Listener = SILENT) -> DecideResult:
    """Choose a policy on labelled rows, measure it, and keep it."""
    goal: DecisionGoal = request if request.cost_file is None else replace(request, costs=((), ()))
    goal.check()
    decider = decider_of(goal, request.flags, request.artifact, request.edges)
    with open_table(request) as source:
        target = target_of(source, request.output, "policy")
        with stage(listener, "looking at the columns"):
            binding = decider.bind(source)
        for note in (*binding.notes, *decider.remarks(source, binding)):
            listener.note(note)
        if request.cost_file is not None:
            decider = replace(decider, goal=replace(request, costs=read_costs(request.cost_file, class_names(binding))))
        with stage(listener, "reading"):
            loaded = load_rows(source, binding, features=decider.features, bad_rows=request.bad_rows)
            loaded = in_units(loaded, request.resample_by, None)
            rows = decider.rows(loaded, request.seed)
        with stage(listener, "deciding"):
            choice = rows.choose(request.seed)
            scores = rows.curves(choice)
        data = data_facts(loaded)
        calibrator = decider.calibrator
        seen = seen_before(source, {} if calibrator is None else {as_text(calibrator.path or ""): calibrator})
        warnings = (*seen, *unit_warnings(loaded))
    made = rows.model(choice, data, request.seed)
    refused = f"{choice.why}: nothing was saved" if choice.rule is None else None
    path = target if refused is None else None
    if path is not None:
        made.save(path)
    return DecideResult(path, made, choice, data, binding, request.seed, refused, warnings, scores)
