"""The network that gives each row its temperature: its weights, and the forward pass in NumPy.

Each of its two parts is one hidden layer and one output, u(x) = relu(x W + b) w. The part `graph` gets logits mixed by
the graph, and its output is mixed again: Kipf's two layers, each a mixing and a linear map. The part `own` gets the
row's own logits, which a mean of neighbours has lost. t = softplus(offset + their sum), clipped to [0.01, 100].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calcli.batch import FloatArray
from calcli.numeric.links import softplus

HIDDEN = 16
"""Hidden units, as in the paper."""

COOLEST, HOTTEST = 0.01, 100.0
"""Temperatures are clipped to this range."""

Part = Literal["graph", "own"]
PARTS: tuple[Part, ...] = ("graph", "own")

_ROWS = 1 << 13
"""Rows that pass at a time, so that they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A hidden layer and an output."""

    weight: FloatArray
    bias: FloatArray
    out: FloatArray

    def __call__(self, values: FloatArray) -> FloatArray:
        """One number for each row of `values`.

        No product of matrices: a row's result must not depend, in its last bit, on the rows that come with it.
        """
        output = np.zeros(len(values))
        units = [unit for unit in range(len(self.out)) if self.out[unit] != 0.0]
        for start in range(0, len(values) if units else 0, _ROWS):
            columns = np.ascontiguousarray(values[start : start + _ROWS].T)
            for unit in units:
                hidden = np.full(columns.shape[1], self.bias[unit])
                for column, weight in zip(columns, self.weight[:, unit], strict=True):
                    hidden += weight * column
                output[start : start + _ROWS] += self.out[unit] * np.maximum(hidden, 0.0, out=hidden)
        return output


@dataclass(frozen=True, slots=True)
class Network:
    """The trained network; incoming logits are divided by `scale`, and `offset` is the bias of the output."""

    scale: float
    offset: float
    graph: Layers | None = None
    own: Layers | None = None

    def temperature(self, graph: FloatArray | None, own: FloatArray) -> FloatArray:
        """The temperature of each row, from the output of the graph part (if any) and its own scaled logits."""
        total = np.full(len(own), self.offset)
        if graph is not None:
            total += graph
        if self.own is not None:
            total += self.own(own)
        return np.clip(softplus(total), COOLEST, HOTTEST)

    def to_bytes(self) -> bytes:
        """As a safetensors file."""
        from safetensors.numpy import save

        tensors: dict[str, FloatArray] = {"scale": np.array([self.scale]), "offset": np.array([self.offset])}
        for name, layers in (("graph", self.graph), ("own", self.own)):
            if layers is not None:
                arrays = {"weight": layers.weight, "bias": layers.bias, "out": layers.out}
                tensors |= {f"{name}.{key}": np.ascontiguousarray(array) for key, array in arrays.items()}
        return save(tensors)

    @classmethod
    def from_bytes(cls, content: bytes) -> Network:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            tensors: Mapping[str, FloatArray] = load(content)
        except SafetensorError as error:
            raise ValueError(f"it holds no network: {error}") from None
        parts = {
            name: Layers(*(tensors[f"{name}.{key}"] for key in ("weight", "bias", "out")))
            for name in PARTS
            if f"{name}.out" in tensors
        }
        return cls(float(tensors["scale"][0]), float(tensors["offset"][0]), **parts)


def logits(score: FloatArray) -> FloatArray:
    """A column for each class, with a mean of 0 in every row; (-z/2, z/2) of log-odds z."""
    if score.ndim == 1:
        return np.column_stack([-score / 2.0, score / 2.0])
    centred: FloatArray = score - score.mean(axis=1, keepdims=True)
    return centred


def offset_of(temperature: float) -> float:
    """The output's bias at which every temperature is this one: ln(e^T - 1)."""
    return temperature + float(np.log(-np.expm1(-temperature)))
