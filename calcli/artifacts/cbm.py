"""CatBoost's model files, made to depend on the fit alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

_BY_CHANCE = ("model_guid", "train_finish_time")


def normalise_cbm(model: bytes) -> bytes:
    """The same model without the random name and the time that CatBoost stamps on each one it trains.

    Two fits with the same data, parameters and seed give the same bytes; predictions are untouched, and so is all
    other metadata. Doing it twice changes nothing more.
    """
    from catboost import CatBoost

    booster = CatBoost().load_model(blob=model)
    metadata = booster.get_metadata()
    for key in _BY_CHANCE:
        metadata[key] = ""
    with tempfile.TemporaryDirectory() as directory:  # CatBoost saves to a path and to nothing else
        path = Path(directory) / "model.cbm"
        booster.save_model(str(path))
        return path.read_bytes()
