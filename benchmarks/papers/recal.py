"""The tables of RECAL (Wang et al., EMNLP Findings 2023) on real prediction files.

``python benchmarks/papers/recal.py DATA [--seeds N] [--only NAME,..] [--quick]`` writes Markdown. DATA is a folder with
``pred/NAME.MODEL.{cal,test}.parquet`` (features, ``label``, logits) and ``raw/NAME_edges.parquet``.

Calibration and test rows come from the same source and neither was trained on, so each seed splits both together anew,
and seeds the networks too: the spread is that of the data and of the training. ECE is that of the paper (the predicted
class, 15 bins), and BS the Brier score summed over the classes, also of two.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from claims import claim

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.methods import calibrator, catalog
from calcli.methods.base import WHOLE_TABLE
from calcli.methods.calibrator import FittedMethod
from calcli.methods.graphs.mixing import Cliques
from calcli.methods.graphs.relation import Relation
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.tables.binding import bind
from calcli.tables.binding_types import Flags
from calcli.tables.load import load
from calcli.tables.side_tables import load_edges
from calcli.tables.source import open_source

PAPER_ECE = Options(convention="guo")
METRICS = ("nll", "ece", "brier_sum")
MODELS = ("catboost", "mlp")
FILES = "prediction files"


@dataclass(frozen=True)
class Subject:
    """A data set with what relates its rows."""

    name: str
    relation: str = "auto"

    @property
    def title(self) -> str:
        return self.name if self.relation == "auto" else f"{self.name}, {self.relation.partition(':')[2] or 'edges'}"


SUBJECTS = (
    Subject("county_class5", "edges"),
    Subject("qsar_biodeg"),
    Subject("house_class", "knn:latitude,longitude"),
    Subject("house_class", "edges"),
    Subject("california"),
    Subject("adult"),
    Subject("diabetes130"),
)


@dataclass(frozen=True)
class Contender:
    """A way to calibrate, as the tables call it."""

    title: str
    method: str
    preset: str | None = None
    params: tuple[tuple[str, str], ...] = ()

    def fitted(self, rows: Batch, relation: str, sides: SideInputs, seed: int) -> FittedMethod:
        row = catalog.find(self.method)
        given = dict(self.params) | ({"relation": relation} if self.method == "recal" else {})
        mine = sides.only(row.sides) if dict(self.params).get("backbone") != "mlp" else NO_SIDE_INPUTS
        return calibrator.fit(row, rows, row.resolve(given, self.preset), sides=mine, seed=seed)


UNCAL, TS = Contender("uncal", "identity"), Contender("TS", "temperature")
MLP = Contender("RECAL-MLP", "recal", "paper", (("backbone", "mlp"),))
PAPER, DEFAULT = Contender("RECAL, paper", "recal", "paper"), Contender("RECAL, default", "recal")
ALL = (UNCAL, TS, MLP, PAPER, DEFAULT)


@dataclass(frozen=True)
class Table:
    """All rows of a subject that a model has scored and was not trained on."""

    rows: Batch
    sides: SideInputs

    @classmethod
    def read(cls, data: Path, subject: Subject, model: str) -> Table:
        paths = [data / "pred" / f"{subject.name}.{model}.{part}.parquet" for part in ("cal", "test")]
        flags = Flags(node_id="node_id" if subject.relation == "edges" else None)
        with open_source([str(path) for path in paths]) as source:
            rows = load(source, bind(source, flags, features=True), features=True).batch
        if subject.relation != "edges":
            return cls(rows, NO_SIDE_INPUTS)
        with open_source(data / "raw" / f"{subject.name}_edges.parquet") as source:
            return cls(rows, SideInputs(edges=load_edges(source)))

    def halves(self, seed: int) -> tuple[Batch, Batch]:
        order = np.random.default_rng(seed).permutation(len(self.rows))
        middle = len(order) // 2
        return self.rows.take(order[:middle]), self.rows.take(order[middle:])


def measured(rows: Batch, prob: FloatArray) -> dict[str, float]:
    found = metrics.measure([metrics.find(name) for name in METRICS], Scored(rows.labels, prob), PAPER_ECE)
    return {name: float(value.value) for name, value in found.items() if value.value is not None}


def relation_of(model: FittedMethod) -> str:
    """The relation of a fit, as another fit can be told it."""
    related = Relation.from_params(model.state.params)
    if related.kind == "edges":
        return "edges"
    return f"column:{related.columns[0]}" if len(related.columns) == 1 else f"knn:{','.join(related.columns)}"


@dataclass
class Fits:
    """Everything that is fitted on one split: the relation is looked for once."""

    train: Batch
    test: Batch
    sides: SideInputs
    seed: int
    relation: str

    def __post_init__(self) -> None:
        self.default = DEFAULT.fitted(self.train, self.relation, self.sides, self.seed)
        self.relation = relation_of(self.default)

    def of(self, contender: Contender) -> FittedMethod:
        return (
            self.default if contender == DEFAULT else contender.fitted(self.train, self.relation, self.sides, self.seed)
        )


def cell(values: Iterable[float]) -> str:
    """The mean, and the standard deviation in thousandths as the paper has it."""
    array = np.array(list(values))
    return f"{array.mean():.4f} ± {1000 * array.std():.1f}"


def line(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def head(title: str, columns: Sequence[str]) -> None:
    print(f"\n## {title}\n")
    line(*columns)
    line(*("---" for _ in columns))


class Tally:
    """How often one mean was lower than another, equal, and higher; `stated` are those that the paper claims lower."""

    def __init__(self, what: str, stated: Mapping[str, str]) -> None:
        self.what, self.stated = what, stated
        self.found: dict[str, dict[str, int]] = {}

    def add(self, pair: str, where: str, one: Iterable[float], other: Iterable[float]) -> None:
        gap = float(np.mean(list(one)) - np.mean(list(other)))
        self.found.setdefault(pair, {})[where] = int(np.sign(round(gap, 9)))

    def say(self) -> None:
        print()
        for pair, signs in self.found.items():
            lower, equal, higher = (list(signs.values()).count(sign) for sign in (-1, 0, 1))
            print(f"- {pair}: lower in {lower}, equal in {equal}, higher in {higher}", flush=True)
        print()
        for pair, said in self.stated.items():
            claim(said, {where: sign < 0 for where, sign in self.found[pair].items()}, self.what)


@dataclass
class Study:
    """What was found of one subject and model, a number for each seed."""

    subject: Subject
    model: str
    relations: list[str]
    scores: dict[str, dict[str, list[float]]]
    offline: dict[str, list[float]]
    variation: dict[str, list[float]]

    @property
    def name(self) -> str:
        return f"{self.subject.title.replace(', ', ' by ')} with {self.model}"

    @classmethod
    def of(cls, data: Path, subject: Subject, model: str, seeds: int) -> Study:
        table = Table.read(data, subject, model)
        found = cls(subject, model, [], {}, {}, {})
        for seed in range(seeds):
            fits = Fits(*table.halves(seed), table.sides, seed, subject.relation)
            found.relations.append(fits.relation)
            for one in ALL:
                found.add(one, fits.of(one), fits)
        return found

    def add(self, one: Contender, fitted: FittedMethod, fits: Fits) -> None:
        prob = fitted.predict(fits.test)
        for name, value in measured(fits.test, prob).items():
            self.scores.setdefault(one.title, {}).setdefault(name, []).append(value)
        if one != MLP:
            self.variation.setdefault(one.title, []).append(variation(fits, prob))
        if one in (PAPER, DEFAULT):
            state = fitted.state  # the network is the same, however it is applied
            offline = replace(fitted, state=replace(state, params={**state.params, WHOLE_TABLE: True}))
            ece = measured(fits.test, offline.predict(fits.test))["ece"]
            self.offline.setdefault(one.title, []).append(ece)


def table_2(studies: Sequence[Study]) -> None:
    columns = ("data", "model", "linked by", "calibration", "NLL", "ECE", "BS")
    head("Table 2: methods (mean ± sd in thousandths)", columns)
    tally = Tally(
        FILES,
        {
            "ECE of RECAL, paper beside TS": "RECAL has a lower ECE than temperature scaling (table 2)",
            "ECE of RECAL, paper beside RECAL-MLP": "RECAL has a lower ECE than with an MLP for the GCN (table 2)",
            "NLL of RECAL, paper beside TS": "RECAL has a lower NLL than temperature scaling (table 2)",
            "NLL of RECAL, paper beside RECAL-MLP": "RECAL has a lower NLL than with an MLP for the GCN (table 2)",
        },
    )
    for one in studies:
        linked = " or ".join(sorted(set(one.relations)))
        for title, values in one.scores.items():
            by = linked if title.startswith("RECAL,") else ""
            line(one.subject.title, one.model, by, title, *(cell(values[name]) for name in METRICS))
        for name, word in (("ece", "ECE"), ("nll", "NLL"), ("brier_sum", "BS")):
            for ours, theirs in ((PAPER, TS), (PAPER, MLP), (DEFAULT, TS), (DEFAULT, MLP), (DEFAULT, PAPER)):
                mine, other = one.scores[ours.title][name], one.scores[theirs.title][name]
                tally.add(f"{word} of {ours.title} beside {theirs.title}", one.name, mine, other)
    tally.say()


def table_5(studies: Sequence[Study]) -> None:
    head("Table 5: ECE online and offline", ("data", "model", "calibration", "online", "offline"))
    tally = Tally(
        FILES, {"ECE of RECAL, paper, offline beside online": "offline it has a lower ECE than online (table 5)"}
    )
    for one in studies:
        for title, offline in one.offline.items():
            online = one.scores[title]["ece"]
            line(one.subject.title, one.model, title, cell(online), cell(offline))
            tally.add(f"ECE of {title}, offline beside online", one.name, offline, online)
    tally.say()


def table_6(studies: Sequence[Study]) -> None:
    names = tuple(studies[0].variation)
    head("Table 6: total variation of the confidence over the graph of the test rows", ("data", "model", *names))
    tally = Tally(
        FILES,
        {
            "total variation of TS beside no calibration": "temperature scaling lowers the total variation (table 6)",
            "total variation of RECAL, paper beside TS": "RECAL lowers the total variation further (table 6)",
        },
    )
    for one in studies:
        line(one.subject.title, one.model, *(f"{np.mean(one.variation[name]):,.1f}" for name in names))
        raw, scaled = one.variation[UNCAL.title], one.variation[TS.title]
        tally.add("total variation of TS beside no calibration", one.name, scaled, raw)
        for ours in (PAPER, DEFAULT):
            tally.add(f"total variation of {ours.title} beside TS", one.name, one.variation[ours.title], scaled)
    tally.say()


def frames(data: Path, name: str) -> tuple[pl.DataFrame, list[str]]:
    """All rows of a set without their scores, to train a model of our own on, and which columns are categories."""
    parts = [pl.read_parquet(data / "pred" / f"{name}.catboost.{part}.parquet") for part in ("cal", "test")]
    frame = pl.concat(parts).select(pl.exclude("^logit.*$", "prob", "node_id"))
    texts = [column for column, kind in frame.schema.items() if kind == pl.String]
    return frame.with_columns(pl.col(texts).fill_null("nan")), texts


class Boosted:
    """CatBoost as the paper has it, trained on some rows."""

    def __init__(self, rows: pl.DataFrame, texts: Sequence[str], seed: int) -> None:
        import catboost

        self.texts = list(texts)
        self.model = catboost.CatBoostClassifier(
            iterations=300, depth=6, random_seed=seed, verbose=False, allow_writing_files=False
        )
        self.model.fit(rows.drop("label").to_pandas(), rows["label"].to_numpy(), cat_features=self.texts)

    def most_important_number(self) -> str:
        names = self.model.feature_names_
        ranked = [names[place] for place in np.argsort(-np.asarray(self.model.feature_importances_))]
        return next(name for name in ranked if name not in self.texts)

    def scored(self, rows: pl.DataFrame) -> Batch:
        raw = np.asarray(self.model.predict(rows.drop("label").to_pandas(), prediction_type="RawFormulaVal"))
        logits = {"logit": raw} if raw.ndim == 1 else {f"logit_{place}": part for place, part in enumerate(raw.T)}
        frame = rows.with_columns(**{name: pl.Series(values) for name, values in logits.items()})
        with open_source(frame) as source:
            return load(source, bind(source, Flags(), features=True), features=True, check_scale=False).batch


NOISY = {"house_class": "knn:latitude,longitude", "california": "auto", "adult": "auto"}
RATES = (0.0, 0.1, 0.2, 0.3, 0.5)


def table_3(data: Path, seeds: int, wanted: Collection[str]) -> None:
    head(
        "Table 3: ECE under noise in the most important number (CatBoost)",
        ("data", "calibration", *(f"{rate:.0%}" for rate in RATES)),
    )
    tally = Tally(
        "rates of noise on prediction files",
        {"ECE under noise of RECAL, paper beside TS": "under noise it has a lower ECE than temperature (table 3)"},
    )
    for name, relation in NOISY.items():
        if name not in wanted:
            continue
        frame, texts = frames(data, name)
        found: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            base, cal, test = cut(frame.sample(fraction=1.0, shuffle=True, seed=seed), 0.5, 0.25)
            model = Boosted(base, texts, seed)
            column, fits = (
                model.most_important_number(),
                Fits(model.scored(cal), model.scored(test), NO_SIDE_INPUTS, seed, relation),
            )
            noisy = [model.scored(with_noise(test, column, rate, rng)) for rate in RATES]
            for one in (TS, PAPER, DEFAULT):
                fitted = fits.of(one)
                found.setdefault(one.title, []).append([measured(rows, fitted.predict(rows))["ece"] for rows in noisy])
        for title, each in found.items():
            line(name, title, *(cell(column) for column in zip(*each, strict=True)))
            if title != TS.title:
                for place in range(1, len(RATES)):
                    mine, other = ([row[place] for row in rows] for rows in (each, found[TS.title]))
                    tally.add(f"ECE under noise of {title} beside TS", f"{name} {RATES[place]:.0%}", mine, other)
    tally.say()


def cut(frame: pl.DataFrame, *shares: float) -> Iterator[pl.DataFrame]:
    start = 0
    for end in (*(int(frame.height * sum(shares[: place + 1])) for place in range(len(shares))), frame.height):
        yield frame[start:end]
        start = end


def with_noise(rows: pl.DataFrame, column: str, rate: float, rng: np.random.Generator) -> pl.DataFrame:
    """Values of a column replaced by ones drawn between its ends."""
    values = rows[column].cast(pl.Float64).to_numpy().copy()
    hit = rng.random(len(values)) < rate
    values[hit] = rng.uniform(np.nanmin(values), np.nanmax(values), int(hit.sum()))
    return rows.with_columns(pl.Series(column, values).cast(rows.schema[column], strict=False))


SHIFTS = {
    "adult": ("sex", "Male"),
    "california": ("ocean_proximity", "INLAND"),
    "diabetes130": ("gender", "Female"),
}


def table_4(data: Path, seeds: int, wanted: Collection[str]) -> None:
    head(
        "Table 4: ECE under a shift (CatBoost)",
        ("data", "trained and calibrated on", "uncal", "TS", "RECAL, paper", "RECAL, default"),
    )
    tally = Tally(
        "shifts of prediction files",
        {"ECE under a shift of RECAL, paper beside TS": "under a shift it has a lower ECE than temperature (table 4)"},
    )
    for name, (column, value) in SHIFTS.items():
        if name not in wanted:
            continue
        frame, texts = frames(data, name)
        values = frame[column].unique().sort().to_list()
        here = next(one for one in values if str(one).strip().casefold() == value.casefold())
        found: dict[str, list[float]] = {}
        for seed in range(seeds):
            inside = frame.filter(pl.col(column) == here).sample(fraction=1.0, shuffle=True, seed=seed)
            base, cal = cut(inside, 2 / 3)
            model = Boosted(base, texts, seed)
            fits = Fits(
                model.scored(cal), model.scored(frame.filter(pl.col(column) != here)), NO_SIDE_INPUTS, seed, "auto"
            )
            for one in (UNCAL, TS, PAPER, DEFAULT):
                found.setdefault(one.title, []).append(measured(fits.test, fits.of(one).predict(fits.test))["ece"])
        line(name, f"{column} = {here}", *(cell(each) for each in found.values()))
        for one in (PAPER, DEFAULT):
            tally.add(f"ECE under a shift of {one.title} beside TS", name, found[one.title], found[TS.title])
    tally.say()


def variation(fits: Fits, prob: FloatArray) -> float:
    """Over the edges among the test rows; a clique's are as many as pairs, so they are summed by rank."""
    related = Relation.from_params(fits.default.state.params)
    graph = related.graph(fits.test, fits.sides)
    confidence = np.maximum(prob, 1.0 - prob) if prob.ndim == 1 else prob.max(axis=1)
    if isinstance(graph, Cliques):
        total = 0.0
        for group in range(graph.count):
            ranked = np.sort(confidence[graph.group == group])
            total += float((ranked * (2.0 * np.arange(len(ranked)) - len(ranked) + 1.0)).sum())
        return total
    once = graph.sources < graph.ends
    edges = np.column_stack([graph.sources[once], graph.ends[once]])
    row = metrics.find("tv")
    return float(metrics.measure([row], Scored(fits.test.labels, prob, edges=edges), Options())["tv"].value or 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="data sets, separated by commas")
    parser.add_argument("--quick", action="store_true", help="one seed of the two smallest sets: does it run?")
    args = parser.parse_args()
    if not (args.data / "pred").is_dir():
        sys.exit(f"{args.data} has no folder pred")
    seeds = 1 if args.quick else args.seeds
    wanted = {"qsar_biodeg", "county_class5"} if args.quick else set(filter(None, args.only.split(",")))
    subjects = [subject for subject in SUBJECTS if not wanted or subject.name in wanted]
    print(f"# RECAL, {seeds} seed{'s' * (seeds > 1)}", flush=True)
    studies = []
    for subject in subjects:
        for model in MODELS:
            studies.append(Study.of(args.data, subject, model, seeds))
            print(f"{subject.title}, {model}: done", file=sys.stderr, flush=True)
    table_2(studies)
    if not args.quick:
        table_3(args.data, seeds, wanted or set(NOISY))
        table_4(args.data, seeds, wanted or set(SHIFTS))
    table_5(studies)
    table_6(studies)


if __name__ == "__main__":
    main()
