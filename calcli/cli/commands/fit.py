"""``calcli fit``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli fit train.parquet
calcli fit train.parquet --method platt --guard nll
calcli fit train.csv -m histogram --set bins=20 -o clicks.histogram
calcli fit 'days/*.parquet' -m isotonic -o nightly --label clicked
calcli fit days/ -m platt -o nightly --engine spark"""


def fit(
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
    method: options.Method = "auto",
    params: options.Set = None,
    preset: options.Preset = None,
    model: options.Model = None,
    partition_data: options.PartitionData = None,
    embedding_data: options.EmbeddingData = None,
    edges: options.Edges = None,
    exact: options.Exact = False,
    prior_shift: options.PriorShift = None,
    criterion: options.Criterion = "nll",
    budget: options.Budget = 300.0,
    holdout: options.Holdout = None,
    guard: options.Guard = None,
    metrics: options.Metrics = "default",
    bins: options.Bins = 15,
    binning: options.Binning = "width",
    seed: options.Seed = 0,
    target: options.ArtifactOutput = None,
    form: options.Format = "table",
    engine: options.Engine = "local",
    master: options.Master = None,
    dry_run: options.DryRun = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Fit a calibrator, check it on held-out rows, and keep it.

    Prints the path of the artifact on stdout, so that a script can catch it, and before and after on stderr. With
    another --format than table the report is what goes to stdout.
    """
    from calcli.fitting.requests import FitRequest
    from calcli.metrics.base import Options
    from calcli.verbs.fit import fit as run

    request = FitRequest(
        data=data,
        method=method,
        output=target,
        params=arguments.settings(params),
        preset=preset,
        holdout=holdout,
        exact=exact,
        prior_shift=prior_shift,
        guard=guard,
        criterion=criterion,
        budget=budget,
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
        engine=engine,
        master=master,
        dry_run=dry_run,
    )
    talk = Console(quiet=quiet, no_color=no_color)
    output.fitted(run(request, talk), form, talk)
