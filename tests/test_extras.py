"""What is installed: the extras, what is said where one is missing, and the name of the distribution."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli import extras
from calcli.cli.main import main
from calcli.methods import catalog
from calcli.version import DISTRIBUTION
from tests.support.absent import hide
from tests.support.samples import visits
from tests.support.shell import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BY_BARE_NAME = re.compile(r"""\binstall +(?:[^\s&|;]+ +)*?["'`]?calcli(?:[\s"'`\[=<>~!)]|$)""", re.MULTILINE)
TEXTS = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "justfile", ".ci/run", "Dockerfile", "action.yml"),
    *("docs/**/*.md", "calcli/**/*.py", "benchmarks/**/*.py"),
)


def normal(distribution: str) -> str:
    return distribution.lower().replace("_", "-")


@pytest.fixture(scope="module")
def distributions() -> Mapping[str, list[str]]:
    """The distributions of what is installed, by the name of the package: it takes a while to find them."""
    return packages_distributions()


@pytest.mark.parametrize(("package", "extra"), extras.EXTRAS.items())
def test_an_extra_brings_its_package(package: str, extra: str, distributions: Mapping[str, list[str]]) -> None:
    if package not in distributions:
        pytest.skip("only an installed package tells the name of its distribution")
    needed = {re.split(r"[\[<>=]", requirement)[0] for requirement in PROJECT["optional-dependencies"][extra]}
    assert needed & set(map(normal, distributions[package]))


def test_the_distribution_has_its_name_in_one_place() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert PROJECT["optional-dependencies"]["all"] == [
        f"{DISTRIBUTION}[trees,graphs,plots,onnx,stores,databases,lakes,excel]"
    ]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("pip install calcli", True),
        ("- run: pip install --upgrade 'calcli[spark]>=1'", True),
        ("uv tool install calcli", True),
        ("pip install . && calcli fit", False),
        ("pip install 'calcli-calibration[all]'", False),
        ('pip install "calcli-calibration @ git+https://example.org/calcli"', False),
    ],
)
def test_the_bare_name_is_recognised(text: str, bare: bool) -> None:
    assert bool(BY_BARE_NAME.search(text)) == bare


def test_no_text_installs_another_project_of_the_bare_name() -> None:
    texts = [path for pattern in TEXTS for path in ROOT.glob(pattern)]
    assert len(texts) > 300
    assert not [f"{path}: {match[0]}" for path in texts for match in BY_BARE_NAME.finditer(path.read_text())]


ABSENT = [
    ("catboost", "trees", "fit -m boost nowhere.parquet"),
    ("catboost", "trees", "fit -m ccl nowhere.parquet"),
    ("catboost", "trees", "fit -m ccl --set embedding=top nowhere.parquet"),
    ("catboost", "trees", "fit -m pool --set members=platt,boost nowhere.parquet"),
    ("catboost", "trees", "compare --methods platt,boost nowhere.parquet"),
    ("catboost", "trees", "uncertainty fit nowhere.parquet"),
    ("catboost", "trees", "apply kept.boost nowhere.parquet -o there.parquet"),
    ("catboost", "trees", "evaluate nowhere.parquet --with kept.boost"),
    ("catboost", "trees", "refit kept.boost nowhere.parquet"),
    ("catboost", "trees", "uncertainty apply kept.sglb nowhere.parquet -o there.parquet"),
    ("catboost", "trees", "uncertainty evaluate nowhere.parquet --with kept.sglb"),
    ("torch", "graphs", "fit -m recal nowhere.parquet"),
    ("torch_geometric", "graphs", "fit -m recal nowhere.parquet"),
    ("torch", "graphs", "compare --methods platt,recal nowhere.parquet"),
    ("shap", "trees", "inspect kept --explain nowhere.parquet -o why.svg"),
    ("obstore", "stores", "evaluate s3://nowhere/nothing.parquet"),
    ("obstore", "stores", "apply s3://nowhere/nothing nowhere.parquet -o there.parquet"),
    ("duckdb", "databases", "evaluate duckdb:///nowhere.db --table nothing"),
    ("adbc_driver_sqlite", "databases", "evaluate sqlite:///nowhere.db --table nothing"),
    ("adbc_driver_postgresql", "databases", "evaluate postgresql://nowhere/nothing --table nothing"),
    ("matplotlib", "plots", "inspect kept --explain nowhere.parquet -o why.png"),
    ("matplotlib", "plots", "diagram nowhere.parquet -o there.png"),
    ("matplotlib", "plots", "diagram nowhere.parquet -o - --output-format svg"),
    ("matplotlib", "plots", "uncertainty evaluate nowhere.parquet --with kept -o there.pdf"),
]


