"""The facts below the numbers: the rows, the roles of the columns, the definitions of the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from calcli.methods import catalog as methods
from calcli.metrics import catalog
from calcli.reporting.typesetting import spelled

if TYPE_CHECKING:
    from calcli.artifacts.manifest import Manifest
    from calcli.reports.schema import DataFacts

Pair = tuple[str, str]
FLOOR: Pair = ("floor", "value of a calibrated score on these rows, from noise alone")

_UNCLUSTERED = "no features"
"""Why there are no clusters, in short."""

_MOST_LISTED = 8
"""Longer lists are cut after so many items."""


def _data_facts(data: DataFacts, positive: object) -> list[Pair]:
    """The rows that were measured."""
    parts = [names_of_files(data.files)] if data.files else []
    parts.append(f"{data.rows:,} rows")
    if data.rows_bad:
        parts.append(f"{data.rows_bad:,} of them left out as bad")
    if data.rows_normalised:
        parts.append(f"{data.rows_normalised:,} with probabilities divided by their sum")
    if data.units is not None and not data.units["in_order"]:
        parts.append(f"{data.units['count']:,} units by {data.units['column']}")
    parts += _rates(data.label_rate, positive)
    return [("data", ", ".join(parts))]


def measured(data: DataFacts, binding: Mapping[str, Any], more: Sequence[Pair] = ()) -> list[Pair]:
    """The rows that were measured, `more` about them, and the roles of their columns."""
    return [*_data_facts(data, binding["positive"]), *more, *binding_facts(binding)]


def fit_data(manifest: Manifest) -> Pair:
    """The rows that an artifact was fitted on."""
    rows = f"{cast('dict[str, Any]', manifest.fit)['rows']:,} rows"
    files = cast("list[dict[str, Any]]", manifest.data.get("files", []))
    return ("data", f"{rows} from {names_of_files(files)}" if files else rows)


def names_of_files(files: Sequence[Mapping[str, Any]]) -> str:
    """The name of the only file, or the number of files."""
    first = str(files[0]["path"] or "standard input")
    return first if len(files) == 1 else f"{len(files):,} files, the first {first}"


def _rates(rate: float | Mapping[str, float] | None, positive: object) -> list[str]:
    if rate is None:
        return []
    if isinstance(rate, Mapping):
        return [_listed([f"{_percent(share)} {name}" for name, share in rate.items()])]
    return [f"{_percent(rate)} with label {spelled(positive)}"]


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.9995 else f"{100 * share:.6g} %"


def binding_facts(binding: Mapping[str, Any]) -> list[Pair]:
    """The roles of the columns, from the ``binding`` object of a report or manifest."""
    pairs: list[Pair] = []
    classes = [spelled(each) for each in binding["classes"]]
    if not classes:
        pairs.append(("label", f"{binding['label'] or 'none'}: a number"))
    elif binding["label"] is not None:
        pairs.append(("label", f"{binding['label']}: {_classes(classes, binding['positive'])}"))
    else:
        pairs.append(("label", f"none; from the artifact: {_classes(classes, binding['positive'])}"))
    if binding["score"]["columns"]:
        pairs.append(("score", _score(binding["score"], binding["positive"])))
    pairs.append(("weight", _weight(binding)))
    if binding["features"]:
        pairs.append(("features", _listed(binding["features"])))
    if binding["dropped"]:
        pairs.append(("dropped", _listed([f"{each['column']} ({each['reason']})" for each in binding["dropped"]])))
    return pairs


def _weight(binding: Mapping[str, Any]) -> str:
    if binding["weight"] is None:
        return "none, all rows count the same"
    meaning = (
        "number of rows that each stands for" if binding.get("weight_kind") == "counts" else "importance of each row"
    )
    return f"{binding['weight']}: {meaning}"


def _classes(classes: Sequence[str], positive: object) -> str:
    if positive is None:
        return f"{len(classes)} classes: {_listed(classes)}"
    other = next((each for each in classes if each != spelled(positive)), "none")
    return f"{spelled(positive)} is positive, {other} negative"


def _score(score: Mapping[str, Any], positive: object) -> str:
    columns = list(score["columns"])
    of = spelled(positive)
    if len(columns) == 1:
        kind = "the log-odds" if score["kind"] == "logit" else "the probability"
        return f"{columns[0]}: {kind} of {of}"
    kind = "logits" if score["kind"] == "logit" else "probabilities"
    return f"{_listed(columns)}: {kind}"


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _MOST_LISTED
    return ", ".join(items[:_MOST_LISTED]) + (f", and {more} more" if more > 0 else "")


def origin(source: Mapping[str, Any]) -> str:
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


def holdout_fact(holdout: Mapping[str, Any]) -> Pair:
    """How rows were held out, from the ``holdout`` object of a manifest."""
    scheme, rows = str(holdout["scheme"]), holdout["rows"]
    units = holdout.get("units")
    if scheme == "none":
        return ("held out", "no rows; fitted on all rows")
    if units is not None and units["in_order"]:
        spans = f", in up to {scheme[3:]} spans, each" if scheme.startswith("cv:") else ""
        all_too = "; then fitted on all rows" if spans else ""
        return ("held out", f"the last {rows:,} rows by {units['column']}{spans} from those before{all_too}")
    if scheme == "others":
        return ("held out", f"the {rows:,} rows outside the sample that it was fitted on")
    whole = "" if units is None else f" of whole units by {units['column']}"
    if scheme.startswith("cv:"):
        return ("held out", f"all rows, in {scheme[3:]} cross-validation folds{whole}; then fitted on all rows")
    return ("held out", f"{rows:,} rows{whole}; fitted on the other rows")


def definitions(defined: Mapping[str, Mapping[str, Any]]) -> list[Pair]:
    """The definition of each metric, in short."""
    summaries = {metric.name: metric.summary for metric in catalog.specs()}
    return [(name, "; ".join([summaries.get(name, name), *_details(one)])) for name, one in defined.items()]


def _details(one: Mapping[str, Any]) -> list[str]:
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


def _bins(one: Mapping[str, Any]) -> str:
    if one["binning"] == "shuffled":
        return f"{one['bins']:,} bins of {one['bin_size']:,.0f} rows"
    kinds = {"width": "equal width", "mass": "equal weight"}
    auto = " (auto)" if one.get("auto_bins") else ""
    return f"{one['bins']:,} bins{auto} of {kinds.get(one['binning'], one['binning'])}"


def drift(verdict: Mapping[str, Any]) -> str:
    """The result of the drift test, with its evidence; empty where there is no calibration to test."""
    if verdict["evidence"] is None:
        return ""
    evidence = _evidence(verdict["evidence"], verdict, "drift is reported")
    if not verdict["drifted"]:
        return evidence
    return f"{verdict['what']}, {_since(verdict)} ({evidence})"


def promise_kept(verdict: Mapping[str, Any]) -> str:
    """The result of the test of a policy's promise over all nights; empty where it promises nothing."""
    promise = verdict.get("promise")
    if promise is None:
        return ""
    evidence = _evidence(promise["evidence"], verdict, "a broken promise is reported")
    if not promise["broken"]:
        return f"no night refutes the promise {promise['target']} ({evidence})"
    return f"the promise {promise['target']} is broken, {_since(promise)} ({evidence})"


def _evidence(evidence: float, verdict: Mapping[str, Any], what: str) -> str:
    nights = f"{verdict['nights']} night{'s' if verdict['nights'] != 1 else ''}"
    return f"e-value {evidence:.3g} after {nights}; {what} from {verdict['threshold']:.0f} on"


def _since(found: Mapping[str, Any]) -> str:
    return f"most likely since night {found['since']}, {str(found['since_at'])[:10]}"
