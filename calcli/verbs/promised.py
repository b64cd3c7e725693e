"""What calibrated scores promise about rows whose labels are not known: the rate, the loss, the errors of decisions.

If a score is calibrated, a row with the probability p has the label 1 with probability p: every metric is that of a
table in which each row stands twice, once with each label and the weight of its probability (the estimates of Guillory
et al. 2021 and of NannyML's CBPE are of this kind). The interval is that of tables with labels drawn from these
probabilities, after these have been moved by as much as the rows of the fit leave unknown of their calibration: a shift
and a slope of the log-odds with the covariance of a logistic regression on so many rows. Nothing in it shows whether
the calibration of the fit still holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray, IntArray
from calcli.decisions.policy import GroupRule, ThresholdRule
from calcli.decisions.targets import Mask
from calcli.errors import UsageError
from calcli.files import as_text
from calcli.metrics import catalog
from calcli.metrics.base import Definition, Options, Scored
from calcli.metrics.powered import Interval
from calcli.models.calibrator import CalibratorModel
from calcli.models.judged import measured_rows
from calcli.models.moved_rates import moved_rates, off_at_fit
from calcli.numeric.links import logit, scores, sigmoid, softmax
from calcli.numeric.seeded import stream
from calcli.reports.groups import TableRows
from calcli.reports.measuring import Measurements, class_names, report_on
from calcli.reports.schema import MetricValue, Report, ReportWarning, ScoreRow, ScoreSource, finite
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.judged_rows import JudgedRows

PROMISED, MOVED = "promised", "prior shift"
"""Methods of an estimate without labels."""

ESTIMATE = "estimate"
"""The name of an estimate among the scores of a report."""

PROMISED_HOW = "expected of the calibrated probabilities, with the chance of labels and of the calibrator's fit"

METRICS = ("accuracy", "nll", "brier", "auc")
THRESHOLD = 0.5

_DRAWS = 200
_MOST_ROWS = 50_000
"""Of more rows, so many are drawn for the intervals, which are then a little too wide."""


class Promise(NamedTuple):
    """What is promised of some rows."""

    numbers: Mapping[str, Interval]
    """The rate (of each class, by its index), the metrics, and of two classes precision and recall."""

    decided: str | None
    """How the rows that are taken for positive are decided, in words; None of more than two classes."""


def promise(
    model: CalibratorModel, prob: FloatArray, table: TableRows, weight: FloatArray | None, seed: int
) -> Promise:
    """The promise of an artifact about the rows of a table, to which it gives these probabilities."""
    rule = None if model.policy is None else model.policy.rule
    threshold = rule.band.high if isinstance(rule, ThresholdRule) else THRESHOLD
    yes, decided = prob >= threshold, f"from a probability of {threshold:g} on"
    if isinstance(rule, GroupRule):
        group, _ = measured_rows(table, rule)
        assert group is not None
        yes, decided = rule.yes(prob, group), f"from the probability on that each {rule.column} has in the policy"
    expected = _expected(prob, weight, yes)
    rng = stream(seed, "promised")
    some, weights, taken = prob, weight, yes
    if len(prob) > _MOST_ROWS:
        place = rng.choice(len(prob), _MOST_ROWS, replace=False)
        some, weights, taken = prob[place], None if weight is None else weight[place], yes[place]
    fitted = float(str(model.manifest.fit["rows"]))
    draws = [_numbers(*_drawn(some, fitted, rng), weights, taken) for _ in range(_DRAWS)]
    numbers = {}
    for name, value in expected.items():
        known = np.array([one[name] for one in draws if one[name] is not None], dtype=np.float64)
        if value is None or len(known) < _DRAWS / 2:
            numbers[name] = Interval(value)
            continue
        lo, hi = value + np.quantile(known, (0.025, 0.975)) - known.mean()
        numbers[name] = Interval(value, float(lo), float(hi))
    return Promise(numbers, decided if prob.ndim == 1 else None)


def _drawn(prob: FloatArray, fitted: float, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Labels of rows whose calibration is off by what `fitted` rows leave unknown, and their probabilities."""
    if prob.ndim == 2:
        information = np.maximum((prob * (1.0 - prob)).mean(axis=0) * fitted, 1e-9)
        moved = softmax(scores(prob) + rng.normal(size=prob.shape[1]) / np.sqrt(information))
        label = (moved.cumsum(axis=1) < rng.random(len(prob))[:, None]).sum(axis=1)
        return np.minimum(label, prob.shape[1] - 1), prob
    z = logit(prob)
    inner = prob * (1.0 - prob)
    design = np.column_stack([np.ones(len(z)), z])
    information = (design * inner[:, None]).T @ design * (fitted / len(z)) + 1e-9 * np.eye(2)
    shift, slope = rng.multivariate_normal([0.0, 1.0], np.linalg.inv(information), method="cholesky")
    return (rng.random(len(z)) < sigmoid(shift + slope * z)).astype(np.int64), prob


def _expected(prob: FloatArray, weight: FloatArray | None, yes: Mask) -> dict[str, float | None]:
    """The metrics of rows that stand once with each label, weighted by its probability."""
    classes = 2 if prob.ndim == 1 else prob.shape[1]
    columns = np.column_stack([1.0 - prob, prob]) if prob.ndim == 1 else prob
    each = columns if weight is None else columns * weight[:, None]
    label = np.repeat(np.arange(classes), len(prob))
    return _numbers(label, np.concatenate([prob] * classes), each.T.ravel(), np.concatenate([yes] * classes))


