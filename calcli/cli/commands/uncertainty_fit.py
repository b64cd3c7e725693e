"""``calcli uncertainty fit``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli uncertainty fit train.parquet
calcli uncertainty fit train.parquet --ensemble virtual --tune -o clicks
calcli uncertainty fit prices.csv --label price --task regression
calcli uncertainty fit train.parquet --model mine.cbm -o mine"""


def fit(
    data: options.Data,
    input_format: options.InputFormat = None,
    bad_rows: options.BadRows = "fail",
    label: options.Outcome = None,
    task: options.Task = None,
    weight: options.Weight = None,
    positive: options.Positive = None,
    classes: options.Classes = None,
    features: options.Features = None,
    ignore: options.Ignore = None,
    ensemble: options.EnsembleKind = None,
    members: options.MemberCount = 10,
    trees: options.Trees = None,
    depth: options.Depth = None,
    learning_rate: options.LearningRate = None,
    tune: options.Tune = False,
    model: options.OwnModel = None,
    seed: options.Seed = 0,
    target: options.EnsembleOutput = None,
    dry_run: options.DryRun = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Train an ensemble of CatBoost models, and keep it.

    From features and a label; no score is needed. Prints the path of the ensemble on stdout. A run that was stopped
    goes on where it was when the same command is given again. The same rows, options and number of threads give the
    same bytes.
    """
    from calcli.verbs.uncertainty_fit import EnsembleRequest
    from calcli.verbs.uncertainty_fit import fit as run

    request = EnsembleRequest(
        data=data,
        output=target,
        ensemble=ensemble,
        members=members,
        trees=trees,
        depth=depth,
        learning_rate=learning_rate,
        task=task,
        tune=tune,
        model=model,
        flags=arguments.flags(
            label=label,
            prob=None,
            logit=None,
            weight=weight,
            positive=positive,
            features=features,
            ignore=ignore,
            classes=classes,
        ),
        input_format=input_format,
        bad_rows=bad_rows,
        seed=seed,
        dry_run=dry_run,
    )
    talk = Console(quiet=quiet, no_color=no_color)
    output.ensemble_fitted(run(request, talk), talk)
