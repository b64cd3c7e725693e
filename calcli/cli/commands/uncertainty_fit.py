"""``calcli uncertainty fit``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli uncertainty fit train.parquet
calcli uncertainty fit train.parquet --ensemble virtual --tune -o clicks
calcli uncertainty fit prices.csv --label price --task regression
calcli uncertainty fit train.parquet --model mine.cbm -o mine"""


@command(
    *options.READING,
    options.OUTCOME,
    options.TASK,
    options.WEIGHT,
    options.WEIGHT_KIND,
    options.POSITIVE,
    options.CLASSES,
    options.FEATURES,
    options.IGNORE,
    options.ENSEMBLE_KIND,
    options.MEMBER_COUNT,
    options.TREES,
    options.DEPTH,
    options.LEARNING_RATE,
    options.TUNE,
    options.OWN_MODEL,
    options.SEED,
    options.ENSEMBLE_OUTPUT,
    options.DRY_RUN,
    *options.GENERAL,
)
def fit(arguments: Arguments) -> None:
    """Train an ensemble of CatBoost models, and save it.

    Needs features and a label, but no score. Prints the path of the ensemble to stdout. The same command resumes a run
    that was interrupted. The same rows, options and number of threads give the same bytes.
    """
    from calcli.verbs.uncertainty import EnsembleRequest
    from calcli.verbs.uncertainty import fit as run

    console = arguments.console()
    output.ensemble_fitted(run(arguments.request(EnsembleRequest), console), console)
