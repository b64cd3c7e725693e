"""Where things are: helpers in tests/support, tests in the room of what they test, every room on the map."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.shell import ROOT

TESTS = ROOT / "tests"
MODULES = sorted(TESTS.rglob("*.py"))
IMPORT = re.compile(r"^[ \t]*(?:from [\w.]+ import (?:\([^)]*\)|[^(\n]*$)|import [\w., ]+$)", re.MULTILINE)
ROOMS = {path.parent.name for path in (ROOT / "calcli").glob("*/__init__.py")}
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def name_of(path: Path) -> str:
    return str(path.relative_to(TESTS))


def imports_from_tests(path: Path) -> Iterator[str]:
    """Modules of the tests that a module imports, at its top or inside a function, under their full name."""
    lines = [
        match[0].strip() for match in IMPORT.finditer(path.read_text()) if re.search(r"\btests\b|from \.", match[0])
    ]
    for node in ast.walk(ast.parse("\n".join(lines))):  # to parse whole modules takes a second
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "tests")


def test_helpers_are_imported_from_support_alone() -> None:
    found = {
        name_of(path): [
            name
            for name in imports_from_tests(path)
            if not f"{name}.".startswith("tests.support.")
            and not (path.name == "test_frozen.py" and name.startswith("tests.frozen."))
        ]
        for path in MODULES
    }
    assert {name: imports for name, imports in found.items() if imports} == {}


def test_conftests_hold_fixtures_only() -> None:
    for path in TESTS.rglob("conftest.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
                assert any(text.startswith("pytest.fixture") for text in decorators), f"{name_of(path)}: {node.name}"
            else:
                assert isinstance(node, ast.Import | ast.ImportFrom | ast.Expr), f"{name_of(path)}: {ast.unparse(node)}"


def test_folders_of_tests_are_rooms() -> None:
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))}
    assert folders - {"support", "frozen", "browser", "soak"} <= ROOMS


def test_the_map_shows_every_room_and_no_other() -> None:
    rows = re.findall(r"^\| `calcli/(\w+)/` \|", CONTRIBUTING, flags=re.MULTILINE)
    assert sorted(rows) == sorted(ROOMS)


def test_what_contributing_names_is_there() -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)*[\w.-]+(?:\.py|/))`", CONTRIBUTING))
    assert len(named) > 30
    rooms = [folder / room for folder in (TESTS, ROOT / "calcli") for room in ROOMS if (folder / room).is_dir()]
    places = [ROOT, TESTS, ROOT / "calcli", *rooms]
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_tests_that_the_docs_name_are_there() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        for name in re.findall(r"`(tests/[\w/.]+)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


@pytest.mark.skipif("CALCLI_FUZZ" in os.environ, reason="new examples are asked for")
def test_examples_do_not_depend_on_the_modules_that_a_process_has_imported() -> None:
    """Hypothesis would draw the constants in them: tests/support/drawing.py keeps it from that."""
    providers = pytest.importorskip("hypothesis.internal.conjecture.providers")
    of_our_code = getattr(providers, "_get_local_constants", set)
    assert len(of_our_code()) == 0
