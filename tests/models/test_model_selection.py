"""Comparisons in several processes; `test_compare` makes small ones, in this one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from calcli.batch import NO_SIDE_INPUTS, Batch, Column, SamplingUnits, SideInputs
from calcli.listener import SILENT, Listener
from calcli.methods import calibrator, catalog
from calcli.methods.post_processing import PLAIN
from calcli.methods.spec import MethodSpec
from calcli.models import model_selection, workers
from calcli.models.held_out import HeldOutPredictions, Holdout, Splits, split_rows
from calcli.models.model_selection import Outcome, choose, criterion, cross_validate
from calcli.models.workers import Finished
from tests.support import misfits
from tests.support.listener import Recorder
from tests.support.samples import clicks
from tests.support.shell import HANGS, environment, soon
from tests.support.worker_tasks import all_gone

HALVES = Holdout("cv", folds=2)


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every comparison runs in two processes."""
    monkeypatch.setattr(model_selection, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(model_selection, "threads", lambda: 2)


@pytest.fixture
def never_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process may be started."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("processes were asked for")

    monkeypatch.setattr(model_selection, "run_beside", refuse)


def binary(rows: int = 600) -> Batch:
    frame = clicks(rows)
    age = Column("number", frame["age"].cast(float).to_numpy())
    return Batch(
        frame["logit"].to_numpy(), frame["label"].to_numpy().astype(np.int64), frame["w"].to_numpy(), {"age": age}
    )


def of_four_classes(rows: int = 400) -> Batch:
    rng = np.random.default_rng(0)
    score = rng.normal(size=(rows, 4))
    return Batch(2 * score, (score + rng.gumbel(size=score.shape)).argmax(axis=1))


def hold(
    rows: Sequence[MethodSpec],
    batch: Batch | None = None,
    splits: Splits | None = None,
    *,
    budget: float | None = None,
    listener: Listener = SILENT,
    sides: SideInputs = NO_SIDE_INPUTS,
) -> dict[str, Outcome]:
    batch = binary() if batch is None else batch
    splits = splits or split_rows(len(batch), HALVES, 0)
    candidates = {row: row.resolve() for row in rows}
    found = cross_validate(candidates, batch, splits, budget=budget, seed=3, listener=listener, sides=sides)
    assert [outcome.spec for outcome in found] == list(rows)
    return {outcome.spec.name: outcome for outcome in found}


def named(*names: str) -> list[MethodSpec]:
    return [catalog.find(name) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("two classes", marks=pytest.mark.slow), "four classes", "in time"])
