"""The manifest of an ensemble's artifact."""

from __future__ import annotations

from collections.abc import Mapping

from calcli.artifacts.manifest import JsonObject, Manifest
from calcli.ensembles.train import TrainedEnsemble
from calcli.models import manifest
from calcli.reports.schema import DataFacts, finite
from calcli.tables.binding_types import Binding
from calcli.uncertainty.training import HELD_OUT


def manifest_of(
    asked: Mapping[str, object],
    data: DataFacts,
    binding: Binding,
    made: TrainedEnsemble,
    sides: tuple[JsonObject, ...],
    seed: int,
) -> Manifest:
    """The manifest of a fit, all but the payloads; `asked` is what the user asked for."""
    kind, rows = made.ensemble.kind, data.rows - data.rows_bad
    held_out = {"scheme": f"{HELD_OUT:g}", "rows": round(HELD_OUT * rows), "refit_on_all": True}
    trials = [
        {"learning_rate": trial.settings.learning_rate, "depth": trial.settings.depth, "nll": finite(trial.loss)}
        for trial in made.trials
    ]
    return manifest.manifest_of(
        data,
        binding,
        kind="ensemble",
        task=made.ensemble.task,
        method=kind,
        requested=kind,
        preset=None,
        params={key: value for key, value in made.settings.items() if key != "kind"},
        seed=seed,
        recipe=asked,
        # Ensembles have no score before them: only `--tune` measures, on held-out rows.
        fit={
            "holdout": held_out if made.trials else {"scheme": "none", "rows": 0, "refit_on_all": True},
            "before": {},
            "after": {},
            "difference": {},
            "trials": trials,
        },
        definitions={},
        sides=sides,
        contains_rows=False,
        packages=("catboost",),
    )
