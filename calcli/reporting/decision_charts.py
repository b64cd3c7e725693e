"""The pictures of a policy: what the score costs, gains and finds at each threshold, beside the raw score."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from calcli import extras
from calcli.diagrams.captions import amount
from calcli.diagrams.charts import Chart, decision_charts
from calcli.diagrams.image import image_format_of
from calcli.reporting.decisions import headline, tables
from calcli.reporting.markup import section, table
from calcli.reports.measuring import class_names

if TYPE_CHECKING:
    from calcli.verbs.decide import DecideResult

Form: TypeAlias = Literal["png", "svg", "pdf", "html"]

FORMS: tuple[Form, ...] = get_args(Form)

NAMES = {
    "bayes": "from the costs",
    "mean costs": "from the mean costs",
    "tuned": "best on these rows",
    "today": "today",
    "chosen": "for the target",
    "without confidence": "without confidence",
    "best": "nearest to the target",
}
"""The options that have a threshold of their own, in words."""


def form_of(output: str | os.PathLike[str]) -> Form:
    """What kind of picture a file is."""
    form = image_format_of(output, FORMS)
    if form != "html":
        extras.require("matplotlib", f"a picture as {form}")
    return form


def charts(result: DecideResult) -> tuple[Chart, ...]:
    """All charts that there are numbers for; none of more than two classes."""
    if not result.scores:
        return ()
    risks = [(risk.coverage, risk.risk, risk.bound) for risk in result.choice.risks if risk.risk is not None]
    target = None if result.choice.policy is None else result.choice.policy.target
    return decision_charts(
        result.scores, chosen(result), risks, confidence=0.95 if target is None else target.confidence
    )


def chosen(result: DecideResult) -> dict[str, float]:
    """The thresholds of the options by their names, that of the policy first."""
    options = sorted(result.choice.options, key=lambda option: option.name != result.choice.chosen)
    return {
        NAMES[option.name]: option.threshold
        for option in options
        if option.name in NAMES and option.threshold is not None
    }


def drawn(result: DecideResult, output: str | os.PathLike[str]) -> bytes:
    """The picture as the content of this file."""
    shown = charts(result)
    form = form_of(output)
    if form != "html":
        from calcli.diagrams import image

        return image.render_charts(shown, form)
    return _page(result, shown)


def webpage(result: DecideResult) -> bytes:
    """The policy in words and tables, with the pictures where there are two classes."""
    found = [
        section(each.title or "Options", table(each.header, each.rows, words=max(each.words, 1)))
        for each in tables(result.choice)
    ]
    return _page(result, charts(result), "".join(found))


def _page(result: DecideResult, shown: tuple[Chart, ...], words: str = "") -> bytes:
    """A page of what is given and, where there are two classes, of a slider and the charts."""
    from calcli.diagrams import page

    body = words
    if result.scores:
        names, label = class_names(result.binding), result.binding.label or "label"
        at = next(iter(chosen(result).values()), 0.5)
        body += page.slider(result.scores[0], at, (f"{label} = {names[1]}", f"{label} = {names[0]}"))
        body += page.charts(shown)
    about = f"{amount(result.data.rows - result.data.rows_bad)} rows. {headline(result.choice) or result.choice.why}"
    return page.document("Decisions by a threshold" if result.scores else "Decisions", about, body).encode()