def test_processes_change_no_bit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the linear algebra on one thread in both: on several it adds up in another order."""
    batch = of_four_classes() if kind == "four classes" else binary()
    units = SamplingUnits(np.arange(len(batch)), in_order=True) if kind == "in time" else None
    splits = split_rows(len(batch), HALVES, 0, units)
    methods = catalog.specs() if kind != "in time" else named("identity", "platt", "bbq", "heterogeneous")
    rows, sides = [*methods, misfits.row("behave")], SideInputs(blobs={"model": b"123"})
    with threadpool_limits(1):
        here = hold(rows, batch, splits, sides=sides)
    monkeypatch.setattr(model_selection, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(model_selection, "threads", lambda: 2)
    beside = hold(rows, batch, splits, sides=sides)
    for name, outcome in here.items():
        assert beside[name].status == outcome.status
        assert beside[name].reason == outcome.reason
        if outcome.predicted is not None:
            there = beside[name].predicted
            assert there is not None
            assert there.prob.tobytes() == outcome.predicted.prob.tobytes()
            assert there.fit_seconds > 0


def test_settled_methods_keep_in_every_fold_what_they_chose_on_all_rows() -> None:
    batch = replace(binary(), weight=None)
    splits, rows = split_rows(len(batch), Holdout("cv", folds=3), 0), named("platt", "spline", "boost")
    candidates = {row: row.resolve() for row in rows}
    found = cross_validate(candidates, batch, splits, budget=None, seed=3, listener=SILENT, settle=True)
    for row, outcome in zip(rows, found, strict=True):
        assert outcome.fitted is not None
        assert outcome.predicted is not None
        params = {**row.resolve(), **outcome.fitted.settings}
        for train, test in splits:
            alone = calibrator.fit(row, batch.take(train), params, seed=3).predict(batch.take(test))
            np.testing.assert_allclose(outcome.predicted.prob[test], alone, rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_a_method_that_fails_or_dies_is_an_outcome(beside: None) -> None:
    """What is left of others is done, and progress is told here; `test_workers` has more ways to die."""
    ways, listener = ("raise", "refuse", "warn", "be killed"), Recorder()
    found = hold([*named("identity", "platt", "bbq"), *map(misfits.row, ways)], listener=listener)
    assert {name: outcome.reason for name, outcome in found.items() if outcome.status != "ok"} == {
        "raise": "FloatingPointError: sparks",
        "refuse": "not with these rows; take others",
        "warn": "RuntimeWarning: careful",
        "be-killed": "its process was ended by SIGKILL, perhaps because memory ran out",
    }
    assert {outcome.status for outcome in found.values()} == {"ok", "failed"}
    assert listener.done == listener.stages[-1][1] == 14
    assert {"platt, fold 1 of 2", "platt, fold 2 of 2", "bbq, fold 2 of 2", "be-killed, failed"} <= {
        what for _, what in listener.steps
    }
    assert listener.threads == {threading.get_ident()}


def progress_of(row: MethodSpec) -> model_selection.Progress:
    batch = binary()
    work = model_selection.SharedWork(
        ((row, row.resolve()),), batch, split_rows(len(batch), HALVES, 0), NO_SIDE_INPUTS, 0, False, PLAIN
    )
    return model_selection.Progress(work, SILENT, costly_first=False)


def happened(*errors: tuple[int, str]) -> Generator[Finished[model_selection.FoldTask], None, None]:
    yield from (Finished(model_selection.FoldTask(0, (split,)), error) for split, error in errors)


def test_of_several_errors_the_first_splits_is_told() -> None:
    progress = progress_of(misfits.row("behave"))
    progress.follow(happened((1, "the second"), (0, "the first")))
    (outcome,) = progress.outcomes()
    assert (outcome.status, outcome.reason) == ("failed", "the first")


def test_a_method_that_has_failed_is_not_tried_again() -> None:
    progress = progress_of(misfits.row("behave"))
    tasks = progress.tasks()
    assert next(tasks).splits == (0,)
    progress.follow(happened((0, "sparks")))
    assert list(tasks) == []


def test_the_budget_ends_a_fold_that_does_not_end(
    beside: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is up when both processes are at it."""
    clock = SimpleNamespace(monotonic=lambda: 1e6 if len(list(tmp_path.iterdir())) == 2 else 0.0)
    monkeypatch.setattr(model_selection, "time", clock)
    monkeypatch.setattr(workers, "time", clock)
    monkeypatch.setattr(workers, "_LONGEST_WAIT", 0.05)
    batch = binary()
    splits = split_rows(len(batch), HALVES, 0)
    rows = [*named("identity", "platt"), misfits.row("behave", nap=tmp_path)]
    found = hold(rows, batch, splits, budget=300.0)
    assert {name: outcome.status for name, outcome in found.items()} == {
        "identity": "ok",
        "platt": "ok",
        "behave": "skipped",
    }
    assert all_gone(tmp_path)
    assert choose(list(found.values()), batch, splits, criterion("nll")).left_out == ("behave",)


@pytest.mark.parametrize(("errors", "chosen"), [(0.3, "identity"), (0.45, "identity"), (0.55, "platt"), (0.9, "platt")])
def test_the_simpler_method_stays_within_half_a_standard_error(errors: float, chosen: str) -> None:
    """All labels are positive, so that a row's loss is -ln p, and the losses differ as they are made to."""
    rng = np.random.default_rng(5)
    rows = 400
    noise = rng.normal(size=rows) / 10
    gained = noise - noise.mean() + errors * noise.std(ddof=1) / np.sqrt(rows)
    batch = Batch(np.zeros(rows), np.ones(rows, np.int64))
    losses = {"identity": np.ones(rows), "platt": 1.0 - gained}
    outcomes = [
        Outcome(row, "ok", HeldOutPredictions(np.exp(-losses[row.name]), 0.0, 0.0))
        for row in named("identity", "platt")
    ]
    choice = choose(outcomes, batch, Splits((np.ones(rows, bool),)), criterion("nll"))
    assert (choice.name, choice.best) == (chosen, "platt")


def test_without_any_time_nothing_is_started(beside: None, never_beside: None) -> None:
    found = hold(named("identity", "platt"), budget=0.0)
    assert [outcome.status for outcome in found.values()] == ["ok", "skipped"]


