"""Tables of unusual shapes: wide, long-winded, in pieces, of many classes, quoted in every way."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from tests.support.damage import CASES, LARGE
from tests.support.samples import clicks
from tests.support.shell import HANGS, environment

pytestmark = pytest.mark.slow


def applied(folder: Path, data: pl.DataFrame | Path, method: str = "platt") -> pl.DataFrame:
    """The table with what an artifact adds."""
    if not (folder / "a").exists():
        calcli.fit(clicks(400), method=method, output=folder / "a", holdout="none")
    calcli.apply(str(folder / "a"), data if isinstance(data, pl.DataFrame) else str(data), str(folder / "out.parquet"))
    return pl.read_parquet(folder / "out.parquet")


def test_five_thousand_columns(tmp_path: Path) -> None:
    rows = clicks(50)
    wide = rows.with_columns(pl.lit(float(place)).alias(f"x{place}") for place in range(5_000))
    found = applied(tmp_path, wide)
    assert found.width == wide.width + 1
    assert found["x4999"].to_list() == [4999.0] * 50
    assert calcli.evaluate(wide, metrics="nll").data.rows == 50


def test_megabyte_strings(tmp_path: Path) -> None:
    long = clicks(20).with_columns(text=pl.Series([chr(97 + place) * 1_000_000 for place in range(20)]))
    for suffix in ("parquet", "csv"):
        path = tmp_path / f"long.{suffix}"
        long.write_parquet(path) if suffix == "parquet" else long.write_csv(path)
        found = applied(tmp_path, path)
        assert found["text"].str.len_bytes().to_list() == [1_000_000] * 20
        assert found["text"][19][-1] == "t"


def test_a_thousand_row_groups_and_files(tmp_path: Path) -> None:
    rows = clicks(5_000)
    rows.write_parquet(tmp_path / "groups.parquet", row_group_size=5)
    assert len(applied(tmp_path, tmp_path / "groups.parquet")) == 5_000
    (tmp_path / "parts").mkdir()
    for place in range(1_000):
        rows[5 * place : 5 * place + 5].write_parquet(tmp_path / "parts" / f"{place:04}.parquet")
    found = applied(tmp_path, tmp_path / "parts")
    assert found["row_id"].to_list() == rows["row_id"].to_list()
    assert calcli.evaluate(str(tmp_path / "parts"), metrics="nll").value("raw", "nll") == pytest.approx(
        calcli.evaluate(rows, metrics="nll").value("raw", "nll"), rel=1e-12
    )


def test_a_thousand_classes() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (3_000, 1_000))
    label = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    label[:1_000] = np.arange(1_000)
    rows = pl.DataFrame({"label": label, **{f"logit_{name}": logits[:, name] for name in range(1_000)}})
    done = calcli.fit(rows, method="temperature", holdout="none")
    assert done.model is not None
    assert done.model.predict(rows).sum(axis=1) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_with_every_quoting_trick(quoting: int, end: str, tmp_path: Path) -> None:
    chance = random.Random(0)
    tricks = ['"', '""', ",", "\n", "\r\n", "\t", " ", "'", "a", "é", "\\", "NULL", "nan", "#", ";"]
    texts = ["".join(chance.choices(tricks, k=chance.randrange(1, 9))) for _ in range(300)]
    rows = clicks(300)
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
        writer.writerow(["label", "logit", 'a "text", quoted'])
        writer.writerows(zip(rows["label"], rows["logit"], texts, strict=True))
    found = applied(tmp_path, tmp_path / "t.csv")
    assert found['a "text", quoted'].to_list() == texts
    np.testing.assert_allclose(found["logit"].to_numpy(), rows["logit"].to_numpy(), rtol=1e-15)


def test_applies_while_the_artifact_is_refitted(tmp_path: Path) -> None:
    """Every reader has one whole calibrator: its output is what one of the generations says."""
    clicks(300).write_parquet(tmp_path / "t.parquet")
    generations = [clicks(400, seed=seed) for seed in range(4)]
    outputs = []
    for rows in generations:
        calcli.fit(rows, method="isotonic", output=tmp_path / "g", holdout="none")
        outputs.append(calcli.load(tmp_path / "g").predict(clicks(300)))
    stop = threading.Event()

    def refit() -> None:
        place = 0
        while not stop.is_set():
            place += 1
            rows = generations[place % len(generations)]
            calcli.fit(rows, method="isotonic", output=tmp_path / "g", holdout="none")

    writer = threading.Thread(target=refit)
    writer.start()
    try:
        running = []
        for place in range(50 if CASES >= 1_000 else 6):
            words = [sys.executable, "-m", "calcli", "apply", "-q", str(tmp_path / "g"), str(tmp_path / "t.parquet")]
            words += ["-o", str(tmp_path / f"out{place}.parquet")]
            running.append(subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE))
        for process in running:
            _, said = process.communicate(timeout=HANGS)
            assert process.returncode == 0, said
    finally:
        stop.set()
        writer.join()
    for place in range(len(running)):
        found = pl.read_parquet(tmp_path / f"out{place}.parquet")["calibrated"].to_numpy()
        assert any(np.array_equal(found, output) for output in outputs)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@LARGE
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """100 million rows through `apply`, 50 million through `evaluate`, in an address space that does not hold them."""
    rng = np.random.default_rng(0)
    calcli.fit(clicks(2_000), method="platt", output=tmp_path / "a", holdout="none")
    logit = rng.normal(size=10_000_000).astype(np.float32)
    part = pl.DataFrame({"label": (rng.random(len(logit)) < 1 / (1 + np.exp(-logit))).astype(np.int8), "logit": logit})
    (tmp_path / "parts").mkdir()
    for place in range(10):
        part.write_parquet(tmp_path / "parts" / f"{place}.parquet")
    verbs = {
        "apply": ["a", "parts", "-o", "out.parquet", "-q"],
        "evaluate": [*(f"parts/{place}.parquet" for place in range(5)), "--with", "a", "-q"],
    }
    for verb, words in verbs.items():
        measured = (
            "import resource, sys; from calcli.cli.main import main; code = main(sys.argv[1:]); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(code)"
        )
        done = subprocess.run(
            [sys.executable, "-c", measured, verb, *words],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=10 * HANGS, check=True,
        )  # fmt: skip
        assert int(done.stderr.split()[-1]) < (1 << 20) * (1.0 if verb == "apply" else 2.0)
    assert pl.scan_parquet(tmp_path / "out.parquet").select(pl.len()).collect().item() == 100_000_000
