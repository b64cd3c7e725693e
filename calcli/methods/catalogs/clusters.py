"""The spec of CCL."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from calcli.methods.catalogs.score_only import SCORE_ONLY
from calcli.methods.spec import choice, in_family, integer, number, text

if TYPE_CHECKING:
    from calcli.methods.base import Params


def _surrogate(params: Params, features: int, sides: Collection[str]) -> tuple[str, ...]:
    """CatBoost, where rows are clustered by how a model sees them; a model that is handed in names its own library."""
    return ("catboost",) if params["embedding"] not in ("columns", "features") and "model" not in sides else ()


_spec = in_family("clusters")

SPECS = (
    _spec(
        "ccl",
        23,
        "Lavi, Shapira & Rappoport 2025",
        "a calibrator for each cluster of rows, clustered by the model's SHAP values, leaves or columns",
        multiclass="native",
        needs_features=True,
        needs=_surrogate,
        sides=("model", "embedding-data"),
        keeps=("model",),
        extras=("cluster",),
        closed_form=True,
        explains=True,
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
                "auto",
            ),
            number(
                "tau",
                "auto",
                "how strongly clusters are shrunk to one calibrator for all rows, 0: not at all, inf: fully; "
                "cross-validated if not given",
                0,
                1e9,
                "auto",
                "inf",
            ),
            number("rows", 20.0, "the minimum weight of a cluster with a calibrator of its own", 0, 1e9),
            number(
                "prior",
                0.5,
                "pseudo-rows of each class in the observed rate of a cluster without a calibrator",
                0,
                1e6,
            ),
        ),
        presets={"paper": {"inner": "platt", "temperature": 0.0, "tau": 0.0, "rows": 0.0, "prior": 0.0}},
    ),
)
