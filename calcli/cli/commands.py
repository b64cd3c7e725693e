"""The commands: the options of each, one call of its verb, one call of the function that makes its answer.

What a verb needs is imported when its command runs, so that help imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable

from calcli.cli import decision_options, options
from calcli.cli.arguments import Arguments, Command, Option, with_options
from calcli.cli.output import Answer, applied, put, show, written
from calcli.cli.process import Console, write, write_path
from calcli.errors import UsageError

OPTIONS = vars(options) | vars(decision_options)


def command(names: str) -> Callable[[Command], Callable[..., None]]:
    """Declare a command with the options and groups of these names, which help lists in this order."""
    listed: list[Option] = []
    for found in (OPTIONS[name] for name in names.split()):
        listed += [found] if isinstance(found, Option) else found
    return with_options(listed)


@command("""
    READING COLUMNS MULTI ROLES NODE_ID METHOD SET PRESET FOR SIMPLE SIDES EXACT PRIOR_SHIFT CRITERION BUDGET HOLDOUT
    RESAMPLE_BY ORDER_BY GUARD METRICS BINNED SEED ARTIFACT_OUTPUT LOCK_TIMEOUT FORMAT SAMPLED DRY_RUN GENERAL
""")
def fit(arguments: Arguments, console: Console) -> Answer:
    """Fit a calibrator, check it on held-out rows, and save it.

    Prints the path of the artifact to stdout, for scripts, and the held-out performance before and after calibration to
    stderr. With --format json, csv or markdown the report goes to stdout instead.

    Examples
    --------
    calcli fit train.parquet
    calcli fit train.parquet --method platt --guard nll
    calcli fit train.csv -m histogram --set bins=20 -o clicks.histogram
    calcli fit 'days/*.parquet' -m isotonic -o nightly --label clicked
    calcli fit comments.csv --multi 'label_*' 'score_*' -o comments
    calcli fit days/ -m platt -o nightly --engine spark
    """
    from calcli.cli.results import fitted
    from calcli.models.requests import FitRequest
    from calcli.verbs.fit import fit as run

    return fitted(run(arguments.request(FitRequest), console))


@command("""
    ARTIFACT DATA TABLE_OUTPUT INPUT_FORMAT DELIMITER PLACES BAD_ROWS COLUMNS MULTI NODE_ID NEW_EDGES OUTPUT_FORMAT
    REPLACE STREAM COLUMN SCALE EXTRA KEEP MOVED_RATES CLUSTER DRY_RUN GENERAL
""")
def apply(arguments: Arguments, console: Console) -> Answer | None:
    """Add calibrated probabilities to a table.

    Writes all rows in the same order and all columns unchanged, followed by `calibrated` (for more than two classes
    `calibrated_<class>`). Needs no label. Writes either the whole table or nothing.

    Examples
    --------
    calcli apply train.platt new.parquet -o scored.parquet
    calcli apply train.platt new.csv -o - --keep id | head
    calcli apply train.platt days/ -o scored/ --engine spark
    cat new.csv | calcli apply train.platt - --input-format csv -o scored.csv
    """
    from calcli.verbs.apply import ApplyRequest
    from calcli.verbs.apply import apply as run

    return applied(run(arguments.request(ApplyRequest), console), console, dry_run=arguments["dry_run"])


@command("""
    READING COLUMNS MULTI ROLES NODE_ID EVALUATED_EDGES WITH SCORES VERSUS METRICS ORDERED BINNED CONVENTION MVCE
    BIN_SIZE IN_SAMPLE BOOTSTRAP RESAMPLE_BY BY AUDIT FIND_SEGMENTS OF_CLASS CLUSTERS_FROM REJECTION BASELINE DRIFT
    DRIFT_STATE FAIL_IF ALLOW_NULL SEED REPORT_FILE HTML FORMAT CLUSTER GENERAL
