"""Methods that fail in several ways, for model selection in other processes."""

from __future__ import annotations

from pathlib import Path

from calcli.batch import Batch, FloatArray, SideInputs
from calcli.methods.base import Params
from calcli.methods.spec import MethodSpec, Param
from calcli.numeric.links import sigmoid
from calcli.state import State
from tests.support import worker_tasks


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    if params["where"]:
        list(worker_tasks.nap(str(params["where"]), 1))
    list(worker_tasks.misbehave(None, str(params["how"])))
    shift = sum(float(column.values.mean()) for column in batch.features.values())
    return State({"shift": shift + len(sides.blobs.get("model", b"")) + seed})


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    return sigmoid(batch.score + 1e-3 * state.number("shift"))


def row(how: str, *, nap: Path | str = "", needs_features: bool = False) -> MethodSpec:
    """A method that does this when it is fitted, after a nap that leaves its mark in a directory."""
    params = {"how": how, "where": str(nap)}
    return MethodSpec(
        name=how.replace(" ", "-"),
        family="trees",
        target=__name__,
        summary="",
        reference="",
        simplicity=20,
        multiclass="native",
        needs_features=needs_features,
        sides=("model",),
        params=tuple(Param(name, "choice", value, "", choices=(value,)) for name, value in params.items()),
    )
