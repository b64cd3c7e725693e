"""The spec of CCL."""

from calcli.methods.binning.catalog import SPECS as BINNING
from calcli.methods.scaling.catalog import SPECS as SCALING
from calcli.methods.spec import MethodSpec, Param

_INNER = tuple(spec.name for spec in (*SCALING, *BINNING) if not spec.needs_features)

SPECS = (
    MethodSpec(
        name="ccl",
        family="clusters",
        target="calcli.methods.clusters.ccl",
        summary="a calibrator for each cluster of rows, clusters formed by how the model sees them",
        reference="Lavi, Shapira & Rappoport",
        simplicity=23,
        multiclass="native",
        needs_features=True,
        sides=("model", "embedding-data"),
        keeps=("model",),
        extras=("cluster",),
        explains=True,
        reaches_ends=True,
        auto="binary",  # of more classes it was never chosen on real files, and is the slowest
        params=(
            Param(
                "embedding",
                "choice",
                "shap",
                "what rows are clustered by: the model's SHAP values or leaves, columns as they are, all features, or "
                "the most important ones",
                choices=("shap", "leaves", "columns", "features", "top"),
            ),
            Param("columns", "text", "emb_", "how the names of the columns begin, for embedding=columns"),
            Param(
                "clusters",
                "int",
                40,
                "number of clusters; auto is where more of them stop telling more of the label",
                low=1,
                high=1000,
                choices=("auto",),
            ),
            Param("clustering", "choice", "kmeans", "k-means, or Ward's method", choices=("kmeans", "ward")),
            Param(
                "inner",
                "choice",
                "auto",
                "the calibrator of each cluster; auto is platt for two classes and temperature for more",
                choices=("auto", *_INNER),
            ),
            Param(
                "temperature",
                "float",
                "auto",
                "how far a row belongs to the clusters next to its own, 0: not at all; cross-validated if not given",
                low=0,
                high=1e6,
                choices=("auto",),
            ),
            Param(
                "tau",
                "float",
                "auto",
                "how far clusters are shrunk to one calibrator for all rows, 0: not at all, inf: it alone; "
                "cross-validated if not given",
                low=0,
                high=1e9,
                choices=("auto", "inf"),
            ),
            Param("rows", "float", 20.0, "the least weight of a cluster with a calibrator of its own", low=0, high=1e9),
            Param(
                "prior",
                "float",
                0.5,
                "rows of each class that are added to the label rate of a cluster without a calibrator",
                low=0,
                high=1e6,
            ),
        ),
        presets={"paper": {"inner": "platt", "temperature": 0.0, "tau": 0.0, "rows": 0.0, "prior": 0.0}},
    ),
)
