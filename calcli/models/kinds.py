"""The kinds of artifacts, each imported when an artifact of it is opened."""

from __future__ import annotations

from importlib import import_module

from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.models.base import Model

KINDS = {
    ("calibrator", "scores"): ("calibrator", "CalibratorModel"),
    ("policy", "scores"): ("calibrator", "CalibratorModel"),
    ("policy", "amounts"): ("intervals", "IntervalModel"),
}
"""The module beside this one, and its class, by the kind that a manifest names and what its predictions are of."""


def read(artifact: Artifact) -> Model:
    """The model that an artifact holds, unprobed. A calibrator says of an artifact of no kind why it is none."""
    model: Model = _kind(artifact.manifest).read(artifact)
    return model


def opened(artifact: Artifact) -> Model:
    """The model that an artifact holds, after a trial prediction."""
    model = read(artifact)
    model.probe()
    return model


def _kind(manifest: Manifest) -> type[Model]:
    of = "amounts" if manifest.task == "regression" else "scores"
    module, name = KINDS.get((manifest.kind, of), KINDS["calibrator", "scores"])
    kind: type[Model] = getattr(import_module(f"calcli.models.{module}"), name)
    return kind
