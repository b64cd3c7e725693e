"""Write the sample tables: `python sample_data/generate.py [DIR]` (default: the directory of this file).

Every table is simulated: first the true probability of each row, then its label drawn from it, then a score that is
wrong in a way we chose. README.md beside this file says what is wrong with which score. The true probability is never
written, since it would leak the label; `build()` returns it beside each table, so that tests can compare with it.

Each group of tables has its own random stream, so that changing one leaves the others as they were. Every number is
rounded before it is written, which keeps the values equal across machines. NumPy may change its streams between
releases; should that happen, run this script again and commit what it writes.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

SEED = 20260301

COUNTRIES = ("us", "gb", "de", "fr", "jp", "br", "in", "ca", "it", "es", "nl", "se")
DEVICES = ("phone", "desktop", "tablet", "tv")
DEVICE_MISSED = np.array([-0.15, 0.3, -0.6, 0.7])
"""Log-odds that the click score misses on each device, before the part that also depends on the country."""
SLOTS = ("feed", "banner", "sidebar", "interstitial")
OVERCONFIDENCE = {"feed": 1.15, "banner": 1.55, "sidebar": 1.55, "interstitial": 2.3}
"""The factor by which the click score exaggerates the distance from `CENTRE`, per slot.

What the score misses comes on top: over all rows the slope of the label on the logit is about 1/1.8."""
CENTRE = -2.0
CLICK_SHIFT = 0.1
HIDDEN = 0.9
"""How much the click model saw that the tables do not have (the creative, say)."""

CLASSES = ("siamese", "bengal", "persian", "birman")
"""Not in alphabetical order on purpose: the columns must be bound by name, not by position."""
SHELTERS = (
    "Happy Paws",
    "Katzenhaus Süd, München",
    'The "Nine Lives" Trust',
    "Refuge des Chats, Besançon",
    "猫の家, 大阪",
    'Schronisko "Pod Kotem", Łódź',
    "Gatos de Ávila",
    "O'Malley & Sons",
)
LENS_OVERCONFIDENCE = {"camera": 1.4, "phone": 2.6}

MEMBERS = 10

TASKS = {"arithmetic": 1.4, "geography": 0.9, "law": -0.3, "medicine": 0.2}
"""The log-odds of a right answer to a question of middling difficulty."""
TASK_OVERCONFIDENCE = {"arithmetic": 1.1, "geography": 1.6, "law": 2.6, "medicine": 2.0}
"""The factor by which the model's own log-odds exaggerate what it knows, per task."""
ANSWERS = 3
"""A question is answered so many times."""

SYSTEMS = {"old": (0.10, 0.80, 0.16), "new": (0.05, 0.80, 0.22)}
"""Two systems: the share of their answers that are wrong, and the shares of the wrong and of the right ones that the
judge flags. The new one makes half as many mistakes, but writes in a way that the judge distrusts."""
LABELLED = 0.05
"""The share of the questions whose answers people have checked."""


class Made(NamedTuple):
    """A table and the true probability behind each of its rows."""

    frame: pl.DataFrame
    truth: np.ndarray
    """P(positive) per row; one column per class of `CLASSES` for the tables with four classes; empty without labels."""


# ---------------------------------------------------------------------------------------------------------- small tools


def _stream(name: str) -> np.random.Generator:
    """The random stream of one group of tables, independent of all others."""
    return np.random.default_rng([SEED, *name.encode()])


def _pick(rng: np.random.Generator, weights: Sequence[float] | np.ndarray, n: int) -> np.ndarray:
    """Draw n indices with these weights."""
    edges = np.cumsum(np.asarray(weights, dtype=float))
    return np.minimum(np.searchsorted(edges / edges[-1], rng.random(n), side="right"), len(edges) - 1)


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def _series(values: np.ndarray, dtype: pl.DataType | type[pl.DataType], null: np.ndarray | None = None) -> pl.Series:
    """The values in this type, null where the mask says so."""
    series = pl.Series(values.tolist() if values.dtype == object else values, strict=False).cast(dtype)
    return series if null is None else pl.select(pl.when(pl.Series(~null)).then(series)).to_series()


def _names(codes: np.ndarray, names: Sequence[str]) -> np.ndarray:
    return np.array(names, dtype=object)[codes]


