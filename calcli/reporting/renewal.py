"""What `refit` did with an artifact, in words: replaced or not, by which rule, and what that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calcli.reporting import findings
from calcli.reporting.facts import Pair
from calcli.reporting.typesetting import number, signed
from calcli.reporting.verdict import DECISIVE

if TYPE_CHECKING:
    from calcli.verbs.refit import PolicyRefit
    from calcli.verbs.refit_calibrator import RefitResult


def opening(result: RefitResult) -> str:
    """Whether the artifact was replaced, the numbers that decided it, and what was asked of them."""
    from calcli.models.renewal import IN_PLACE  # not at the top: `apply` shows no report

    metric = result.guard.metric.name
    new, old = result.report.value(result.name, metric), result.report.value(IN_PLACE, metric)
    digits = findings.of_report(result.report).digits  # as in the table below
    words = DECISIVE.get(metric, metric)
    first = f"{result.path} is replaced" if result.kept is None else f"{result.path} stays as it is"
    if result.kept is not None and not result.usual:
        first = f"{first}, because {(result.report.refit or {})['reason']}"
    return (
        f"{first}. On held-out new rows the {words} is {number(new, digits)} with the new {result.name}, "
        f"{number(old, digits)} with the one in place. The log-likelihood of these rows changes by "
        f"{result.evidence.evidence:+.1f} nats; {result.evidence.threshold:+.1f} are required (8.9 or two standard "
        "errors; by chance at most once in twenty years of nightly refits). Against no calibration:"
    )


def policy_opening(result: PolicyRefit) -> str:
    """Whether a policy was replaced, and what the new rows show."""
    first = f"{result.path} is replaced" if result.kept is None else f"{result.path} stays as it is"
    return f"{first}: {result.why}. It is replaced if this happens by chance at most once in twenty years of nights."


def changes(result: RefitResult) -> list[Pair]:
    """How far the new calibrator's probabilities are from the old one's, and where the old one is."""
    mean, most = (signed(moved, 4).lstrip("+") for moved in result.moved)
    pairs = [("change", f"new minus old probability: {mean} on average, {most} at most (absolute)")]
    if result.kept is None:
        pairs.append(("before", f"the old one is kept; calcli refit {result.path} --rollback restores it"))
    return pairs
