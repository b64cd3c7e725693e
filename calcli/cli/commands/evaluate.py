"""``calcli evaluate``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli evaluate test.parquet
calcli evaluate test.parquet --with train.platt --with new=train.isotonic
calcli evaluate test.parquet --with train.platt --bootstrap 1000 --by country
calcli evaluate test.parquet --with train.platt --fail-if 'nll.diff > 0'
calcli evaluate test.parquet --with train.ccl --rejection --html report.html
calcli evaluate scored.parquet --score calibrated --score old=calibrated_2025
calcli evaluate test.csv --metrics nll,ece --format json > old.json
calcli evaluate yesterday.parquet --drift train.platt
calcli evaluate test.csv --baseline old.json --fail-if 'nll.change > 0.002'
calcli evaluate days/ --with nightly --engine spark"""


def evaluate(
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
    edges: options.EvaluatedEdges = None,
    artifacts: options.With = None,
    scores: options.Scores = None,
    metrics: options.Metrics = "default",
    bins: options.Bins = 15,
    binning: options.Binning = "width",
    convention: options.Convention = "sklearn",
    mvce: options.Mvce = "closed",
    in_sample: options.InSample = False,
    bootstrap: options.Bootstrap = 0,
    resample_by: options.ResampleBy = None,
    by: options.By = None,
    clusters_from: options.ClustersFrom = None,
    rejection: options.Rejection = False,
    baseline: options.Baseline = None,
    drift: options.Drift = None,
    state: options.DriftState = None,
    fail_if: options.FailIf = None,
    allow_null: options.AllowNull = False,
    seed: options.Seed = 0,
    html: options.Html = None,
    form: options.Format = "table",
    engine: options.Engine = "local",
    master: options.Master = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Measure scores, before and after calibration.

    The raw score, that of each artifact and each calibrated column, on the same rows, which should be rows that nothing
    was fitted on.
    """
    from calcli.evaluation.request import EvaluateRequest
    from calcli.metrics.base import Options
    from calcli.verbs.evaluate import evaluate as run

    request = EvaluateRequest(
        data=data,
        artifacts=tuple(artifacts or ()),
        scores=tuple(scores or ()),
        metrics=metrics,
        options=Options(bins=bins, binning=binning, convention=convention, mvce=mvce, in_sample=in_sample, seed=seed),
        bootstrap=bootstrap,
        resample_by=resample_by,
        by=arguments.names(by) or (),
        clusters_from=clusters_from,
        rejection=rejection,
        every_curve=html is not None,
        baseline=baseline,
        drift=drift,
        state=state,
        fail_if=tuple(fail_if or ()),
        allow_null=allow_null,
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
        edges=edges,
        input_format=input_format,
        bad_rows=bad_rows,
        seed=seed,
        engine=engine,
        master=master,
    )
    talk = Console(quiet=quiet, no_color=no_color)
    report = run(request, talk)
    output.page(report, html, talk)
    output.evaluated(report, form, talk)