# --------------------------------------------------------------------------------------------------------------- clicks


@dataclass(frozen=True)
class _World:
    """What train, test and the score have in common: the users, the campaigns, and how wrong the score is where."""

    user_number: np.ndarray
    user_weight: np.ndarray
    user_country: np.ndarray
    user_device: np.ndarray
    user_age: np.ndarray
    user_age_unknown: np.ndarray
    user_effect: np.ndarray
    campaign_name: np.ndarray
    campaign_known: np.ndarray
    campaign_missed: np.ndarray
    place_missed: np.ndarray
    """Log-odds that the score misses, device x country."""


def _world(rng: np.random.Generator, users: int = 9_000, campaigns: int = 200) -> _World:
    age = 16 + 60 * rng.random(users) ** 1.6
    return _World(
        user_number=100_000 + rng.permutation(users) * 7,
        user_weight=1.0 / (np.arange(users) + 200.0) ** 0.9,
        user_country=_pick(rng, 1.0 / (np.arange(len(COUNTRIES)) + 1.5), users),
        user_device=_pick(rng, (0.55, 0.28, 0.11, 0.06), users),
        user_age=np.floor(age),
        user_age_unknown=rng.random(users) < 0.08,
        user_effect=0.3 * rng.standard_normal(users),
        campaign_name=_names(rng.permutation(campaigns), [f"c{i:03d}" for i in range(campaigns)]),
        campaign_known=0.4 * rng.standard_normal(campaigns),
        campaign_missed=0.6 * rng.standard_normal(campaigns),
        place_missed=DEVICE_MISSED[:, None] + 0.45 * rng.standard_normal((len(DEVICES), len(COUNTRIES))),
    )


def _what_the_score_knows(
    slot: np.ndarray, price: np.ndarray, recency: np.ndarray, age: np.ndarray, campaign: np.ndarray | float
) -> np.ndarray:
    """The part of the log-odds that the simulated click model has learned."""
    return (
        -2.1
        + np.array([0.35, 0.0, -0.45, 0.25])[slot]
        - 0.45 * np.log(price / 20.0)
        - 0.22 * (np.log1p(recency) - 2.0)
        - 0.012 * (age - 38.0)
        + campaign
    )


def _exaggerate(known: np.ndarray, slot: np.ndarray) -> np.ndarray:
    """The written logit: over-confident about `CENTRE` by a factor that depends on the slot, and too high in all."""
    factor = np.array([OVERCONFIDENCE[name] for name in SLOTS])[slot]
    return np.round(CENTRE + factor * (known - CENTRE) + CLICK_SHIFT, 4)


def _hours(rng: np.random.Generator, n: int) -> np.ndarray:
    return _pick(rng, 1.2 + np.sin((np.arange(24) - 13.0) / 24.0 * 2.0 * np.pi), n)


def _days(first: date, offset: np.ndarray) -> pl.Series:
    return pl.Series((np.datetime64(first) + offset.astype(int)).astype("datetime64[D]"))


