"""Policies as answers, as pictures and as pages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from calcli.cli import serial
from calcli.cli.output import Answer, bad_rows, write_file
from calcli.cli.screen import Screen, fact_list, narrowed, notes, wrapped
from calcli.diagrams.charts import Chart, decision_charts
from calcli.diagrams.curves import amount
from calcli.reporting import decisions, facts
from calcli.reports.measuring import class_names

if TYPE_CHECKING:
    from calcli.cli.process import Console
    from calcli.reporting.typesetting import Table
    from calcli.verbs.decide import DecideResult

_OPTIONS = {
    "bayes": "from the costs",
    "mean costs": "from the mean costs",
    "tuned": "best on these rows",
    "today": "today",
    "chosen": "for the target",
    "without confidence": "without confidence",
    "best": "nearest to the target",
}
"""The options of a policy that have a threshold of their own, in words."""


def decided(result: DecideResult) -> Answer:
    """The path of the policy and its options; a no where nothing meets the target."""

    def lines(screen: Screen) -> list[str]:
        headline = decisions.headline(result.choice)
        shown = [*map(screen.bold, wrapped(headline, screen.prose)), ""] if headline else []
        narrower = (_ever_fewer(each) for each in decisions.tables(result.choice))
        rows, terms = narrowed(narrower, (), screen)
        shown += [*rows[1:], "", *fact_list(facts.measured(result.data, result.binding.to_json()), screen)]
        return [*shown, *(["", *notes(terms, screen)] if terms else [])]

    return Answer(
        lines,
        result.to_json,
        partial(serial.options, result.choice),
        beside_path=True,
        page=partial(_page_of_options, result),
        warnings=[*(warning.message for warning in result.warnings), *bad_rows(result.data)],
        path=result.path,
        refused=result.refused,
    )


def _ever_fewer(shown: Table) -> Iterator[Table]:
    """The table, then without ever more of its last columns; those of the threshold and of the costs stay."""
    yield shown
    for columns in range(len(shown.header) - 1, 4, -1):
        yield shown.first(columns)


def draw(result: DecideResult, target: str, console: Console) -> None:
    """Draw the charts of a policy to a file, or on stderr, with ``--picture``."""
    from calcli.cli import pictures
    from calcli.diagrams import image

    shown = _charts(result)
    if not shown:
        console.warn("nothing was drawn: pictures are of thresholds, and these rows have more than two classes")
    elif target == "-":
        console.show(pictures.charts(shown, console.stderr))
    else:
        form = image.image_format_of(target, image.PAGE_FORMATS)
        content = _page(result, "").encode() if form == "html" else image.render_charts(shown, form)
        write_file(content, target, f"drawn in {target}", console)


def _page_of_options(result: DecideResult) -> str:
    """The policy in words and tables, with the charts where there are two classes."""
    from calcli.reporting import webpage

    found = [
        webpage.section(each.title or "Options", webpage.table(each._replace(words=max(each.words, 1))))
        for each in decisions.tables(result.choice)
    ]
    return _page(result, "".join(found))


def _charts(result: DecideResult) -> tuple[Chart, ...]:
    """The charts of costs, net benefit and rates by threshold that there are numbers for; none of many classes."""
    if not result.scores:
        return ()
    risks = [(risk.coverage, risk.risk, risk.bound) for risk in result.choice.risks if risk.risk is not None]
    target = None if result.choice.policy is None else result.choice.policy.target
    confidence = 0.95 if target is None else target.confidence
    return decision_charts(result.scores, _thresholds(result), risks, confidence=confidence)


def _thresholds(result: DecideResult) -> dict[str, float]:
    """The thresholds of the options by their names in words, that of the policy first."""
    options = sorted(result.choice.options, key=lambda option: option.name != result.choice.chosen)
    return {
        _OPTIONS[option.name]: option.threshold
        for option in options
        if option.name in _OPTIONS and option.threshold is not None
    }


def _page(result: DecideResult, body: str) -> str:
    """A page with this body and, where there are two classes, a slider and the charts."""
    from calcli.diagrams import page

    if result.scores:
        names, label = class_names(result.binding), result.binding.label or "label"
        at = next(iter(_thresholds(result).values()), 0.5)
        body += page.slider(result.scores[0], at, (f"{label} = {names[1]}", f"{label} = {names[0]}"))
        body += page.charts(_charts(result))
    rows = amount(result.data.rows - result.data.rows_bad)
    about = f"{rows} rows. {decisions.headline(result.choice) or result.choice.why}"
    return page.document("Decisions by a threshold" if result.scores else "Decisions", about, body)