@pytest.fixture(scope="module")
def boosted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("boosted")
    rows = visits(400)
    calcli.fit(rows, method="boost", params={"rounds": 20}, output=folder / "kept.boost")
    calcli.fit_ensemble(rows, members=2, trees=5, output=folder / "kept.sglb")
    return folder


def test_an_artifact_says_which_extra_it_needs_to_be_applied(boosted: Path, tmp_path: Path) -> None:
    calcli.fit(visits(200), method="platt", output=tmp_path / "kept.platt")
    assert calcli.load(boosted / "kept.boost").manifest.requires == ("trees",)
    assert calcli.load(tmp_path / "kept.platt").manifest.requires == ()


@pytest.mark.parametrize(("package", "extra", "words"), ABSENT)
def test_what_is_not_installed_is_said_before_any_rows_are_read(
    boosted: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    extra: str,
    words: str,
) -> None:
    monkeypatch.chdir(boosted)
    hide(monkeypatch, package)
    assert main(words.split()) == 5
    out, err = capsys.readouterr()
    assert out == ""
    assert f"needs the package '{package}', which is not installed" in err
    assert f"try: pip install '{DISTRIBUTION}[{extra}]'" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("method", "way_out"),
    [
        ("mbct", {"features": 20, "trees": 1, "depth": 1}),
        ("recal", {"relation": "column:kind", "epochs": 1}),
        ("ccl", {"embedding": "features", "clusters": 2}),
    ],
)
def test_features_are_ranked_by_catboost_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, way_out: dict[str, object]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    numbers = {f"x{place}": rng.normal(size=120) for place in range(17)}
    rows = pl.DataFrame(
        {"label": np.arange(120) % 2, "logit": rng.normal(size=120), "kind": ["a", "b", "c"] * 40, **numbers}
    )
    spoiled = rows.with_columns(logit=pl.when(pl.int_range(pl.len()) > 0).then("logit"))
    hide(monkeypatch, "catboost")
    with pytest.raises(calcli.errors.MissingExtraError, match=f"{method}.* needs the package 'catboost'"):
        calcli.fit(spoiled, method=method)  # its bad row would be an error of its own
    calcli.fit(rows, method=method, params=way_out, holdout="none")


def test_a_network_is_applied_without_what_trained_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows, new = visits(300), visits(100, seed=1)
    params = {"relation": "column:city", "epochs": 3, "margin": 0.0}
    calcli.fit(rows, method="recal", params=params, holdout="none", output="kept")
    before = calcli.load("kept").predict(new)
    hide(monkeypatch, *extras.EXTRAS)
    np.testing.assert_array_equal(calcli.load("kept").predict(new), before)


@pytest.mark.parametrize("words", ["fit table.parquet --budget 0 -o there", "compare table.parquet --budget 0"])
def test_a_comparison_says_what_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    visits(200).write_parquet("table.parquet")
    hide(monkeypatch, "catboost", "torch")
    assert main(words.split()) == 0
    text = " ".join(capsys.readouterr().err.split())
    missing = "boost" if words.startswith("fit") else "boost, ccl, recal"
    assert f": {missing}; try: pip install '{DISTRIBUTION}[" in text


def test_methods_that_need_no_extra_find_none(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {spec: spec.resolve() for spec in catalog.specs()}
    hide(monkeypatch, *extras.EXTRAS)
    kept, lacking = catalog.installed(everything, 16, ())
    assert {*lacking} == {"boost", "ccl", "recal"}
    assert {spec.name for spec in kept} | {*lacking} == {*catalog.names()}