""")
def evaluate(arguments: Arguments, console: Console) -> Answer:
    """Measure scores before and after calibration.

    Measures the raw score, each artifact (--with) and each calibrated column (--score) on the same rows. Use rows that
    no calibrator was fitted on.

    Examples
    --------
    calcli evaluate test.parquet
    calcli evaluate test.parquet --with train.platt --with new=train.isotonic
    calcli evaluate test.parquet --with a.platt --with b.beta --versus a.platt
    calcli evaluate test.parquet --with train.platt --bootstrap 1000 --by country
    calcli evaluate test.parquet --audit --html review.html
    calcli evaluate test.parquet --find-segments --fail-if 'segments.gap > 0.05'
    calcli evaluate test.parquet --with train.platt --fail-if 'nll.diff > 0'
    calcli evaluate test.parquet --with train.ccl --rejection --html report.html
    calcli evaluate scored.parquet --score calibrated --score old=calibrated_2025
    calcli evaluate test.csv --metrics nll,ece -o old.json
    calcli evaluate yesterday.parquet --drift train.platt
    calcli evaluate test.csv --baseline old.json --fail-if 'nll.change > 0.002'
    calcli evaluate days/ --with nightly --engine spark
    """
    from calcli.cli.results import evaluated
    from calcli.verbs.compared_scores import EvaluateRequest
    from calcli.verbs.evaluate import evaluate as run

    return evaluated(run(arguments.request(EvaluateRequest, every_curve=arguments["html"] is not None), console))


@command("""
    READING COLUMNS NODE_ID NEW_EDGES WITH SCORES KIND LEAST MOST CURVE_COST_FP CURVE_COST_FN AXIS OVERLAY CLASS BY
    BINS BINNING BANDS PICTURE_OUTPUT PICTURE_FORMAT FORMAT CLUSTER GENERAL
""")
def diagram(arguments: Arguments, console: Console) -> None:
    """Draw reliability diagrams: predicted probabilities against observed rates.

    Draws in the terminal, to an image, or to a self-contained HTML page with tooltips. Observed rates are grey, and
    colour marks the error. With --format json, csv or markdown the numbers of the diagram go to stdout.

    Examples
    --------
    calcli diagram test.parquet
    calcli diagram test.parquet --with train.platt --kind smooth
    calcli diagram test.parquet --with train.platt -o reliability.png
    calcli diagram test.parquet --with new --kind benefit --from .05 --to .4
    calcli diagram test.parquet --with new --kind benefit --cost-fp 1 --cost-fn 20
    calcli diagram test.parquet --with train.platt --kind corp --overlay
    calcli diagram test.parquet --with train.platt --by device
    calcli diagram test.csv --class all -o reliability.html
    """
    from calcli.cli.pictures import show_diagram
    from calcli.verbs.diagram import DiagramRequest
    from calcli.verbs.diagram import diagram as run

    if arguments["output"] == "-" and arguments["form"] != "table":
        raise UsageError("the image and its numbers would both go to stdout", hint="write the image to a file: -o FILE")
    request = arguments.request(DiagramRequest, classes=arguments.pop("chosen"))
    show_diagram(run(request, console), arguments["form"], console)


@command("""
    READING COLUMNS ROLES NODE_ID METHODS SET SIDES CRITERION BUDGET FOLDS RESAMPLE_BY ORDER_BY METRICS BINNED SEED
    SELECT REPORT_FILE HTML FORMAT SAMPLED GENERAL
""")
def compare(arguments: Arguments, console: Console) -> Answer:
    """Compare methods, and no calibration, on held-out rows.

    All methods are cross-validated on the same folds. The choice is the simplest method whose log-loss is within half a
    standard error of the lowest. Methods that fail, or that --budget leaves no time for, are listed with the reason.

    Examples
    --------
    calcli compare train.parquet
    calcli compare train.parquet --methods platt,beta --resample-by user_id
    calcli compare train.parquet --html report.html
    calcli compare train.parquet --budget 60 --select best
    """
    from calcli.cli.results import compared
    from calcli.verbs.compare import CompareRequest
    from calcli.verbs.compare import compare as run

    return compared(run(arguments.request(CompareRequest, every_curve=arguments["html"] is not None), console))


@command("""
    ARTIFACT DATA_OR_NONE INPUT_FORMAT DELIMITER PLACES REFIT_BAD_ROWS REFIT_GUARD POOL_NIGHTS RESAMPLE_BY ORDER_BY
    SIDES BINNED SEED ROLLBACK LOCK_TIMEOUT FORMAT SAMPLED GENERAL
