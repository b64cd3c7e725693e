"""Learning the network: full batches, Adam, and as many epochs as held-out rows ask for.

Networks that differ in the rows they are trained on, or in lambda, are trained side by side: their weights stand in one
array, and none sees the others. The graph mixes the logits once, for these stay what they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray
from calcli.errors import UsageError
from calcli.methods.graphs.adjacency import Adjacency
from calcli.methods.graphs.cliques import Cliques
from calcli.methods.graphs.layers import second_mixing
from calcli.methods.graphs.network import COOLEST, HIDDEN, HOTTEST, Layers, Network, Part, logits, offset_of
from calcli.methods.graphs.scheme import Scheme
from calcli.methods.progress import tell
from calcli.methods.scaling import temperature
from calcli.numeric.rng import stream
from calcli.numeric.score_folds import folds_by_score

if TYPE_CHECKING:
    import torch

    from calcli.methods.graphs.layers import Mix

    Weights: TypeAlias = dict[str, torch.Tensor]

WEIGHT_DECAY = 5e-3
"""As in the paper; on weights alone, for on the last bias it would pull at the temperature."""

FOLDS = 5
"""Each fifth of the rows is held out in turn; one fifth is enough where rows times lambdas exceed `MOST_FOLDED`."""

MOST_FOLDED = 10_000

PATIENCE = 40
"""Epochs in a row without a lower loss of held-out rows, after which no more are tried."""

_LOWER = 1e-5
"""By how much a loss is lower, if it is."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the network sees of the rows.

    Attributes
    ----------
    parts
        For ``graph`` what `layers.first_mixing` gives, for ``own`` the logits of each row; divided by `scale`.
    graph
        None where there is no part ``graph``.
    """

    parts: Mapping[Part, FloatArray]
    scale: float
    graph: Adjacency | Cliques | None
    scheme: Scheme


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to choose from, and when the choice is worth it.

    Attributes
    ----------
    rates, penalties
        Adam's learning rates; lambdas, the shares of the penalty of Eq. 7 in the loss.
    epochs
        At most so many.
    margin
        By how many standard errors the network must better the temperature on held-out rows, to be used at all.
    """

    rates: tuple[float, ...]
    penalties: tuple[float, ...]
    epochs: int
    margin: float
    device: str


@dataclass(frozen=True, slots=True)
class Choice:
    """How to train.

    Attributes
    ----------
    start
        The temperature that the network starts from, and stays at with 0 epochs.
    before, after
        Log-losses of held-out rows, of the temperature and of what was chosen.
    """

    rate: float
    penalty: float
    epochs: int
    start: float
    before: float
    after: float


def train(batch: Batch, inputs: Inputs, plan: Plan, seed: int) -> tuple[Network, Choice]:
    """The network, and how it was trained."""
    with _reproducible(plan.device) as device:
        trainer = _Trainer(batch, inputs, device, seed)
        choice = _choose(trainer, batch, plan, seed)
        weights = trainer.begin([choice.start])
        for _ in trainer.losses(weights, choice.rate, [choice.penalty], _shares(batch.weights)[:, None], choice.epochs):
            pass
        return _network(weights, inputs), choice


