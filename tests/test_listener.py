"""Progress in the kernel of a notebook, and nowhere else."""

from __future__ import annotations

import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

import calcli
from calcli import listener
from calcli.listener import SILENT, here
from tests.support.samples import visits
from tests.support.shell import ROOT

DATA = """
import os
import calcli
from calcli import listener as notebook
from tests.support.samples import visits
rows = visits(300)
"""
SHORT = "notebook.PATIENCE = 3600"
QUIET = "notebook.PATIENCE = notebook.PERIOD = 0; os.environ['CALCLI_QUIET'] = '1'"
LOUD = "del os.environ['CALCLI_QUIET']"
FITS = (
    "calcli.Calibrator('platt', holdout='cv:3').fit(rows['logit'], rows['label']);",
    "calcli.fit(rows, method='platt', holdout='cv:3');",
)


class Display:
    """IPython's display of a cell as far as a listener asks for it: keeps what is drawn, and what is left to see."""

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.left = ""

    def display(self, shown: dict[str, str], *, raw: bool, display_id: bool) -> Display:
        assert raw
        assert display_id
        self.update(shown, raw=raw)
        return self

    def update(self, shown: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.drawn.append(shown["text/plain"])
        self.left = shown["text/plain"] + shown["text/html"]


@pytest.mark.parametrize(("patience", "quiet", "times"), [(0, "", 1), (3600, "", 0), (0, "1", 0)])
def test_a_cell_shows_every_stage_of_work_that_takes_long_and_keeps_none(
    monkeypatch: pytest.MonkeyPatch, patience: int, quiet: str, times: int
) -> None:
    monkeypatch.setattr(listener, "PATIENCE", patience)
    monkeypatch.setattr(listener, "PERIOD", 0)
    monkeypatch.setenv("CALCLI_QUIET", quiet)
    rows = visits(300)
    cells = (
        lambda: calcli.Calibrator("platt", holdout="cv:3").fit(rows["logit"], rows["label"]),
        lambda: calcli.fit(rows, method="platt", holdout="cv:3"),
    )
    for number, cell in enumerate(cells):
        listener._cell.cache_clear()
        display, shell = Display(), SimpleNamespace(kernel=object(), execution_count=number)
        ipython = SimpleNamespace(display=display, get_ipython=lambda shell=shell: shell)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        cell()
        shown = "\n".join(display.drawn)
        assert shown.count("checking platt on held-out rows 2 of 3") == shown.count("fitting platt") == times
        assert display.left == ""
    listener._cell.cache_clear()


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # theirs
def test_a_notebook_shows_every_stage_of_work_that_takes_long_unless_told_to_be_quiet_and_keeps_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One kernel, which takes longer to start than all that it is asked to do."""
    client = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    drawn: dict[int, list[str]] = defaultdict(list)

    class Client(client.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] in ("display_data", "update_display_data"):
                drawn[cell_index].append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    cells = [DATA, SHORT, *FITS, QUIET, *FITS, LOUD, *FITS]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    Client(notebook, kernel_name="python3").execute()
    *silent, first, second = range(len(cells))
    shown = "\n".join(drawn[first] + drawn[second])
    assert shown.count("checking platt on held-out rows 2 of 3") == shown.count("fitting platt") == len(FITS)
    for place in (first, second):
        (left,) = notebook.cells[place].outputs
        assert set(left["data"].values()) == {""}
    assert [drawn[place] for place in silent] == [[] for _ in silent]
    assert [notebook.cells[place].outputs for place in silent] == [[] for _ in silent]


def test_nobody_listens_outside_of_a_notebook() -> None:
    assert here() is SILENT