""")
def refit(arguments: Arguments, console: Console) -> Answer | None:
    """Fit an artifact again on new rows, and keep the better one.

    Repeats the recipe of the artifact: the same method, parameters and columns. The result replaces the artifact if
    held-out new rows show that it is better (by chance at most once in twenty years of nightly refits), and if it is
    at most 0.1 % worse in --guard than no calibration and than the artifact in place. Otherwise nothing changes, and
    the exit code is 1. The rows of one night rarely show it; --pool-nights takes more.

    Examples
    --------
    calcli refit clicks.platt yesterday.parquet
    calcli refit clicks.platt 'days/*.parquet' --pool-nights 30
    calcli refit clicks.platt --rollback
    """
    from calcli.cli.results import refitted
    from calcli.models.requests import RefitRequest
    from calcli.verbs.refit import refit as run
    from calcli.verbs.refit import rollback as run_rollback

    if arguments["rollback"]:
        if arguments["data"]:
            raise UsageError("--rollback takes no DATA: it restores the previous version of the artifact")
        write_path(run_rollback(arguments["artifact"], console))
        return None
    if not arguments["data"]:
        raise UsageError("refit needs DATA, the new rows", hint="see: calcli refit --help")
    return refitted(run(arguments.request(RefitRequest, guard=arguments["guard"] or "nll"), console))


@command("""
    READING COLUMNS NODE_ID NEW_EDGES CALIBRATOR COST_FP COST_FN COST_TP COST_TN COST COSTS TARGET MAXIMIZE BUDGET_ROWS
    CONFIDENCE ABSTAIN COVERAGE UNCERTAINTY TOP SETS SET_SCORE BY_CLASS INTERVALS PREDICTION QUANTILES SPREAD
    VARIANCE SIDE SETS_BY THRESHOLD RESAMPLE_BY FOLDS DECISION_BOOTSTRAP SEED POLICY_OUTPUT LOCK_TIMEOUT
    POLICY_PICTURE HTML FORMAT GENERAL
""")
def decide(arguments: Arguments, console: Console) -> Answer:
    """Choose a threshold by costs or by a target, and save it as a policy.

    DATA needs labels, and must not be rows that the calibrator was fitted on. The policy is an artifact that holds its
    calibrator: `calcli apply` adds `decision` and `decision_reason`, `calcli evaluate --with` measures it. If nothing
    meets the target, nothing is saved and the exit code is 1.

    Examples
    --------
    calcli decide valid.parquet --with train.platt --cost-fp 1 --cost-fn 20
    calcli decide valid.parquet --with train.platt --target 'precision >= 0.9'
    calcli decide valid.parquet --with train.platt --budget 500
    calcli decide valid.parquet --cost-fp 1 --cost-fn 20 --abstain 0.3
    calcli decide valid.parquet --with train.ccl --costs costs.csv
    calcli decide valid.parquet --with train.ccl --top 3
    calcli decide valid.parquet --with train.ccl --sets 0.95 --by-class
    calcli decide valid.parquet --intervals 0.9 --prediction forecast --spread sd
    calcli apply valid.policy new.parquet -o decided.parquet
    """
    from calcli.cli import policies
    from calcli.diagrams.image import PAGE_FORMATS, image_format_of
    from calcli.verbs.decide import DecideRequest
    from calcli.verbs.decide import decide as run

    picture = arguments["picture"]
    if picture not in (None, "-"):
        image_format_of(picture, PAGE_FORMATS)  # refused before any rows are read
    result = run(arguments.request(DecideRequest), console)
    if picture is not None:
        policies.draw(result, picture, console)
    return policies.decided(result)


@command("""
    READING LABEL SCORE WEIGHTS CLASS_NAMES IGNORE ESTIMATE_TASK LABEL_PROB STRATA ITEM CALIBRATED_BY
    ESTIMATED_RATES OTHER_SYSTEM RESAMPLE_BY BY WIDTH CHOOSE FAIL_IF_RATE ALLOW_NULL SEED CHOSEN_OUTPUT HTML FORMAT
    CLUSTER GENERAL
""")
def estimate(arguments: Arguments, console: Console) -> Answer:
    """Estimate the rate of a label where few rows have one.

    All rows have a score, and some have a label: a judge's verdicts with a few labels by people, flags of which a
    sample was checked. The mean of the scores is as wrong as the scores are; the estimate is right for any score, if
    the labelled rows were drawn at random, and is never much worse than the labels alone. Without any labels, --with
    shows what calibrated scores promise.

    Examples
    --------
    calcli estimate judged.jsonl --prob verdict --label human
    calcli estimate judged.jsonl --prob verdict --by task --html rate.html
    calcli estimate judged.jsonl --prob verdict --fail-if 'rate.lo < 0.9'
    calcli estimate judged.jsonl --prob verdict --versus model --id question
    calcli estimate grades.csv --task regression --prob judge_grade
    calcli estimate flags.parquet --width 0.02 --choose 500 -o label.parquet
    calcli estimate flags.parquet --label-prob label_prob
    calcli estimate unlabelled.parquet --with train.platt
    calcli estimate days/ --label checked --by country --engine spark
    """
    from calcli.cli.results import estimated
    from calcli.verbs.estimate import estimate as run
    from calcli.verbs.estimate_request import EstimateRequest

    return estimated(run(arguments.request(EstimateRequest), console))


@command("""
    ARTIFACT_OR_NONE TO DIALECT SHAPE TABLE KEEP COLUMN SCALE FLOAT32 CHECK_ROWS REPORT_FILE DIALECTS STORAGE_OPTION
    DEBUG
