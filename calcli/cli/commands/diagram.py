"""``calcli diagram``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli diagram test.parquet
calcli diagram test.parquet --with train.platt --kind smooth
calcli diagram test.parquet --with train.platt -o reliability.png
calcli diagram test.csv --class all -o reliability.html"""


def diagram(
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
    artifacts: options.With = None,
    scores: options.Scores = None,
    kind: options.Kind = "reliability",
    chosen: options.Class = None,
    bins: options.Bins = 20,
    binning: options.Binning = "width",
    bands: options.Bands = "consistency",
    target: options.PictureOutput = None,
    output_format: options.PictureFormat = None,
    form: options.Format = "table",
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Show what was predicted beside what happened.

    On the terminal, or as a picture, or as a page with tooltips that needs no network. What happened is grey; colour is
    error. With another --format than table, the numbers of the picture go to stdout.
    """
    from calcli.verbs.diagram import DiagramRequest
    from calcli.verbs.diagram import diagram as run

    output.check_streams(target, form)
    request = DiagramRequest(
        data=data,
        artifacts=tuple(artifacts or ()),
        scores=tuple(scores or ()),
        output=target,
        output_format=output_format,
        kind=kind,
        bins=bins,
        binning=binning,
        classes=tuple(chosen or ()),
        bands=bands,
        flags=arguments.flags(
            label=label,
            prob=prob,
            logit=logit,
            weight=weight,
            positive=positive,
            features=features,
            ignore=ignore,
            classes=classes,
        ),
        input_format=input_format,
        bad_rows=bad_rows,
    )
    talk = Console(quiet=quiet, no_color=no_color)
    output.pictured(run(request, talk), form, talk)
