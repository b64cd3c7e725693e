"""Pictures as a page that needs nothing else: no request leaves it, and without its script it still shows everything.

Its parts are for other pages too: `document` around them, `switches` above, `figures` anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import groupby

from calcli.diagrams import svg
from calcli.diagrams.captions import caption
from calcli.diagrams.charts import AtThresholds, Chart, curve_charts, numbers
from calcli.diagrams.curves import SIDES, Bands, Curve, Kind, axis_of, error_text, legend
from calcli.diagrams.layout import glued

TITLES: dict[Kind, str] = {
    "reliability": "bars",
    "corp": "isotonic curve",
    "smooth": "smooth curve",
    "rejection": "rejection",
    "benefit": "net benefit",
    "murphy": "cost of mistakes",
}

_DOTTED = '<path class="dotted" d="M5.5 0V8"/>'


def document(title: str, about: str, body: str) -> str:
    """A whole page. The policy in its head forbids the browser to fetch anything."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="about">{escape(about)}</p>\n'
        f"{body}<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    """The style sheet of pages (light, dark, small screens, print), or the script behind switches and pictures."""
    return files("calcli.diagrams").joinpath(name).read_text(encoding="utf-8")


def switches(curves: Sequence[Curve]) -> str:
    """Buttons for the kinds, the scores and the classes that there are; of the kinds, the first is shown."""
    kinds = list(dict.fromkeys(curve.kind for curve in curves))
    scores = list(dict.fromkeys(curve.score for curve in curves if not curve.plain))
    classes = list(dict.fromkeys(_class(curve) for curve in curves if not curve.charted))
    groups = [
        _buttons("kind", "show", {kind: TITLES[kind] for kind in kinds}, "one"),
        _buttons("score", "scores", {score: score for score in scores}, "some"),
        _buttons("of", "class", {of: of or "the predicted one" for of in classes}, "some"),
    ]
    return f'<div class="switches">{"".join(groups)}</div>\n'


def _buttons(key: str, title: str, texts: dict[str, str] | dict[Kind, str], choose: str) -> str:
    """A group of buttons of which `one` is pressed, or `some` (at first all); empty where there is no choice."""
    if len(texts) < 2:
        return ""
    buttons = "".join(
        f'<button type="button" data-key="{key}" value="{escape(value)}" '
        f'aria-pressed="{"true" if choose == "some" or place == 0 else "false"}">{escape(text)}</button>'
        for place, (value, text) in enumerate(texts.items())
    )
    return f'<div role="group" aria-label="{title}" data-choose="{choose}"><span>{title}</span>{buttons}</div>'


def figures(curves: Sequence[Curve], label: str, bands: Bands) -> str:
    """The pictures, by kind and by class."""
    parts: list[str] = []
    for kind, group in groupby(curves, key=lambda curve: curve.kind):
        chosen = list(group)
        drawn = charts(curve_charts(chosen, label, bands)) if chosen[0].charted else ""
        inside = drawn or _panels(chosen, label, bands)
        parts.append(f'<section data-kind="{kind}">\n{inside}</section>\n')
    return "".join(parts)


def _class(curve: Curve) -> str:
    return curve.of or ""


def _panels(curves: Sequence[Curve], label: str, bands: Bands) -> str:
    parts: list[str] = []
    groups = {of: list(group) for of, group in groupby(curves, key=_class)}
    for of, panels in groups.items():
        axis = axis_of(panels)
        name = f"{label} = {of}" if of else "the predicted class"
        title = f"<h2>{escape(name)}</h2>\n" if len(groups) > 1 else ""
        drawn = "".join(_figure(curve, svg.panel(curve, axis, label, bands)) for curve in panels)
        parts.append(f'<div data-of="{escape(of)}">\n{title}<div class="panels">\n{drawn}</div></div>\n')
    return "".join(parts) + _legend(curves, bands)


def _figure(curve: Curve, picture: str) -> str:
    verdict = caption(curve)
    return (
        f'<figure data-score="{escape(curve.score)}">\n<figcaption><b>{escape(curve.score)}</b>'
        f'<span class="number">{error_text(curve)}</span>'
        f"<p><strong>{verdict.answer}</strong>{escape(glued(verdict.because))}.</p></figcaption>\n"
        f"{picture}{_numbers('predicted,happened,rows,from,to')}</figure>\n"
    )


def charts(shown: Sequence[Chart]) -> str:
    """Charts of several lines, each with its legend above it."""
    return f'<div class="charts">\n{"".join(map(_chart, shown))}</div>\n'


ESTIMATES = (
    (svg.ESTIMATE, "estimate, with its 95 % interval"),
    (svg.ink(None), "labels alone, with theirs"),
    (svg.ink(0), "mean of the scores"),
)
"""The colour and the meaning of each mark in a picture of estimates."""


def intervals(
    rows: Sequence[svg.IntervalRow],
    x_name: str,
    legend: Sequence[tuple[str, str]] = ESTIMATES,
) -> str:
    """The picture of estimates with the legend of what is drawn; empty where a number is negative: there is no axis."""
    values = [value for row in rows for value in (row.estimate[0], *(row.labels or ())[:1], row.mean)]
    if not rows or any(value is not None and value < 0.0 for value in values):
        return ""
    picture = svg.intervals(rows, x_name)
    drawn = [(color, name) for color, name in legend if color in picture]
    marks = "".join(f"<li>{_color_mark(f'fill:{color}')}{escape(name)}</li>" for color, name in drawn)
    return f'<figure class="wide">\n{picture}</figure>\n<ul class="legend">{marks}</ul>\n'


def slider(score: AtThresholds, chosen: float, truths: tuple[str, str]) -> str:
    """The counts, rates and cost at a threshold, with a slider; `truths` names positive and negative rows."""
    place = score.place(chosen)
    tp, fp, fn, tn = (float(getattr(score, name)[place]) for name in ("tp", "fp", "fn", "tn"))
    pairs = {
        "alerts": (tp + fp, score.rows),
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "false-positive rate": (fp, fp + tn),
        "accuracy": (tp + tn, score.rows),
    }
    rates = {name: f"{100 * part / of:.1f} %" if of > 0 else "none" for name, (part, of) in pairs.items()}
    if score.cost is not None:
        cost = float(score.cost[place])
        rates |= {"cost per row": f"{cost:.4g}", "cost of all rows": f"{cost * score.rows:,.0f}"}
    counts = [("yes", tp, fp, "tp", "fp"), ("no", fn, tn, "fn", "tn")]
    table = "".join(
        f'<tr><th class="word">{name}</th><td data-cell="{left}">{one:,.0f}</td>'
        f'<td data-cell="{right}">{other:,.0f}</td></tr>'
        for name, one, other, left, right in counts
    )
    listed = "".join(
        f'<tr><th class="word">{name}</th><td data-cell="{name}">{text}</td></tr>' for name, text in rates.items()
    )
    steps = f'min="0" max="{len(score.thresholds) - 1}" value="{place}"'
    data = escape(json.dumps(numbers(score), separators=(",", ":")))
    return (
        f'<figure class="wide slider" data-slider="{data}">\n<figcaption><b>{escape(score.name)}</b></figcaption>'
        f'<label>threshold <input type="range" {steps}></label>\n<div class="tables">'
        f'<table><caption>threshold <span data-cell="threshold">{float(score.thresholds[place]):.3g}</span></caption>'
        f"<thead><tr><th></th>{''.join(f'<th>{escape(truth)}</th>' for truth in truths)}</tr></thead>{table}</table>"
        f"<table>{listed}</table></div></figure>\n"
    )


def _chart(shown: Chart) -> str:
    title = f"<b>{escape(shown.title)}</b>" if shown.title else ""
    lines = "".join(
        f'<p data-score="{escape(track.name)}">{_color_mark(f"fill:{svg.ink(place)}")}'
        f"<strong>{escape(track.name)}</strong>{escape(track.note)}{'.' if track.note else ''}</p>"
        for track, place in zip(shown.tracks, shown.colors, strict=True)
    )
    marks = "".join(f"<p>{_mark(_DOTTED)}{at:.3g}: {escape(name)}</p>" for at, name in shown.marks)
    shaded = f'<ul class="legend"><li>shaded: {escape(shown.band)}</li></ul>' if shown.band else ""
    columns = (
        "rejected,error rate,rows left,from,to" if shown.drawn == "rejection" else f"{shown.x_name},{shown.y_name}"
    )
    picture = svg.chart(shown)
    return (
        f'<figure class="wide">\n<figcaption>{title}{lines}{marks}</figcaption>\n'
        f"{picture}{shaded}{_numbers(columns)}</figure>\n"
    )


def _numbers(columns: str) -> str:
    return f'<details data-numbers="{escape(columns)}"><summary>numbers</summary><div class="scroll"></div></details>'


def _legend(curves: Sequence[Curve], bands: Bands) -> str:
    smooth = not curves[0].edges
    marks = {
        "rate": _mark('<path class="cap" d="M0 4H11"/>'),
        "bar": _color_mark("fill:var(--bar)"),
        **{side: _color_mark(f"fill:var(--{side})") for side in SIDES},
        "chance": _color_mark("fill:var(--over-chance)") + _color_mark("fill:var(--under-chance)"),
        "scale": "",
        "band": _mark('<path class="edge" d="M0 4H11"/>' if smooth else '<path class="band" d="M5.5 0V8"/>'),
    }
    entries = "".join(f"<li>{marks[mark]}{escape(text)}</li>" for mark, text in legend(curves, bands))
    return f'<ul class="legend">{entries}</ul>\n'


def _color_mark(fill: str) -> str:
    return _mark(f'<rect width="11" height="8" style="{fill}"/>')


def _mark(drawn: str) -> str:
    return f'<svg class="mark" viewBox="0 0 11 8" aria-hidden="true">{drawn}</svg>'