""")
def export(arguments: Arguments, console: Console) -> None:
    """Export a calibrator as SQL, JSON or ONNX.

    The export gives the same predictions as `calcli apply`, up to rounding, also for missing values and unseen
    categories, and null for rows that cannot be calibrated. `calcli methods NAME` says if a method can be exported.
    Large calibrators need --table and become queries with a step for each part; those that join tables do not keep the
    order of rows.

    Examples
    --------
    calcli export train.platt
    calcli export train.sms --dialect snowflake --table scores
    calcli export train.sms --dialect snowflake --check 100
    calcli export train.sms --dialect postgres --table scores --shape view
    calcli export train.isotonic --to json
    calcli export train.isotonic --to onnx -o isotonic.onnx
    calcli export --dialects
    """
    from calcli.verbs.export import ExportRequest, dialects, export_onnx
    from calcli.verbs.export import export as run

    if arguments.pop("dialects"):
        write("".join(f"{name:<12} {tested}\n" for name, tested in dialects().items()))
        return
    if arguments["artifact"] is None:
        raise UsageError("no ARTIFACT is given", hint="name the directory that `calcli fit` made")
    request = arguments.request(ExportRequest)
    if request.to == "onnx":
        put(export_onnx(request), arguments["report_file"])
    else:
        put(run(request) + "\n", arguments["report_file"])


@command("""
    ARTIFACT RULES EXPLAIN ROW EXPLANATION_OUTPUT TABLE_OR_JSON STORAGE_OPTION NO_COLOR DEBUG
""")
def inspect(arguments: Arguments, console: Console) -> Answer | None:
    """Describe an artifact and its held-out performance.

    Reads the whole artifact and checks the hash of every file.

    Examples
    --------
    calcli inspect train.platt
    calcli inspect train.mbct --rules
    calcli inspect train.mbct --rules 100
    calcli inspect train.effects --rules -o effects.png
    calcli inspect train.mbct --explain test.parquet -o why.png
    calcli inspect train.mbct --explain test.parquet --row 3
    calcli inspect train.platt --format json
    """
    from calcli.cli import inspection
    from calcli.verbs.inspect import ExplainRequest, explain
    from calcli.verbs.inspect import inspect as run

    artifact, table, row, drawn = (arguments[name] for name in ("artifact", "explain", "row", "output"))
    if table is not None:
        if arguments["rules"] is not None:
            raise UsageError("--explain and --rules are two answers", hint="ask for one at a time")
        explanation = explain(ExplainRequest(artifact, table, row, output=drawn))
        show(inspection.explained(explanation), arguments["form"], console)
        if drawn is not None:
            console.note(f"drawn in {drawn}")
        return None
    most = arguments["rules"]
    if row is not None:
        raise UsageError("--row needs --explain DATA")
    if drawn is not None and most is None:
        raise UsageError("--output needs --explain DATA, or --rules")
    found = run(artifact, rules=most is not None, output=drawn)
    if drawn is not None:
        console.note(f"drawn in {drawn}")
    return inspection.inspected(found, most)


@command("""
    METHOD_OR_NONE FORMAT NO_COLOR DEBUG
""")
def methods(arguments: Arguments, console: Console) -> Answer:
    """List the calibration methods, or describe one.

    Examples
    --------
    calcli methods
    calcli methods histogram
    calcli methods --format json
    """
    from calcli.cli import catalogs

    return catalogs.methods(arguments["name"])


@command("""
    METRIC_OR_NONE FORMAT NO_COLOR DEBUG
""")
def metrics(arguments: Arguments, console: Console) -> Answer:
    """List the metrics, or describe one.

    Examples
    --------
    calcli metrics
    calcli metrics mvce
    calcli metrics --format json
    """
    from calcli.cli import catalogs

    return catalogs.metrics(arguments["name"])


@command("""
    READING OUTCOME TASK WEIGHTS CLASS_NAMES FEATURES IGNORE ROLES ENSEMBLE_KIND MEMBER_COUNT TREES
    DEPTH LEARNING_RATE TUNE OWN_MODEL SEED ENSEMBLE_OUTPUT LOCK_TIMEOUT DRY_RUN GENERAL