def _clicks(rng: np.random.Generator, world: _World, n: int, *, first_row: int, first_day: date, days: int) -> Made:
    """One table of clicks from the common world."""
    user = _pick(rng, world.user_weight, n)
    # A user mostly keeps to one device and stays at home.
    device = np.where(rng.random(n) < 0.8, world.user_device[user], _pick(rng, (0.55, 0.28, 0.11, 0.06), n))
    country = np.where(rng.random(n) < 0.97, world.user_country[user], _pick(rng, np.ones(len(COUNTRIES)), n))
    campaign = _pick(rng, 1.0 / (np.arange(len(world.campaign_name)) + 3.0) ** 1.05, n)
    slot = _pick(rng, (0.4, 0.25, 0.2, 0.15), n)
    hour = _hours(rng, n)
    day = np.sort(np.floor(rng.random(n) * days))
    age = world.user_age[user]
    price = np.round(np.exp(3.0 + 0.7 * rng.standard_normal(n)), 2)
    recency = np.round(-9.0 * np.log1p(-rng.random(n)), 1)
    newcomer = rng.random(n) < 0.15
    logged_in = rng.random(n) < 0.4

    known = _what_the_score_knows(slot, price, recency, age, world.campaign_known[campaign])
    known += 0.25 * logged_in + HIDDEN * rng.standard_normal(n)
    missed = (
        world.place_missed[device, country]
        + world.campaign_missed[campaign]
        + np.where(hour < 6, -0.5, 0.05)
        + np.where(newcomer, 0.5, -0.08)
        + world.user_effect[user]
    )
    truth = _sigmoid(known + missed)
    frame = pl.DataFrame(
        {
            "row_id": _series(first_row + np.arange(n), pl.Int32),
            "day": _days(first_day, day),
            "hour": _series(hour, pl.Int8),
            "user_id": _series(world.user_number[user], pl.Int32),
            "country": _series(_names(country, COUNTRIES), pl.String, rng.random(n) < 0.03),
            "device": _series(_names(device, DEVICES), pl.String),
            "slot": _series(_names(slot, SLOTS), pl.Categorical),
            "campaign": _series(world.campaign_name[campaign], pl.String, rng.random(n) < 0.01),
            "age": _series(age, pl.Int8, world.user_age_unknown[user]),
            "price": _series(price, pl.Float32, rng.random(n) < 0.02),
            "recency_days": _series(recency, pl.Float32, newcomer),
            "logged_in": _series(logged_in, pl.Boolean, rng.random(n) < 0.01),
            "label": _series(rng.random(n) < truth, pl.Int8),
            "logit": _series(_exaggerate(known, slot), pl.Float32),
        }
    )
    return Made(frame, truth)


def _foreign_clicks(rng: np.random.Generator, n: int, first_row: int) -> Made:
    """Another population in the columns of the training table, without labels: where no model should trust itself."""
    countries = ("ng", "ke", "id", "ph", "vn", "in")
    devices = ("tv", "console", "phone")
    slot = _pick(rng, (0.1, 0.1, 0.2, 0.6), n)
    age = np.floor(60 + 35 * rng.random(n))
    price = np.round(np.exp(5.2 + 0.5 * rng.standard_normal(n)), 2)
    recency = np.round(40.0 - 30.0 * np.log1p(-rng.random(n)), 1)
    known = _what_the_score_knows(slot, price, recency, age, 0.0) + HIDDEN * rng.standard_normal(n)
    frame = pl.DataFrame(
        {
            "row_id": _series(first_row + np.arange(n), pl.Int32),
            "day": _days(date(2026, 8, 1), np.sort(np.floor(rng.random(n) * 10))),
            "hour": _series(_pick(rng, [3, 4, 5, 5, 4, 3, *[0.3] * 18], n), pl.Int8),
            "user_id": _series(800_000 + np.floor(1500 * rng.random(n)), pl.Int32),
            "country": _series(_names(_pick(rng, (4, 3, 3, 2, 2, 1), n), countries), pl.String, rng.random(n) < 0.1),
            "device": _series(_names(_pick(rng, (0.5, 0.3, 0.2), n), devices), pl.String),
            "slot": _series(_names(slot, SLOTS), pl.Categorical),
            "campaign": _series(_names(_pick(rng, np.ones(40), n), [f"x{i:02d}" for i in range(40)]), pl.String),
            "age": _series(age, pl.Int8, rng.random(n) < 0.3),
            "price": _series(price, pl.Float32),
            "recency_days": _series(recency, pl.Float32, rng.random(n) < 0.02),
            "logged_in": _series(rng.random(n) < 0.05, pl.Boolean),
            "logit": _series(_exaggerate(known, slot), pl.Float32),
        }
    )
    return Made(frame, np.empty(0))


# -------------------------------------------------------------------------------------------------------------- classes


