"""Reports and models in a notebook: the page, in a frame whose style is its own."""

from __future__ import annotations

from functools import singledispatch
from html import escape
from typing import Any, cast

from calcli.artifacts.manifest import Manifest
from calcli.diagrams import page
from calcli.models.calibrator import CalibratorModel
from calcli.reporting import facts, findings
from calcli.reporting.markup import section, terms
from calcli.reporting.webpage import headline, numbers_table, webpage
from calcli.reports.schema import Report

HIGH = 34
"""The height of the frame in letters; the reader can pull it larger."""


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
    """What a calibrator is, on what it was fitted, and how good it was there."""
    manifest = model.manifest
    numbers = findings.of_manifest(manifest)
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
    style = f"width:100%;height:{HIGH}em;border:0;resize:vertical"
    return f'<iframe style="{style}" srcdoc="{escape(document)}"></iframe>'
