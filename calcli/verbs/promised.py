"""The promises of calibrated scores about rows whose labels are not known: the rate, the loss, the errors of decisions.

If a score is calibrated, a row with the probability p has the label 1 with probability p: every metric is that of a
table in which each row stands twice, once with each label and the weight of its probability (the estimates of Guillory
et al. 2021 and of NannyML's CBPE are of this kind). The interval is that of tables with labels drawn from these
probabilities, after these have been moved by as much as the rows of the fit leave unknown of their calibration: a shift
and a slope of the log-odds with the covariance of a logistic regression on so many rows. Nothing in it shows whether
the calibration of the fit still holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

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
from calcli.models.decided import codes
from calcli.models.moved_rates import moved_rates, off_at_fit
from calcli.numeric.links import logit, scores, sigmoid, softmax
from calcli.numeric.seeded import stream
from calcli.reports.schema import MetricValue, Report, ReportWarning, ScoreRow, ScoreSource, finite
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.judged_rows import Rows, rated_names, score_columns

PROMISED, MOVED = "promised", "prior shift"
"""Methods of an estimate without labels."""

ESTIMATE = "estimate"
"""The name of an estimate among the scores of a report."""

PROMISED_HOW = "expected of the calibrated probabilities, with the chance of labels and of the calibrator's fit"

METRICS = ("accuracy", "nll", "brier", "auc")
THRESHOLD = 0.5

_DRAWS = 200
_MOST_ROWS = 50_000
"""At most so many rows are drawn for the intervals, which are a little too wide where there are more."""


def promised_report(bare: Report, request: EstimateRequest, model: CalibratorModel, rows: Rows) -> Report:
    """The report of rows without any label: what the scores of an artifact promise; `bare` says which rows they are."""
    if request.by:
        raise UsageError("--by needs rows with labels", hint="leave it out, or give the rows of one group")
    yes, decided = _decided(model, rows)
    numbers = _promise(model, rows, yes, request.seed)
    how = dict.fromkeys(numbers, PROMISED_HOW) | dict.fromkeys({"precision", "recall"} & {*numbers}, decided)
    metrics = {name: MetricValue(*number) for name, number in numbers.items()}
    entries = [
        _entry(label, numbers[name].value, numbers[name], len(rows), PROMISED)
        for name, label in zip(_rates(model), rated_names(model.binding), strict=True)
    ]
    doubt = ReportWarning(
        "promised",
        "these numbers are promises: they hold if the calibration of the fit still holds, which nothing here shows; "
        f"calcli evaluate LABELLED --drift {_path(model) or 'ARTIFACT'} tests it on rows with labels",
    )
    return replace(
        bare,
        artifact=str(model.name),
        definitions={name: Definition("target", approximation=text) for name, text in how.items()},
        scores=(ScoreRow(PROMISED, _source(model), metrics),),
        warnings=(doubt, *_off(model)),
        estimates=tuple(map(as_json, entries)),
    )


def moved_report(bare: Report, model: CalibratorModel, rows: Rows) -> Report:
    """The report of rows whose class rates have moved since the fit of an artifact; `bare` says which rows they are."""
    found = moved_rates(model, rows.prob, rows.weight)
    rated = rated_names(model.binding)
    scored, entries = [], []
    for label, column, *ends in zip(
        rated, score_columns(rows.prob), *(part[-len(rated) :].tolist() for part in found.rates), strict=True
    ):
        number = Interval(*ends)
        entries.append(_entry(label, float(column.mean()), number, len(rows), MOVED, found.p))
        name = label if len(rated) > 1 else ESTIMATE
        scored.append(ScoreRow(name, _source(model), {"rate": MetricValue(*number, p=found.p)}))
    doubts = list(_off(model))
    if found.contradicted:
        said = (
            f"the scores contradict that only the class rates have moved since the fit (p = {found.p:.2g}): label some "
            "rows instead"
        )
        doubts.append(ReportWarning("prior-shift-contradicted", said))
    how = "EM of Saerens et al. (2002) if only the class rates have moved since the fit, which p is a test of"
    return replace(
        bare,
        artifact=str(model.name),
        definitions={"rate": Definition("target", approximation=how)},
        scores=tuple(scored),
        warnings=tuple(doubts),
        estimates=tuple(map(as_json, entries)),
    )


def _rates(model: CalibratorModel) -> Sequence[str]:
    """The names of the rates of these classes among the promised numbers."""
    names = rated_names(model.binding)
    return ["rate"] if len(names) == 1 else [f"rate_{name}" for name in names]


def _decided(model: CalibratorModel, rows: Rows) -> tuple[Mask, str]:
    """The rows that are taken for positive, and by which rule."""
    rule = None if model.policy is None else model.policy.rule
    if isinstance(rule, GroupRule):
        group = codes(rows.others[rule.column], rule.groups)
        how = f"of the decisions from the probability on that each {rule.column} has in the policy"
        return rule.yes(rows.prob, group), how
    threshold = rule.band.high if isinstance(rule, ThresholdRule) else THRESHOLD
    return rows.prob >= threshold, f"of the decisions from a probability of {threshold:g} on"


def _promise(model: CalibratorModel, rows: Rows, yes: Mask, seed: int) -> dict[str, Interval]:
    """The rates, the metrics, and of two classes precision and recall, that an artifact promises of rows."""
    prob, weight, names, rng = rows.prob, rows.weight, _rates(model), stream(seed, "promised")
    # Each row stands once with each label, weighted by its probability.
    columns = np.column_stack([1.0 - prob, prob]) if prob.ndim == 1 else prob
    label, times = np.repeat(np.arange(columns.shape[1]), len(prob)), [columns.shape[1], *[1] * (prob.ndim - 1)]
    each = columns if weight is None else columns * weight[:, None]
    expected = _numbers(names, label, np.tile(prob, times), each.T.ravel(), np.tile(yes, times))
    if len(prob) > _MOST_ROWS:
        place = rng.choice(len(prob), _MOST_ROWS, replace=False)
        prob, weight, yes = prob[place], None if weight is None else weight[place], yes[place]
    fitted = float(str(model.manifest.fit["rows"]))
    draws = [_numbers(names, _drawn(prob, fitted, rng), prob, weight, yes) for _ in range(_DRAWS)]
    numbers = {}
    for name, value in expected.items():
        known = np.array([one[name] for one in draws if one[name] is not None], dtype=np.float64)
        numbers[name] = Interval(value)
        if value is not None and len(known) >= _DRAWS / 2:
            lo, hi = value + np.quantile(known, (0.025, 0.975)) - known.mean()
            numbers[name] = Interval(value, float(lo), float(hi))
    return numbers


def _drawn(prob: FloatArray, fitted: float, rng: np.random.Generator) -> IntArray:
    """Labels of rows whose calibration is off by what `fitted` rows leave unknown."""
    if prob.ndim == 2:
        information = np.maximum((prob * (1.0 - prob)).mean(axis=0) * fitted, 1e-9)
        moved = softmax(scores(prob) + rng.normal(size=prob.shape[1]) / np.sqrt(information))
        place = (moved.cumsum(axis=1)[:, :-1] < rng.random(len(prob))[:, None]).sum(axis=1)
        return cast("IntArray", place)
    z = logit(prob)
    design = np.column_stack([np.ones(len(z)), z])
    information = (design * (prob * (1.0 - prob))[:, None]).T @ design * (fitted / len(z)) + 1e-9 * np.eye(2)
    shift, slope = rng.multivariate_normal([0.0, 1.0], np.linalg.inv(information), method="cholesky")
    return (rng.random(len(z)) < sigmoid(shift + slope * z)).astype(np.int64)


def _numbers(
    rates: Sequence[str], label: IntArray, prob: FloatArray, weight: FloatArray | None, yes: Mask
) -> dict[str, float | None]:
    """The rates, the metrics, precision and recall of labelled rows; `yes` are those that are taken for positive."""
    weights = np.ones(len(label)) if weight is None else weight
    first = 1 if prob.ndim == 1 else 0  # of two classes the positive one
    found: dict[str, float | None] = {
        name: float(weights[label == index].sum() / weights.sum()) for index, name in enumerate(rates, start=first)
    }
    measured = catalog.measure([catalog.find(name) for name in METRICS], Scored(label, prob, weight), Options())
    found |= {name: one.value for name, one in measured.items()}
    if prob.ndim == 1:
        hits = float((weights * yes * label).sum())
        for name, of in (("precision", weights * yes), ("recall", weights * label)):
            found[name] = hits / float(of.sum()) if of.sum() > 0 else None
    return found


def _path(model: CalibratorModel) -> str | None:
    return None if model.path is None else as_text(model.path)


def _source(model: CalibratorModel) -> ScoreSource:
    return ScoreSource("artifact", path=_path(model), method=model.method, sha256=model.sha256, fitted=model.fitted)


def _off(model: CalibratorModel) -> Iterator[ReportWarning]:
    """The warning that an artifact was not calibrated even at its fit."""
    if said := off_at_fit(model):
        yield ReportWarning("off-at-fit", said)


def _entry(
    label: str, mean: float | None, number: Interval, rows: int, method: str, p: float | None = None
) -> dict[str, Any]:
    """A rate as an entry of the report's `estimates`."""
    found = empty_entry(None, label, None, mean)
    return {**found, **number._asdict(), "rows": rows, "labels": 0, "method": method, "p": p}


def empty_entry(
    where: tuple[str, str | None] | None, label: str | None, system: str | None, mean: float | None
) -> dict[str, Any]:
    """An entry of the report's `estimates` without numbers; `where` are the column and the value of its group."""
    names = ("value", "lo", "hi", "rows", "labels", "labels_only", "scores_mean", "worth", "method", "p", "better")
    group = None if where is None else dict([where])
    return {
        "group": group,
        "class": label,
        "system": system,
        **dict.fromkeys((*names, "reason")),
        "scores_mean": finite(mean),
    }
