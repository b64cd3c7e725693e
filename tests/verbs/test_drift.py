"""Has the calibration moved? Asked of nights that come one after the other."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.artifacts import store
from calcli.errors import ArtifactError, FileSystemError, UsageError
from calcli.numeric.e_process import CHANCES, EProcess, directions
from calcli.numeric.links import logit, sigmoid
from calcli.reports.drift_baseline import DriftBaseline
from calcli.verbs.drift import drift_baseline_of
from calcli.verbs.drift_log import LEARNED
from calcli.verbs.evaluate import EvaluateRequest, evaluate
from tests.support.drift import learned
from tests.support.listener import Recorder
from tests.support.samples import breeds


def night(rows: int, seed: int, shift: float = 0.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    z = rng.normal(-1, 1.2, rows)
    label = rng.random(rows) < sigmoid(z + shift)
    return pl.DataFrame({"label": label.astype(np.int8), "logit": 2 * z + 0.5})


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fit_once: Callable[..., None]) -> Path:
    monkeypatch.chdir(tmp_path)
    night(8000, 0).write_parquet("train.parquet")
    fit_once("train.parquet", "kept", method="platt")
    return tmp_path


def asked(frame: pl.DataFrame, **more: Any) -> dict[str, Any]:
    frame.write_parquet("night.parquet")
    found = calcli.evaluate("night.parquet", drift="kept", metrics="nll", **more).drift
    assert found is not None
    return dict(found)


def test_residuals_of_the_fit_are_those_of_rows_that_were_held_out(kept: Path) -> None:
    """Written out on a method that learns nothing: identity."""
    frame = night(3000, 4)
    model = calcli.fit(frame, method="identity", output="plain").model
    assert model is not None
    found = drift_baseline_of(model)
    assert found is not None
    z = frame["logit"].to_numpy()
    residual = frame["label"].to_numpy() - sigmoid(z)
    along = directions(z, z.mean(), z.std())
    np.testing.assert_allclose(found.mean[0], (along * residual).mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.error[0], (along * residual).std(axis=1) / np.sqrt(3000), rtol=1e-9)


def test_a_shift_is_found_and_dated(kept: Path) -> None:
    asked(night(1000, 99))
    learned("kept.drift.json")
    for place in range(1, 21):
        found = asked(night(1000, place, 0.3 if place > 4 else 0.0))
        assert found["nights"] == LEARNED + place
        if found["drifted"]:
            break
        assert found["since"] is None
    assert 5 <= place <= 12
    assert abs(found["since"] - LEARNED - 5) <= 1
    assert found["what"] == "the predictions are too low"
    state = json.loads(Path("kept.drift.json").read_text())
    assert state["schema"] == "calcli.drift/3"
    assert found["since_at"] == state["nights"][found["since"] - 1]["at"]


def test_nothing_is_said_before_it_is_known_how_much_nights_differ(kept: Path) -> None:
    """However far off the first night is; then the first four weeks alone tell, and count for nothing."""
    found = asked(night(1000, 1, 2.0))
    assert (found["drifted"], found["evidence"], found["learning"]) == (False, pytest.approx(1.0), LEARNED - 1)
    learned("kept.drift.json")
    found = asked(night(1000, 2))
    assert (found["nights"], found["learning"]) == (LEARNED + 1, 0)
    assert found["evidence"] != pytest.approx(1.0)


def test_nights_that_have_always_differed_are_no_drift(kept: Path) -> None:
    """A residual of 0.05 in 1,000 rows is four standard errors, and a common one where nights differ by as much."""
    odd = [night(1000, place, 0.3) for place in range(6)]
    for state, spread in (("alike.json", 0.0), ("unlike.json", 0.05)):
        asked(night(1000, 99), state=state)
        learned(state, spread)
        found = [asked(frame, state=state)["drifted"] for frame in odd]
        assert found[-1] is (spread == 0.0)


def test_a_log_of_before_is_read_and_goes_on(kept: Path) -> None:
    """Without the number of nights on which nothing was bet: they were none."""
    asked(night(1000, 99))
    learned("kept.drift.json")
    log = json.loads(Path("kept.drift.json").read_text())
    wealth = EProcess.at_first(CHANCES)
    for _ in log["nights"]:
        wealth = wealth.after(np.full(len(CHANCES), 0.1))
    log["wealth"] = {name: getattr(wealth, name).tolist() for name in ("logs", "best", "since")}
    Path("kept.drift.json").write_text(json.dumps(log))
    assert asked(night(1000, 99))["evidence"] == pytest.approx(np.exp(wealth.evidence))
    assert asked(night(1000, 1))["nights"] == LEARNED + 1


def test_the_units_of_a_fit_widen_what_is_tolerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a user that share an effect: the error by users is a multiple of that by rows, and without is warned."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    user, z = np.repeat(np.arange(80), 50), rng.normal(-1, 1.2, 4000)
    label = rng.random(4000) < sigmoid(z + rng.normal(size=80)[user])
    table = pl.DataFrame({"label": label.astype(np.int8), "logit": z, "user_id": user})
    by_row, by_user = (
        calcli.fit(table, method="platt", output=f"kept{unit}", resample_by=unit) for unit in (None, "user_id")
    )
    first, second = (drift_baseline_of(calcli.load(f"kept{unit}")) for unit in (None, "user_id"))
    assert first is not None
    assert second is not None
    assert second.error[0, 0] > 2 * first.error[0, 0]
    assert any("--drift" in one.message for one in by_row.report.warnings)
    assert not any("--drift" in one.message for one in by_user.report.warnings)


def test_files_that_were_seen_are_told_one_by_one(kept: Path) -> None:
    """A glob that grows by a day every day: only the new day's rows count."""
    Path("days").mkdir()
    for place in range(4):
        night(200 + place, place).write_parquet(f"days/{place}.parquet")
        grown = calcli.evaluate("days/*.parquet", drift="kept", metrics="nll", state="grown.json").drift
        alone = calcli.evaluate(f"days/{place}.parquet", drift="kept", metrics="nll", state="alone.json").drift
        assert grown is not None
        assert alone is not None
        assert grown["evidence"] == pytest.approx(alone["evidence"], rel=1e-9)
    nights = json.loads(Path("grown.json").read_text())["nights"]
    assert [each["rows"] for each in nights] == [200, 201, 202, 203]
    assert [len(each["files"]) for each in nights] == [1, 1, 1, 1]
    again = calcli.evaluate("days/*.parquet", drift="kept", metrics="nll", state="grown.json").drift
    assert again == grown


