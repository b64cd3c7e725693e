"""A pool of calibrators: the mixture p = sum of w_m p_m of their probabilities.

The weights w, which are not negative and add up to 1, have the greatest likelihood on held-out rows: each member
predicts every row from a fit on other rows. No calibration is always among the members that are weighed. A mixture of
calibrators that err in different places can be better than the best of them, and hedges the choice between those that
cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from calcli.batch import Batch, FloatArray, LabelArray, SideInputs
from calcli.errors import UsageError
from calcli.expressions import Inputs, Terms, total
from calcli.methods import calibrator, catalog
from calcli.methods.base import READS, SETTINGS, Params, Section, number
from calcli.methods.calibrator import FittedMethod, Settled, formula_of
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.coding import unpacked_once
from calcli.numeric.losses import log_loss, prob_of_label
from calcli.numeric.mixture import likeliest_weights
from calcli.numeric.seeded import Mask, Split, folds_by_row, in_turn, splits_of_units, stream, tested
from calcli.numeric.seeded import held_out as draw
from calcli.state import Json, Rules, State, nest, unit, unnest

POOL, IDENTITY = "pool", "identity"

MOST_ROWS = 200_000
"""How many rows members are weighed on, a sample if there are more: more rows do not change the weights. Members that
are kept are fitted on all."""

FOLDS = 5

CROSS_VALIDATED_ROWS = 50_000
"""Up to so many rows each fold is held out in turn, above it one: 10,000 rows tell members apart well enough."""

LEAST = 0.02
"""Members with less weight are left out: they would cost more time than they gain."""

MOST = 5
"""How many members are kept."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    batch = batch if batch.weight is None else batch.take(batch.weight > 0)  # others would be dealt into folds too
    asked = members_asked(params, batch)
    if params["weights"] != "auto":
        members = _fitted(asked, batch, seed)
        return mixture(members, dict(zip(members, _given_weights(params, len(members)), strict=True)), {})
    compared = compared_rows(len(batch), seed)
    some = batch if compared.all() else batch.take(compared)
    splits = _splits(some, seed)
    if not splits:
        return mixture(_fitted([catalog.find(IDENTITY)], batch, seed), {IDENTITY: 1.0}, {})
    params_of = {spec.name: spec.as_member(spec.resolve()) for spec in asked}
    settled = {spec.name: calibrator.settle(spec, some, params_of[spec.name], splits, seed=seed) for spec in asked}
    rows, held_out = predicted_out_of_fold(settled, some, splits, seed)
    weights = weigh(held_out, rows.labels, rows.weight, most=int(number(params, "most")))
    members = {name: settled[name].fitted for name in weights}
    if some is not batch:
        members = _fitted([member.spec for member in members.values()], batch, seed)
    return mixture(members, weights, held_out_losses(held_out, weights, rows.labels, rows.weight))


def compared_rows(rows: int, seed: int) -> Mask:
    """Marks of the rows that members are weighed on: all, or `MOST_ROWS` of them at random."""
    if rows <= MOST_ROWS:
        return np.ones(rows, dtype=np.bool_)
    return draw(rows, MOST_ROWS / rows, stream(seed, "selection"))


def _fitted(specs: Iterable[MethodSpec], batch: Batch, seed: int) -> dict[str, FittedMethod]:
    return {spec.name: calibrator.fit(spec, batch, spec.resolve(), seed=seed) for spec in specs}


def holds(classes: int) -> Rules:
    return {"weights": unit("n")}


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    prob: FloatArray = np.zeros_like(batch.score)
    for member, weight in _unpacked(state).values():
        prob += weight * member.predict(batch)
    return prob


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    each = [
        [weight * one for one in formula_of(member, score, features)] for member, weight in _unpacked(state).values()
    ]
    return tuple(total(list(of_class)) for of_class in zip(*each, strict=True))


def explain(state: State) -> tuple[Section, ...]:
    """The members with their weights and held-out losses, then the sections of each member."""
    losses = state.params["losses"]
    assert isinstance(losses, dict)
    rows = tuple((name, weight, losses.get(name)) for name, (_, weight) in _unpacked(state).items())
    note = ""
    if losses:
        note = f"Log-loss on held-out rows: {losses[POOL]:.5f} mixed, {losses[IDENTITY]:.5f} without calibration."
    members = Section("members", ("member", "weight", "held-out log-loss"), rows, note)
    of_members = (
        replace(section, title=f"{name}: {section.title}")
        for name, (member, _) in _unpacked(state).items()
        for section in member.explain([str(index) for index in range(member.classes)])
    )
    return (members, *of_members)


def mixture(members: Mapping[str, FittedMethod], weights: Mapping[str, float], losses: Mapping[str, float]) -> State:
    """The pool of the members that have a weight; `losses` are held-out log-losses, of `POOL` too."""
    members = {name: members[name] for name in weights}
    whole = nest({name: member.to_state() for name, member in members.items()})
    settings: dict[str, Json] = {"members": ",".join(members), "weights": ",".join(map(repr, weights.values()))}
    facts: dict[str, Json] = {SETTINGS: settings, "members": [*members], "losses": dict(losses)}
    reads = [member.reads if member.spec.needs_features else () for member in members.values()]
    if None not in reads:
        facts[READS] = [*sorted({name for of_member in reads for name in of_member or ()})]
    arrays = {**whole.arrays, "weights": np.array(list(weights.values()))}
    return State({**whole.params, **facts}, arrays, whole.blobs)


