"""Write the pages of the commands and the golden help texts from the commands' help.

    python docs/generate.py            # write the files that are out of date
    python docs/generate.py --check    # list them, and exit 1

A page is a hand-written opening, a marker, and below the marker what is generated.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from calcli.cli.app import build, every_command  # noqa: E402 the package of this checkout
from calcli.methods import catalog as methods  # noqa: E402
from calcli.metrics import catalog as metrics  # noqa: E402

PAGES = ROOT / "docs" / "commands"
GOLDEN = ROOT / "tests" / "cli" / "golden"
MARKER = "<!-- From here on written by docs/generate.py: change the command, not the page. -->"
PROGRAM = "calcli"


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
    rows = [[_linked(spec.name), spec.family, spec.summary, spec.reference] for spec in methods.specs()]
    return _table(("method", "family", "what it is", "reference"), rows)


def _linked(method: str) -> str:
    """A method's name, linked to its page if it has one."""
    page = PAGES.parent / "methods" / f"{method}.md"
    return f"[`{method}`](../methods/{page.name})" if page.exists() else f"`{method}`"


def metric_table() -> str:
    """The catalog of metrics, as Markdown."""
    rows = [[f"`{spec.name}`", spec.family, spec.summary, spec.direction] for spec in metrics.specs()]
    return _table(("metric", "family", "what it is", "better"), rows)


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


def opening(page: Path, title: str) -> str:
    """The part above the marker, written by hand."""
    if not page.exists():
        return f"# {title}\n\n"
    return page.read_text(encoding="utf-8").partition(MARKER)[0]


def outputs() -> dict[Path, str]:
    """Every generated file and its content."""
    files: dict[Path, str] = {}
    for command in ((), *every_command()):
        page = PAGES / f"{'-'.join(command) or 'README'}.md"
        files[page] = opening(page, " ".join([PROGRAM, *command])) + generated(command)
        files[GOLDEN / f"{'-'.join(command) or PROGRAM}.txt"] = help_text(command)
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
