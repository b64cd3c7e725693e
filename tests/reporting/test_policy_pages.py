"""The pages and pictures of a policy, by the command: they show the numbers of its table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from calcli.cli.main import main
from tests.support.shell import ROOT

TEST = str(ROOT / "sample_data" / "test.parquet")
COSTS = ("--cost-fp", "1", "--cost-fn", "20", "--bootstrap", "0")


def decide(folder: Path, *words: str, rows: str = TEST) -> int:
    return main(["decide", rows, "-o", str(folder / "policy"), "-q", *words])


def test_a_page_begins_at_the_threshold_of_the_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert decide(tmp_path, *COSTS, "--picture", str(page), "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    (bayes,) = [option for option in found["options"] if option["name"] == "bayes"]
    cells = dict(re.findall(r'data-cell="([^"]+)">([^<]*)<', page.read_text()))
    assert cells["threshold"] == f"{1 / 21:.3g}"
    assert cells["cost per row"] == f"{bayes['numbers']['cost']['value']:.4g}"
    assert cells["recall"] == f"{100 * bayes['numbers']['recall']['value']:.1f} %"
    for title in ("Expected cost", "Net benefit", "Precision, recall and alerts: raw"):
        assert title in page.read_text()


def test_costs_of_each_row_are_in_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert decide(tmp_path, *COSTS, "--cost", "hour", "--picture", str(page), "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    (single,) = [option for option in found["options"] if option["name"] == "mean costs"]
    cells = dict(re.findall(r'data-cell="([^"]+)">([^<]*)<', page.read_text()))
    assert cells["cost per row"] == f"{single['numbers']['cost']['value']:.4g}"


def test_a_page_with_the_tables_of_any_policy(tmp_path: Path) -> None:
    """With pictures where there are two classes."""
    page = tmp_path / "page.html"
    assert decide(tmp_path, *COSTS, "--html", str(page)) == 0
    assert '<th class="word">bayes</th>' in page.read_text()
    assert "Net benefit" in page.read_text()
    classes = str(ROOT / "sample_data" / "classes_train.csv")
    assert decide(tmp_path, "--top", "1", "--html", str(page), rows=classes) == 0
    assert '<th class="word">likeliest</th>' in page.read_text()
    assert "Net benefit" not in page.read_text()


def test_an_image_and_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = tmp_path / "picture.png"
    assert decide(tmp_path, "--coverage", "0.8", "--picture", str(image)) == 0
    assert image.read_bytes()[:4] == b"\x89PNG"
    assert main(["decide", TEST, "-o", str(tmp_path / "other"), "--coverage", "0.8", "--picture", "-"]) == 0
    said = capsys.readouterr().err
    assert "Risk and coverage" in said
    assert "Expected cost" not in said


@pytest.mark.parametrize(("width", "hidden"), [(80, True), (120, False)])
def test_options_fit_the_screen(
    width: int, hidden: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    words = ("decide", TEST, "--cost-fp", "1", "--cost-fn", "5", "--bootstrap", "50")
    assert main([*words, "-o", str(tmp_path / "policy")]) == 0
    told = capsys.readouterr().err
    assert max(map(len, told.splitlines())) <= width
    assert ("recall, on a wider screen or with --format" in told) == hidden


def test_what_cannot_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert decide(tmp_path, *COSTS, "--picture", "a.gif") == 2
    assert not (tmp_path / "policy").exists()
    costs = tmp_path / "costs.csv"
    classes = ROOT / "sample_data" / "classes_train.csv"
    costs.write_text(
        "class,a,b\n" + "".join(f"{name},0,1\n" for name in sorted(pl.read_csv(classes)["label"].unique()))
    )
    page = tmp_path / "page.html"
    assert decide(tmp_path, "--costs", str(costs), "--bootstrap", "0", "--picture", str(page), rows=str(classes)) == 0
    assert "nothing was drawn" in capsys.readouterr().err
    assert not page.exists()


def test_actions_of_two_classes_are_drawn_without_a_threshold(tmp_path: Path) -> None:
    costs, page = tmp_path / "costs.csv", tmp_path / "page.html"
    costs.write_text("class,call,wait\n0,1,0\n1,0,5\n")
    assert decide(tmp_path, "--costs", str(costs), "--bootstrap", "0", "--picture", str(page)) == 0
    text = page.read_text()
    assert "Net benefit" in text
    assert "Expected cost" not in text
