"""Write what follows from the code: the pages of the commands, the lists of methods and metrics, the manual pages, the
golden help texts, and the site's navigation.

    python docs/generate.py            # write the files that are out of date
    python docs/generate.py --check    # list them, and exit 1

A page is a hand-written opening, a marker, and below the marker what is generated.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from calcli.cli.app import build, every_command  # noqa: E402 the package of this checkout
from calcli.methods import catalog as methods  # noqa: E402
from calcli.metrics import catalog as metrics  # noqa: E402
from calcli.version import VERSION  # noqa: E402

DOCS = ROOT / "docs"
PAGES = DOCS / "commands"
MANUAL = DOCS / "man"
SITE = ROOT / "zensical.toml"
GOLDEN = ROOT / "tests" / "cli" / "golden"
MARKER = "<!-- From here on written by docs/generate.py: change the command, not the page. -->"
SITE_MARKER = "# From here on written by docs/generate.py."
PROGRAM = "calcli"
SECTIONS = {
    "Start": ("index", "install", "gallery"),
    "Guides": (
        *(
            "tables",
            "python",
            "never-worse",
            "drift",
            "ci",
            "container",
            "decisions",
            "uncertainty",
            "llm",
            "judges",
            "growing",
            "places",
            "serving",
            "mlflow",
        ),
        *("from-calibratedclassifiercv", "from-netcal-and-betacal", "from-mcgrad"),
    ),
    "Commands": ("commands/README", "commands/*"),
    "Methods": ("methods/README", "methods/*"),
    "Metrics": ("metrics/README", "metrics/*"),
    "Background": ("statistics", "reliability", "compatibility", "weights", "extremes", "artifact", "formula"),
    "Results": ("results", "results/*"),
}
"""The navigation of the site: pages below docs/, in order; a star stands for the rest of a folder."""


def help_text(command: Sequence[str]) -> str:
    """What ``--help`` prints for the words of a command, on a terminal of 80 columns without colours."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}
    os.environ.update(COLUMNS="80", NO_COLOR="1")
    try:
        with ExitStack() as stack:
            current = build()
            context = stack.enter_context(current.make_context(PROGRAM, [], resilient_parsing=True))
            for word in command:
                current = current.get_command(context, word)
                context = stack.enter_context(current.make_context(word, [], parent=context, resilient_parsing=True))
            return f"{current.get_help(context)}\n"
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def method_table() -> str:
    """The catalog of methods, as Markdown."""
    rows = [[_linked("methods", spec.name), spec.family, spec.summary, spec.reference] for spec in methods.specs()]
    return _table(("method", "family", "what it is", "reference"), rows)


def metric_table() -> str:
    """The catalog of metrics, as Markdown."""
    rows = [[_linked("metrics", spec.name), spec.family, spec.summary, spec.direction] for spec in metrics.specs()]
    return _table(("metric", "family", "what it is", "better"), rows)


def _linked(folder: str, name: str) -> str:
    """The name of a method or a metric, linked to its page if it has one."""
    page = DOCS / folder / f"{name}.md"
    return f"[`{name}`](../{folder}/{page.name})" if page.exists() else f"`{name}`"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells are Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def generated(command: Sequence[str]) -> str:
    """The part of a page below the marker."""
    text = f"{MARKER}\n\n```console\n$ {' '.join([PROGRAM, *command])} --help\n{help_text(command)}```\n"
    tables = {("methods",): method_table, ("metrics",): metric_table}
    if command in tables:
        text += f"\n{tables[command]()}"
    if not command:
        rows = [
            [f"[{' '.join([PROGRAM, *words])}]({'-'.join(words)}.md)", summary]
            for words, summary in every_command().items()
        ]
        text += f"\n{_table(('command', 'what it does'), rows)}"
    return text


def manual(command: Sequence[str]) -> str:
    """The manual page of a command, for ``man``."""
    name, summary = "-".join([PROGRAM, *command]), every_command().get(tuple(command), "calibrate predictions")
    body = "".join(f"{_roff(line)}\n" for line in help_text(command).rstrip().splitlines())
    others = ", ".join(f"\\fB{PROGRAM}-{'-'.join(words)}\\fR(1)" for words in every_command() if words != command)
    return (
        f'.TH "{name.upper()}" "1" "" "calcli {VERSION}" "calcli manual"\n.SH NAME\n'
        f"{_roff(name)} \\- {_roff(summary.rstrip('.'))}\n.SH USAGE\n.nf\n{body}.fi\n.SH SEE ALSO\n{others}\n"
    )


def _roff(line: str) -> str:
    """A line of text as roff takes it literally."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def navigation(files: Iterable[Path]) -> str:
    """The settings of the site, in which every page has its place."""
    pages = [path for path in (*DOCS.rglob("*.md"), *files) if path.suffix == ".md" and path.is_relative_to(DOCS)]
    known = {path.relative_to(DOCS).with_suffix("").as_posix() for path in pages}
    named = {name for names in SECTIONS.values() for name in names}
    lines = []
    for title, names in SECTIONS.items():
        rest = sorted(page for page in known - named if f"{Path(page).parent}/*" in names)
        shown = [name for name in names if not name.endswith("*")] + rest
        lines += [f'    {{ "{title}" = [', *(f'        "{page}.md",' for page in shown), "    ] },"]
        known -= set(shown)
    if known:
        raise SystemExit(f"pages without a place in the navigation: {', '.join(sorted(known))}")
    return opening(SITE, "").rstrip("\n") + f"\n{SITE_MARKER}\nnav = [\n" + "\n".join(lines) + "\n]\n"


def opening(page: Path, title: str) -> str:
    """The part above the marker, written by hand."""
    if not page.exists():
        return f"# {title}\n\n"
    return page.read_text(encoding="utf-8").partition(SITE_MARKER if page == SITE else MARKER)[0]


def outputs() -> dict[Path, str]:
    """Every generated file and its content."""
    files: dict[Path, str] = {}
    for command in ((), *every_command()):
        page = PAGES / f"{'-'.join(command) or 'README'}.md"
        files[page] = opening(page, " ".join([PROGRAM, *command])) + generated(command)
        files[GOLDEN / f"{'-'.join(command) or PROGRAM}.txt"] = help_text(command)
        files[MANUAL / f"{'-'.join([PROGRAM, *command])}.1"] = manual(command)
    for folder, table in (("methods", method_table), ("metrics", metric_table)):
        page = DOCS / folder / "README.md"
        files[page] = opening(page, folder.capitalize()) + f"{MARKER}\n\n{table()}"
    files[SITE] = navigation(files)
    return files


def out_of_date() -> dict[Path, str]:
    """The files whose content has changed, with the new one."""
    return {
        path: text for path, text in outputs().items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main(words: list[str]) -> int:
    """Write the files, or with ``--check`` only list them."""
    stale = out_of_date()
    for path, text in stale.items():
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
        if "--check" not in words:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