def _cats(rng: np.random.Generator, shelter_missed: np.ndarray, n: int, first_photo: int) -> Made:
    """One table of cat photographs with a logit for each of four breeds."""
    shelter = _pick(rng, 1.0 / (np.arange(len(SHELTERS)) + 2.0), n)
    phone = rng.random(n) < 0.45
    coats = ("short", "long", "none", "curly")
    coat = _pick(rng, (0.55, 0.35, 0.04, 0.06), n)
    age = np.floor(-40.0 * np.log1p(-rng.random(n)))
    weight = np.round(4.2 + 0.9 * rng.standard_normal(n), 1).clip(1.5)
    brightness = np.round(rng.random(n), 2)

    long_hair = (coat == 1)[:, None] * np.array([-1.2, -1.0, 1.4, 1.2])
    known = np.array([0.5, 0.2, 0.0, -0.4]) + long_hair + 2.0 * rng.standard_normal((n, 4))
    true_logits = known + shelter_missed[shelter] + (brightness < 0.2)[:, None] * np.array([0.9, 0.0, 0.0, -0.9])
    truth = np.exp(true_logits - true_logits.max(axis=1, keepdims=True))
    truth /= truth.sum(axis=1, keepdims=True)
    breed = np.minimum((rng.random(n)[:, None] > np.cumsum(truth, axis=1)).sum(axis=1), 3)
    factor = np.where(phone, LENS_OVERCONFIDENCE["phone"], LENS_OVERCONFIDENCE["camera"])[:, None]
    logits = np.round(factor * known + np.array([0.0, 0.8, 0.0, -0.4]), 3)
    frame = pl.DataFrame(
        {
            "photo": [f"IMG_{first_photo + i:05d}" for i in range(n)],
            "shelter": _series(_names(shelter, SHELTERS), pl.String),
            "lens": _series(_names(phone.astype(int), ("camera", "phone")), pl.String),
            "coat": _series(_names(coat, coats), pl.String, rng.random(n) < 0.05),
            "age_months": _series(age, pl.Int32, rng.random(n) < 0.06),
            "weight_kg": _series(weight, pl.Float64, rng.random(n) < 0.04),
            "brightness": _series(brightness, pl.Float64),
            "indoor": _series(rng.random(n) < 0.7, pl.Boolean),
            "label": _series(_names(breed, CLASSES), pl.String),
            **{f"logit_{name}": logits[:, k] for k, name in enumerate(CLASSES)},
        }
    )
    return Made(frame, truth)


# ---------------------------------------------------------------------------------------------------------------- graph


def _nearest_pairs(x: np.ndarray, k: int) -> np.ndarray:
    """Pairs (i, j) where j is among the k nearest of i."""
    pairs = []
    for start in range(0, len(x), 500):
        rows = np.arange(start, min(start + 500, len(x)))
        distance = (x[rows, 0, None] - x[:, 0]) ** 2 + (x[rows, 1, None] - x[:, 1]) ** 2
        distance[np.arange(len(rows)), rows] = np.inf
        near = np.argpartition(distance, k, axis=1)[:, :k]
        pairs.append(np.column_stack([np.repeat(rows, k), near.ravel()]))
    return np.concatenate(pairs)


def _homes(rng: np.random.Generator, n: int = 6_000) -> tuple[Made, Made]:
    """Homes on a map, sold above the asking price or not, and the edges between near ones."""
    side = 4
    districts = ("Old Town", "Mill Lane", "Northgate", "Riverside", "Harbour", "St. Anne", "Hilltop", "Westfield")
    districts += ("Kiln Park", "Ferry Road", "Orchard", "Stadium", "Canal End", "Eastgate", "Quarry", "New Quay")
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    centre = grid * 0.03 + 0.004 * rng.standard_normal((side * side, 2))
    # Appeal rises across the map. Where it is low the score is right, where it is high it exaggerates up to 4 times.
    appeal = (grid.sum(axis=1) - side + 1) * 0.6 + 0.2 * rng.standard_normal(side * side)
    factor = 1.0 + 3.0 * _sigmoid(5.0 * appeal)
    district_missed = 0.25 * rng.standard_normal(side * side)

    district = _pick(rng, 0.5 + rng.random(side * side), n)
    place = centre[district] + 0.008 * rng.standard_normal((n, 2))
    area = np.round(np.exp(4.4 + 0.35 * rng.standard_normal(n)))
    rooms = np.clip(np.round(area / 25 + 0.7 * rng.standard_normal(n)), 1, 12)
    built = np.floor(1900 + 123 * rng.random(n) ** 0.7)
    kind = _pick(rng, (0.5, 0.3, 0.2), n)
    known = appeal[district] + 0.5 * np.log(area / 85) + np.array([-0.2, 0.1, 0.4])[kind] + rng.standard_normal(n)
    known += 0.004 * (built - 1970) - 0.3
    truth = _sigmoid(known + district_missed[district])
    node = 70_000 + np.cumsum(1 + np.floor(3 * rng.random(n))).astype(int)  # with gaps: an id is not a row number
    order = rng.permutation(n)
    frame = pl.DataFrame(
        {
            "node_id": _series(node, pl.Int32),
            "lat": _series(np.round(50.0 + 0.65 * place[:, 1], 5), pl.Float64),
            "lon": _series(np.round(4.0 + place[:, 0], 5), pl.Float64),
            "district": _series(_names(district, districts), pl.String, rng.random(n) < 0.02),
            "kind": _series(_names(kind, ("flat", "terrace", "detached")), pl.Categorical),
            "area": _series(area, pl.Float32),
            "rooms": _series(rooms, pl.Int8, rng.random(n) < 0.05),
            "built": _series(built, pl.Int16, rng.random(n) < 0.1),
            "label": _series(rng.random(n) < truth, pl.Boolean),
            "logit": _series(np.round(factor[district] * known, 4), pl.Float32),
        }
    )[order]

    pairs = _nearest_pairs(place, 6)
    pairs = np.concatenate(
        [pairs, np.floor(n * rng.random((200, 2))).astype(int)]
    )  # and some far ones: same agent, say
    alone = rng.random(n) < 0.01
    pairs = np.sort(pairs[~alone[pairs].any(axis=1) & (pairs[:, 0] != pairs[:, 1])], axis=1)
    pairs = np.unique(pairs, axis=0)
    edges = pl.DataFrame({"src": _series(node[pairs[:, 0]], pl.Int32), "dst": _series(node[pairs[:, 1]], pl.Int32)})
    return Made(frame, truth[order]), Made(edges, np.empty(0))


