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
        integer("trees", "auto", f"the maximum number of trees; {_CHOSEN}", 0, 1000, *_AUTO),
        integer("depth", "auto", f"the maximum number of conditions of a leaf; {_CHOSEN}", 1, 12, *_AUTO),
        number("rate", "auto", f"learning rate; {_CHOSEN}", 0.01, 1, *_AUTO),
        number("lambda", "auto", f"odds: shrinkage of b towards the parent's b; {_CHOSEN}", 0, 1e6, *_AUTO),
        number(
            "tau", "auto", f"linear: shrinkage of k towards the parent's k, in positive rows; {_CHOSEN}", 0, 1e6, *_AUTO
        ),
        number(
            "min_rows",
            "auto",
            "beta, the minimum weight of a branch; eq13: from equation 13 of the paper",
            1,
            1e9,
            "auto",
            "eq13",
        ),
        choice(
            "split_loss", "nll", "the loss that a split must lower", "nll", "mvce", "mvce-sampled", "ece", "ece-sweep"
        ),
        choice("start", "platt", "what the trees start from: Platt scaling, or the raw score", "platt", "raw"),
        integer(
            "features", 16, "maximum number of features; of more, CatBoost selects the most important ones", 1, 1000
        ),
        integer("bins", 32, "number of bins, of equal mass, of a numeric feature", 2, 1000),
        integer("score_bins", 10, "number of bins of the score", 1, 1000),
        choice("score_binning", "mass", "bins of the score of equal mass or equal width", "mass", "width"),
        boolean("hold", True, "linear: keep the probabilities of a leaf within what its rows support"),
        number("alpha", 0.05, "1 - the confidence that a leaf's rate is within `error` (theorem 1)", 1e-6, 0.5),
        number("error", 0.1, "in equation 13: the allowed relative error of a leaf's rate", 1e-4, 1),
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
        text("columns", "", "split only on columns whose names begin with this prefix, such as emb_"),
        integer(
            "trees",
            "auto",
            "number of trees of a forest, 10 if auto; maximum number of a boosted partition, 40 if auto",
            1,
            1000,
            *_AUTO,
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
            "the minimum weight of a cell; if auto, 15 for each class in a forest, else cross-validated",
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
        number("rate", 0.3, "learning rate of a boosted partition", 0.01, 1),
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
    chooses=True,
    contributes=True,
    auto="yes",
    params=(
        integer(
            "rounds",
            "auto",
            "number of trees; if auto, cross-validated from 0 to 300 (200 for more than two classes)",
            0,
            10_000,
            *_AUTO,
        ),
        integer("depth", 4, "depth of each tree", 1, 10),
        number(
            "rate",
            "auto",
            "learning rate; auto is 0.05 for two classes, 0.1 for more",
            0.001,
            1,
            *_AUTO,
        ),
        number("l2", 3.0, "L2 penalty on the values of leaves", 0, 1e6),
    ),
)

SPECS = (_MBCT, _HETEROGENEOUS, _BOOST)
