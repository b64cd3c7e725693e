"""What an ensemble's artifact says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from calcli.artifacts.manifest import JsonObject, Manifest
from calcli.artifacts.strictjson import as_json
from calcli.ensembles.train import TrainedEnsemble
from calcli.fitting.manifest import feature_facts, versions
from calcli.reports.schema import DataFacts, finite
from calcli.tables.binding import Binding
from calcli.uncertainty.training import HELD_OUT
from calcli.version import VERSION


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
    fit_facts: dict[str, object] = {
        "rows": rows,
        "weight_sum": data.weight_sum,
        "label_rate": data.label_rate,
        "holdout": held_out if made.trials else {"scheme": "none", "rows": 0, "refit_on_all": True},
        "before": {},
        "after": {},
        "difference": {},
        "trials": [
            {"learning_rate": one.settings.learning_rate, "depth": one.settings.depth, "nll": finite(one.loss)}
            for one in made.trials
        ],
    }
    return Manifest(
        calcli=VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        kind="ensemble",
        task=made.ensemble.task,
        method=kind,
        requested=kind,
        preset=None,
        params=as_json({key: value for key, value in made.settings.items() if key != "kind"}),
        seed=seed,
        label={"type": binding.label_type, "classes": list(binding.classes), "positive": binding.positive},
        binding=binding.to_json(),
        features=feature_facts(binding),
        recipe=as_json(asked),
        fit=as_json(fit_facts),
        definitions={},
        data=as_json({"files": data.files}),
        sides=sides,
        contains_rows=False,
        requires=(),
        versions=versions("catboost"),
    )
