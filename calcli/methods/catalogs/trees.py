"""The specs of the methods that grow trees: `calcli.methods.mbct`, `heterogeneous` and `boost`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from calcli.methods.catalogs.score_only import SCORE_ONLY
from calcli.methods.spec import MethodSpec, boolean, choice, integer, number, text

if TYPE_CHECKING:
    from calcli.methods.base import Params

_AUTO = ("auto",)
_CHOSEN = "chosen on held-out rows if it is auto"


def _ranking(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    """CatBoost, where it has to say which features are the most important."""
    return ("catboost",) if features > int(str(params["features"])) else ()


def _catboost(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    return ("catboost",)


_MBCT = MethodSpec(
    name="mbct",
    family="trees",
    target="calcli.methods.mbct.mbct",
    summary="boosted multi-branch trees on the features, with a correction of the score in each leaf",
    reference="Huang et al. 2022",
    simplicity=20,
    needs_features=True,
    needs=_ranking,
    explains=True,
    closed_form=True,
    sums="levels",
    auto="binary",
    params=(
        choice("link", "auto", f"z' = z + b or p' = k p in a leaf; {_CHOSEN}", "odds", "linear", "auto"),
        integer("trees", "auto", f"the most trees; how many, {_CHOSEN}", 0, 1000, *_AUTO),
        integer("depth", "auto", f"the most conditions of a leaf; {_CHOSEN}", 1, 12, *_AUTO),
        number("rate", "auto", f"how much of a tree's step is taken; {_CHOSEN}", 0.01, 1, *_AUTO),
        number("lambda", "auto", f"odds: pull of b to that of the node above; {_CHOSEN}", 0, 1e6, *_AUTO),
        number("tau", "auto", f"linear: pull of k to that of the node above, in positives; {_CHOSEN}", 0, 1e6, *_AUTO),
        number(
            "min_rows",
            "auto",
            "beta, the least weight of a branch; eq13 is equation 13 of the paper",
            1,
            1e9,
            "auto",
            "eq13",
        ),
        choice("split_loss", "nll", "what a split must lower", "nll", "mvce", "mvce-sampled", "ece", "ece-sweep"),
        choice("start", "platt", "what the trees start from: Platt scaling, or the raw score", "platt", "raw"),
        integer("features", 16, "of more features the most important by CatBoost", 1, 1000),
        integer("bins", 32, "bins of equal mass for a number", 2, 1000),
        integer("score_bins", 10, "bins for the score", 1, 1000),
        choice("score_binning", "mass", "bins of the score of equal mass or equal width", "mass", "width"),
        boolean("hold", True, "linear: whether a leaf takes no probability beyond what its rows support"),
        number("alpha", 0.05, "the bound of theorem 1 holds with probability 1 - alpha; also in eq13", 1e-6, 0.5),
        number("error", 0.1, "in eq13: the share of the label rate that a leaf may be wrong by", 1e-4, 1),
    ),
    presets={
        "paper": {
            "link": "linear",
            "trees": 8,
            "depth": 5,
            "rate": 1.0,
            "tau": 0.0,
            "min_rows": 1000.0,
            "split_loss": "mvce",
            "start": "raw",
            "features": 7,
            "score_bins": 100,
            "score_binning": "width",
            "hold": False,
        }
    },
)


_HETEROGENEOUS = MethodSpec(
    name="heterogeneous",
    family="trees",
    target="calcli.methods.heterogeneous.heterogeneous",
    summary="a partition of the rows by trees, with a calibrator in each cell, shrunk to one for all rows",
    reference="Durfee et al. 2022",
    simplicity=21,
    multiclass="native",
    needs_features=True,
    sides=("partition-data",),
    closed_form=True,
    explains=True,
    auto="yes",
    params=(
        choice(
            "partition",
            "forest",
            "one tree, the mean of several, or a boosted sequence",
            "tree",
            "forest",
            "boosted",
        ),
        choice(
            "leaf",
            "auto",
            "the calibrator of each cell; auto is platt for two classes and sms for more",
            "auto",
            *SCORE_ONLY,
        ),
        choice(
            "target",
            "auto",
            "what the trees predict: the label, or the residual of a calibrator for all rows; auto is residual, "
            "or label with partition-data",
            "auto",
            "residual",
            "label",
        ),
        text("columns", "", "split only on columns whose names begin so, as emb_"),
        integer(
            "trees", "auto", "of a forest, 10 if auto; at most, of a boosted partition, 40 if auto", 1, 1000, *_AUTO
        ),
        integer(
            "depth",
            "auto",
            "the depth of the trees; cross-validated if it is auto, 3 in a boosted partition",
            0,
            12,
            *_AUTO,
        ),
        number(
            "min_rows",
            "auto",
            "the least weight of a cell; 15 for each class in a forest, else cross-validated, if it is auto",
            1,
            1e9,
            *_AUTO,
        ),
        number(
            "tau",
            "auto",
            "how strongly cells are shrunk to the calibrator of all rows, 0: not at all, inf: fully; cross-validated "
            "if it is auto",
            0,
            1e9,
            "auto",
            "inf",
        ),
        number("rate", 0.3, "boosted: how much of a tree's step is taken", 0.01, 1),
    ),
    presets={"paper": {"partition": "tree", "target": "label", "tau": 0.0}},
)

_BOOST = MethodSpec(
    name="boost",
    family="trees",
    target="calcli.methods.boost",
    summary="CatBoost on the features, starting from the scaled score, with cross-validated rounds",
    reference="Prokhorenkova et al. 2018",
    simplicity=22,
    multiclass="native",
    needs_features=True,
    needs=_catboost,
    closed_form=True,
    explains=True,
    contributes=True,
    auto="yes",
    params=(
        integer(
            "rounds",
            "auto",
            "trees; cross-validated up to 300 (200 for more than two classes), including none, if it is auto",
            0,
            10_000,
            *_AUTO,
        ),
        integer("depth", 4, "of each tree", 1, 10),
        number(
            "rate",
            "auto",
            "how much of a tree's step is taken; auto is 0.05 for two classes, 0.1 for more",
            0.001,
            1,
            *_AUTO,
        ),
        number("l2", 3.0, "how strongly the values of leaves are drawn to zero", 0, 1e6),
    ),
)

SPECS = (_MBCT, _HETEROGENEOUS, _BOOST)
