"""Start-up is a promise: what only talks of catalogs and options imports nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shell import ROOT, environment

HEAVY = ("numpy", "polars", "pyarrow", "scipy", "sklearn", "pandas", "torch", "catboost", "matplotlib", "plotly")
SAMPLE = ROOT / "sample_data"
NOT_FOR_THIS = ("rich.table", "rich.markdown", "pydantic")

FOR_OTHER_MODELS = (
    "calcli.decisions.policy",
    "calcli.expressions",
    "calcli.learners.catboost",
    "calcli.models.ensemble",
)
"""Policies, exports, features and ensembles need them."""

NOT_TO_APPLY = (
    *("calcli.reports.measuring", "calcli.diagrams", "calcli.decisions", "calcli.export", "calcli.learners"),
    *("calcli.artifacts.writers", "calcli.methods.scaling.spline", "calcli.numeric.pooled"),
    *("calcli.tables.load", "calcli.tables.passes", "calcli.tables.side_tables", "calcli.models.cluster"),
    *("pyarrow.compute", "pyarrow.csv", "pyarrow.json", "numpy.ma", "html"),
)
"""Fits, reports and other formats need them."""

LIGHT = [
    ("--help",),
    ("--version",),
    ("fit", "--help"),
    ("apply", "--help"),
    ("evaluate", "--help"),
    ("inspect", "--help"),
    ("methods",),
    ("methods", "platt"),
    ("methods", "--format", "json"),
    ("metrics",),
    ("metrics", "nll", "--format", "csv"),
    ("uncertainty",),
    ("uncertainty", "fit", "--help"),
    ("uncertainty", "evaluate", "--help"),
    ("uncertainty", "fiit"),
    ("fit",),
    ("fit", "x", "--metod", "y"),
]


def imported(*words: str, **more: str) -> set[str]:
    """The modules that a run of calcli imports; Python lists them on stderr, which --debug leaves open."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "calcli", *words],
        env=environment(**{"CALCLI_DEBUG": "1", **more}),
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}


ONE_AFTER_ANOTHER = """
import json, sys
from calcli.cli.main import main
light, heavy = json.loads(sys.argv[1])
found = {}
for words in light:
    main(words)
    found[" ".join(words)] = sorted(set(heavy) & set(sys.modules))
print(json.dumps(found))
"""


def test_nothing_heavy_is_imported() -> None:
    """In one process, which would keep what the first of them had imported."""
    words = [sys.executable, "-c", ONE_AFTER_ANOTHER, json.dumps([LIGHT, HEAVY + NOT_FOR_THIS])]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == {" ".join(one): [] for one in LIGHT}


@pytest.mark.parametrize(
    "line",
    [
        "calcli fit --method ",
        "calcli evaluate --metrics n",
        "calcli fit -m bbq --set ",
        "calcli evaluate --fail-if nll.",
    ],
)
def test_completion_imports_nothing_heavy(line: str) -> None:
    words = line.split(" ")
    completing = {"_CALCLI_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    modules = imported(**completing)
    assert "calcli.cli.complete" in modules
    assert modules.isdisjoint(HEAVY)


def test_a_small_model_is_fitted_applied_and_shown_with_what_that_needs_alone(tmp_path: Path) -> None:
    """A service may call it for each small table: what it imports takes more time than the rows do."""
    modules = imported("fit", str(SAMPLE / "train.parquet"), "-m", "platt", "-o", str(tmp_path / "platt"))
    assert "calcli.models.learn" in modules
    assert modules.isdisjoint({*FOR_OTHER_MODELS, "calcli.models.auto", "calcli.methods.pool"})
    out = tmp_path / "out.parquet"
    modules = imported("apply", str(tmp_path / "platt"), str(SAMPLE / "test.parquet"), "-o", str(out))
    assert out.exists()
    assert "polars" in modules
    assert modules.isdisjoint({*HEAVY, *FOR_OTHER_MODELS, *NOT_TO_APPLY} - {"numpy", "polars", "pyarrow"})
    modules = imported("inspect", str(tmp_path / "platt"))
    assert "calcli.verbs.inspect" in modules
    assert modules.isdisjoint({*FOR_OTHER_MODELS, "calcli.models.learn", "pyarrow.parquet"})


def test_evaluate_imports_no_learner(tmp_path: Path) -> None:
    """Clusters of features are part of a report, and importing scikit-learn takes as long as all of it."""
    report = tmp_path / "report.txt"
    modules = imported("evaluate", str(SAMPLE / "test.parquet"), "-o", str(report))
    assert "k-means" in report.read_text()
    assert modules.isdisjoint({"sklearn", "pandas", "catboost", "numba", "torch", "matplotlib", "plotly"})
    assert modules.isdisjoint({*FOR_OTHER_MODELS, "calcli.models.learn", "calcli.models.trial"})


def test_catboost_is_imported_without_notebooks(tmp_path: Path) -> None:
    """Its widgets take longer to import than CatBoost itself, and a command never shows them."""
    table = tmp_path / "rows.csv"
    table.write_text("x,score,label\n" + "".join(f"{i % 7},{(i % 5 + 1) / 7},{i % 2}\n" for i in range(60)))
    modules = imported("fit", str(table), "-m", "ccl", "--holdout", "none", "-o", str(tmp_path / "ccl"))
    assert "catboost" in modules
    assert modules.isdisjoint({"IPython", "ipywidgets"})


def test_the_package_itself_imports_nothing() -> None:
    code = "import sys, calcli; print(*sorted(name for name in sys.modules if name.partition('.')[0] in sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *HEAVY, "typer", "rich"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""