def test_one_thread_starts_no_process(never_beside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_selection, "WORTH_PROCESSES", 0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert hold(named("identity", "platt"))["platt"].status == "ok"


def test_little_work_starts_no_process(never_beside: None) -> None:
    assert hold(named("identity", "platt"))["platt"].status == "ok"


@pytest.mark.parametrize("trained", [True, False])
def test_work_over_features_starts_processes_earlier(trained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(model_selection, "run_beside", lambda *_, **how: started.append(how) or happened())
    monkeypatch.setattr(model_selection, "threads", lambda: 5)
    monkeypatch.setattr(model_selection, "WORTH_PROCESSES", 600 * 2 * (1 + model_selection.TRAINED))
    assert hold([*named("identity"), misfits.row("behave", needs_features=trained)])["behave"].status == "ok"
    assert [(how["count"], how["threads"]) for how in started] == ([(2, 2)] if trained else [])


def test_without_features_there_is_nothing_to_do(never_beside: None) -> None:
    batch = of_four_classes()
    rows = [*named("identity"), misfits.row("be killed", needs_features=True)]
    found = hold(rows, batch)
    assert (found["be-killed"].status, found["be-killed"].reason) == ("skipped", "the table has no features")
    splits = split_rows(len(batch), HALVES, 0)
    assert choose(list(found.values()), batch, splits, criterion("nll")).left_out == ()


def test_where_no_process_can_be_started_it_is_done_here(beside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = named("identity", "platt", "isotonic")
    with monkeypatch.context() as alone:
        alone.setattr(model_selection, "WORTH_PROCESSES", 1e9)
        expected = hold(rows)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    found = hold(rows)
    for name, outcome in expected.items():
        assert outcome.predicted is not None
        np.testing.assert_array_equal(found[name].predicted.prob, outcome.predicted.prob)


SETUP = """
import sys
import calcli
import calcli.models.model_selection as model_selection
model_selection.WORTH_PROCESSES = 0
model_selection.threads = lambda: 2
"""

UNGUARDED = (
    SETUP
    + """
print("begun", flush=True)
report = calcli.compare("train.parquet", methods="platt,isotonic").report
print(*(score.status for score in report.scores))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("through", ["a file", "standard input", "an argument"])
def test_a_script_is_not_run_again(here: Path, through: str) -> None:
    """However it came in, and though it asks nobody whether it is the main one."""
    Path("script.py").write_text(UNGUARDED)
    words = {"a file": ["script.py"], "standard input": ["-"], "an argument": ["-c", UNGUARDED]}[through]
    done = subprocess.run(
        [sys.executable, *words],
        input=UNGUARDED if through == "standard input" else None,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("begun\nok ok ok\n", "")


INTERRUPTED = (
    SETUP
    + """
from calcli.cli.main import main
from calcli.methods import catalog
from calcli.methods.post_processing import PLAIN
from tests.support import misfits
catalog._SPECS = (*catalog.specs(), misfits.row("behave", nap=sys.argv[1]))
sys.exit(main(["compare", "train.parquet", "--methods", "platt,behave", "--format", "json"]))
"""
)


@pytest.mark.slow
def test_ctrl_c_ends_everything_at_once(here: Path) -> None:
    signed_in, temporary = here / "in", here / "temporary"
    signed_in.mkdir()
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(signed_in)],
        env=environment(TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert soon(lambda: len(list(signed_in.iterdir())) == 2, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANGS)
    assert (process.returncode, out, err) == (130, b"", b"calcli: interrupted\n")
    assert all_gone(signed_in)
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_the_report_is_the_same_on_one_thread_and_on_two(here: Path) -> None:
    """All but the times, to the last digit."""
    methods, rows = "platt,isotonic,isotonic-centered,histogram", 81_000
    assert 5 * 2 * rows >= model_selection.WORTH_PROCESSES
    clicks(rows).select("label", "logit").write_parquet("large.parquet")
    reports = []
    for count in ("1", "2"):
        words = ["compare", "large.parquet", "-q", "--methods", methods, "--threads", count, "--format", "json"]
        env = environment()
        done = subprocess.run([sys.executable, "-m", "calcli", *words], env=env, capture_output=True, check=True)
        report = json.loads(done.stdout)
        for score in report["scores"]:
            assert score["status"] == "ok"
            assert score["seconds"].pop("fit") >= 0
            assert score["seconds"].pop("apply") >= 0
        reports.append(report)
    assert reports[0] == reports[1]
