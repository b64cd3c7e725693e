"""The spec of RECAL."""

from calcli.methods.spec import MethodSpec, Param

SPECS = (
    MethodSpec(
        name="recal",
        family="graphs",
        target="calcli.methods.graphs.recal",
        summary="a temperature for each row, learned from its logits and those of related rows",
        reference="Wang et al. 2023",
        simplicity=24,
        multiclass="native",
        needs_features=True,
        sides=("edges",),
        keeps=("edges",),
        extras=("temperature",),
        explains=True,
        remarks=True,
        contains_rows=True,
        order="changed",
        keeps_top_class=True,
        params=(
            Param(
                "relation",
                "text",
                "auto",
                "what links rows: column:NAME, knn:A,B (nearness in numbers) or edges (of --edges); auto is the edges, "
                "if they are given, or the feature that CatBoost finds most important",
            ),
            Param("k", "int", 5, "how many nearest rows a row is linked to", low=1, high=1000),
            Param("radius", "float", None, "how far away they may be, in the units of the columns", low=0),
            Param("backbone", "choice", "gcn", "mlp leaves the graph out, for comparison", choices=("gcn", "mlp")),
            Param("skip", "bool", True, "whether the network sees a row's own logits past the graph too"),
            Param(
                "propagation",
                "choice",
                "gcn",
                "gcn mixes a row with its neighbours; laplacian is Eq. 3 as printed, against them",
                choices=("gcn", "laplacian"),
            ),
            Param(
                "apply",
                "choice",
                "online",
                "online: each row joins the calibration rows alone; offline: the rows of a table are a graph of their "
                "own, all in memory",
                choices=("online", "offline"),
            ),
            Param(
                "rate",
                "float",
                0.01,
                "Adam's learning rate; auto is 0.01 or 0.001, by held-out rows",
                low=1e-6,
                high=1,
                choices=("auto",),
            ),
            Param(
                "lambda",
                "float",
                0.0,
                "the share of Eq. 7 in the loss; auto is 0, 0.1, 0.5 or 1, by held-out rows",
                low=0,
                high=100,
                choices=("auto",),
            ),
            Param("epochs", "int", 1000, "at most so many; how many is decided by held-out rows", low=0, high=100_000),
            Param(
                "margin",
                "float",
                2.0,
                "by how many standard errors the network must better the one temperature on held-out rows, to be used",
                low=0,
                high=100,
            ),
            Param(
                "device",
                "choice",
                "cpu",
                "where to train; auto is a GPU, if there is one",
                choices=("cpu", "cuda", "auto"),
            ),
        ),
        presets={"paper": {"skip": False, "rate": "auto", "lambda": "auto", "margin": 0.0}},
    ),
)
