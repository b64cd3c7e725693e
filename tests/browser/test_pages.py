"""Pages in a real browser: nothing is fetched, nothing goes wrong, nothing is wider than the window.

A page that hosts them in frames of a telephone's and of a screen's width looks at each, presses its buttons, points at
its pictures, and writes what it saw into itself; Chromium prints that.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from calcli.diagrams.charts import decision_charts
from calcli.diagrams.curve_builder import CurveBuilder
from calcli.diagrams.page import charts, document, figures, slider, switches
from calcli.metrics.base import Scored
from tests.support.decisions import CHOSEN, counted
from tests.support.shell import HANGS, ROOT

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")

WIDTHS = (360, 1400)

LISTEN = """<script>
window.said = [];
window.addEventListener("error", (event) => said.push(String(event.message)));
document.addEventListener("securitypolicyviolation", (event) => said.push("refused " + event.blockedURI));
for (const kind of ["error", "warn", "log"]) console[kind] = (...words) => said.push(words.join(" "));
</script>"""

HOST = """<!DOCTYPE html><meta charset="utf-8"><body><script>
const look = (html, width) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 900px; border: 0`;
  frame.onload = () => {
    const inside = frame.contentDocument, all = (what) => [...inside.querySelectorAll(what)];
    const shown = () => all("figure").filter((one) => one.getClientRects().length).length;
    const widest = () => inside.documentElement.scrollWidth;
    const found = {said: frame.contentWindow.said, figures: [shown()], widths: [widest()], tips: 0};
    for (const button of all("button")) {
      button.click();
      found.figures.push(shown());
      found.widths.push(widest());
      for (const svg of all("svg[data-shape]").filter((one) => one.getClientRects().length)) {
        const box = svg.getBoundingClientRect();
        const place = {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2};
        svg.dispatchEvent(new frame.contentWindow.PointerEvent("pointermove", place));
        if (!inside.querySelector("#tip").hidden) found.tips += 1;
        svg.dispatchEvent(new frame.contentWindow.PointerEvent("pointerleave", place));
      }
    }
    for (const one of all("details")) one.open = true;
    found.fetched = frame.contentWindow.performance.getEntriesByType("resource").length;
    found.widths.push(widest());
    done(found);
  };
  frame.srcdoc = html;
  document.body.append(frame);
});
(async () => {
  const found = [];
  for (const page of PAGES) for (const width of WIDTHS) found.push(await look(page, width));
  document.body.innerHTML = "<pre id='found'></pre>";
  document.querySelector("#found").textContent = JSON.stringify(found);
})();
</script>"""


def sample(name: str, folder: Path) -> str:
    """The first rows of a table of the sample data."""
    table = ROOT / "sample_data" / name
    rows = pl.read_csv(table) if table.suffix == ".csv" else pl.read_parquet(table)
    rows.head(500).write_csv(folder / f"{table.stem}.csv")
    return str(folder / f"{table.stem}.csv")


def seen(pages: list[Path], folder: Path) -> list[dict[str, Any]]:
    """What the host saw of each page, at each width."""
    texts = [page.read_text().replace("<head>", "<head>" + LISTEN, 1) for page in pages]
    host = folder / "host.html"
    host.write_text(
        HOST.replace("PAGES", json.dumps(texts).replace("</", "<\\/")).replace("WIDTHS", json.dumps(WIDTHS))
    )
    said: list[dict[str, Any]] = printed(host, folder)
    return said


def printed(page: Path, folder: Path) -> Any:
    """What a page writes into itself."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom"]
    words = [str(CHROMIUM), *flags, f"--user-data-dir={folder / 'profile'}", "--window-size=1600,1000", page.as_uri()]
    text = subprocess.run(words, capture_output=True, text=True, timeout=HANGS, check=True).stdout
    found = re.search(r'<pre id="found">(.*?)</pre>', text, re.DOTALL)
    assert found is not None, "the page did not come to its end"
    return json.loads(unescape(found[1]))


def test_pages(tmp_path: Path) -> None:
    artifact = str(tmp_path / "a-name-that-is-long-enough-to-need-a-second-line-on-a-telephone")
    train, test, classes = (
        sample(f"{name}", tmp_path) for name in ("train.parquet", "test.parquet", "classes_train.csv")
    )
    calcli.fit(train, method="platt", output=artifact, holdout="none")
    words = {
        "evaluate": [test, "--with", artifact, "--by", "country", "--rejection", "--html"],
        "compare": [classes, "--methods", "temperature,vector", "--html"],
        "diagram": [test, "--with", artifact, "-o"],
    }
    pages = [tmp_path / f"{kind}.html" for kind in words]
    for page, (kind, more) in zip(pages, words.items(), strict=True):
        assert main([kind, *more, str(page), "-q"]) == 0
    looks = product(words, WIDTHS)
    for found, (kind, width) in zip(seen(pages, tmp_path), looks, strict=True):
        assert found["said"] == [], kind
        assert found["fetched"] == 0, kind
        assert max(found["widths"]) <= width, kind
        assert min(found["figures"]) >= 1, kind
        assert found["tips"] >= len(found["figures"]) - 1 > 0, kind


PRESS = """<script>
const shown = () => [...document.querySelectorAll("figure")].filter((one) => one.getClientRects().length).length;
const said = [shown()];
for (const button of document.querySelectorAll("button[value$='age = 2']")) button.click();
said.push(shown());
document.body.innerHTML = "<pre id='found'></pre>";
document.querySelector("#found").textContent = JSON.stringify(said);
</script></body>"""


def test_a_chart_whose_scores_are_all_switched_off_is_hidden(tmp_path: Path) -> None:
    label, prob = np.array([0, 1] * 20), np.linspace(0.1, 0.9, 40)
    builder = CurveBuilder(["raw", "new"], ["0", "1"], ("benefit",), groups=["age = 1", "age = 2"])
    builder.add([Scored(label, prob), Scored(label, prob[::-1])] * 2)
    body = switches(builder.curves()) + figures(builder.curves(), "label", "none")
    page = tmp_path / "page.html"
    page.write_text(document("Charts", "", body).replace("</body>", PRESS))
    assert printed(page, tmp_path) == [4, 2]  # net benefit, and its difference, of each group


MOVE = """<script>
const said = [];
for (const place of PLACES) {
  const input = document.querySelector("[data-slider] input");
  input.value = place;
  input.dispatchEvent(new Event("input"));
  const cells = [...document.querySelectorAll("[data-cell]")].map((cell) => [cell.dataset.cell, cell.textContent]);
  said.push([Object.fromEntries(cells), document.querySelectorAll("path.at:not([hidden])").length]);
}
document.body.innerHTML = "<pre id='found'></pre>";
document.querySelector("#found").textContent = JSON.stringify(said);
</script></body>"""


def test_the_slider_says_what_the_table_would_have_said(tmp_path: Path) -> None:
    """The script fills the cells that Python fills for the threshold where the page begins."""
    score, truths = counted()[0], ("yes", "no")
    chosen = [float(score.thresholds[place]) for place in (0, 7, 100, len(score.thresholds) - 1)]
    body = slider(score, chosen[1], truths) + charts(decision_charts(counted(), CHOSEN))
    move = MOVE.replace("PLACES", json.dumps([score.place(at) for at in chosen]))
    file = tmp_path / "page.html"
    file.write_text(document("T", "about", body).replace("</body>", move))
    for (found, lines), at in zip(printed(file, tmp_path), chosen, strict=True):
        expected = re.findall(r'data-cell="([^"]+)">([^<]*)<', slider(score, at, truths))
        assert found == dict(expected)
        assert lines == 3
