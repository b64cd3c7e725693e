"""The kinds of artifacts that add columns to tables of scores."""

from __future__ import annotations

from calcli.artifacts.store import Artifact
from calcli.models.base import Model
from calcli.models.calibrator import CalibratorModel
from calcli.models.intervals import IntervalModel

KINDS: tuple[type[Model], ...] = (IntervalModel, CalibratorModel)
"""The last one says of all other artifacts why they are none of these."""


def read(artifact: Artifact, *more: type[Model]) -> Model:
    """The model that an artifact holds, of these kinds or `more`, unprobed."""
    kind = next((kind for kind in (*more, *KINDS) if kind.is_in(artifact.manifest)), KINDS[-1])
    return kind.read(artifact)


def opened(artifact: Artifact) -> Model:
    """The model that an artifact holds, after a trial prediction."""
    model = read(artifact)
    model.probe()
    return model