def _numbers(label: IntArray, prob: FloatArray, weight: FloatArray | None, yes: Mask) -> dict[str, float | None]:
    """The rates, the metrics, precision and recall of labelled rows; `yes` are those that are taken for positive."""
    scored = Scored(label, prob, weight)
    measured = catalog.measure([catalog.find(name) for name in METRICS], scored, Options())
    found: dict[str, float | None] = {}
    weights = np.ones(len(label)) if weight is None else weight
    if prob.ndim == 2:
        found |= {f"rate {k}": float(weights[label == k].sum() / weights.sum()) for k in range(prob.shape[1])}
        return found | {name: one.value for name, one in measured.items()}
    alerts, positive = weights * yes, weights * label
    hits = float((alerts * label).sum())
    found["rate"] = float(positive.sum() / weights.sum())
    found |= {name: one.value for name, one in measured.items()}
    found["precision"] = hits / float(alerts.sum()) if alerts.sum() > 0 else None
    found["recall"] = hits / float(positive.sum()) if positive.sum() > 0 else None
    return found


def promised_report(request: EstimateRequest, model: CalibratorModel, rows: JudgedRows) -> Report:
    """The report of rows without any label: what the scores of an artifact promise."""
    if request.by:
        raise UsageError("--by needs rows with labels", hint="leave it out, or give the rows of one group")
    weight, place = rows.loaded.batch.weight, None if model.path is None else as_text(model.path)
    found = promise(model, rows.prob, rows.loaded, weight, request.seed)
    names = class_names(rows.binding)
    said = {f"rate {k}": f"rate_{name}" for k, name in enumerate(names)} if len(names) > 2 else {}
    numbers = {said.get(name, name): number for name, number in found.numbers.items()}
    at = None if found.decided is None else f"of the decisions {found.decided}"
    definitions = {
        name: Definition("target", approximation=at if name in ("precision", "recall") else PROMISED_HOW)
        for name in numbers
    }
    metrics = {name: MetricValue(number.value, number.lo, number.hi) for name, number in numbers.items()}
    source = ScoreSource("artifact", path=place, method=model.method, sha256=model.sha256, fitted=model.fitted)
    measured = Measurements(definitions, (ScoreRow(PROMISED, source, metrics),))
    entries = [_rate_entry(name, numbers, names, len(rows.prob)) for name in numbers if name.startswith("rate")]
    doubt = ReportWarning(
        "promised",
        "these numbers are promises: they hold if the calibration of the fit still holds, which nothing here shows; "
        f"calcli evaluate LABELLED --drift {place or 'ARTIFACT'} tests it on rows with labels",
    )
    report = report_on("estimate", request.seed, rows.facts, rows.binding, measured, artifact=str(model.name))
    return replace(report, warnings=(doubt, *_off(model)), estimates=tuple(as_json(entry) for entry in entries))


def moved_report(request: EstimateRequest, model: CalibratorModel, rows: JudgedRows) -> Report:
    """The report of rows whose class rates have moved since the fit of an artifact."""
    found = moved_rates(model, rows.prob, rows.loaded.batch.weight)
    names, scores, entries = class_names(rows.binding), [], []
    source = ScoreSource("artifact", path=None if model.path is None else as_text(model.path), method=model.method)
    for index, name in enumerate(names):
        if len(names) == 2 and index == 0:
            continue
        number = Interval(*(float(part[index]) for part in found.rates))
        mean = float(rows.prob.mean() if rows.prob.ndim == 1 else rows.prob[:, index].mean())
        entry = empty_entry(None, name, None, mean)
        entry |= {**number._asdict(), "rows": len(rows.prob), "labels": 0, "p": found.p, "method": MOVED}
        entries.append(as_json(entry))
        value = MetricValue(number.value, number.lo, number.hi, p=found.p)
        scores.append(ScoreRow(ESTIMATE if len(names) == 2 else name, source, {"rate": value}))
    how = "EM of Saerens et al. (2002) if only the class rates have moved since the fit, which p is a test of"
    measured = Measurements({"rate": Definition("target", approximation=how)}, tuple(scores))
    report = report_on("estimate", request.seed, rows.facts, rows.binding, measured, artifact=str(model.name))
    doubts = list(_off(model))
    if found.contradicted:
        said = (
            f"the scores contradict that only the class rates have moved since the fit (p = {found.p:.2g}): label some "
            "rows instead"
        )
        doubts.append(ReportWarning("prior-shift-contradicted", said))
    return replace(report, estimates=tuple(entries), warnings=tuple(doubts))


def _off(model: CalibratorModel) -> Iterator[ReportWarning]:
    """The warning that an artifact was not calibrated even at its fit."""
    if said := off_at_fit(model):
        yield ReportWarning("off-at-fit", said)


def _rate_entry(name: str, numbers: Mapping[str, Interval], names: Sequence[str], rows: int) -> dict[str, object]:
    """A promised rate as an entry of the report's `estimates`."""
    label = name.removeprefix("rate_") if name != "rate" else names[-1]
    entry = empty_entry(None, label, None, numbers[name].value)
    return {**entry, **numbers[name]._asdict(), "rows": rows, "labels": 0, "method": PROMISED}


def empty_entry(
    group: Mapping[str, str | None] | None, label: str | None, system: str | None, mean: float | None
) -> dict[str, object]:
    """An entry of the report's `estimates` without numbers."""
    names = ("value", "lo", "hi", "rows", "labels", "labels_only", "scores_mean", "worth", "method", "p", "better")
    entry: dict[str, object] = dict.fromkeys((*names, "reason"))
    return {"group": group, "class": label, "system": system, **entry, "scores_mean": finite(mean)}