def held_out_losses(
    held_out: Mapping[str, FloatArray], weights: Mapping[str, float], labels: LabelArray, weight: FloatArray | None
) -> dict[str, float]:
    """The log-loss of each member on rows that it has not seen, and that of the mixture."""
    every = {**held_out, POOL: mixed(held_out, weights)}
    return {name: float(np.average(log_loss(prob, labels), weights=weight)) for name, prob in every.items()}


def mixed(probabilities: Mapping[str, FloatArray], weights: Mapping[str, float]) -> FloatArray:
    """The sum of w_m p_m."""
    return np.asarray(sum(weight * probabilities[name] for name, weight in weights.items()))


def weigh(
    held_out: Mapping[str, FloatArray],
    labels: LabelArray,
    weight: FloatArray | None = None,
    *,
    most: int = MOST,
    near: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """The weights of greatest likelihood of at most so many members, the heaviest first.

    `near` are the weights that follow from nearly the same rows: from there it is not far.
    """
    likelihood = np.column_stack([prob_of_label(prob, labels) for prob in held_out.values()])
    likelihood /= likelihood.max(axis=1, keepdims=True)
    rows = np.ones(len(likelihood)) if weight is None else weight
    names, kept = list(held_out), np.arange(likelihood.shape[1])
    weights: FloatArray = np.array([(near or {}).get(name, 0.0) for name in names])
    while True:
        weights = likeliest_weights(likelihood[:, kept], rows, weights[kept])
        heaviest = np.argsort(-weights, kind="stable")[:most]
        order = heaviest[weights[heaviest] >= min(LEAST, float(weights.max()))]
        if len(order) == len(kept):
            return {names[kept[place]]: float(weights[place]) for place in order}
        kept, found = np.sort(kept[order]), weights
        weights = np.zeros(len(names))
        weights[kept] = found[np.sort(order)]


def predicted_out_of_fold(
    members: Mapping[str, Settled], batch: Batch, splits: Sequence[Split], seed: int
) -> tuple[Batch, dict[str, FloatArray]]:
    """The held-out rows, and their probabilities by each member, fitted on other rows with its chosen settings."""
    held_out = {name: np.empty(batch.score.shape) for name in members}
    for place, (seen, unseen) in enumerate(splits):
        rows, others = batch.take(seen), batch.take(unseen)
        for name, member in members.items():
            known = member.of_splits.get(place)
            fitted = known or calibrator.fit(member.fitted.spec, rows, member.params, seed=seed)
            held_out[name][unseen] = fitted.predict(others)
    judged = tested(splits, len(batch))
    return batch.bare.take(judged), {name: prob[judged] for name, prob in held_out.items()}


def _splits(batch: Batch, seed: int) -> list[Split]:
    """Folds of rows or of units; none where there are fewer distinct scores."""
    if len(np.unique(batch.score, axis=0)) < FOLDS:
        return []
    most = FOLDS if len(batch) <= CROSS_VALIDATED_ROWS else 1
    if batch.units is not None:
        return splits_of_units(batch.units, FOLDS, stream(seed, "pool"), most)
    return in_turn(folds_by_row(batch.score, batch.weight, FOLDS, seed, "pool"), most)


def members_asked(params: Params, batch: Batch) -> list[MethodSpec]:
    """The methods that are weighed, identity first."""
    if params["members"] == "auto":
        return [spec for spec in catalog.suited_to(batch) if spec.lacks(spec.resolve(), len(batch.features)) is None]
    names = [name.strip() for name in str(params["members"]).split(",")]
    if params["weights"] == "auto":
        names.insert(0, IDENTITY)
    found = [catalog.find(name) for name in dict.fromkeys(names)]
    for spec in found:
        if spec.keeps or spec.name == POOL:
            raise UsageError(f"members={params['members']}: {spec.name} cannot be one of a pool")
        if spec.lacks_columns(batch):
            raise calibrator.no_features(spec)
    return found


def _given_weights(params: Params, members: int) -> list[float]:
    text = str(params["weights"])
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != members or not all(0.0 < weight <= 1.0 for weight in weights):
        raise UsageError(f"weights={text}: one number between 0 and 1 is needed for each of the {members} members")
    return [weight / sum(weights) for weight in weights]


@unpacked_once("weights")
def _unpacked(state: State) -> dict[str, tuple[FittedMethod, float]]:
    """The members and their weights, by name."""
    names = state.params["members"]
    if not isinstance(names, list):
        raise TypeError("it does not say who its members are")
    parts = unnest(state, map(str, names))
    if abs(float(state.array("weights").sum()) - 1.0) > 1e-9:
        raise ValueError("the weights of its members do not add up to 1")
    return {
        name: (FittedMethod.from_state(name, part), float(weight))
        for (name, part), weight in zip(parts.items(), state.array("weights"), strict=True)
    }
