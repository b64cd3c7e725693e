"""``calcli apply``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli apply train.platt new.parquet -o scored.parquet
calcli apply train.platt new.csv -o - --output-format csv --keep id | head
calcli apply train.platt days/ -o scored/ --engine spark
cat new.csv | calcli apply train.platt - --input-format csv -o scored.csv"""


def apply(
    artifact: options.Artifact,
    data: options.Data,
    target: options.TableOutput,
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
    edges: options.NewEdges = None,
    output_format: options.OutputFormat = None,
    column: options.Column = "calibrated",
    scale: options.Scale = "prob",
    extra: options.Extra = False,
    keep: options.Keep = None,
    engine: options.Engine = "local",
    master: options.Master = None,
    dry_run: options.DryRun = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Add calibrated probabilities to a table.

    All rows in the same order, all columns as they were, then `calibrated` (for more than two classes
    `calibrated_<class>`). A label is not needed. Nothing is written unless all rows could be.
    """
    from calcli.verbs.apply import ApplyRequest
    from calcli.verbs.apply import apply as run

    request = ApplyRequest(
        artifact=artifact,
        data=data,
        output=target,
        column=column,
        scale=scale,
        extra=extra,
        keep=arguments.kept(keep),
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
        input_format=input_format,
        output_format=output_format,
        bad_rows=bad_rows,
        edges=edges,
        engine=engine,
        master=master,
        dry_run=dry_run,
    )
    # What is said on a terminal that the table goes to as well would stand in its way.
    talk = Console(quiet=quiet or target == "-", no_color=no_color)
    output.applied(run(request, talk), talk, dry_run=dry_run)
