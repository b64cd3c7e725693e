"""The verb: the same numbers everywhere, files that are whole, and errors that say what exists."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.calibration import calibration_curve

import calcli
from calcli.cli.main import main
from calcli.diagrams.curves import by_kind
from calcli.diagrams.image import PAGE_FORMATS
from calcli.errors import DataError, FileSystemError, UsageError
from calcli.numeric.links import sigmoid, softmax
from tests.support.samples import breeds, clicks


@pytest.fixture
def fitted(here: Path, fit_once: Callable[..., None]) -> Path:
    fit_once("train.parquet", "m", method="platt", holdout="none")
    breeds().write_csv("breeds.csv")
    return here


@pytest.mark.parametrize(("flags", "bins"), [((), 15), (("--bins", "auto"), 13)])
def test_the_ece_of_a_picture_is_that_of_the_report(
    here: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], bins: int
) -> None:
    """One table, one number: in `evaluate`, its page, `diagram` and what stands above a picture."""
    assert main(["evaluate", "test.parquet", "--format", "json", "--html", "page.html", *flags]) == 0
    value = json.loads(capsys.readouterr().out)["scores"][0]["metrics"]["ece"]["value"]
    assert main(["diagram", "test.parquet", "--format", "json", *flags]) == 0
    assert json.loads(capsys.readouterr().out)["readings"][0]["error"] == pytest.approx(value, rel=1e-12)
    assert main(["diagram", "test.parquet", *flags]) == 0
    above = f"ECE, {bins} bins: {value:.4f}"
    assert above in capsys.readouterr().out
    assert above in Path("page.html").read_text()


def test_the_picture_is_of_the_rows_of_the_table(fitted: Path) -> None:
    found = calcli.diagram("test.parquet", artifacts=("m",), bins=9)
    frame = clicks(seed=1)
    raw = sigmoid(frame["logit"].to_numpy().copy())
    for curve, prob in zip(found.curves, (raw, calcli.load("m").predict(frame)), strict=True):
        happened, said = calibration_curve(frame["label"], prob, n_bins=9)
        assert [point.x for point in curve.points] == pytest.approx(said)
        assert [point.y for point in curve.points] == pytest.approx(happened)
    assert [(curve.score, curve.of, curve.kind) for curve in found.curves] == [
        ("raw", "1", "reliability"),
        ("m", "1", "reliability"),
    ]


def test_a_picture_for_each_value_of_a_column(fitted: Path) -> None:
    """Each is that of a table with these rows alone; rows without a value come last."""
    town = np.array(["oslo", "rome", None])[np.random.default_rng(0).integers(0, 3, len(clicks()))]
    frame = clicks(seed=1).with_columns(town=pl.Series(town.tolist(), dtype=pl.String), third=pl.lit(1))
    found = calcli.diagram(frame, artifacts=("m",), by=("town", "third"))
    assert [curve.score for curve in found.curves] == [
        *(f"{score}, town = {name}" for name in ("oslo", "rome", "null") for score in ("raw", "m")),
        *(f"{score}, third = 1" for score in ("raw", "m")),
    ]
    for place, name in enumerate(("oslo", "rome", None)):
        alone = calcli.diagram(frame.filter(pl.col("town").eq_missing(name)), artifacts=("m",)).curves
        for one, other in zip(found.curves[2 * place : 2 * place + 2], alone, strict=True):
            assert one.points == other.points
            assert one.error == other.error
    assert found.curves[-1].points == calcli.diagram(frame, artifacts=("m",)).curves[1].points
    with pytest.raises(DataError, match="by: no column 'twon'"):
        calcli.diagram(frame, by=("twon",))
    with pytest.raises(DataError, match="more than 30 different values"):
        calcli.diagram(frame.with_columns(row=pl.int_range(pl.len()).cast(pl.String)), by=("row",))


def test_the_report_of_evaluate_has_the_numbers_of_the_picture(fitted: Path) -> None:
    report = calcli.evaluate("test.parquet", artifacts=("m",), rejection=True)
    bars = calcli.diagram("test.parquet", artifacts=("m",))
    rejection = calcli.diagram("test.parquet", artifacts=("m",), kind="rejection")
    assert report.to_json()["curves"] == by_kind([*bars.curves, *rejection.curves])
    assert bars.to_json()["curves"] == {"reliability": report.to_json()["curves"]["reliability"], "rejection": []}  # type: ignore[index,call-overload]
    assert calcli.evaluate("test.parquet").to_json()["curves"]["rejection"] == []  # type: ignore[index,call-overload]


def test_the_report_of_more_rows_than_are_held_has_them_too(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = calcli.evaluate("test.parquet", artifacts=("m",), rejection=True)
    monkeypatch.setattr("calcli.verbs.score_passes.HELD", 100)
    summed = calcli.evaluate("test.parquet", artifacts=("m",), rejection=True)
    assert [len(curve.points) for curve in summed.curves] == [len(curve.points) for curve in whole.curves]
    for one, other in zip(summed.curves, whole.curves, strict=True):
        assert [point.y for point in one.points] == pytest.approx([point.y for point in other.points], rel=1e-12)


def test_the_reports_of_fit_compare_and_refit_have_curves_of_held_out_rows(fitted: Path) -> None:
    fit = calcli.fit("train.parquet", method="platt", output="again")
    assert fit.report is not None
    compared = calcli.compare("train.parquet", methods="platt").report
    refitted = calcli.refit("again", "test.parquet").report
    for report, names in (
        (fit.report, ["raw", "platt"]),
        (compared, ["identity", "platt"]),
        (refitted, ["raw", "in place", "platt"]),
    ):
        assert len({curve.score for curve in report.curves}) == len(names)
        for curve in report.curves:
            assert sum(point.n for point in curve.points) == 2000
    raw = next(curve for curve in fit.report.curves if curve.score == "raw")
    frame = pl.read_parquet("train.parquet")
    happened, _ = calibration_curve(frame["label"], sigmoid(frame["logit"].to_numpy().copy()), n_bins=15)
    assert [point.y for point in raw.points] == pytest.approx(happened)


def test_without_held_out_rows_the_raw_score_alone_is_shown(here: Path) -> None:
    report = calcli.fit("train.parquet", method="platt", holdout="none", output="m").report
    assert report is not None
    assert [curve.score for curve in report.curves] == ["raw"]


# Classes


def test_the_positive_class_is_named_as_it_is(here: Path) -> None:
    frame = pl.DataFrame({"label": ["b", "a", "b", "a"], "prob": [0.9, 0.2, 0.8, 0.4]})
    for positive, came in (("b", 1.0), ("a", 0.0)):
        found = calcli.diagram(frame, flags=calcli.Flags(positive=positive), bins=1)
        assert [(curve.of, curve.points[0].y) for curve in found.curves] == [(positive, 0.5)]
        high = calcli.diagram(frame, flags=calcli.Flags(positive=positive), bins=2).curves[0].points[-1]
        assert (high.x, high.y) == (pytest.approx(0.85), came)
        report = calcli.evaluate(frame, flags=calcli.Flags(positive=positive))
        assert {curve.of for curve in report.curves} == {positive}


def test_classes_that_are_asked_for(fitted: Path) -> None:
    def shown(*classes: str) -> list[str | None]:
        return [curve.of for curve in calcli.diagram("breeds.csv", classes=classes).curves]

    assert shown() == [None]
    assert shown("all") == ["a", "b", "c", "d"]
    assert shown("c", "top", "c") == ["c", None]
    with pytest.raises(UsageError, match=r"no class 'e'; available: a, b, c, d, top, all"):
        shown("e")
    assert [curve.of for curve in calcli.diagram("test.parquet", classes=("all", "top")).curves] == ["0", "1", None]


def test_a_class_that_is_called_top(here: Path) -> None:
    frame = pl.DataFrame({"label": ["top", "b"] * 10, "prob": [0.9, 0.2] * 10})
    found = calcli.diagram(frame, classes=("top",), flags=calcli.Flags(positive="b"))
    assert found.curves[0].of == "top"


def test_each_class_is_against_the_rest(fitted: Path) -> None:
    frame = breeds()
    prob = softmax(frame.select("logit_a", "logit_b", "logit_c", "logit_d").to_numpy())
    for place, curve in enumerate(calcli.diagram("breeds.csv", classes=("all",)).curves):
        happened, _ = calibration_curve(frame["label"] == "abcd"[place], prob[:, place], n_bins=15)
        assert [point.y for point in curve.points] == pytest.approx(happened)


# Files


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=pytest.mark.slow) if form == "pdf" else form for form in PAGE_FORMATS]
)
def test_each_kind_of_file(form: str, fitted: Path) -> None:
    calcli.diagram("test.parquet", artifacts=("m",), output=f"x.{form.upper()}")
    begin = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!DOCTYPE html>"}[form]
    content = Path(f"x.{form.upper()}").read_bytes()
    assert content.startswith(begin)
    if form == "html":  # with a name that does not say it
        calcli.diagram("test.parquet", artifacts=("m",), output="named", output_format=form)
        assert Path("named").read_bytes() == content
    assert not [path for path in fitted.iterdir() if path.name.startswith(".")]


def test_a_page_has_curves_of_every_kind_and_the_numbers_of_one(fitted: Path) -> None:
    found = calcli.diagram("test.parquet", output="x.html", kind="smooth")
    assert [curve.kind for curve in found.curves] == [
        *("smooth", "reliability", "corp", "rejection"),
        *["benefit"] * 3,  # and acting on all and on none
    ]
    assert [curve.kind for curve in found.shown] == ["smooth"]
    assert len(found.to_json()["curves"]["reliability"]) == len(found.shown[0].points)  # type: ignore[index,call-overload,arg-type]
    text = Path("x.html").read_text()
    assert "<title>Predicted and happened: test.parquet</title>" in text
    assert "2,000 rows" in text


@pytest.mark.parametrize(
    ("output", "given", "message"),
    [
        ("x.gif", None, r"'x.gif': unknown suffix for an image; known are .png, .svg, .pdf, .html"),
        ("x", None, "unknown suffix for an image"),
        ("-", None, "a stream has no suffix that gives its format"),
        ("x.png", "jpg", r"no picture format 'jpg'; did you mean 'png'\? available: png, svg, pdf, html"),
    ],
)
def test_a_file_of_an_unknown_kind_is_refused_before_anything_is_read(
    output: str, given: str | None, message: str, here: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        calcli.diagram("not-there.parquet", output=output, output_format=given)


def test_where_a_file_cannot_be_nothing_is_left(fitted: Path) -> None:
    with pytest.raises(FileSystemError, match="there is no directory"):
        calcli.diagram("test.parquet", output="not/there.png")
    Path("x.svg").mkdir()
    with pytest.raises(FileSystemError, match="it is a directory"):
        calcli.diagram("test.parquet", output="x.svg")
    before = {path.name for path in fitted.iterdir()}
    with pytest.raises(DataError):
        calcli.diagram(clicks().with_columns(logit=pl.lit(None, pl.Float64)), output="y.png")
    assert {path.name for path in fitted.iterdir()} == before


def test_a_file_takes_the_place_of_another(fitted: Path) -> None:
    Path("x.svg").write_text("old")
    Path("x.svg").chmod(0o640)
    calcli.diagram("test.parquet", output="x.svg")
    assert Path("x.svg").read_text().startswith("<?xml")
    assert Path("x.svg").stat().st_mode & 0o777 == 0o640


# The rest


def test_columns_that_are_calibrated_already(here: Path) -> None:
    frame = clicks().with_columns(better=1 / (1 + (-pl.col("logit") / 2).exp()))
    found = calcli.diagram(frame, scores=("better", "same=better"))
    assert [curve.score for curve in found.curves] == ["raw", "better", "same"]
    assert found.curves[1].points == found.curves[2].points
    assert found.curves[1].error < found.curves[0].error


def test_weights_add_up_to_the_effective_number_of_rows(here: Path) -> None:
    frame = clicks()
    found = calcli.diagram(frame, flags=calcli.Flags(weight="w"))
    effective = frame["w"].sum() ** 2 / (frame["w"] ** 2).sum()
    assert sum(point.n for point in found.curves[0].points) == pytest.approx(effective, rel=1e-7)
    assert found.data.weight_sum == pytest.approx(effective, rel=1e-7)


@pytest.mark.parametrize("kind", ["reliability", "smooth", "rejection"])
def test_the_scale_of_weights_does_not_matter(kind: Any) -> None:
    frame = clicks(300)
    flags = calcli.Flags(weight="w")
    plain = calcli.diagram(frame, flags=flags, kind=kind).curves[0]
    for scale in (1e-200, 1e200):
        scaled = calcli.diagram(frame.with_columns(pl.col("w") * scale), flags=flags, kind=kind).curves[0]
        for one, other in zip(plain.points, scaled.points, strict=True):
            assert (one.n, one.y, one.lo, one.hi) == pytest.approx((other.n, other.y, other.lo, other.hi), rel=1e-6)


@pytest.mark.parametrize("kind", ["reliability", "rejection", "benefit"])
def test_groups_none_of_whose_rows_count_have_an_empty_picture(kind: Any, here: Path) -> None:
    frame = clicks(40).with_columns(w=pl.lit(0.0))
    found = calcli.diagram(frame, kind=kind, by=("age",), flags=calcli.Flags(weight="w"), output="empty.svg")
    assert {one["text"] for one in found.to_json()["readings"]} == {"No data: there are no rows."}
    assert Path("empty.svg").exists()


def test_bad_rows_are_refused_or_left_out(here: Path) -> None:
    frame = clicks().with_columns(logit=pl.when(pl.col("row_id") < 3).then(None).otherwise("logit"))
    with pytest.raises(DataError, match="3 bad rows of 2,000"):
        calcli.diagram(frame)
    found = calcli.diagram(frame, bad_rows="null")
    assert sum(point.n for point in found.curves[0].points) == 1997
    assert (found.data.rows, found.data.rows_bad) == (2000, 3)


@pytest.mark.parametrize("kind", ["reliability", "smooth", "rejection"])
def test_how_the_rows_come_in_chunks_does_not_matter(kind: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = clicks(10_000)
    frame.write_parquet("one.parquet", row_group_size=10_000)
    frame.write_parquet("many.parquet", row_group_size=500)
    one, many = (calcli.diagram(path, kind=kind).curves[0] for path in ("one.parquet", "many.parquet"))
    np.testing.assert_allclose([point.y for point in one.points], [point.y for point in many.points], rtol=1e-9)


def test_what_json_says_is_json(fitted: Path) -> None:
    found = calcli.diagram("test.parquet", artifacts=("m",), binning="mass", bands="bootstrap").to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["kind"], found["bins"], found["binning"], found["bands"]) == ("reliability", 15, "mass", "bootstrap")
    assert [one["score"] for one in found["readings"]] == ["raw", "m"]  # type: ignore[index,call-overload,union-attr]


@pytest.mark.parametrize("wrong", [{"kind": "bar"}, {"bands": "both"}, {"binning": "equal"}, {"bins": 0}], ids=str)
def test_what_does_not_exist_is_refused(wrong: dict[str, Any], here: Path) -> None:
    with pytest.raises(UsageError):
        calcli.diagram("train.parquet", **wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"artifacts": tuple(f"s{place}=m" for place in range(6)), "overlay": True}, "7 curves are too many"),
        ({"kind": "murphy", "cost_fp": 1.0, "cost_fn": 2.0}, "are of kind='benefit'"),
        ({"kind": "benefit", "cost_fp": 1.0}, "cost_fn= is not given"),
        ({"kind": "benefit", "cost_fp": "amount", "cost_fn": 2.0}, "the same for all rows"),
        ({"kind": "benefit", "cost_fp": 0.0, "cost_fn": 2.0}, "costs above 0"),
        ({"kind": "benefit", "cost_fp": 1.0, "cost_fn": 9.0, "least": 0.2}, "0.1, which follows from the costs"),
        ({"kind": "corp", "least": 0.1}, "has no thresholds"),
        ({"kind": "corp", "bins": 9}, "kind=.corp. has no bins"),
        ({"kind": "smooth", "binning": "mass"}, "kind=.smooth. has no bins"),
        ({"kind": "benefit", "least": 0.4, "most": 0.1}, "they rise"),
        ({"kind": "rejection", "axis": "log"}, "no axis of probabilities"),
    ],
)
def test_what_a_picture_cannot_have_is_refused(fitted: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        calcli.diagram("test.parquet", **options)


def test_costs_are_the_threshold_around_which_curves_are_drawn(here: Path) -> None:
    """At it a curve is what the mistakes of a group cost where nobody gets yes, less what they cost with the score."""
    frame = clicks().with_columns(device=pl.when(pl.col("age") < 40).then(pl.lit("phone")).otherwise(pl.lit("tv")))
    found = calcli.diagram(frame, kind="benefit", cost_fp=1.0, cost_fn=4.0, by=("device",), output="page.html")
    document = found.to_json()
    assert document["costs"] == {"fp": 1.0, "fn": 4.0}
    for device in ("phone", "tv"):
        (curve,) = (one for one in found.shown if one.score == f"raw, device = {device}")
        thresholds = [point.x for point in curve.points]
        assert (thresholds[0], thresholds[-1]) == pytest.approx((1 / 17, 1 / 2))
        rows = frame.filter(device=device).with_columns(yes=pl.col("logit") >= np.log(0.2 / 0.8))
        missed = rows.filter(pl.col("label") == 1).height - rows.filter("yes", label=1).height
        paid = 4 * missed + rows.filter("yes", label=0).height
        saved = (4 * rows["label"].sum() - paid) / rows.height
        assert next(point.y for point in curve.points if point.x == 0.2) == pytest.approx(saved)
        assert f">Net benefit, device = {device}<" in Path("page.html").read_text()
