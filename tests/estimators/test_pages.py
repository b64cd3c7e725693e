"""The pages about Python and the notebook: every line of code in them is run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB

from tests.support.samples import visits
from tests.support.shell import ROOT, readers_folder

DOCS = ROOT / "docs"
NOTEBOOK = json.loads((DOCS / "python.ipynb").read_text())
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
BLOCK = re.compile(r"(?:<!-- peer: (\w+) -->\n)?```python\n(.*?)```", re.DOTALL)

pytestmark = pytest.mark.filterwarnings("ignore::calcli.CalibrationWarning")


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    before = mpl.get_backend()
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")
    pyplot.switch_backend(before)


def run(code: str, names: dict[str, Any]) -> None:
    exec(compile(code, "a page", "exec"), names)


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(readers_folder(tmp_path))
    names: dict[str, Any] = {}
    blocks = BLOCK.findall((DOCS / "python.md").read_text())
    assert len(blocks) == 12
    for _, code in blocks:
        run(code, names)
    assert names["search"].best_params_["method"] in ("platt", "beta")
    assert names["result"].path.name == "clicks.isotonic"


def given(page: str) -> dict[str, Any]:
    """What the code of a page speaks of without making it."""
    if page == "from-mcgrad":
        rows = visits(1200).drop("logit").with_columns(prob=1 / (1 + np.exp(-visits(1200)["logit"].to_numpy())))
        return {"train": rows[:800].to_pandas(), "test": rows[800:].to_pandas()}
    X, y = make_classification(600, random_state=0)
    prob = GaussianNB().fit(X[::2], y[::2]).predict_proba(X)[:, 1]
    halves = {"X": X, "y": y, "prob": prob}
    rows = {f"{name}_train": values[:300] for name, values in halves.items()}
    return rows | {f"{name}_test": values[300:] for name, values in halves.items()} | {"estimator": GaussianNB()}


PAGES = ("from-calibratedclassifiercv", "from-mcgrad", "from-netcal-and-betacal")
COMPARED = [
    (page, peer, code) for page in PAGES for peer, code in BLOCK.findall((DOCS / f"{page}.md").read_text()) if peer
]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_our_code_of_a_page_for_users_of_another_library_runs(page: str) -> None:
    names = given(page)
    for peer, code in BLOCK.findall((DOCS / f"{page}.md").read_text()):
        if not peer:
            run(code, names)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize(("page", "peer", "code"), COMPARED, ids=[peer for _, peer, _ in COMPARED])
def test_the_code_of_the_other_library_runs(page: str, peer: str, code: str) -> None:
    pytest.importorskip(peer)
    run(code, given(page))


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What it prints is what it shows, to the digits that it shows."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in CODE:
        run("".join(cell["source"]), names)
    shown = "".join(text for cell in CODE for output in cell["outputs"] for text in output.get("text", ()))
    assert capsys.readouterr().out == shown
    assert (tmp_path / "naive-bayes.beta" / "manifest.json").is_file()


def test_the_notebook_was_run_from_top_to_bottom_and_is_short() -> None:
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    assert all(output["output_type"] != "error" for cell in CODE for output in cell["outputs"])
    lines = [line for cell in CODE for line in "".join(cell["source"]).splitlines()]
    assert sum(bool(line.strip()) and not line.startswith(("import", "from")) for line in lines) <= 20