# -------------------------------------------------------------------------------------------------------------- members


def _members(rng: np.random.Generator, n: int = 6_000) -> Made:
    """The predictions of ten models that agree where data are plenty and guess where they are rare."""
    blob = _pick(rng, (0.5, 0.4, 0.1), n)
    centres, spread = np.array([[-1.5, 0.0], [1.5, 1.0]]), 0.6
    x = centres[np.minimum(blob, 1)] + spread * rng.standard_normal((n, 2))
    x = np.where((blob == 2)[:, None], 10.0 * rng.random((n, 2)) - 5.0, x)  # one row in ten comes from anywhere
    x = np.round(x, 3)
    square = ((x[:, None, :] - centres) ** 2).sum(axis=2) / spread**2
    density = np.exp(-square / 2) @ np.array([0.5, 0.4]) / (2 * np.pi * spread**2) + 0.1 / 100.0
    doubt = np.minimum(0.05 / np.sqrt(density), 1.6)

    log_odds = 1.3 * np.sin(1.3 * x[:, 0]) + 0.9 * x[:, 1] - 0.8
    truth = _sigmoid(log_odds)
    frame = {
        "row_id": _series(np.arange(n), pl.Int32),
        "x1": _series(x[:, 0], pl.Float32),
        "x2": _series(x[:, 1], pl.Float32),
        "label": _series(rng.random(n) < truth, pl.Int8),
    }
    waves = 40
    for m in range(MEMBERS):
        # A smooth random function of variance one: a sum of waves of random direction and phase.
        phase = x @ rng.standard_normal((2, waves)) + 2 * np.pi * rng.random(waves)
        wobble = np.sqrt(2 / waves) * np.cos(phase).sum(axis=1)
        frame[f"member_{m}"] = _series(
            np.round(_sigmoid(log_odds + doubt * wobble).clip(0.0005, 0.9995), 4), pl.Float32
        )
    return Made(pl.DataFrame(frame), truth)


# ------------------------------------------------------------------------------------------------------------- together


