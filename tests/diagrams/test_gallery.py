"""The gallery can be drawn anew, and what it shows is what is drawn."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.support.shell import HANGS, ROOT, commands, environment

PAGE = (ROOT / "docs" / "gallery.md").read_text()
PICTURES = ROOT / "docs" / "gallery"


@pytest.mark.slow
def test_it_can_be_drawn_anew(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "gallery.py"), str(tmp_path)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "gallery.md").read_text() == PAGE, "run: python docs/gallery.py"
    drawn = {path.name: path for path in (tmp_path / "gallery").iterdir()}
    assert set(drawn) == {path.name for path in PICTURES.iterdir()}
    for name, path in drawn.items():
        if path.suffix == ".png":
            with Image.open(path) as new, Image.open(PICTURES / name) as old:
                assert new.size == old.size, f"{name} looks different: run python docs/gallery.py"


def test_every_kind_of_picture_is_in_it() -> None:
    lines = " ".join(commands(PAGE))
    drawn = ("bars.png", "page.html", "report.html")
    for words in ("--kind smooth", "--kind rejection", "--class", "--binning mass", *drawn):
        assert words in lines
    shown = re.findall(r"\]\(gallery/([\w.]+)\)", PAGE)
    assert set(shown) == {path.name for path in PICTURES.iterdir()}


def test_it_is_among_what_the_readme_shows() -> None:
    assert "docs/gallery.md" in (ROOT / "README.md").read_text()
