"""``calcli compare``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli compare train.parquet
calcli compare train.parquet --methods platt,beta --resample-by user_id
calcli compare train.parquet --html report.html
calcli compare train.parquet --budget 60 --select best"""


def compare(
    data: options.Data,
    input_format: options.InputFormat = None,
    bad_rows: options.BadRows = "fail",
    label: options.Label = None,
    prob: options.Prob = None,
    logit: options.Logit = None,
    weight: options.Weight = None,
    positive: options.Positive = None,
    classes: options.Classes = None,
    features: options.Features = None,
    ignore: options.Ignore = None,
    node_id: options.NodeId = None,
    methods: options.Methods = "all",
    params: options.Set = None,
    model: options.Model = None,
    partition_data: options.PartitionData = None,
    embedding_data: options.EmbeddingData = None,
    edges: options.Edges = None,
    criterion: options.Criterion = "nll",
    budget: options.Budget = 300.0,
    folds: options.Folds = 5,
    resample_by: options.ResampleBy = None,
    order_by: options.OrderBy = None,
    metrics: options.Metrics = "default",
    bins: options.Bins = 15,
    binning: options.Binning = "width",
    seed: options.Seed = 0,
    select: options.Select = None,
    html: options.Html = None,
    form: options.Format = "table",
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Compare methods on held-out rows, no calibration among them.

    Every method predicts the same rows, from the others. The one that is chosen is the simplest whose log-loss is
    within half a standard error of the lowest. A method that fails, or that the budget leaves no time for, is a row
    that says so.
    """
    from calcli.metrics.base import Options
    from calcli.verbs.compare import CompareRequest
    from calcli.verbs.compare import compare as run

    request = CompareRequest(
        data=data,
        methods=methods,
        params=arguments.settings(params),
        folds=folds,
        resample_by=resample_by,
        order_by=order_by,
        criterion=criterion,
        budget=budget,
        every_curve=html is not None,
        select=select,
        metrics=metrics,
        options=Options(bins=bins, binning=binning, seed=seed),
        flags=arguments.flags(
            label=label,
            prob=prob,
            logit=logit,
            weight=weight,
            positive=positive,
            features=features,
            ignore=ignore,
            classes=classes,
            node_id=node_id,
        ),
        sides=arguments.sides(model=model, partition_data=partition_data, embedding_data=embedding_data, edges=edges),
        input_format=input_format,
        bad_rows=bad_rows,
        seed=seed,
    )
    talk = Console(quiet=quiet, no_color=no_color)
    result = run(request, talk)
    output.page(result.report, html, talk)
    output.compared(result, form, talk)