def _answers(rng: np.random.Generator, questions: int, first: int) -> Made:
    """A language model's answers as an evaluation harness logs them; the answers to a question share its difficulty."""
    tasks = tuple(TASKS)
    task = np.repeat(np.arange(questions) % len(tasks), ANSWERS)
    doc = first + np.repeat(np.arange(questions), ANSWERS)
    easy = np.repeat(1.1 * rng.standard_normal(questions), ANSWERS)
    n = len(task)
    known = np.array(list(TASKS.values()))[task] + 0.7 * easy + 0.5 * rng.standard_normal(n)
    truth = _sigmoid(known + 0.6 * easy)
    factor = np.array(list(TASK_OVERCONFIDENCE.values()))[task]
    logprob = -np.log1p(np.exp(-(factor * known + 1.0)))
    stated = np.clip(np.round((0.72 + 0.06 * known + 0.08 * rng.standard_normal(n)) * 20) / 20, 0.5, 1.0)
    silent = rng.random(n) < 0.03
    letter = _pick(rng, np.ones(4), n)
    right = rng.random(n) < truth
    rows = [
        {
            "task": tasks[task[i]],
            "doc_id": int(doc[i]),
            "doc": {"question": f"{tasks[task[i]]} question {doc[i]}"},
            "filtered_resps": [[f"{logprob[i]:.4f}", "ABCD"[letter[i]]]],
            "response": {"confidence": None if silent[i] else float(stated[i])},
            "metrics": {"correct": int(right[i])},
        }
        for i in range(n)
    ]
    return Made(pl.DataFrame(rows), truth)


def _judged(rng: np.random.Generator, questions: int) -> Made:
    """The answers of two systems to the same questions, with a judge's verdicts, and what people say of a few."""
    tasks = tuple(TASKS)
    hard = rng.standard_normal(questions)
    checked = rng.permutation(questions) < LABELLED * questions
    rows, truth = [], []
    for name, (share, found, errs) in SYSTEMS.items():
        chance = share * np.clip(1.0 + 0.5 * hard, 0.1, 4.0)
        wrong = rng.random(questions) < chance
        flagged = rng.random(questions) < np.where(wrong, found, errs)
        truth.append(chance)
        rows += [
            {
                "question": number + 1,
                "task": tasks[number % len(tasks)],
                "model": name,
                "flagged": bool(flagged[number]),
                "wrong": int(wrong[number]) if checked[number] else None,
            }
            for number in range(questions)
        ]
    return Made(pl.DataFrame(rows, infer_schema_length=None), np.concatenate(truth))


def build() -> dict[str, Made]:
    """Every table by the name of its file, with the true probabilities."""
    rng = _stream("clicks")
    world = _world(rng)
    train = _clicks(rng, world, 30_000, first_row=1, first_day=date(2026, 3, 1), days=21)
    test = _clicks(rng, world, 10_000, first_row=30_001, first_day=date(2026, 3, 22), days=7)
    rng = _stream("classes")
    shelter_missed = 0.8 * rng.standard_normal((len(SHELTERS), len(CLASSES)))
    classes_train = _cats(rng, shelter_missed, 4_000, first_photo=1)
    classes_test = _cats(rng, shelter_missed, 2_000, first_photo=4_001)
    rows, edges = _homes(_stream("graph"))
    answers = _stream("answers")
    return {
        "train.parquet": train,
        "test.parquet": test,
        "ood.parquet": _foreign_clicks(_stream("ood"), 5_000, first_row=40_001),
        "classes_train.csv": classes_train,
        "classes_test.csv": classes_test,
        "graph_rows.parquet": rows,
        "graph_edges.parquet": edges,
        "members.parquet": _members(_stream("members")),
        "answers_train.jsonl": _answers(answers, 280, first=1),
        "answers_test.jsonl": _answers(answers, 200, first=281),
        "judged.jsonl": _judged(_stream("judged"), 2_000),
    }


def write(directory: Path, tables: dict[str, Made]) -> None:
    """Write every table into the directory, in the format that its name says."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, made in tables.items():
        path = directory / name
        if path.suffix == ".csv":
            made.frame.write_csv(path)
        elif path.suffix == ".jsonl":
            made.frame.write_ndjson(path)
        else:
            made.frame.write_parquet(path, compression="zstd", compression_level=15)


def main(arguments: Sequence[str]) -> None:
    """Write the tables and say what was written."""
    directory = Path(arguments[0]) if arguments else Path(__file__).parent
    tables = build()
    write(directory, tables)
    for name, made in tables.items():
        size = (directory / name).stat().st_size
        print(f"{name:20} {made.frame.height:7,} rows {made.frame.width:3} columns {size:9,} bytes")  # noqa: T201 (a script's summary)


if __name__ == "__main__":
    main(sys.argv[1:])
