"""The mean of an ensemble's members, and its uncertainty in two parts.

Data uncertainty is in every member: classes that overlap, noise. Knowledge uncertainty is their disagreement: rows
unlike those that they were trained on. They add up to the total (equations 3 to 6 of the paper).

Rows from out of the domain are made from another table (section 5). They have the scale of the rows that the ensemble
was trained on, so that no single value gives them away, but the dependence between columns of the other table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Column, FloatArray, spans
from calcli.errors import DataError
from calcli.numeric.links import CLIP, LEAST
from calcli.numeric.seeded import stream
from calcli.state import Json, State, pack_texts, unpack_texts

_BLOCK = 1 << 12
"""How many rows are decomposed at a time, so that intermediate results stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Members:
    """The predictions of M members."""

    mean: FloatArray
    """The probability of the positive class, shape (n, M); of each class, shape (n, M, K); or the mean of the amount,
    shape (n, M).
    """

    variance: FloatArray | None = None
    """The variance of the amount, shape (n, M); None for classes."""

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def count(self) -> int:
        """M."""
        return int(self.mean.shape[1])

    def only(self, member: int) -> Members:
        """One member, as an ensemble of one; -1 is the last."""
        place = slice(member, None) if member == -1 else slice(member, member + 1)
        return Members(self.mean[:, place], None if self.variance is None else self.variance[:, place])


@dataclass(frozen=True, slots=True)
class Decomposed:
    """The mean and the uncertainty of each row."""

    mean: FloatArray
    """The mean over the members, shape (n,), or (n, K) for more than two classes."""

    data: FloatArray
    knowledge: FloatArray
    """`data`, `knowledge`: uncertainty in nats; for amounts in their square. Never negative."""

    @property
    def total(self) -> FloatArray:
        return self.data + self.knowledge