@dataclass(frozen=True, slots=True)
class _HeldOut:
    """Which rows are held out from which network.

    Attributes
    ----------
    tests
        A column for each fold.
    shares
        What each of them counts in the mean over all that are held out; 0 for a row that never is.
    """

    tests: FloatArray
    shares: FloatArray

    def of_rows(self, losses: FloatArray, kinds: int) -> FloatArray:
        """The loss of each row where it was held out, for each kind of network; `losses` has one for every network."""
        by_fold = losses.reshape(len(losses), kinds, self.tests.shape[1])
        found: FloatArray = (by_fold * self.tests[:, None, :]).sum(axis=2)
        return found


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A way to train, and the loss of each row that was held out."""

    rate: float
    penalty: float
    epochs: int
    loss: FloatArray
    mean: float


def _choose(trainer: _Trainer, batch: Batch, plan: Plan, seed: int) -> Choice:
    """Rate, lambda and epochs by the log-loss of rows that are held out; no epochs where that gains too little."""
    fold, counted = np.full(len(batch), -1), batch.weights > 0
    fold[counted] = folds_by_score(batch.score[counted], batch.labels[counted], FOLDS, seed, "recal folds")
    folds = FOLDS if len(batch) * len(plan.penalties) <= MOST_FOLDED else 1
    tests = [fold == index for index in range(folds)]
    shares = _shares(np.where(np.any(tests, axis=0), batch.weights, 0.0))
    held = _HeldOut(np.column_stack(tests).astype(np.float64), shares)
    train_on = np.column_stack([_shares(np.where(test, 0.0, batch.weights)) for test in tests])
    starts = [_temperature(batch.take(~test)) for test in tests]
    attempts = [_attempts(trainer, held, train_on, starts, rate, plan) for rate in plan.rates]
    before, best = attempts[0][0], min((best for _, best in attempts), key=lambda attempt: attempt.mean)
    gain = before.loss - best.loss
    error = float(np.sqrt(np.square(shares * (gain - shares @ gain)).sum()))
    if not before.mean - best.mean > plan.margin * error:
        best = before
    return Choice(best.rate, best.penalty, best.epochs, _temperature(batch), before.mean, best.mean)


def _attempts(
    trainer: _Trainer, held: _HeldOut, train_on: FloatArray, starts: Sequence[float], rate: float, plan: Plan
) -> tuple[_Attempt, _Attempt]:
    """At this rate, no epoch at all, and the best number of epochs with the best lambda."""
    kinds, folds = len(plan.penalties), len(starts)
    weights, found = trainer.begin([*starts] * kinds), list[_Attempt]()
    losses = trainer.losses(weights, rate, np.repeat(plan.penalties, folds), np.tile(train_on, (1, kinds)), plan.epochs)
    for epoch, loss in enumerate(losses):
        if epoch % 10 == 0:
            tell(f"epoch {epoch} at rate {rate:g}")
        of_rows = held.of_rows(loss, kinds)
        means = held.shares @ of_rows
        kind = int(means.argmin())
        if not found or means[kind] < found[-1].mean - _LOWER:
            found.append(_Attempt(rate, plan.penalties[kind], epoch, of_rows[:, kind], float(means[kind])))
        elif epoch - found[-1].epochs >= PATIENCE:
            break
    return found[0], found[-1]


class _Trainer:
    """Rows on a device, ready to be learned from."""

    def __init__(self, batch: Batch, inputs: Inputs, device: torch.device, seed: int) -> None:
        import torch

        self.seed = seed
        self.device = device
        self.parts = {name: torch.as_tensor(values, device=device) for name, values in inputs.parts.items()}
        self.mix: Mix | None = None
        if inputs.graph is not None:
            self.mix = second_mixing(inputs.graph, inputs.scheme, device)
        gaps, of_label, right = _by_rank(batch)
        self.gaps = torch.as_tensor(gaps, device=device)[:, None, :]
        self.of_label = torch.as_tensor(of_label, device=device)[:, None]
        self.right = torch.as_tensor(right, device=device)[:, None]

    def begin(self, temperatures: Sequence[float]) -> Weights:
        """Networks that start from these temperatures, and are otherwise alike: nothing comes of the logits yet."""
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
        """Train; the log-loss of every row (first axis) by every network, before each epoch and after the last.

        Each network has a lambda among `penalties`, and a column of `train_on` that says what each row counts.
        """
        import torch

        shares = torch.as_tensor(train_on, device=self.device)
        strength = torch.as_tensor(np.asarray(penalties, dtype=np.float64), device=self.device)
        decaying = [tensor for name, tensor in weights.items() if name.endswith(("weight", "out"))]
        others = [tensor for name, tensor in weights.items() if not name.endswith(("weight", "out"))]
        optimizer = torch.optim.Adam(others, lr=rate)
        optimizer.add_param_group({"params": decaying, "weight_decay": WEIGHT_DECAY})
        for epoch in range(epochs + 1):
            log_loss, penalty = self._loss(self._temperatures(weights))
            yield log_loss.detach().cpu().numpy()
            if epoch < epochs:
                optimizer.zero_grad()
                (shares * (log_loss + strength * penalty)).sum().backward()  # type: ignore[no-untyped-call]
                optimizer.step()

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
        """-ln of the probability of what happened (Eq. 6), and of each row what Eq. 7 sums up: 1 - (the greatest less
        the second greatest probability) where the row is predicted right, and that difference where it is not.
        """
        import torch

        others = torch.exp(self.gaps / temperatures[:, :, None])
        total = 1.0 + others.sum(dim=2)
        lead = (1.0 - others[:, :, 0]) / total
        return torch.log(total) - self.of_label / temperatures, torch.where(self.right, 1.0 - lead, lead)


def _by_rank(batch: Batch) -> tuple[FloatArray, FloatArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """How far the other logits lie below the greatest, falling; how far the label's does; whether it is the greatest.

    With logits relative to the greatest no exponential overflows, and the order of the classes is found once, for no
    temperature changes it.
    """
    values = logits(batch.score)
    order = np.argsort(-values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    ranked -= ranked[:, :1].copy()
    rank = (order == batch.labels[:, None]).argmax(axis=1)
    return ranked[:, 1:], np.take_along_axis(ranked, rank[:, None], axis=1)[:, 0], rank == 0


def _temperature(batch: Batch) -> float:
    """The one temperature that suits all rows; 1 where no row counts."""
    if not batch.weights.sum() > 0:
        return 1.0
    return 1.0 / temperature.fit(batch, NO_SIDE_INPUTS, {}, 0).number("inverse_temperature")


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
    """PyTorch on one thread, with algorithms that give the same numbers each time; as it was, afterwards."""
    import torch

    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise UsageError("device=cuda: PyTorch finds no GPU here", hint="the CPU is always enough: --set device=cpu")
    use_gpu = there and device != "cpu"
    if use_gpu:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS is refused
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        yield torch.device("cuda" if use_gpu else "cpu")
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
