"""The spec of RECAL."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from calcli.methods.spec import boolean, choice, in_family, integer, number, text

if TYPE_CHECKING:
    from calcli.methods.base import Params


def _training(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    """torch, and CatBoost where it has to say which feature is the most important."""
    chosen = params["backbone"] == "gcn" and params["relation"] == "auto" and "edges" not in sides
    return ("torch", "torch_geometric", *(["catboost"] if chosen and features > 1 else []))


_spec = in_family("graphs")

SPECS = (
    _spec(
        "recal",
        24,
        "Wang et al. 2023",
        "a temperature for each row, from its own logits and those of related rows",
        multiclass="native",
        needs_features=True,
        needs=_training,
        sides=("edges",),
        keeps=("edges",),
        extras=("temperature",),
        explains=True,
        remarks=True,
        contains_rows=True,
        order="changed",
        keeps_top_class=True,
        params=(
            text(
                "relation",
                "auto",
                "what links rows: column:NAME, knn:A,B (nearest neighbours) or edges (of --edges); auto is the edges, "
                "if they are given, or the feature that CatBoost finds most important",
            ),
            integer("k", 5, "how many nearest rows a row is linked to", 1, 1000),
            number("radius", None, "how far away they may be, in the units of the columns", 0, 1e300),
            choice("backbone", "gcn", "mlp leaves the graph out, for comparison", "gcn", "mlp"),
            boolean("skip", True, "whether the network sees a row's own logits past the graph too"),
            choice(
                "propagation",
                "gcn",
                "gcn averages a row with its neighbours; laplacian subtracts them, as Eq. 3 is printed",
                "gcn",
                "laplacian",
            ),
            choice(
                "apply",
                "online",
                "online: each new row is linked to the calibration rows; offline: the rows of a table form a graph of "
                "their own, all in memory",
                "online",
                "offline",
            ),
            number("rate", 0.01, "Adam's learning rate; auto is 0.01 or 0.001, by held-out rows", 1e-6, 1, "auto"),
            number(
                "lambda",
                0.0,
                "the weight of Eq. 7 in the loss; auto chooses from 0, 0.1, 0.5 and 1 on held-out rows",
                0,
                100,
                "auto",
            ),
            integer("epochs", 1000, "at most so many; how many is decided by held-out rows", 0, 100_000),
            number(
                "margin",
                2.0,
                "how many standard errors the network must gain over one temperature on held-out rows to be used",
                0,
                100,
            ),
            choice("device", "cpu", "where to train; auto is a GPU, if there is one", "cpu", "cuda", "auto"),
        ),
        presets={"paper": {"skip": False, "rate": "auto", "lambda": "auto", "margin": 0.0}},
    ),
)
