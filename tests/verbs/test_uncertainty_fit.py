"""Fitting: what is trained, that the same fit has the same bytes, and that a killed one goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from calcli.artifacts import store
from calcli.errors import ArtifactError, DataError, FileSystemError, FitError, UsageError
from calcli.models.calibrator import load
from calcli.models.ensemble import load_ensemble
from calcli.tables.binding_types import Flags
from calcli.uncertainty.ensemble import DEPTHS, RATES, Ensemble, Settings
from calcli.verbs.inspect import inspect
from calcli.verbs.uncertainty import EnsembleRequest, fit
from tests.support.ensembles import FEW, ensemble, table
from tests.support.listener import Recorder
from tests.support.shell import ROOT

catboost = pytest.importorskip("catboost")


def payloads(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir() if entry.name.startswith("state-")}


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        *(("binary", kind) for kind in ("sglb", "sgb", "virtual")),
        *((task, "sglb") for task in ("multiclass", "regression")),
        *(
            pytest.param(*both, marks=pytest.mark.slow)
            for both in product(("multiclass", "regression"), ("sgb", "virtual"))
        ),
    ],
)
def test_what_was_trained_is_what_catboost_was_told(task: str, kind: str, tmp_path: Path) -> None:
    found = ensemble(task, tmp_path / "e", ensemble=kind)
    kept = load_ensemble(tmp_path / "e").ensemble
    assert (kept.kind, kept.task, kept.count) == (kind, task, 3)
    assert len(kept.models) == (1 if kind == "virtual" else 3)
    loss = {"binary": "Logloss", "multiclass": "MultiClass", "regression": "RMSEWithUncertainty"}[task]
    for model in kept.models:
        params = model.get_all_params()
        assert (params["loss_function"], params["iterations"], params["depth"]) == (loss, 12, 3)
        assert params["learning_rate"] == pytest.approx(0.1)
        if kind == "sgb":
            assert (params["bootstrap_type"], params["subsample"]) == ("Bernoulli", 0.5)
            assert not params.get("posterior_sampling", False)
        else:
            assert (params["bootstrap_type"], params["posterior_sampling"]) == ("No", True)
            assert params["diffusion_temperature"] == 300
            assert params["model_shrink_rate"] == pytest.approx(1 / 600)
    manifest = found.model.manifest
    assert (manifest.kind, manifest.task, manifest.method) == ("ensemble", task, kind)
    assert manifest.params == {"members": 3, "trees": 12, "depth": 3, "learning_rate": 0.1}


def test_members_differ_and_seeds_do() -> None:
    one, other = ensemble("binary").model.ensemble, ensemble("binary", seed=1).model.ensemble
    assert len({*one.files, *other.files}) == 6


def test_strings_and_nulls_are_what_catboost_makes_of_them() -> None:
    """A model that CatBoost trains on pandas rows, with texts and 'nan' for missing ones, predicts the same."""
    frame = table("regression")
    found = ensemble("regression", members=2).model.ensemble
    rows = frame.drop("row_id", "label").to_pandas()
    rows["color"] = [value if isinstance(value, str) else "nan" for value in rows["color"]]
    rows["flag"] = [np.nan if value is None else float(value) for value in rows["flag"]]
    pool = catboost.Pool(rows, frame["label"].to_numpy(), cat_features=["color"])
    params = found.models[0].get_all_params()
    told = {"iterations": 12, "depth": 3, "learning_rate": 0.1, "loss_function": "RMSEWithUncertainty"}
    theirs = catboost.CatBoost(
        told
        | {"posterior_sampling": True, "bootstrap_type": "No", "random_seed": params["random_seed"]}
        | {"verbose": False, "allow_writing_files": False, "thread_count": 1}
    ).fit(pool)
    assert isinstance(rows, pd.DataFrame)
    assert np.array_equal(theirs.predict(pool), found.models[0].predict(pool))


def test_the_same_fit_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("once", "again"):
        ensemble("multiclass", tmp_path / name)
    assert payloads(tmp_path / "once") == payloads(tmp_path / "again")


@pytest.mark.slow
def test_another_process_fits_the_same_bytes(tmp_path: Path) -> None:
    """One that has done nothing else before."""
    ensemble("multiclass", tmp_path / "here")
    code = (
        "from pathlib import Path; from tests.support.ensembles import ensemble\n"
        f"ensemble('multiclass', Path({str(tmp_path / 'there')!r}))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert payloads(tmp_path / "here") == payloads(tmp_path / "there")


def test_progress_is_told_by_model_and_by_tree() -> None:
    heard = Recorder()
    fit(EnsembleRequest(table("binary"), **FEW), heard)
    assert ("training", 3 * 12) in heard.stages
    assert [what for _, what in heard.steps if what] == [f"{count} of 3 models" for count in (1, 2, 3)]
    assert heard.done == 3 * 12


def test_a_stopped_fit_goes_on(tmp_path: Path) -> None:
    ensemble("binary", tmp_path / "whole")
    heard, request = Recorder("2 of 3"), EnsembleRequest(table("binary"), tmp_path / "e", **FEW)
    with pytest.raises(KeyboardInterrupt):
        fit(request, heard)
    assert "2 of 3 models are kept" in heard.notes[-1]
    assert not store.exists(tmp_path / "e")
    heard = Recorder()
    fit(request, heard)
    assert "2 of 3 models are there" in heard.notes[0]
    assert [steps for steps, _ in heard.steps if steps] == [2 * 12] + 12 * [1]
    assert payloads(tmp_path / "e") == payloads(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e", "whole"]


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"depth": 2}, {"trees": 13}, {"ensemble": "sgb"}, {"flags": Flags(ignore=("size",))}]
)
def test_another_fit_does_not_take_its_members(change: dict, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(EnsembleRequest(table("binary"), tmp_path / "e", **FEW), Recorder("2 of 3"))
    heard = Recorder()
    fit(EnsembleRequest(table("binary"), tmp_path / "e", **{**FEW, **change}), heard)
    assert [steps for steps, _ in heard.steps if steps] == 3 * change.get("trees", 12) * [1]
    assert [path.name for path in tmp_path.iterdir()] == ["e"]


@pytest.mark.slow
def test_killed_without_warning(tmp_path: Path) -> None:
    """As soon as its first model is saved, while others may be half trained."""
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from calcli.verbs.uncertainty import EnsembleRequest, fit\n"
        "from tests.support.ensembles import FEW, table\n"
        "from tests.support.listener import Recorder\n"
        "class Killer(Recorder):\n"
        "    def advance(self, steps, what=''):\n"
        "        super().advance(steps, what)\n"
        "        if what == '1 of 3 models':\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "fit(EnsembleRequest(table('binary'), Path(sys.argv[1]), **FEW), Killer())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "e")], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not store.exists(tmp_path / "e")
    heard = Recorder()
    fit(EnsembleRequest(table("binary"), tmp_path / "e", **FEW), heard)
    assert "1 of 3 models are there" in heard.notes[0]
    ensemble("binary", tmp_path / "whole")
    assert payloads(tmp_path / "e") == payloads(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e", "whole"]


def test_tuning_takes_the_least_log_loss_on_held_out_rows(tmp_path: Path) -> None:
    heard = Recorder()
    request = EnsembleRequest(table("regression"), tmp_path / "e", members=2, trees=8, tune=True)
    found = fit(request, heard)
    assert [(one.settings.learning_rate, one.settings.depth) for one in found.trials] == [
        (rate, depth) for rate in RATES for depth in DEPTHS
    ]
    best = min(found.trials, key=lambda trial: trial.loss).settings
    assert found.model.manifest.params["learning_rate"] == pytest.approx(best.learning_rate)
    assert found.model.manifest.params["depth"] == best.depth
    facts = found.model.manifest.fit
    assert facts["holdout"] == {"scheme": "0.2", "rows": 60, "refit_on_all": True}
    assert [one["nll"] for one in facts["trials"]] == [one.loss for one in found.trials]
    with pytest.raises(KeyboardInterrupt):
        fit(EnsembleRequest(table("regression"), tmp_path / "f", members=2, trees=8, tune=True), Recorder("1 of 2"))
    again = fit(EnsembleRequest(table("regression"), tmp_path / "f", members=2, trees=8, tune=True))
    assert [one.loss for one in again.trials] == [one.loss for one in found.trials]
    assert payloads(tmp_path / "e") == payloads(tmp_path / "f")


def test_tuning_holds_out_no_class_whole(tmp_path: Path) -> None:
    """A class of one row, which is dealt last: without it there would be nothing to train on."""
    frame = table("binary").with_columns(label=pl.when(pl.int_range(pl.len()) == 17).then(1).otherwise(0))
    found = fit(EnsembleRequest(frame, tmp_path / "e", members=2, trees=4, tune=True))
    assert all(np.isfinite(trial.loss) for trial in found.trials)


class TestTheUsersOwnModel:
    def trained(self, path: Path, frame: pl.DataFrame | None = None, **params) -> Path:
        frame = table("binary") if frame is None else frame
        rows = frame.select("size", "color").to_pandas()
        rows["color"] = rows["color"].fillna("nan")
        model = catboost.CatBoostClassifier(
            iterations=20, depth=3, random_seed=3, verbose=0, allow_writing_files=False, **params
        )
        model.fit(rows, frame["label"].to_list(), cat_features=["color"])
        model.save_model(str(path))
        return path

    def test_is_a_virtual_ensemble(self, tmp_path: Path) -> None:
        path = self.trained(tmp_path / "mine.cbm", posterior_sampling=True)
        found = fit(EnsembleRequest(table("binary"), tmp_path / "e", model=path, members=5))
        assert found.warnings == ()
        assert [feature.name for feature in found.binding.features] == ["size", "color"]
        assert "not read by the model" in {gone.reason for gone in found.binding.dropped}
        kept = load_ensemble(tmp_path / "e")
        assert kept.ensemble.files == (path.read_bytes(),), "a user's model is kept as it was handed in"
        assert kept.manifest.sides[0]["name"] == "mine.cbm"
        said = kept.predict(table("binary", seed=5))
        rows = table("binary", seed=5).select("size", pl.col("color").fill_null("nan")).to_pandas()
        theirs = (
            catboost.CatBoost()
            .load_model(str(path))
            .virtual_ensembles_predict(
                catboost.Pool(rows, cat_features=["color"]), "TotalUncertainty", virtual_ensembles_count=5
            )
        )
        np.testing.assert_allclose(said.data, theirs[:, 0], atol=1e-12)
        np.testing.assert_allclose(said.total, theirs[:, 1], atol=1e-12)
        path.unlink()
        assert inspect(tmp_path / "e").manifest.params["trees"] == 20

    def test_without_posterior_sampling_it_warns(self, tmp_path: Path) -> None:
        found = fit(EnsembleRequest(table("binary"), model=self.trained(tmp_path / "mine.cbm"), members=5))
        assert "not trained with posterior sampling" in found.warnings[0]

    def test_decides_on_classes_and_their_order(self, tmp_path: Path) -> None:
        frame = table("multiclass")
        path = self.trained(tmp_path / "mine.cbm", frame, class_names=["elk", "cat", "dog"], posterior_sampling=True)
        found = fit(EnsembleRequest(frame, model=path, members=5))
        assert found.binding.classes == ("elk", "cat", "dog")
        theirs = catboost.CatBoostClassifier().load_model(str(path))
        rows = frame.select("size", pl.col("color").fill_null("nan")).to_pandas()
        last = found.model.ensemble.members(_batch(found, frame).features).mean[:, -1]
        np.testing.assert_allclose(last, theirs.predict_proba(rows), atol=1e-9)

    def test_what_it_speaks_of_is_not_for_the_user_to_say(self, tmp_path: Path) -> None:
        path = self.trained(tmp_path / "mine.cbm")
        with pytest.raises(UsageError, match="the classes of the model are 1"):
            fit(EnsembleRequest(table("binary"), model=path, members=5, flags=Flags(positive="0")))

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({"trees": 5}, "--trees is for training"),
            ({"tune": True}, "--tune"),
            ({"ensemble": "sglb"}, "trains several"),
        ],
    )
    def test_is_trained_already(self, more: dict, said: str, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=said):
            fit(EnsembleRequest(table("binary"), model=tmp_path / "mine.cbm", **more))

    def test_too_few_trees(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="20 trees are too few for a virtual ensemble of 11 members"):
            fit(EnsembleRequest(table("binary"), model=self.trained(tmp_path / "mine.cbm"), members=11))

    def test_a_loss_without_a_distribution(self, tmp_path: Path) -> None:
        frame = table("regression")
        model = catboost.CatBoostRegressor(iterations=20, verbose=0, allow_writing_files=False)
        model.fit(frame.select("size").to_pandas(), frame["label"].to_numpy())
        model.save_model(str(tmp_path / "mine.cbm"))
        with pytest.raises(DataError, match=r"trained with the loss RMSE, .*RMSEWithUncertainty"):
            fit(EnsembleRequest(frame, model=tmp_path / "mine.cbm"))

    def test_no_model_at_all(self, tmp_path: Path) -> None:
        (tmp_path / "mine.cbm").write_bytes(b"nonsense")
        with pytest.raises(DataError, match="is not a CatBoost model"):
            fit(EnsembleRequest(table("binary"), model=tmp_path / "mine.cbm"))
        with pytest.raises(DataError, match="no model"):
            fit(EnsembleRequest(table("binary"), model=tmp_path / "nothing.cbm"))


def _batch(found, frame: pl.DataFrame):
    from calcli.tables.load import load as load_rows
    from calcli.tables.source import open_source

    with open_source(frame) as source:
        return load_rows(source, found.binding, features=True, label=False).batch


class TestBadInput:
    def test_one_member_is_no_ensemble(self) -> None:
        with pytest.raises(UsageError, match="two members or more"):
            ensemble("binary", members=1)

    def test_too_few_trees_for_virtual_members(self) -> None:
        with pytest.raises(UsageError, match="12 trees are too few for a virtual ensemble of 10 members"):
            ensemble("binary", members=10, ensemble="virtual")
        assert Settings("virtual", 6, 12).models == 1

    def test_tuning_and_settings_exclude_each_other(self) -> None:
        with pytest.raises(UsageError, match="--tune chooses"):
            ensemble("binary", tune=True)

    def test_a_label_that_never_varies(self) -> None:
        frame = table("regression").with_columns(label=2.5)
        with pytest.raises(FitError, match="All train targets are equal"):
            fit(EnsembleRequest(frame, task="regression", **FEW))

    def test_rows_of_one_class_are_left(self) -> None:
        frame = table("binary", 50).with_columns(w=pl.when(pl.col("label") == 1).then(-1.0).otherwise(1.0))
        with pytest.raises(FitError, match="have the same class"):
            fit(EnsembleRequest(frame, bad_rows="null", flags=Flags(weight="w"), **FEW))

    @pytest.mark.parametrize("mean", [np.nan, np.inf, -1e200])
    @pytest.mark.parametrize("log_sd", [-np.inf, np.inf, 0.0])
    def test_a_member_that_has_no_finite_prediction(self, mean, log_sd, monkeypatch) -> None:
        raw = np.array([[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [mean, log_sd]]])
        monkeypatch.setattr(Ensemble, "_raw", lambda ensemble, data: raw)
        with pytest.raises(FitError, match=r"member 1 .* no finite number for row 2 .*lower --learning-rate"):
            ensemble("regression")

    @pytest.mark.parametrize("more", [{"learning_rate": 0.0}, {"learning_rate": 1.5}, {"depth": 0}, {"depth": 17}])
    def test_settings_that_catboost_has_not(self, more: dict) -> None:
        with pytest.raises(UsageError, match="is not"):
            ensemble("binary", **more)

    def test_features_that_never_vary(self) -> None:
        frame = pl.DataFrame({"x": [1.0] * 20, "label": [0, 1] * 10})
        with pytest.raises(FitError, match="constant"):
            fit(EnsembleRequest(frame, **FEW))

    def test_something_in_the_way(self, tmp_path: Path) -> None:
        (tmp_path / "e").write_text("mine")
        with pytest.raises(FileSystemError, match="exists and is not a directory"):
            ensemble("binary", tmp_path / "e")


def test_an_ensemble_is_no_calibrator(tmp_path: Path) -> None:
    ensemble("binary", tmp_path / "e")
    with pytest.raises(ArtifactError, match="is an ensemble, not a calibrator; see: calcli uncertainty"):
        load(tmp_path / "e")
    found = inspect(tmp_path / "e")
    assert found.manifest.kind == "ensemble"
    assert json.loads(json.dumps(found.to_json()))["fitted"] == {"params": {}, "arrays": {}}
    with pytest.raises(UsageError, match="no rules"):
        inspect(tmp_path / "e", rules=True)


def test_members_of_different_classes_are_refused(tmp_path: Path) -> None:
    """An artifact put together by hand."""
    ensemble("multiclass", tmp_path / "three")
    ensemble("binary", tmp_path / "two")
    three, two = store.read(tmp_path / "three"), store.read(tmp_path / "two")
    blobs = {**three.state.blobs, "ensemble/member-1.cbm": two.state.blobs["ensemble/member-1.cbm"]}
    mixed = type(three.state)(three.state.params, three.state.arrays, blobs)
    store.write(tmp_path / "mixed", three.manifest, {store.STATE: mixed})
    with pytest.raises(ArtifactError, match="member 1 predicts the classes 0, 1, and member 0 0, 1, 2"):
        load_ensemble(tmp_path / "mixed")


def test_a_dry_run_trains_nothing(tmp_path: Path) -> None:
    found = ensemble("binary", tmp_path / "e", dry_run=True)
    assert found.model is None
    assert list(tmp_path.iterdir()) == []
