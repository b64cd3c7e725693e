"""Progress in the kernel of a notebook, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from calcli.listener import SILENT, here
from tests.support.shell import ROOT

DATA = """
import calcli
from calcli import listener as notebook
from tests.support.samples import visits
rows = visits(300)
"""
AT_ONCE = "notebook.PATIENCE = notebook.PERIOD = 0"
FITS = (
    "calcli.Calibrator('platt', holdout='cv:3').fit(rows['logit'], rows['label']);",
    "calcli.fit(rows, method='platt', holdout='cv:3');",
)


def drawn(cells: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[list[Any]]]:
    """What a kernel draws, drawing by drawing, and what stays below each cell."""
    client = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    texts: list[str] = []

    class Client(client.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] in ("display_data", "update_display_data"):
                texts.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    Client(notebook, kernel_name="python3").execute()
    return texts, [cell.outputs for cell in notebook.cells]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # theirs
def test_a_notebook_shows_every_stage_and_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, outputs = drawn([DATA + AT_ONCE, *FITS], monkeypatch)
    shown = "\n".join(texts)
    assert shown.count("checking platt on held-out rows 2 of 3") == shown.count("fitting platt") == len(FITS)
    for (left,) in outputs[1:]:
        assert set(left["data"].values()) == {""}


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # theirs
def test_a_notebook_shows_nothing_of_short_work_or_where_it_is_told_to_be_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert drawn([DATA + "notebook.PATIENCE = 3600", *FITS], monkeypatch) == ([], [[], [], []])
    monkeypatch.setenv("CALCLI_QUIET", "1")
    assert drawn([DATA + AT_ONCE, *FITS], monkeypatch)[0] == []


def test_nobody_listens_outside_of_a_notebook() -> None:
    assert here() is SILENT
