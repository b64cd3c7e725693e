"""``calcli uncertainty evaluate``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli uncertainty evaluate test.parquet --with train.sglb -o rejection.png
calcli uncertainty evaluate test.parquet --with train.sglb --ood other.parquet
calcli uncertainty evaluate test.csv --with sgb --with b=ens --make-ood x.csv"""


def evaluate(
    data: options.Data,
    ensembles: options.WithEnsemble = None,
    input_format: options.InputFormat = None,
    bad_rows: options.BadRows = "fail",
    label: options.Outcome = None,
    weight: options.Weight = None,
    ignore: options.Ignore = None,
    ood: options.Ood = None,
    make_ood: options.MakeOod = None,
    preset: options.OodPreset = None,
    seed: options.Seed = 0,
    target: options.RejectionPicture = None,
    form: options.Format = "table",
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Measure ensembles, and whether their uncertainty finds errors.

    On rows that no ensemble was trained on: log-loss, errors, how much is gained by rejecting the most uncertain rows
    first (100 is an oracle, 0 is chance), and with --ood or --make-ood how well rows from elsewhere are told apart.
    Beside each ensemble stands the single model that one would have without it.
    """
    from calcli.verbs.uncertainty_evaluate import EnsembleEvaluateRequest
    from calcli.verbs.uncertainty_evaluate import evaluate as run

    request = EnsembleEvaluateRequest(
        data=data,
        ensembles=tuple(ensembles or ()),
        ood=ood,
        make_ood=make_ood,
        preset=preset,
        output=target,
        flags=arguments.flags(
            label=label,
            prob=None,
            logit=None,
            weight=weight,
            positive=None,
            features=None,
            ignore=ignore,
            classes=None,
        ),
        input_format=input_format,
        bad_rows=bad_rows,
        seed=seed,
    )
    talk = Console(quiet=quiet, no_color=no_color)
    output.ensemble_evaluated(run(request, talk), form, talk)
