"""Training the network: full batches, Adam, and early stopping on held-out rows.

Networks that differ in their training rows (folds) or in lambda are trained side by side: weights have a first axis for
the network, and each row has a weight for each network. The first mixing by the graph is of the logits, which are
constant, so it is done once; the second is torch-geometric's layer, or its closed form on cliques.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray
from calcli.errors import UsageError
from calcli.methods.base import Params, candidates, number, tell
from calcli.methods.graphs.mixing import (
    COOLEST,
    HIDDEN,
    HOTTEST,
    Adjacency,
    Cliques,
    Graph,
    Layers,
    Network,
    Part,
    Scheme,
    logits,
    offset_of,
)
from calcli.methods.scaling.linear import Temperature
from calcli.numeric.bins import totals
from calcli.numeric.seeded import Split, splits_by_score, stream, tested
from calcli.state import Json

if TYPE_CHECKING:
    import torch

    Mix: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
    Weights: TypeAlias = dict[str, torch.Tensor]

RATES = (0.01, 0.001)
"""The learning rates that ``rate=auto`` tries: those of the paper."""

PENALTIES = (0.0, 0.1, 0.5, 1.0)
"""The lambdas that ``lambda=auto`` tries."""

WEIGHT_DECAY = 5e-3
"""As in the paper; not on biases, where it would bias the temperature."""

FOLDS = 5
"""Each fifth of the rows is held out in turn; only one where rows times lambdas exceed `MOST_FOLDED`."""

MOST_FOLDED = 10_000

PATIENCE = 40
"""Epochs without a lower held-out loss after which training stops."""

_BETAS, _TINY = (0.9, 0.999), 1e-8
"""How slowly the moments of Adam forget, and what its steps are divided by at least."""

_LOWER = 1e-5
"""Smaller improvements of the loss do not count."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of the network."""

    parts: Mapping[Part, FloatArray]
    """For ``graph`` the logits that `first_mixing` mixed, for ``own`` those of each row; divided by `scale`."""

    scale: float
    graph: Graph | None
    """None where there is no part ``graph``."""

    scheme: Scheme