def test_no_drift_and_the_same_file_twice(kept: Path) -> None:
    first = asked(night(1000, 1))
    assert not first["drifted"]
    assert asked(night(1000, 1)) == first  # its rows are no news
    assert asked(night(1000, 2))["nights"] == 2


def test_a_refit_begins_anew(kept: Path) -> None:
    asked(night(1000, 1), state="there.json")
    assert asked(night(1000, 2), state="there.json")["nights"] == 2
    night(8000, 3, shift=3.0).write_parquet("new.parquet")
    calcli.refit("kept", "new.parquet")
    listener = Recorder()
    request = EvaluateRequest(night(1000, 4), drift="kept", state="there.json")
    assert (evaluate(request, listener).drift or {})["nights"] == 1
    assert "there.json had 2 nights of another fit, or of another artifact: the test begins anew" in listener.notes


def test_a_fit_that_knows_little_forgives_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    margins = []
    for rows in (300, 30_000):
        model = calcli.fit(night(rows, 0), method="platt", output=f"kept{rows}").model
        assert model is not None
        found = drift_baseline_of(model)
        assert found is not None
        margins.append(found.margin[0, 0].sum())
    assert margins[0] > 3 * margins[1]


def test_more_classes_say_which_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calcli.fit(breeds(4000), method="temperature", output="kept")
    asked(breeds(3000, seed=99))
    learned("kept.drift.json")
    for place in range(1, 8):
        rows = breeds(3000, seed=place)
        found = asked(rows.filter((pl.col("label") != "b") | (pl.int_range(pl.len()) % 4 == 0)))
        if found["drifted"]:
            break
    assert found["drifted"]
    assert found["what"] == "of class b, the predictions are too high"


def test_an_artifact_that_says_nothing_of_its_fit_is_refused(kept: Path) -> None:
    calcli.fit("train.parquet", method="platt", output="kept", holdout="none")
    assert drift_baseline_of(calcli.load("kept")) is None
    with pytest.raises(UsageError, match="fit it again, with a holdout= other than none"):
        asked(night(1000, 1))


