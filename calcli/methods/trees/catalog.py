"""The specs of the methods that grow trees: `calcli.methods.mbct`, `heterogeneous` and `boost`."""

from calcli.methods.binning.catalog import SPECS as BINNING
from calcli.methods.scaling.catalog import SPECS as SCALING
from calcli.methods.spec import MethodSpec, Param

_AUTO = ("auto",)
_CHOSEN = "chosen on held-out rows if it is auto"

_MBCT = MethodSpec(
    name="mbct",
    family="trees",
    target="calcli.methods.mbct.mbct",
    summary="boosted trees with a branch for each value, and in each leaf a correction of the score",
    reference="Huang et al. 2022",
    simplicity=20,
    needs_features=True,
    explains=True,
    closed_form=True,
    auto="yes",
    params=(
        Param(
            "link", "choice", "auto", f"z' = z + b or p' = k p in a leaf; {_CHOSEN}", choices=("odds", "linear", "auto")
        ),
        Param("trees", "int", "auto", f"the most trees; how many, {_CHOSEN}", low=0, high=1000, choices=_AUTO),
        Param("depth", "int", "auto", f"the most conditions of a leaf; {_CHOSEN}", low=1, high=12, choices=_AUTO),
        Param(
            "rate", "float", "auto", f"how much of a tree's step is taken; {_CHOSEN}", low=0.01, high=1, choices=_AUTO
        ),
        Param(
            "lambda",
            "float",
            "auto",
            f"odds: pull of b to that of the node above; {_CHOSEN}",
            low=0,
            high=1e6,
            choices=_AUTO,
        ),
        Param(
            "tau",
            "float",
            "auto",
            f"linear: pull of k to that of the node above, in positives; {_CHOSEN}",
            low=0,
            high=1e6,
            choices=_AUTO,
        ),
        Param(
            "min_rows",
            "float",
            "auto",
            "beta, the least weight of a branch; eq13 is equation 13 of the paper",
            low=1,
            high=1e9,
            choices=("auto", "eq13"),
        ),
        Param(
            "split_loss",
            "choice",
            "nll",
            "what a split must lower",
            choices=("nll", "mvce", "mvce-sampled", "ece", "ece-sweep"),
        ),
        Param(
            "start",
            "choice",
            "platt",
            "what the trees start from: Platt scaling, or the raw score",
            choices=("platt", "raw"),
        ),
        Param("features", "int", 16, "of more features the most important by CatBoost", low=1, high=1000),
        Param("bins", "int", 32, "bins of equal mass for a number", low=2, high=1000),
        Param("score_bins", "int", 10, "bins for the score", low=1, high=1000),
        Param(
            "score_binning",
            "choice",
            "mass",
            "bins of the score of equal mass or equal width",
            choices=("mass", "width"),
        ),
        Param(
            "alpha",
            "float",
            0.05,
            "the bound of theorem 1 holds with probability 1 - alpha; also in eq13",
            low=1e-6,
            high=0.5,
        ),
        Param(
            "error", "float", 0.1, "in eq13: the share of the label rate that a leaf may be wrong by", low=1e-4, high=1
        ),
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
        }
    },
)

_LEAVES = tuple(spec.name for spec in (*SCALING, *BINNING) if not spec.needs_features)

_HETEROGENEOUS = MethodSpec(
    name="heterogeneous",
    family="trees",
    target="calcli.methods.heterogeneous.heterogeneous",
    summary="a partition of the rows by trees, and a calibrator in each cell, drawn to that of all rows",
    reference="Durfee et al. 2022",
    simplicity=21,
    multiclass="native",
    needs_features=True,
    sides=("partition-data",),
    closed_form=True,
    explains=True,
    auto="yes",
    params=(
        Param(
            "partition",
            "choice",
            "forest",
            "one tree, the mean of several, or a sequence in which each mends what is left",
            choices=("tree", "forest", "boosted"),
        ),
        Param(
            "leaf",
            "choice",
            "auto",
            "the calibrator of each cell; auto is platt for two classes and sms for more",
            choices=("auto", *_LEAVES),
        ),
        Param(
            "target",
            "choice",
            "auto",
            "what trees tell apart: labels, or what the calibrator of all rows leaves of them; auto is residual, of "
            "partition-data label",
            choices=("auto", "residual", "label"),
        ),
        Param("columns", "text", "", "split only on columns whose names begin so, as emb_"),
        Param(
            "trees",
            "int",
            "auto",
            "of a forest, 10 if auto; at most, of a boosted partition, 40 if auto",
            low=1,
            high=1000,
            choices=_AUTO,
        ),
        Param(
            "depth",
            "int",
            "auto",
            "the most conditions of a cell; cross-validated if it is auto, 3 in a boosted partition",
            low=0,
            high=12,  # as many as `heterogeneous.tree.DEEPEST`
            choices=_AUTO,
        ),
        Param(
            "min_rows",
            "float",
            "auto",
            "the least weight of a cell; 15 for each class in a forest, else cross-validated, if it is auto",
            low=1,
            high=1e9,
            choices=_AUTO,
        ),
        Param(
            "tau",
            "float",
            "auto",
            "how strongly cells are drawn to the calibrator of all rows, 0: not at all, inf: wholly; cross-validated "
            "if it is auto",
            low=0,
            high=1e9,
            choices=("auto", "inf"),
        ),
        Param("rate", "float", 0.3, "boosted: how much of a tree's step is taken", low=0.01, high=1),
    ),
    presets={"paper": {"partition": "tree", "target": "label", "tau": 0.0}},
)

_BOOST = MethodSpec(
    name="boost",
    family="trees",
    target="calcli.methods.boost",
    summary="CatBoost on the features, from the scaled score on; as many rounds as pay, none among them",
    reference="Prokhorenkova et al. 2018",
    simplicity=22,
    multiclass="native",
    needs_features=True,
    explains=True,
    auto="yes",
    params=(
        Param(
            "rounds",
            "int",
            "auto",
            "trees; up to 300 by cross-validation if it is auto, none among the choices",
            low=0,
            high=10_000,
            choices=_AUTO,
        ),
        Param("depth", "int", 4, "of each tree", low=1, high=10),
        Param("rate", "float", 0.05, "how much of a tree's step is taken", low=0.001, high=1),
        Param("l2", "float", 3.0, "how strongly the values of leaves are drawn to zero", low=0, high=1e6),
    ),
)

SPECS = (_MBCT, _HETEROGENEOUS, _BOOST)
