"""The facts below the numbers: the rows, the roles of the columns, the definitions of the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from calcli.methods import catalog as methods
from calcli.metrics import catalog
from calcli.reporting.typesetting import spelled

if TYPE_CHECKING:
    from calcli.artifacts.manifest import Manifest
    from calcli.reports.schema import DataFacts

Pair = tuple[str, str]

JsonObject: TypeAlias = Mapping[str, Any]
"""A part of a report or a manifest, with the keys of the contract."""

FLOOR: Pair = ("floor", "value of a calibrated score on these rows, from noise alone")

_UNCLUSTERED = "no features"
"""Why there are no clusters, in short."""

_MOST_LISTED = 8
"""Longer lists are cut after so many items."""


def measured(data: DataFacts, binding: JsonObject, more: Sequence[Pair] = ()) -> list[Pair]:
    """The rows that were measured, `more` about them, and the roles of their columns."""
    parts = [names_of_files(data.files)] if data.files else []
    parts.append(f"{data.rows:,} rows")
    if data.rows_bad:
        parts.append(f"{data.rows_bad:,} of them left out as bad")
    if data.rows_normalised:
        parts.append(f"{data.rows_normalised:,} with probabilities divided by their sum")
    if data.units is not None and not data.units["in_order"]:
        parts.append(f"{data.units['count']:,} units by {data.units['column']}")
    if isinstance(data.label_rate, Mapping):
        parts.append(_listed([f"{_percent(share)} {name}" for name, share in data.label_rate.items()]))
    elif data.label_rate is not None:
        parts.append(f"{_percent(data.label_rate)} with label {spelled(binding['positive'])}")
    return [("data", ", ".join(parts)), *more, *binding_facts(binding)]


def fit_data(manifest: Manifest) -> Pair:
    """The rows that an artifact was fitted on, and those that chose the policy of a calibrator."""
    fit, files = cast("JsonObject", manifest.fit), cast("list[JsonObject]", manifest.data.get("files", []))
    if "decision" not in fit or manifest.task == "regression":
        return ("data", _rows(fit["rows"], files))
    choosing = fit["decision"].get("files") or []
    fitted = _rows(fit["rows"], [one for one in files if one not in choosing])
    return ("data", f"{fitted}; the policy is chosen on {_rows(fit['decision']['rows'], choosing)}")


def _rows(count: int, files: Sequence[JsonObject]) -> str:
    return f"{count:,} rows{f' from {names_of_files(files)}' if files else ''}"


def names_of_files(files: Sequence[JsonObject]) -> str:
    """The name of the only file, or the number of files."""
    first = str(files[0]["path"] or "standard input")
    return first if len(files) == 1 else f"{len(files):,} files, the first {first}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.9995 else f"{100 * share:.6g} %"


def binding_facts(binding: JsonObject) -> list[Pair]:
    """The roles of the columns, from the ``binding`` object of a report or manifest."""
    positive, weight = binding["positive"], binding["weight"]
    classes = [spelled(each) for each in binding["classes"]]
    if not classes:
        pairs = [("label", f"{binding['label'] or 'none'}: a number")]
    else:
        label = "none; from the artifact" if binding["label"] is None else binding["label"]
        label += "" if (trials := binding.get("trials")) is None else f" of {trials}, each of which is a row"
        label += ", a share between 0 and 1" if binding.get("soft") else ""
        pairs = [("label", f"{label}: {_classes(classes, positive)}")]
    if binding["score"]["columns"]:
        pairs.append(("score", _score(binding["score"], positive)))
    if weight is None:
        pairs.append(("weight", "none, all rows count the same"))
    else:
        counts = binding.get("weight_kind") == "counts"
        meaning = "number of rows that each stands for" if counts else "importance of each row"
        pairs.append(("weight", f"{weight}: {meaning}"))
    if binding["features"]:
        pairs.append(("features", _listed(binding["features"])))
    if binding["dropped"]:
        pairs.append(("dropped", _listed([f"{each['column']} ({each['reason']})" for each in binding["dropped"]])))
    return pairs


def _classes(classes: Sequence[str], positive: object) -> str:
    if positive is None:
        return f"{len(classes)} classes: {_listed(classes)}"
    other = next((each for each in classes if each != spelled(positive)), "none")
    return f"{spelled(positive)} is positive, {other} negative"


def _score(score: JsonObject, positive: object) -> str:
    columns = list(score["columns"])
    of = spelled(positive)
    if len(columns) == 1:
        if score["kind"] == "rank":
            ranks = f"{columns[0]}: a number that only ranks, larger where {of} is likelier"
            return f"{ranks}; the losses of raw are those of the base rate"
        kind = "the log-odds" if score["kind"] == "logit" else "the probability"
        return f"{columns[0]}: {kind} of {of}"
    kind = "logits" if score["kind"] == "logit" else "probabilities"
    return f"{_listed(columns)}: {kind}"


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _MOST_LISTED
    return ", ".join(items[:_MOST_LISTED]) + (f", and {more} more" if more > 0 else "")


def origin(source: JsonObject) -> str:
    """The source of a score; of an artifact also the data of its fit."""
    match source["kind"]:
        case "raw":
            return "the score in the table, without calibration"
        case "column":
            return f"the column {source['column']}"
        case "method":
            return methods.find(source["method"]).summary
    parts = f"{source['path']}, {source['method']}"
    fitted = source["fitted"]
    if fitted is None:
        return parts
    params = ", ".join(f"{name}={spelled(value)}" for name, value in fitted["params"].items())
    preset = f"preset {fitted['preset']}" if fitted["preset"] else ""
    how = ", ".join(part for part in (preset, params) if part)
    rows = f"{fitted['rows']:,} rows"
    of = f" from {names_of_files(fitted['files'])}" if fitted["files"] else ""
    return f"{parts}{f' ({how})' if how else ''}, fitted {fitted['created'][:10]} on {rows}{of}"


def holdout_fact(holdout: JsonObject) -> Pair:
    """How rows were held out, from the ``holdout`` object of a manifest."""
    scheme, rows = str(holdout["scheme"]), holdout["rows"]
    units = holdout.get("units")
    if scheme == "none":
        return ("held out", "no rows; fitted on all rows")
    if units is not None and units["in_order"]:
        spans = f", in up to {scheme[3:]} spans, each" if scheme.startswith("cv:") else ""
        all_too = "; then fitted on all rows" if holdout.get("refit_on_all", spans) else ""
        return ("held out", f"the last {rows:,} rows by {units['column']}{spans} from those before{all_too}")
    if scheme == "others":
        return ("held out", f"the {rows:,} rows outside the sample that it was fitted on")
    whole = "" if units is None else f" of whole units by {units['column']}"
    if scheme.startswith("cv:"):
        return ("held out", f"all rows, in {scheme[3:]} cross-validation folds{whole}; then fitted on all rows")
    fitted_on = "then fitted on all rows" if holdout.get("refit_on_all") else "fitted on the other rows"
    return ("held out", f"{rows:,} rows{whole}; {fitted_on}")


def definitions(defined: Mapping[str, JsonObject]) -> list[Pair]:
    """The definition of each metric, in short."""

    def summary(name: str) -> str:
        return catalog.find(name).summary if catalog.known(name) else name

    return [(name, "; ".join([summary(name), *_details(one)])) for name, one in defined.items()]


def _details(one: JsonObject) -> list[str]:
    details = []
    if one["bins"] is not None:
        details.append(_bins(one))
    if one["clusters"] is not None:
        details.append(f"{one['clusters']['k']:,} clusters from {one['clusters']['source']}")
    elif one["binning"] == "clusters":
        details.append(_UNCLUSTERED)
    if one["reduction"] not in {None, "positive class"}:
        details.append(str(one["reduction"]))
    if str(one["approximation"]).startswith("sampled"):
        details.append(str(one["approximation"]).partition(";")[0])
    return details


def _bins(one: JsonObject) -> str:
    if one["binning"] == "shuffled":
        return f"{one['bins']:,} bins of {one['bin_size']:,.0f} rows"
    kinds = {"width": "equal width", "mass": "equal weight"}
    auto = " (auto)" if one.get("auto_bins") else ""
    return f"{one['bins']:,} bins{auto} of {kinds.get(one['binning'], one['binning'])}"


def drift(found: JsonObject | None) -> Iterator[tuple[Literal["calibration", "promise"], str, bool | None, str]]:
    """The results of the tests of the calibration and of a policy's promise over all nights: what was tested, the
    answer, whether it is a bad one, or none yet, and the sentence with the evidence; nothing where nothing is tested.
    """
    if found is None:
        return
    if found["evidence"] is not None:
        said = _evidence(found["evidence"], found, "drift is reported")
        if found["drifted"]:
            yield "calibration", "DRIFT", True, f"{found['what']}, {_since(found)} ({said})"
        elif found.get("learning"):
            yield "calibration", "no verdict yet", None, said
        else:
            yield "calibration", "no drift detected", False, said
    if (promise := found.get("promise")) is not None:
        evidence = _evidence(promise["evidence"], found, "a broken promise is reported")
        if promise["broken"]:
            said = f"the promise {promise['target']} is broken, {_since(promise)} ({evidence})"
            yield "promise", "BROKEN", True, said
        else:
            yield "promise", "kept", False, f"no night refutes the promise {promise['target']} ({evidence})"


def _evidence(evidence: float, verdict: JsonObject, what: str) -> str:
    nights = f"{verdict['nights']} night{'s' if verdict['nights'] != 1 else ''}"
    if left := verdict.get("learning"):
        return f"{nights} so far, and how much nights differ is to be learned from {left} more before {what}"
    return f"e-value {evidence:.3g} after {nights}; {what} from {verdict['threshold']:.0f} on"


def _since(found: JsonObject) -> str:
    return f"most likely since night {found['since']}, {str(found['since_at'])[:10]}"