def train(batch: Batch, inputs: Inputs, params: Params, seed: int) -> tuple[Network, dict[str, Json]]:
    """The network trained on all rows with the hyperparameters that cross-validation chose, and their values.

    `temperature` is what the network starts from; with 0 epochs it is that of all rows. `before` and `after` are the
    held-out log-losses of that temperature and of the chosen network.
    """
    with _reproducible(str(params["device"])) as device:
        trainer = _Trainer(batch, inputs, device, seed)
        before, best = _choose(trainer, batch, params, seed)
        start = _temperature(batch)
        weights = trainer.begin([start])
        for _ in trainer.losses(weights, best.rate, [best.penalty], _shares(batch.weights)[:, None], best.epochs):
            pass
        chosen: dict[str, Json] = {"rate": best.rate, "lambda": best.penalty, "epochs": best.epochs}
        chosen |= {"temperature": start, "before": before.mean, "after": best.mean}
        return _network(weights, inputs), chosen


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Hyperparameters, the held-out loss of each row, and its weighted mean."""

    rate: float
    penalty: float
    epochs: int
    loss: FloatArray
    mean: float


def _choose(trainer: _Trainer, batch: Batch, params: Params, seed: int) -> tuple[_Attempt, _Attempt]:
    """No epochs, and the best rate, lambda and epochs by held-out log-loss: no epochs if the gain is too small."""
    rates, penalties = candidates(params, "rate", RATES), candidates(params, "lambda", PENALTIES)
    # Which rows each fold holds out and trains on; rows of weight 0 do neither.
    splits = _splits(batch, seed, FOLDS if len(batch) * len(penalties) <= MOST_FOLDED else 1)
    tests = [split.test for split in splits]
    shares = _shares(np.where(tested(splits, len(batch)), batch.weights, 0.0))
    train_on = np.column_stack([_shares(np.where(split.train, batch.weights, 0.0)) for split in splits])
    # Train for each rate, from the temperature of the training rows of each fold.
    starts = [_temperature(batch.take(split.train)) for split in splits]
    epochs, held_out = int(number(params, "epochs")), np.column_stack(tests).astype(np.float64)
    attempts = [_attempts(trainer, held_out, shares, train_on, starts, rate, penalties, epochs) for rate in rates]
    before, best = attempts[0][0], min((best for _, best in attempts), key=lambda attempt: attempt.mean)
    # Is the gain over that temperature greater than so many standard errors?
    gain = before.loss - best.loss
    noise = shares * (gain - shares @ gain)
    if batch.together is not None:
        noise = totals(batch.together, noise, int(batch.together.max()) + 1)
    error = float(np.sqrt(np.square(noise).sum()))
    return before, best if before.mean - best.mean > number(params, "margin") * error else before


def _splits(batch: Batch, seed: int, most: int) -> list[Split]:
    """The first `most` of `FOLDS` folds; if none can be held out, one of all rows."""
    counted = np.flatnonzero(batch.weights > 0)
    rows = batch.bare.take(counted)
    splits = splits_by_score(rows, FOLDS, seed, "recal folds", most=most)
    nothing, everything = np.zeros(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.bool_)
    return [
        Split(*(np.isin(np.arange(len(batch)), counted[side]) for side in split))
        for split in splits or [Split(nothing, everything)]
    ]


def _attempts(
    trainer: _Trainer,
    held_out: FloatArray,
    shares: FloatArray,
    train_on: FloatArray,
    starts: Sequence[float],
    rate: float,
    penalties: Sequence[float],
    epochs: int,
) -> tuple[_Attempt, _Attempt]:
    """The attempts at this rate: no epoch at all, and the best number of epochs with the best lambda.

    `held_out` has a column for each fold, 1 for the rows that it holds out, else 0; `shares` is the weight of each row
    in the mean over all held-out rows.
    """
    lambdas, folds = len(penalties), len(starts)
    strengths, weighted = np.repeat(penalties, folds), np.tile(train_on, (1, lambdas))
    weights, records = trainer.begin([*starts] * lambdas), list[_Attempt]()
    for epoch, losses in enumerate(trainer.losses(weights, rate, strengths, weighted, epochs)):
        if epoch % 10 == 0:
            tell(f"epoch {epoch} at rate {rate:g}")
        # The held-out loss of each row, a column for each lambda; `losses` has one for each lambda and fold.
        of_rows = (losses.reshape(len(losses), lambdas, folds) * held_out[:, None, :]).sum(axis=2)
        means = shares @ of_rows
        best = int(means.argmin())
        if not records or means[best] < records[-1].mean - _LOWER:
            records.append(_Attempt(rate, penalties[best], epoch, of_rows[:, best], float(means[best])))
        elif epoch - records[-1].epochs >= PATIENCE:
            break
    return records[0], records[-1]


class _Trainer:
    """The rows as tensors on a device."""

    def __init__(self, batch: Batch, inputs: Inputs, device: torch.device, seed: int) -> None:
        import torch

        self.seed = seed
        self.device = device
        self.parts = {name: torch.as_tensor(values, device=device) for name, values in inputs.parts.items()}
        self.mix: Mix | None = None
        if inputs.graph is not None:
            self.mix = second_mixing(inputs.graph, inputs.scheme, device)
        gaps, of_label, right = _by_rank(batch)
        # Labels are mixed as one more row would: else nothing stops the network where it separates the classes.
        of_label += (gaps.sum(axis=1) / batch.classes - of_label) / (float(batch.weights.sum()) + 1.0)
        self.gaps = torch.as_tensor(gaps, device=device)[:, None, :]
        self.of_label = torch.as_tensor(of_label, device=device)[:, None]
        self.right = torch.as_tensor(right, device=device)[:, None]

    def begin(self, temperatures: Sequence[float]) -> Weights:
        """The weights of networks that start from these temperatures.

        They have the same random hidden layers, and outputs of 0, so that the logits have no effect at first.
        """
        import torch

        chance, count = stream(self.seed, "recal weights"), len(temperatures)
        offsets = [offset_of(min(max(temperature, COOLEST), HOTTEST)) for temperature in temperatures]
        arrays: dict[str, FloatArray] = {"offset": np.array([offsets])}
        for name, values in self.parts.items():
            bound = float(np.sqrt(6.0 / (values.shape[1] + HIDDEN)))  # Glorot & Bengio 2010
            weight = chance.uniform(-bound, bound, (values.shape[1], HIDDEN))
            arrays[f"{name}.weight"] = np.repeat(weight[None], count, axis=0)
            arrays[f"{name}.bias"] = np.zeros((count, 1, HIDDEN))
            arrays[f"{name}.out"] = np.zeros((count, HIDDEN, 1))
        return {
            name: torch.tensor(array, dtype=torch.float64, device=self.device, requires_grad=True)
            for name, array in arrays.items()
        }

    def losses(
        self, weights: Weights, rate: float, penalties: Sequence[float] | FloatArray, train_on: FloatArray, epochs: int
    ) -> Iterator[FloatArray]:
        """Train; yields the log-loss of each row (first axis) by each network before each epoch and after the last.

        Each network has its lambda in `penalties`, and the weights of its training rows in a column of `train_on`.
        """
        import torch

        shares = torch.as_tensor(train_on, device=self.device)
        strength = torch.as_tensor(np.asarray(penalties, dtype=np.float64), device=self.device)
        decays = [WEIGHT_DECAY * name.endswith(("weight", "out")) for name in weights]
        tensors = [*weights.values()]
        moments = [(torch.zeros_like(one), torch.zeros_like(one)) for one in tensors]
        for epoch in range(epochs + 1):
            log_loss, penalty = self._loss(self._temperatures(weights))
            yield log_loss.detach().cpu().numpy()
            if epoch < epochs:
                gradients = torch.autograd.grad((shares * (log_loss + strength * penalty)).sum(), tensors)
                with torch.no_grad():
                    for parts in zip(tensors, gradients, moments, decays, strict=True):
                        _adam(*parts, rate, epoch + 1)

    def _temperatures(self, weights: Weights) -> torch.Tensor:
        """The temperature of each row by each network (Eq. 5)."""
        import torch

        total = weights["offset"]
        for name, values in self.parts.items():
            hidden = torch.relu(values @ weights[f"{name}.weight"] + weights[f"{name}.bias"])
            output = (hidden @ weights[f"{name}.out"])[:, :, 0].T
            total = total + (self.mix(output) if name == "graph" and self.mix is not None else output)
        return torch.nn.functional.softplus(total).clamp(COOLEST, HOTTEST)

    def _loss(self, temperatures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The log-loss of each row (Eq. 6, with mixed labels) and its term of the penalty (Eq. 7).

        The term is the lead of the greatest probability over the second where the predicted class is wrong, and 1 less
        that lead where it is right.
        """
        import torch

        others = torch.exp(self.gaps / temperatures[:, :, None])
        total = 1.0 + others.sum(dim=2)
        lead = (1.0 - others[:, :, 0]) / total
        return torch.log(total) - self.of_label / temperatures, torch.where(self.right, 1.0 - lead, lead)


