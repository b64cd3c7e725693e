"""What a release consists of says the same everywhere, and refuses to be made of something unfinished."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from calcli.deprecation import deprecated
from calcli.version import VERSION
from tests.support.shell import ROOT, script

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]


def test_every_place_that_names_the_version_names_this_one() -> None:
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"calcli@v{VERSION}" in (ROOT / "docs/container.md").read_text()
    assert all(f'"calcli {VERSION}"' in page.read_text() for page in (ROOT / "docs/man").glob("*.1"))


def test_the_pythons_of_the_classifiers_are_tested() -> None:
    assert PYTHONS[0] == PROJECT["requires-python"].removeprefix(">=")
    matrix = (ROOT / "noxfile.py").read_text(), (ROOT / ".github/workflows/tests.yml").read_text()
    for version in PYTHONS:
        assert all(f'"{version}"' in text for text in matrix)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own with the few files that a release looks at."""
    for name in ("CHANGELOG.md", "docs/container.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_nothing_unfinished_is_released(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = script(ROOT / "packaging" / "release.py")
    monkeypatch.setattr(made, "ROOT", copy)
    assert "no version" in made.problem("1.0")
    assert "docs/container.md" in made.problem("1.0.0")
    (copy / "new").touch()
    assert "not committed" in made.problem("1.0.0")


def test_a_deprecated_name_works_and_says_what_to_use() -> None:
    @deprecated(instead="new", gone="0.3")
    def old(number: int) -> int:
        """Twice the number."""
        return 2 * number

    with pytest.warns(DeprecationWarning, match=r"old is deprecated and goes in calcli 0\.3; use new") as caught:
        assert old(2) == 4
    assert caught[0].filename == __file__
    assert old.__doc__ is not None
    assert old.__doc__.startswith("Twice the number.")
