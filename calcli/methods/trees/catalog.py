"""The rows of the methods that grow trees."""

from calcli.methods.row import Param, Row

_AUTO = ("auto",)
_CHOSEN = "chosen on held-out rows if it is auto"

_MBCT = Row(
    name="mbct",
    family="trees",
    target="calcli.methods.trees.mbct",
    summary="boosted trees with a branch for each value, and in each leaf a correction of the score",
    reference="Huang et al. 2022",
    simplicity=20,
    needs_features=True,
    explains=True,
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

ROWS = (_MBCT,)