def decompose(members: Members) -> Decomposed:
    """The mean, and the uncertainty in its parts.

    Classes: the total is the entropy of the mean, -sum_k pbar_k ln pbar_k; data uncertainty the mean of the members'
    entropies; the rest is knowledge uncertainty, the mutual information of label and member (equation 4). Amounts:
    data uncertainty is the mean of the members' variances, knowledge uncertainty the variance of their means, over M
    (equation 6).
    """
    if members.variance is not None:
        knowledge: FloatArray = members.mean.var(axis=1)
        return Decomposed(_mean(members.mean), _mean(members.variance), knowledge)
    parts = [_decompose_classes(members.mean[block]) for block in spans(max(len(members), 1), _BLOCK)]
    return Decomposed(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _decompose_classes(prob: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    mean = _mean(prob)
    total, data = _entropy(mean, binary=mean.ndim == 1), _mean(_entropy(prob, binary=prob.ndim == 2))
    return mean, data, np.maximum(total - data, 0.0)  # below 0 it can only be rounding


def _mean(values: FloatArray) -> FloatArray:
    """The mean over members."""
    mean: FloatArray = np.einsum("nm...->n...", values)
    mean /= values.shape[1]
    return mean


def _entropy(prob: FloatArray, *, binary: bool) -> FloatArray:
    """The entropy in nats of a probability and its complement, or of the last axis."""
    negative: FloatArray = _times_log(prob) + _times_log(1.0 - prob) if binary else _times_log(prob).sum(axis=-1)
    return -negative


def _times_log(prob: FloatArray) -> FloatArray:
    """The product p ln p, 0 where p is 0."""
    product: FloatArray = np.log(np.maximum(prob, LEAST))
    product *= prob
    return product


def expected_kl(members: Members, parts: Decomposed) -> FloatArray:
    """The expected Kullback-Leibler divergence of one member from another: a second measure of disagreement.

    Classes: -sum_k pbar_k mean_m ln p_mk - data, probabilities held at 1e-12 or more under the logarithm. Amounts: the
    mean over pairs m, l of two different members of [(mu_m - mu_l)^2 + var_m] / (2 var_l) - 1/2 + ln(var_l / var_m)/2.
    """
    if members.variance is not None:
        return _expected_kl_of_amounts(members.mean, members.variance)
    logs = np.log(np.maximum(members.mean, CLIP)).mean(axis=1)
    cross: FloatArray
    if parts.mean.ndim == 2:
        cross = -(parts.mean * logs).sum(axis=1)
    else:
        logs_of_other = np.log(np.maximum(1.0 - members.mean, CLIP)).mean(axis=1)
        cross = -(parts.mean * logs + (1.0 - parts.mean) * logs_of_other)
    return np.maximum(cross - parts.data, 0.0)


def _expected_kl_of_amounts(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """`expected_kl` from sums over members: the sum over m of (mu_m - mu_l)^2 is M (var mu + (mu_l - mubar)^2)."""
    count = mean.shape[1]
    squares = np.square(mean - mean.mean(axis=1, keepdims=True))
    spread = count * (squares.mean(axis=1, keepdims=True) + squares)
    others = variance.sum(axis=1, keepdims=True) - variance
    divergence: FloatArray = ((spread + others) / (2.0 * variance)).sum(axis=1) / (count * (count - 1)) - 0.5
    return np.maximum(divergence, 0.0)  # the logarithms cancel over all pairs


def reverse_information(parts: Decomposed, divergence: FloatArray) -> FloatArray:
    """Reverse mutual information: `expected_kl` less knowledge uncertainty."""
    return np.maximum(divergence - parts.knowledge, 0.0)


@dataclass(frozen=True, slots=True)
class SeenFeatures:
    """The scale and the values of features in the training rows."""

    scale: Mapping[str, tuple[float, float]]
    """Mean and standard deviation of each number, without missing values."""

    values: Mapping[str, Column]
    """Each category and boolean, as a column that holds every value once, also the missing one if there was any."""

    @classmethod
    def of(cls, features: Mapping[str, Column]) -> SeenFeatures:
        scale: dict[str, tuple[float, float]] = {}
        values: dict[str, Column] = {}
        for name, column in features.items():
            if column.role == "number":
                scale[name] = _scale(column.values)
            else:
                values[name] = _as_column(column.role, np.unique(column.values), column.levels)
        return cls(scale, values)

    def to_state(self) -> State:
        """As an artifact keeps it."""
        scale: NDArray[np.generic] = np.array(list(self.scale.values()), dtype=np.float64).reshape(-1, 2)
        arrays = {"scale": scale}
        roles: list[Json] = []
        for place, column in enumerate(self.values.values()):
            roles.append(column.role)
            arrays[f"{place}/values"] = column.values
            arrays |= pack_texts(column.levels, str(place))
        return State({"numbers": list(self.scale), "values": list(self.values), "roles": roles}, arrays)

    @classmethod
    def from_state(cls, state: State) -> SeenFeatures:
        """The inverse of `to_state`."""
        numbers, names, roles = (state.params[key] for key in ("numbers", "values", "roles"))
        if not (isinstance(numbers, list) and isinstance(names, list) and isinstance(roles, list)):
            raise TypeError("it has no statistics of the features")
        pairs = zip(numbers, state.array("scale"), strict=True)
        scale = {str(name): (float(mean), float(sd)) for name, (mean, sd) in pairs}
        values: dict[str, Column] = {}
        for place, (name, role) in enumerate(zip(names, roles, strict=True)):
            levels = unpack_texts(state.arrays, str(place))
            values[str(name)] = _as_column(str(role), state.arrays[f"{place}/values"], levels)
        return cls(scale, values)


def _as_column(role: str, values: NDArray[np.generic], levels: tuple[str, ...]) -> Column:
    if role == "category":
        return Column("category", values.astype(np.int32), levels)
    return Column("boolean", values.astype(np.float64))


def _scale(values: NDArray[np.generic]) -> tuple[float, float]:
    """Mean and standard deviation of the finite values; (0, 0) without any."""
    numbers = np.asarray(values, dtype=np.float64)
    finite = numbers[np.isfinite(numbers)]
    return (float(finite.mean()), float(finite.std())) if len(finite) else (0.0, 0.0)


def make(
    features: tuple[str, ...], seen: SeenFeatures, foreign: FloatArray, rows: int, *, seed: int, first: bool = False
) -> dict[str, Column]:
    """Rows from out of the domain with columns of these names.

    `foreign` has the numbers of another table, a column for each; those of zero variance are left out. The i-th number
    among the features is the i-th of them, at the scale of `seen`: x = (u - mean u)/sd u * sd + mean. The values of
    categories are drawn uniformly. With `first` the first rows of the table are taken, with their own mean and
    deviation, in place of rows drawn at random.
    """
    if rows > len(foreign):
        raise DataError(
            f"the table to make rows from has {len(foreign):,} rows, and it takes {rows:,}",
            hint="use a larger one, or evaluate on fewer rows",
        )
    # Rows of the other table, and the columns of it that vary.
    drawn = np.arange(rows) if first else stream(seed, "strangers", "rows").permutation(len(foreign))[:rows]
    scales = [_scale(column) for column in (foreign[drawn] if first else foreign).T]
    usable = [place for place, (_, sd) in enumerate(scales) if sd > 0.0]
    if len(usable) < len(seen.scale):
        raise DataError(
            f"the table to make rows from has {len(usable)} columns of numbers that vary, "
            f"and there are {len(seen.scale)} features that are numbers",
            hint="use another one",
        )
    # Numbers are brought to the scale of the features, the values of other features are drawn uniformly.
    columns: dict[str, Column] = {}
    numbers = iter(usable)
    for name in features:
        if name in seen.scale:
            place = next(numbers)
            (mean, sd), (seen_mean, seen_sd) = scales[place], seen.scale[name]
            columns[name] = Column("number", (foreign[drawn, place] - mean) / sd * seen_sd + seen_mean)
        else:
            column = seen.values[name]
            columns[name] = column.take(stream(seed, "strangers", name).integers(len(column.values), size=rows))
    return columns
