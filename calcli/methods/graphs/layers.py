"""Mixing by the graph during training: torch-geometric's layer, or its closed form on cliques."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.graphs.adjacency import Adjacency
from calcli.methods.graphs.cliques import Cliques
from calcli.methods.graphs.scheme import Scheme

if TYPE_CHECKING:
    import torch

    Mix: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


def first_mixing(graph: Adjacency | Cliques, values: FloatArray, scheme: Scheme) -> FloatArray:
    """The input of the hidden layer: a row for each row, or for each group where all of its rows see the same."""
    if isinstance(graph, Cliques) and scheme.loops:
        mean: FloatArray = graph.sums(values) / np.maximum(graph.size, 1.0)[:, None]
        return mean
    return graph.spread(values, scheme)


def second_mixing(graph: Adjacency | Cliques, scheme: Scheme, device: torch.device) -> Mix:
    """The mixing of one number for each row, or for each group where `first_mixing` gave a row for each group."""
    if isinstance(graph, Adjacency):
        return _convolution(graph, scheme, device)
    import torch

    group = torch.as_tensor(graph.group, device=device)
    if scheme.loops:
        return lambda output: output[group]
    size = torch.as_tensor(graph.size, device=device)[:, None]

    def against(output: torch.Tensor) -> torch.Tensor:
        mean = output.new_zeros(graph.count, output.shape[1]).index_add(0, group, output) / size.clamp(min=1.0)
        apart = (size / (size - 1.0).clamp(min=1.0))[group] * (output - mean[group])
        return torch.where(size[group] > 1.0, apart, output)

    return against


def _convolution(graph: Adjacency, scheme: Scheme, device: torch.device) -> Mix:
    """torch-geometric's GCN layer; its linear map is done before, for several networks at once."""
    import torch

    with warnings.catch_warnings():  # with PyTorch 2.13 the import warns of what it will have to change itself
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch_geometric.nn.conv import GCNConv

    layer = GCNConv(1, 1, cached=True, add_self_loops=scheme.loops, bias=False).to(device)
    layer.lin = torch.nn.Identity()
    _remove_generated_files()
    edges = torch.as_tensor(np.stack([graph.sources, graph.ends]), device=device)

    def mixed(output: torch.Tensor) -> torch.Tensor:
        mean: torch.Tensor = layer(output, edges)
        return mean if scheme.loops else output - mean

    return mixed


def _remove_generated_files() -> None:
    """torch-geometric writes the code of a layer into the temporary directory, imports it and leaves it there.

    Python leaves its bytecode in a directory beside it.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("torch_geometric.nn.conv.gcn_conv_") and module.__file__ is not None:
            Path(module.__file__).unlink(missing_ok=True)
            bytecode = Path(cache_from_source(module.__file__))
            bytecode.unlink(missing_ok=True)
            with suppress(OSError):  # there is none, or others keep theirs in it
                bytecode.parent.rmdir()