def _adam(
    tensor: torch.Tensor,
    gradient: torch.Tensor,
    moments: tuple[torch.Tensor, torch.Tensor],
    decay: float,
    rate: float,
    step: int,
) -> None:
    """Take a step of Adam (Kingma & Ba 2015, algorithm 1); to import that of PyTorch takes a second."""
    first, second = moments
    gradient = gradient.add(tensor, alpha=decay)
    first.lerp_(gradient, 1.0 - _BETAS[0])
    second.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1.0 - _BETAS[1])
    scale = (second.sqrt() / math.sqrt(1.0 - _BETAS[1] ** step)).add_(_TINY)
    tensor.addcdiv_(first, scale, value=-rate / (1.0 - _BETAS[0] ** step))


def _by_rank(batch: Batch) -> tuple[FloatArray, FloatArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The other logits less the greatest, in falling order; the label's logit; whether the label has the greatest.

    With logits relative to the greatest no exponential overflows. No temperature changes their order, so classes are
    sorted once.
    """
    values = logits(batch.score)
    order = np.argsort(-values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    ranked -= ranked[:, :1].copy()
    rank = (order == batch.labels[:, None]).argmax(axis=1)
    return ranked[:, 1:], np.take_along_axis(ranked, rank[:, None], axis=1)[:, 0], rank == 0


def _temperature(batch: Batch) -> float:
    """Temperature scaling of these rows; 1 where all weights are 0."""
    if not batch.weights.sum() > 0:
        return 1.0
    return 1.0 / Temperature().fit(batch, NO_SIDE_INPUTS, {}, 0).number("inverse_temperature")


def _shares(weight: FloatArray) -> FloatArray:
    """Weights that add up to 1, or are all 0."""
    total = float(weight.sum())
    return weight / total if total > 0 else weight


def _network(weights: Weights, inputs: Inputs) -> Network:
    """The first of the networks."""
    arrays = {name: tensor.detach().cpu().numpy()[0] for name, tensor in weights.items()}
    parts = {
        name: Layers(arrays[f"{name}.weight"], arrays[f"{name}.bias"][0], arrays[f"{name}.out"][:, 0])
        for name in inputs.parts
    }
    return Network(inputs.scale, float(arrays["offset"][0]), parts.get("graph"), parts.get("own"))


@contextmanager
def _reproducible(device: str) -> Iterator[torch.device]:
    """PyTorch on one thread, on a GPU with deterministic algorithms; its settings are restored afterwards.

    On a processor one thread is enough, and the setting would import PyTorch's compiler, which takes a second.
    """
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise UsageError("device=cuda: PyTorch finds no GPU", hint="use the CPU: --set device=cpu")
    use_gpu = has_gpu and device != "cpu"
    if use_gpu:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS is refused
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    if use_gpu:
        torch.use_deterministic_algorithms(True)
    try:
        yield torch.device("cuda" if use_gpu else "cpu")
    finally:
        torch.set_num_threads(threads)
        if use_gpu:
            torch.use_deterministic_algorithms(deterministic)


def first_mixing(graph: Graph, values: FloatArray, scheme: Scheme) -> FloatArray:
    """The input of the hidden layer: a row for each row, or for each group where all of its rows see the same."""
    if isinstance(graph, Cliques) and scheme.loops:
        return graph.sums(values) / np.maximum(graph.size, 1.0)[:, None]
    return graph.spread(values, scheme)


def second_mixing(graph: Graph, scheme: Scheme, device: torch.device) -> Mix:
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
