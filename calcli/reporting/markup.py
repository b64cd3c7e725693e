"""The parts of a page that are not pictures: sections, tables, terms with what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from calcli.reporting.typesetting import GLUE


def text(sentence: str) -> str:
    """A sentence in which no line ends where none may."""
    return escape(sentence).replace(GLUE, "&nbsp;")


def paragraph(sentence: str, kind: str = "") -> str:
    """A sentence or two."""
    return f"<p{_class(kind)}>{text(sentence)}</p>\n"


def section(title: str, *parts: str) -> str:
    """Some parts under a title; nothing where all are empty."""
    body = "".join(parts)
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}</section>\n" if body else ""


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str = "",
    words: int = 1,
    kinds: Mapping[int, str] | None = None,
) -> str:
    """Rows of cells. The first columns are `words`, the others numbers; `kinds` says which rows are special."""
    head = "".join(_cell("th", cell, place < words) for place, cell in enumerate(header))
    body = "".join(
        f"<tr{_class((kinds or {}).get(number, ''))}>"
        + "".join(_cell("th" if place == 0 else "td", cell, place < words) for place, cell in enumerate(row))
        + "</tr>\n"
        for number, row in enumerate(rows)
    )
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    rest = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>"
    return f'<div class="table">\n<table>{title}{rest}</table></div>\n'


def terms(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of terms and their meanings."""
    entries = "".join(f"<dt>{text(term)}</dt><dd>{text(meaning)}</dd>\n" for term, meaning in pairs)
    return f"<dl>\n{entries}</dl>\n" if entries else ""


def _cell(tag: str, cell: str, word: bool) -> str:
    return f"<{tag}{_class('word' if word else '')}>{text(cell)}</{tag}>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
