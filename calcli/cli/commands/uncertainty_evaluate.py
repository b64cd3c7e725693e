"""``calcli uncertainty evaluate``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli uncertainty evaluate test.parquet --with train.sglb -o rejection.png
calcli uncertainty evaluate test.parquet --with train.sglb --ood other.parquet
calcli uncertainty evaluate test.csv --with sgb --with b=ens --make-ood x.csv"""


@command(
    options.DATA,
    options.WITH_ENSEMBLE,
    options.INPUT_FORMAT,
    options.DELIMITER,
    *options.PLACES,
    options.BAD_ROWS,
    options.OUTCOME,
    options.WEIGHT,
    options.WEIGHT_KIND,
    options.IGNORE,
    options.OOD,
    options.MAKE_OOD,
    options.OOD_PRESET,
    options.SEED,
    options.REJECTION_PICTURE,
    options.FORMAT,
    *options.GENERAL,
)
def evaluate(arguments: Arguments) -> None:
    """Measure ensembles, and how well their uncertainty finds errors.

    On rows that no ensemble was trained on, reports the log-loss, the error rate, the gain from rejecting the most
    uncertain rows first (100 is an oracle, 0 is chance) and, with --ood or --make-ood, how well out-of-domain rows are
    detected. Each ensemble is compared with a single model.
    """
    from calcli.verbs.uncertainty import EnsembleEvaluateRequest
    from calcli.verbs.uncertainty import evaluate as run

    console = arguments.console()
    report = run(arguments.request(EnsembleEvaluateRequest), console)
    output.ensemble_evaluated(report, arguments["form"], console)
