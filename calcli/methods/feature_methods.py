"""The specs of the methods that use features too: trees, clusters, graphs, and mixtures of methods."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from calcli.methods.score_methods import SCORE_ONLY
from calcli.methods.spec import MethodSpec, boolean, choice, integer, number, text

if TYPE_CHECKING:
    from calcli.methods.base import Params

_CHOSEN = "chosen on held-out rows if it is auto"


def _ranking(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    """CatBoost, where it has to say which features are the most important."""
    return ("catboost",) if features > int(str(params["features"])) else ()


def _catboost(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    return ("catboost",)


def _surrogate(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    """CatBoost, where rows are clustered by how a model sees them; a model that is handed in names its own library."""
    return ("catboost",) if params["embedding"] not in ("columns", "features") and "model" not in sides else ()


def _training(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    """torch, and CatBoost where it has to say which feature is the most important."""
    chosen = params["backbone"] == "gcn" and params["relation"] == "auto" and "edges" not in sides
    return ("torch", "torch_geometric", *(["catboost"] if chosen and features > 1 else []))


def _of_members(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    """The needs of the named members; ``auto`` takes only methods whose packages are installed."""
    names = {name.strip() for name in str(params["members"]).split(",")}
    members = [spec for spec in (*TREES, CCL, RECAL) if spec.name in names]
    return tuple(package for member in members for package in member.needs(member.resolve(), features, ()))


MBCT = MethodSpec(
    name="mbct",
    family="trees",
    target="calcli.methods.mbct.mbct",
    summary="boosted multi-branch trees on the features, with a correction of the score in each leaf",
    reference="Huang et al. 2022",
    simplicity=20,
    needs_features=True,
    needs=_ranking,
    extras=("leaf",),
    explains=True,
    chooses=True,
    closed_form=True,
    sums="levels",
    params=(
        choice("link", "auto", f"z' = z + b or p' = k p in a leaf; {_CHOSEN}", "odds", "linear", "auto"),
        integer("trees", "auto", f"the maximum number of trees; {_CHOSEN}", 0, 1000),
        integer(
            "depth",
            "auto",
            "the maximum number of conditions of a leaf; auto is 2, of 30,000 rows or more 2 to 5 by held-out rows",
            1,
            12,
        ),
        number("rate", "auto", "learning rate; auto is 0.3", 0.01, 1),
        number("lambda", "auto", f"odds: shrinkage of b towards the parent's b; {_CHOSEN}", 0, 1e6),
        number("tau", "auto", f"linear: shrinkage of k towards the parent's k, in positive rows; {_CHOSEN}", 0, 1e6),
        number(
            "min_rows",
            "auto",
            "beta, the minimum weight of a branch; auto: 0.3 times the root of the rows, 10 or more; eq13: from "
            "equation 13 of the paper",
            1,
            1e9,
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


HETEROGENEOUS = MethodSpec(
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
    extras=("cell",),
    explains=True,
    chooses=True,
    params=(
        choice(
            "partition", "forest", "one tree, the mean of several, or a boosted sequence", "tree", "forest", "boosted"
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
        ),
        integer(
            "depth", "auto", "the depth of the trees; cross-validated if it is auto, 3 in a boosted partition", 0, 12
        ),
        number(
            "min_rows",
            "auto",
            "the minimum weight of a cell; if auto, 15 for each class in a forest, else cross-validated",
            1,
            1e9,
        ),
        number(
            "tau",
            "auto",
            "how strongly cells are shrunk to the calibrator of all rows, 0: not at all, inf: fully; cross-validated "
            "if it is auto",
            0,
            1e9,
            "inf",
        ),
        number("rate", 0.3, "learning rate of a boosted partition", 0.01, 1),
    ),
    presets={"paper": {"partition": "tree", "target": "label", "tau": 0.0}},
)

EFFECTS = MethodSpec(
    name="effects",
    family="trees",
    target="calcli.methods.effects.effects",
    summary="a correction of the log-odds for each value of each feature and pair, shrunk by what the rows hold",
    reference="Zhang et al. 2016 (GLMix); Lou et al. 2013",
    simplicity=19,
    multiclass="native",
    needs_features=True,
    needs=_ranking,
    closed_form=True,
    explains=True,
    contributes=True,
    sampled=10_000_000,  # it is fast, and rare values of categories need rows
    auto="yes",
    params=(
        integer(
            "features", 512, "maximum number of features; of more, CatBoost selects the most important ones", 1, 100_000
        ),
        integer("pairs", 200, "the maximum number of pairs of features with effects (60 for more classes)", 0, 2000),
        integer("bins", 32, "number of bins, of equal mass, of a numeric feature", 2, 1000),
        boolean("slopes", True, "whether the values of a feature correct the trust in the score too; two classes"),
    ),
)

BOOST = MethodSpec(
    name="boost",
    family="trees",
    target="calcli.methods.boost.boost",
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
            "number of trees; if auto, cross-validated from 0 to 600 (300 up to 5,000 rows, 200 for more classes)",
            0,
            10_000,
        ),
        integer("depth", 4, "depth of each tree", 1, 10),
        number("rate", "auto", "learning rate; auto is 0.05 for two classes up to 5,000 rows, else 0.1", 0.001, 1),
        number("l2", 3.0, "L2 penalty on the values of leaves", 0, 1e6),
        boolean("bags", True, "keep the models of the folds that chose the rounds, averaged; else one of all rows"),
    ),
)

FOREST = MethodSpec(
    name="forest",
    family="trees",
    target="calcli.methods.forest.forest",
    summary="the mean label rates of many randomised trees, mixed with the scaled score",
    reference="Geurts, Ernst & Wehenkel 2006",
    simplicity=25,
    multiclass="native",
    needs_features=True,
    closed_form=True,
    explains=True,
    chooses=True,
    auto="yes",
    member={"weight": 1.0},
    params=(
        integer("trees", 100, "number of trees", 1, 1000),
        number("min_rows", 3.0, "the minimum weight of a leaf", 1, 1e9),
        integer("tries", "auto", "the features that a node tries; auto is twice the root of their number", 1, 1000),
        integer("bins", 64, "number of bins, of equal mass, of a number and of the score", 2, 1000),
        number("weight", "auto", "that of the forest beside the scaled score; if auto, by rows not seen", 0, 1),
    ),
)

TREES = (EFFECTS, MBCT, HETEROGENEOUS, BOOST, FOREST)

CCL = MethodSpec(
    name="ccl",
    family="clusters",
    target="calcli.methods.clusters.ccl",
    summary="a calibrator for each cluster of rows, clustered by the model's SHAP values, leaves or columns",
    reference="Lavi, Shapira & Rappoport 2025",
    simplicity=23,
    multiclass="native",
    needs_features=True,
    needs=_surrogate,
    sides=("model", "embedding-data"),
    keeps=("model",),
    extras=("cluster",),
    closed_form=True,
    explains=True,
    chooses=True,
    remarks=True,
    reaches_ends=True,
    params=(
        choice(
            "embedding",
            "shap",
            "what rows are clustered by: the model's SHAP values or leaves, given columns, all features, or the "
            "most important ones",
            "shap",
            "leaves",
            "columns",
            "features",
            "top",
        ),
        text("columns", "emb_", "prefix of the column names, for embedding=columns"),
        integer(
            "clusters",
            40,
            "number of clusters; auto is the elbow of the homogeneity of the labels over 5, 10, .., 100",
            1,
            1000,
            "auto",
        ),
        choice("clustering", "kmeans", "k-means, or Ward's method", "kmeans", "ward"),
        choice(
            "inner",
            "auto",
            "the calibrator of each cluster; auto is platt for two classes and temperature for more",
            "auto",
            *SCORE_ONLY,
        ),
        number(
            "temperature",
            "auto",
            "how strongly calibrators of nearby clusters are mixed in, 0: not at all; cross-validated if not given",
            0,
            1e6,
        ),
        number(
            "tau",
            "auto",
            "how strongly clusters are shrunk to one calibrator for all rows, 0: not at all, inf: fully; "
            "cross-validated if not given",
            0,
            1e9,
            "inf",
        ),
        number("rows", 20.0, "the minimum weight of a cluster with a calibrator of its own", 0, 1e9),
        number(
            "prior", 0.5, "pseudo-rows of each class in the observed rate of a cluster without a calibrator", 0, 1e6
        ),
    ),
    presets={"paper": {"inner": "platt", "temperature": 0.0, "tau": 0.0, "rows": 0.0, "prior": 0.0}},
)

RECAL = MethodSpec(
    name="recal",
    family="graphs",
    target="calcli.methods.graphs.recal",
    summary="a temperature for each row, from its own logits and those of related rows",
    reference="Wang et al. 2023",
    simplicity=24,
    multiclass="native",
    needs_features=True,
    needs=_training,
    sides=("edges",),
    keeps=("edges",),
    extras=("temperature",),
    explains=True,
    remarks=True,
    contains_rows=True,
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
)

POOL = MethodSpec(
    name="pool",
    family="mixtures",
    target="calcli.methods.pool",
    summary="a mixture of several calibrators, weighted by held-out likelihood",
    reference="Wolpert 1992; Dempster et al. 1977",
    simplicity=30,
    multiclass="native",
    needs_features=True,
    content_without=True,
    needs=_of_members,
    closed_form=True,
    explains=True,
    params=(
        text("members", "auto", "methods, separated by commas; auto is those that --method auto compares"),
        text("weights", "auto", "a weight for each member, separated by commas; found on held-out rows if auto"),
        integer("most", 5, "the maximum number of members; those with the largest weights are kept", 1, 50),
    ),
)
