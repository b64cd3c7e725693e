"""Reports and models in a notebook: the page, in a frame whose style is its own."""

from __future__ import annotations

from functools import singledispatch
from html import escape
from typing import Any, cast

from calcli.artifacts.manifest import Manifest
from calcli.diagrams import page
from calcli.models.calibrator import CalibratorModel
from calcli.reporting import facts
from calcli.reporting.tables import Findings
from calcli.reporting.webpage import headline, numbers_table, section, terms, webpage
from calcli.reports.schema import Report

_HEIGHT = 34
"""The height of the frame in letters; readers can make it larger."""


@singledispatch
def html(shown: object) -> str:
    """The page of a result; how it is drawn goes by its type."""
    raise TypeError(f"there is no page of a {type(shown).__name__}")


@html.register
def of_report(report: Report) -> str:
    """The page of a report."""
    return _framed(webpage(report))


@html.register
def of_model(model: CalibratorModel) -> str:
    """The page of a calibrator: its method, the rows that it was fitted on, and its held-out numbers."""
    manifest = model.manifest
    numbers = Findings.of_manifest(manifest)
    measured = [headline(numbers), section("Numbers", numbers_table(numbers))] if numbers.calibrated else []
    body = "".join([*measured, section("What it is", terms(_facts(manifest)))])
    about = f"calcli {manifest.calcli}, seed {manifest.seed}"
    return _framed(page.document(f"{manifest.method}, a calibrator", about, body))


def _facts(manifest: Manifest) -> list[facts.Pair]:
    fit = cast("dict[str, Any]", manifest.fit)
    params = ", ".join(f"{name}={value}" for name, value in manifest.params.items())
    what = [("fitted", f"{manifest.created}, on {fit['rows']:,} rows"), facts.holdout_fact(fit["holdout"])]
    return [*what, *([("parameters", params)] if params else []), *facts.binding_facts(manifest.binding)]


def _framed(document: str) -> str:
    style = f"width:100%;height:{_HEIGHT}em;border:0;resize:vertical"
    return f'<iframe style="{style}" srcdoc="{escape(document)}"></iframe>'