def test_weights_count(kept: Path) -> None:
    """Rows of a weight that vanishes are as good as not there."""
    some, odd = night(600, 1), night(600, 2, 3.0)
    both = pl.concat([some.with_columns(w=1.0), odd.with_columns(w=1e-12)])
    flags = calcli.Flags(weight="w")
    asked(both, flags=flags, state="one.json")
    asked(some, state="two.json")
    (one,), (two,) = (json.loads(Path(name).read_text())["nights"] for name in ("one.json", "two.json"))
    np.testing.assert_allclose(one["mean"], two["mean"], rtol=1e-6)
    np.testing.assert_allclose(one["noise"], two["noise"], rtol=1e-6)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"schema": "other"}', '{"schema": "calcli.drift/4"}', '{"schema": "calcli.drift/3"}']
)
def test_a_state_that_is_none_is_refused(kept: Path, content: str) -> None:
    Path("kept.drift.json").write_text(content)
    with pytest.raises(ArtifactError, match=r"kept\.drift\.json is no state of drift=.*(move it away|with state=)"):
        asked(night(100, 1))
    assert Path("kept.drift.json").read_text() == content


@pytest.mark.parametrize("key", ["logs", "best", "since", "waited"])
@pytest.mark.parametrize("value", [None, 7, "x", [None], [1e308]])
def test_a_state_with_other_bets_is_refused(kept: Path, key: str, value: object) -> None:
    asked(night(100, 1))
    state = json.loads(Path("kept.drift.json").read_text())
    if (key, value) != ("waited", 7):
        state["wealth"][key] = value
        Path("kept.drift.json").write_text(json.dumps(state))
        with pytest.raises(ArtifactError, match=r"kept\.drift\.json is no state of drift=.*move it away"):
            asked(night(100, 2))


def test_a_link_to_the_log_stays_one(kept: Path) -> None:
    """As with other outputs: a log that is kept on another disk would be lost with this one."""
    Path("disk").mkdir()
    Path("log.json").symlink_to("disk/log.json")
    for index in (1, 2):
        assert asked(night(100, index), state="log.json")["nights"] == index
    assert Path("log.json").is_symlink()
    assert {path.name for path in Path("disk").iterdir()} == {"log.json"}


def test_a_state_that_cannot_be_written_is_said(kept: Path) -> None:
    with pytest.raises(FileSystemError):
        asked(night(100, 1), state="train.parquet/x.json")


def test_a_state_in_a_directory_that_is_not_there_makes_none(kept: Path) -> None:
    """As other files that are written: evidence that is kept at a mistyped path would begin anew each time."""
    with pytest.raises(FileSystemError, match="there is no directory"):
        asked(night(100, 1), state="nowhere/x.json")
    assert not Path("nowhere").exists()


def test_a_state_without_a_question_is_refused(kept: Path) -> None:
    with pytest.raises(UsageError, match="add drift='ARTIFACT'"):
        calcli.evaluate("train.parquet", state="x.json")


def test_nights_that_come_at_once_are_all_counted(kept: Path) -> None:
    for place in range(6):
        night(200, place).write_parquet(f"n{place}.parquet")

    def ask(place: int) -> None:
        calcli.evaluate(f"n{place}.parquet", drift="kept", metrics="nll")

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(Path("kept.drift.json").read_text())["nights"]) == 6


def test_old_artifacts_have_no_residuals(kept: Path) -> None:
    """What `to_json` wrote comes back; anything else is nothing."""
    given = DriftBaseline.of(sigmoid(logit(np.array([0.2, 0.7, 0.4]))), np.array([0, 1, 1]), None)
    back = DriftBaseline.from_json(json.loads(json.dumps(given.to_json())))
    assert back is not None
    np.testing.assert_array_equal(back.margin, given.margin)
    assert DriftBaseline.from_json(None) is None
    assert store.read("kept").manifest.fit["residuals"] is not None


def test_no_lock_stays_beside_a_state(kept: Path) -> None:
    asked(night(1000, 1), state="there.json")
    assert [path.name for path in Path().glob(".*")] == []
