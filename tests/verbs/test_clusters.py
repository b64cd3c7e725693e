"""CECE and rejection in `evaluate`, and CCL from the command's first word to its last."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.artifacts import store
from calcli.cli.main import main
from calcli.errors import DataError, UsageError
from calcli.metrics import catalog
from calcli.metrics.base import Clusters, Options, Scored
from calcli.models.side_inputs import SideFiles
from calcli.verbs import clusters as clustering
from calcli.verbs import score_passes as collect
from tests.support.reports import ANSWERS_SCHEMA, REPORT_SCHEMA

SITES = np.array(["north", "west", None, "east"], dtype=object)


def visits(rows: int = 1200, seed: int = 0) -> pl.DataFrame:
    """Scores that are wrong in another way at each site, and features that tell the site."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 4, rows)
    z = rng.normal(-0.5, 1.3, rows)
    truth = z + np.array([0.0, 1.0, -1.0, 0.4])[site]
    return pl.DataFrame(
        {
            "label": (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.int8),
            "logit": z,
            "site": SITES[site].tolist(),
            "x": np.where(site % 2, 5.0, -5.0) + rng.normal(0, 0.5, rows),
            "v": np.where(site // 2, 5.0, -5.0) + z + rng.normal(0, 0.5, rows),
        },
        schema_overrides={"site": pl.String},
    )


@pytest.fixture
def here(here: Path) -> Path:
    visits().write_parquet("train.parquet")
    visits(seed=1).write_parquet("test.parquet")
    return here


def over(frame: pl.DataFrame, place: np.ndarray) -> float:
    """CECE of the raw score over these clusters."""
    prob = 1 / (1 + np.exp(-frame["logit"].to_numpy()))
    rows = Scored(frame["label"].to_numpy().astype(np.int64), prob, None, Clusters(place, int(place.max()) + 1, ""))
    return catalog.measure([catalog.find("cece")], rows, Options())["cece"].value


def test_a_column_can_be_the_clusters_null_among_them(here: Path) -> None:
    frame = visits(seed=1)
    report = calcli.evaluate("test.parquet", metrics="cece", clusters_from="site")
    place = frame["site"].fill_null("?").cast(pl.Categorical).to_physical().to_numpy().astype(np.int64)
    assert report.value("raw", "cece") == pytest.approx(over(frame, place), rel=1e-12)
    assert report.definitions["cece"].clusters == {"source": "column site", "k": 4, "sha256": None}


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_column_of_numbers_and_a_table_of_text(here: Path, form: str) -> None:
    frame = visits(seed=1).with_columns(code=pl.int_range(pl.len()) % 3)
    getattr(frame, f"write_{form}")(f"test.{form}")
    report = calcli.evaluate(f"test.{form}", metrics="cece", clusters_from="code")
    assert report.value("raw", "cece") == pytest.approx(over(frame, frame["code"].to_numpy()), rel=1e-9)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("missing", [False, True])
def test_there_are_as_many_clusters_as_values(here: Path, suffix: str, missing: bool) -> None:
    code = pl.int_range(pl.len()) % 7
    frame = visits(seed=1).with_columns(code=pl.when(code == 3).then(None).otherwise(code) if missing else code)
    getattr(frame, f"write_{suffix}")(f"test.{suffix}")
    report = calcli.evaluate(f"test.{suffix}", metrics="cece", clusters_from="code")
    assert report.definitions["cece"].clusters == {"source": "column code", "k": 7, "sha256": None}
    place = frame["code"].fill_null(3).to_numpy()
    assert report.value("raw", "cece") == pytest.approx(over(frame, place), rel=1e-9)


def test_bad_columns_are_named(here: Path) -> None:
    with pytest.raises(DataError, match=r"clusters_from: no column 'sight'.*did you mean 'site'"):
        calcli.evaluate("test.parquet", clusters_from="sight")
    with pytest.raises(DataError, match="'v' has more than 1,000 different values"):
        calcli.evaluate("test.parquet", clusters_from="v")
    with pytest.raises(UsageError, match="cece, which is not measured"):
        calcli.evaluate("test.parquet", metrics="nll", clusters_from="site")


def test_features_form_clusters_and_labels_do_not(here: Path) -> None:
    frame = visits(seed=1)
    report = calcli.evaluate(frame)
    flipped = calcli.evaluate(frame.with_columns(label=1 - pl.col("label")))
    facts = report.definitions["cece"].clusters
    assert facts["source"] == "k-means on 3 features"
    assert facts["k"] == 1200 // 50
    assert flipped.definitions["cece"].clusters == facts
    other = calcli.evaluate(frame, seed=1).definitions["cece"].clusters
    assert other["sha256"] != facts["sha256"]


def test_the_clusters_of_features_are_found_again_in_every_chunk(here: Path, monkeypatch) -> None:
    """What is sampled, and what is let go, changes nothing: four sites far apart, and as many clusters."""
    monkeypatch.setattr(clustering, "MOST", 4)
    frame = visits(seed=1).select("label", "logit", "x", "v")
    whole = calcli.evaluate(frame, metrics="cece")
    place = ((frame["x"] > 0).cast(pl.Int64) + 2 * (frame["v"] > 0).cast(pl.Int64)).to_numpy()
    assert whole.value("raw", "cece") == pytest.approx(over(frame, place), abs=5e-3)
    monkeypatch.setattr(clustering, "SAMPLE", 300)
    assert calcli.evaluate(frame, metrics="cece").value("raw", "cece") == pytest.approx(over(frame, place), abs=5e-3)
    monkeypatch.setattr(clustering, "SAMPLE", 100_000)
    monkeypatch.setattr(collect, "HELD", 500)
    summed = calcli.evaluate(frame, metrics="cece")
    assert summed.value("raw", "cece") == pytest.approx(whole.value("raw", "cece"), rel=1e-12)
    assert summed.definitions == whole.definitions


@pytest.mark.parametrize("kind", ["importance", "counts"])
def test_rows_of_weight_zero_form_no_clusters(kind: str) -> None:
    frame = visits(seed=1).select("label", "logit", "x", "v").with_columns(w=pl.int_range(pl.len()) % 3)
    far = frame.with_columns(x=pl.when(pl.col("w") == 0).then(1e6).otherwise("x"))
    kept = frame.filter(pl.col("w") > 0)
    one, other = (calcli.evaluate(rows, metrics="cece", weight="w", weight_kind=kind) for rows in (far, kept))
    assert one.value("raw", "cece") == pytest.approx(other.value("raw", "cece"), rel=1e-12)


def test_without_features_there_is_a_reason(here: Path) -> None:
    report = calcli.evaluate(visits().select("label", "logit"))
    found = report.score("raw").metrics["cece"]
    assert found.value is None
    assert "there are no clusters" in found.reason
    assert report.value("raw", "nll") is not None


def test_words_that_never_repeat_form_no_clusters(here: Path) -> None:
    frame = visits().select("label", "logit").with_row_index("id")
    frame = frame.select("label", "logit", pl.format("visit {}", pl.col("id") % 250).alias("place"))
    found = calcli.evaluate(frame).score("raw").metrics["cece"]
    assert found.value is None
    assert "there are no clusters" in found.reason


def test_scores_of_others_are_no_features(here: Path) -> None:
    frame = visits().with_columns(theirs=1 / (1 + (-pl.col("logit")).exp()))
    report = calcli.evaluate(frame, scores=("theirs",))
    assert report.definitions["cece"].clusters["source"] == "k-means on 3 features"


def test_fit_and_compare_form_no_clusters(here: Path) -> None:
    assert "cece" not in calcli.fit("train.parquet", method="platt", output="m").report.definitions
    report = calcli.fit("train.parquet", method="platt", output="m", metrics="nll,cece").report
    assert report.value("platt", "cece") is None


def test_groups_and_the_bootstrap_know_the_clusters(here: Path) -> None:
    frame = visits(seed=1)
    report = calcli.evaluate(frame, metrics="cece", clusters_from="site", by=("site",), bootstrap=50)
    assert report.score("raw").metrics["cece"].null_hi is not None
    prob = 1 / (1 + np.exp(-frame["logit"].to_numpy()))
    for group in report.groups:
        inside = (frame["site"].fill_null("?") == (group["group"] or "?")).to_numpy()
        gap = abs(prob[inside].mean() - frame["label"].to_numpy()[inside].mean())
        assert group["metrics"]["cece"]["value"] == pytest.approx(gap)


@pytest.fixture(scope="module")
def ccl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("ccl") / "m.ccl"
    calcli.fit(visits(), method="ccl", params={"clusters": 6, "embedding": "features"}, output=output)
    return output


@pytest.fixture
def clustered(here: Path, ccl: Path) -> Path:
    shutil.copytree(ccl, "m.ccl")
    return here


def test_the_clusters_of_an_artifact_come_first(clustered: Path) -> None:
    calcli.fit("train.parquet", method="platt", output="m.platt")
    report = calcli.evaluate("test.parquet", artifacts=("m.platt", "best=m.ccl"), metrics="cece")
    model = calcli.load("m.ccl")
    assert report.definitions["cece"].clusters == {"source": "artifact best", "k": 6, "sha256": model.sha256}
    calcli.apply("m.ccl", "test.parquet", "out.parquet", extra=True)
    out = pl.read_parquet("out.parquet")
    assert out.columns[-3:] == ["calibrated", "calibrated__logit", "calibrated__cluster"]
    place = out["calibrated__cluster"].to_numpy().astype(np.int64)
    assert report.value("raw", "cece") == pytest.approx(over(out, place), rel=1e-12)
    named = calcli.evaluate("test.parquet", artifacts=("m.ccl",), metrics="cece", clusters_from="site")
    assert named.definitions["cece"].clusters["source"] == "column site"


def test_ccl_lowers_what_it_is_made_to_lower(clustered: Path) -> None:
    calcli.fit("train.parquet", method="platt", output="m.platt")
    report = calcli.evaluate("test.parquet", artifacts=("m.platt", "m.ccl"))
    for metric in ("nll", "cece"):
        assert report.value("m.ccl", metric) < report.value("m.platt", metric) < report.value("raw", metric)
    manifest = store.read(Path("m.ccl")).manifest
    assert not manifest.contains_rows, "centroids and calibrators"


def test_rules_are_shown(clustered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "m.ccl", "--rules"]) == 0
    shown = capsys.readouterr().out
    for part in ("homogeneity", "set_apart_by", "ada_ece_ccl", "share of rows in clusters", "site=north"):
        assert part in shown
    assert main(["inspect", "m.ccl", "--rules", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    ANSWERS_SCHEMA.validate(answer)
    assert [len(section["rows"]) for section in answer["rules"]] == [10, 3, 6, 6]
    assert main(["inspect", "m.ccl"]) == 0
    plain = capsys.readouterr().out
    assert "clusters = 6" in plain
    assert "{" not in plain


def test_a_model_is_kept_and_asked_for_again(here: Path) -> None:
    catboost = pytest.importorskip("catboost")
    frame = visits()
    data = catboost.Pool(frame.select("x", "v").to_pandas(), frame["label"].to_numpy())
    model = catboost.CatBoostClassifier(iterations=10, depth=3, verbose=0, allow_writing_files=False).fit(data)
    model.save_model("theirs.cbm")
    sides = SideFiles(model="theirs.cbm", embedding_data="test.parquet")
    kept = calcli.fit(
        "train.parquet", method="ccl", params={"clusters": 6, "temperature": 0, "tau": 10}, sides=sides, output="m.ccl"
    )
    Path("theirs.cbm").unlink()
    again = calcli.load("m.ccl")
    np.testing.assert_array_equal(again.predict(frame), kept.model.predict(frame))
    with pytest.raises(UsageError, match="give it again: sides="):
        calcli.refit("m.ccl", "train.parquet")
    calcli.refit("m.ccl", "train.parquet", sides=SideFiles(embedding_data="test.parquet"))


def test_apply_streams_what_the_whole_table_gets(clustered: Path) -> None:
    big = pl.concat([visits(seed=seed) for seed in range(5)])
    big.write_parquet("big.parquet", row_group_size=700)
    calcli.apply("m.ccl", "big.parquet", "out.parquet")
    np.testing.assert_array_equal(pl.read_parquet("out.parquet")["calibrated"], calcli.load("m.ccl").predict(big))


def test_rejection_is_in_the_report_and_on_the_screen(clustered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = calcli.evaluate("test.parquet", artifacts=("m.ccl",), rejection=True)
    text = json.loads(json.dumps(report.to_json(), allow_nan=False))
    REPORT_SCHEMA.validate(text)
    points = text["rejection"]
    frame = visits(seed=1)
    wrong = (frame["logit"] > 0) != (frame["label"] == 1)
    start = next(one for one in points if (one["score"], one["by"], one["x"]) == ("raw", "rate", 0.0))
    assert start["y"] == pytest.approx(wrong.mean())
    assert start["n"] == frame.height
    half = frame.select(pl.col("logit").abs(), wrong=wrong).sort("logit", descending=True).head(600)
    middle = next(one for one in points if (one["score"], one["by"], one["x"]) == ("raw", "rate", 0.5))
    assert middle["y"] == pytest.approx(half["wrong"].mean())
    assert {one["score"] for one in points} == {"raw", "m.ccl"}
    assert main(["evaluate", "test.parquet", "--rejection"]) == 0
    shown = capsys.readouterr().out
    assert f"0 %  {start['y']:.4f}" in shown
    assert "threshold" in shown