""")
def uncertainty_fit(arguments: Arguments, console: Console) -> Answer:
    """Train an ensemble of CatBoost models, and save it.

    Needs features and a label, but no score. Prints the path of the ensemble to stdout. The same command resumes a run
    that was interrupted. The same rows, options and number of threads give the same bytes.

    Examples
    --------
    calcli uncertainty fit train.parquet
    calcli uncertainty fit train.parquet --ensemble virtual --tune -o clicks
    calcli uncertainty fit prices.csv --label price --task regression
    calcli uncertainty fit train.parquet --model mine.cbm -o mine
    """
    from calcli.cli.ensembles import fitted
    from calcli.verbs.uncertainty import EnsembleRequest
    from calcli.verbs.uncertainty import fit as run

    return fitted(run(arguments.request(EnsembleRequest), console))


@command("""
    ENSEMBLE_DIR DATA TABLE_OUTPUT INPUT_FORMAT DELIMITER PLACES OUTPUT_FORMAT REPLACE STREAM MORE_MEASURES KEEP
    DRY_RUN GENERAL
""")
def uncertainty_apply(arguments: Arguments, console: Console) -> Answer | None:
    """Add predictions and their uncertainty to a table.

    Writes all rows in the same order and all columns unchanged, followed by `uncertainty_mean` (for more than two
    classes `uncertainty_mean_<class>`), `uncertainty_total`, and its parts `uncertainty_data` and
    `uncertainty_knowledge`: in nats for classes, as variances for numbers. A virtual ensemble adds the prediction of
    the whole model, `uncertainty_model`.

    Examples
    --------
    calcli uncertainty apply train.sglb new.parquet -o scored.parquet
    calcli uncertainty apply train.sglb new.csv -o - --output-format csv --keep id
    """
    from calcli.verbs.apply import EnsembleApplyRequest
    from calcli.verbs.apply import apply_ensemble as run

    return applied(run(arguments.request(EnsembleApplyRequest), console), console, dry_run=arguments["dry_run"])


@command("""
    DATA WITH_ENSEMBLE INPUT_FORMAT DELIMITER PLACES BAD_ROWS OUTCOME WEIGHTS IGNORE OOD MAKE_OOD
    OOD_PRESET BOOTSTRAP SEED REJECTION_PICTURE FORMAT GENERAL
""")
def uncertainty_evaluate(arguments: Arguments, console: Console) -> Answer:
    """Measure ensembles, and how well their uncertainty finds errors.

    On rows that no ensemble was trained on, reports the log-loss, the error rate, the gain from rejecting the most
    uncertain rows first (100 is an oracle, 0 is chance) and, with --ood or --make-ood, how well out-of-domain rows are
    detected. Each ensemble is compared with a single model, and with the first ensemble.

    Examples
    --------
    calcli uncertainty evaluate test.parquet --with train.sglb -o rejection.png
    calcli uncertainty evaluate test.parquet --with train.sglb --ood other.parquet
    calcli uncertainty evaluate test.csv --with sgb --with b=ens --make-ood x.csv
    """
    from calcli.cli.ensembles import evaluated
    from calcli.verbs.uncertainty import EnsembleEvaluateRequest
    from calcli.verbs.uncertainty import evaluate as run

    return evaluated(run(arguments.request(EnsembleEvaluateRequest), console))


@command("""
    DATA MEMBER_STEM TABLE_OUTPUT INPUT_FORMAT DELIMITER PLACES BAD_ROWS VARIANCES OUTPUT_FORMAT REPLACE
    STREAM MORE_MEASURES KEEP GENERAL
""")
def uncertainty_decompose(arguments: Arguments, console: Console) -> None:
    """Decompose the uncertainty of ensemble predictions in a table.

    The table holds the predictions of the members of any ensemble: a column for each member, or for each member and
    class. Adds the same columns as `calcli uncertainty apply`.

    Examples
    --------
    calcli uncertainty decompose nets.parquet --members net -o out.parquet
    calcli uncertainty decompose p.csv --members mu --variances var -o out.csv
    """
    from calcli.verbs.apply import DecomposeRequest
    from calcli.verbs.apply import decompose as run

    written(run(arguments.request(DecomposeRequest), console), "have no usable predictions and got null", console)
