"""RECAL online: rows a second, beside building the graph anew for each row, and the memory of a large fit.

``python benchmarks/speed/recal.py [--rows N] [--quick]`` writes Markdown. The naive way does for each row what the
paper describes: put it beside the calibration rows, build that graph, and pass it through the network, of which only
the row's own temperature is kept. Building is the nearest neighbours of all rows by SciPy's tree, or the pairs of rows
of each category; passing is two products with a sparse matrix.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

from calcli.batch import Batch, Column
from calcli.methods import calibrator, catalog
from calcli.methods.calibrator import FittedMethod
from calcli.methods.graphs import recal
from calcli.methods.graphs.mixing import HIDDEN, Layers, Network, logits
from calcli.state import State

ROW = catalog.find("recal")
CATEGORIES = 12


def rows(count: int, seed: int, classes: int = 5) -> Batch:
    """Over-confident rows with a place in the plane and a category."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=count if classes == 2 else (count, classes))
    x, y = rng.normal(size=(2, count))
    names = tuple(f"c{index:02}" for index in range(CATEGORIES))
    features = {
        "x": Column("number", x),
        "y": Column("number", y),
        "category": Column("category", rng.integers(0, CATEGORIES, count).astype(np.int32), names),
    }
    if classes == 2:
        label = (rng.random(count) < 1 / (1 + np.exp(-truth))).astype(np.int64)
    else:
        label = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).astype(np.int64)
    return Batch(2.2 * truth, label, None, features)


def fitted(calibration: Batch, relation: str) -> FittedMethod:
    """With weights drawn by chance, so that no speed is won by a network that has learned to say nothing."""
    model = calibrator.fit(ROW, calibration, ROW.resolve({"relation": relation, "epochs": "0"}))
    rng, inputs = np.random.default_rng(0), logits(calibration.score).shape[1]
    parts = [
        Layers(rng.normal(size=(inputs, HIDDEN)), rng.normal(size=HIDDEN), rng.normal(size=HIDDEN)) for _ in range(2)
    ]
    scale = Network.from_bytes(model.state.blobs[recal.WEIGHTS]).scale
    network = Network(scale, 0.4, *parts)
    state = State(model.state.params, model.state.arrays, {recal.WEIGHTS: network.to_bytes()})
    return replace(model, state=state)


@dataclass(frozen=True)
class Naive:
    """The graph of the calibration rows and one more, from nothing, for each row."""

    calibration: Batch
    network: Network
    adjacency: Callable[[Batch, Batch], sparse.csr_matrix]

    def temperature(self, row: Batch) -> float:
        adjacency = self.adjacency(self.calibration, row)
        loops = adjacency + sparse.eye(adjacency.shape[0])
        root = sparse.diags(1 / np.sqrt(np.asarray(loops.sum(axis=1)).ravel()))
        mixing = root @ loops @ root
        values = np.concatenate([logits(self.calibration.score), logits(row.score)]) / self.network.scale
        graph = self.network.graph
        assert graph is not None
        hidden = np.maximum((mixing @ values) @ graph.weight + graph.bias, 0.0)
        return float(self.network.temperature((mixing @ (hidden @ graph.out))[-1:], values[-1:])[0])


def nearest(calibration: Batch, row: Batch) -> sparse.csr_matrix:
    """Two are linked if either is among the other's five nearest; the new row is tied to its own five."""
    there, new = (np.column_stack([batch.features[name].values for name in "xy"]) for batch in (calibration, row))
    tree, count = cKDTree(there), len(there)
    near = tree.query(there, 6)[1][:, 1:]
    one = np.concatenate([np.repeat(np.arange(count), 5), np.full(5, count)])
    other = np.concatenate([near.ravel(), tree.query(new, 5)[1].ravel()])
    directed = sparse.coo_matrix((np.ones(len(one)), (one, other)), (count + 1, count + 1))
    return ((directed + directed.T) > 0).astype(np.float64).tocsr()


def cliques(calibration: Batch, row: Batch) -> sparse.csr_matrix:
    """All rows of a category are linked."""
    codes = np.concatenate([batch.features["category"].values for batch in (calibration, row)])
    member = sparse.csr_matrix((np.ones(len(codes)), (np.arange(len(codes)), codes)))
    return member @ member.T - sparse.eye(len(codes), format="csr")


def best(run: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found)


def line(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def speed(calibration: int, count: int, naive_rows: int, times: int) -> None:
    print(f"\n## Applying online, {calibration:,} calibration rows, 5 classes\n")
    line("relation", "rows a second, one thread", "naive, rows a second", "ratio", "largest difference of t", "goal")
    line(*["---"] * 6)
    train, new = rows(calibration, 0), rows(count, 1)
    for relation, adjacency, few, goal in (
        ("knn:x,y", nearest, new.take(slice(0, naive_rows)), "20,000 rows/s"),
        ("column:category", cliques, new.take(slice(0, 5)), "200,000 rows/s"),
    ):
        model = fitted(train, relation)
        ours = count / best(partial(model.predict, new), times)
        naive = Naive(train, Network.from_bytes(model.state.blobs[recal.WEIGHTS]), adjacency)
        started = time.perf_counter()
        found = [naive.temperature(few.take(slice(place, place + 1))) for place in range(len(few))]
        rate = len(few) / (time.perf_counter() - started)
        gap = np.abs(np.array(found) - model.extras(few)["temperature"]).max()
        line(relation, f"{ours:,.0f}", f"{rate:,.1f}", f"{ours / rate:,.0f}", f"{gap:.1e}", goal)


FIT = """
import resource, sys, time
sys.path[:0] = [{root!r}, {here!r}]
from recal import ROW, rows
from calcli.methods import calibrator
batch = rows({count}, 0, {classes})
held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
started = time.perf_counter()
model = calibrator.fit(ROW, batch, ROW.resolve({{"relation": "column:category"}}))
spent = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
epochs = model.state.params["epochs"]
print(f"| {{len(batch):,}} | {classes} | {{epochs}} | {{spent:.0f}} | {{held:,.0f}} | {{peak:,.0f}} |")
"""


def memory(counts: list[int]) -> None:
    print(f"\n## Fitting on a column of {CATEGORIES} categories: goal 1,000,000 rows in under 2,000 MiB\n")
    line("rows", "classes", "epochs", "seconds", "MiB with the rows", "MiB at the peak")
    line(*["---"] * 6)
    here = Path(__file__).resolve()
    for count in counts:
        for classes in (2, 5):
            code = FIT.format(root=str(here.parents[2]), here=str(here.parent), count=count, classes=classes)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            print(done.stdout, end="", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calibration", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    print(f"# RECAL: speed\n\n{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    memory([10_000] if args.quick else [100_000, 1_000_000])  # first: a process starts with the peak of its parent
    if args.quick:
        speed(args.calibration, 20_000, 5, 1)
    else:
        speed(args.calibration, args.rows, 50, 5)


if __name__ == "__main__":
    main()
