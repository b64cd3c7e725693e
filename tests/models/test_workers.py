from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from calcli.batch import Batch, Column
from calcli.models import workers
from calcli.models.workers import Finished, Job, NoWorkersError, Progressed, run_beside, run_here
from tests.support import worker_tasks
from tests.support.shell import HANGS, environment, soon
from tests.support.worker_tasks import all_gone

HOW = {"count": 2, "threads": 1}


def values(events: object) -> dict[object, list[object]]:
    """What each task has come to, in the order in which it said so; None where it is over."""
    found: dict[object, list[object]] = {}
    for event in events:  # type: ignore[attr-defined]
        found.setdefault(event.task, []).append(event.value if isinstance(event, Progressed) else event.error)
    return found


def test_here_and_beside_the_same_is_done() -> None:
    job = Job(worker_tasks.double, {})
    expected = {task: [*(2 * value for value in range(task)), None] for task in range(1, 8)}
    assert values(run_here(job, range(1, 8))) == expected
    assert values(run_beside(job, range(1, 8), **HOW)) == expected
    assert list(run_beside(job, [], **HOW)) == []


def test_what_is_shared_arrives_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    batch = Batch(
        rng.normal(size=(7, 3)).T[::-1],
        rng.integers(0, 3, 3),
        None,
        {
            "a": Column("category", np.array([1, -1, 0], dtype=np.int32), ("é", "")),
            "b": Column("number", np.asfortranarray(rng.normal(size=(3, 1)))[:, 0]),
        },
    )
    masks = (np.array([True, False, True]), np.empty(0), np.array([np.nan, -0.0]))
    (((said, masks_said), _),) = values(run_beside(Job(worker_tasks.look, (batch, masks)), [0], **HOW)).values()
    np.testing.assert_array_equal(said.score, batch.score)
    np.testing.assert_array_equal(said.label, batch.label)
    assert said.weight is None
    assert said.features["a"].levels == ("é", "")
    for name, column in batch.features.items():
        np.testing.assert_array_equal(said.features[name].values, column.values)
        assert said.features[name].values.dtype == column.values.dtype
    assert [mask.tobytes() for mask in masks_said] == [mask.tobytes() for mask in masks]


def test_what_a_process_writes_to_what_is_shared_stays_with_it() -> None:
    ones = np.ones(100_000)
    found = values(run_beside(Job(worker_tasks.scribble, ones), [5, 7], **HOW))
    assert found == {5: [1e5, None], 7: [1e5, None]}
    assert (ones == 1).all()


@pytest.mark.parametrize("here", [True, False])
def test_an_error_ends_its_task_and_no_other(here: bool) -> None:
    job, tasks = Job(worker_tasks.misbehave, None), ["behave", "raise", "refuse", "behave well"]
    assert values(run_here(job, tasks) if here else run_beside(job, tasks, **HOW)) == {
        "behave": ["behave", None],
        "raise": ["FloatingPointError: sparks"],
        "refuse": ["not with these rows; take others"],
        "behave well": ["behave well", None],
    }


def test_so_does_the_death_of_a_process() -> None:
    tasks = ["be killed", "exit", "crash", *(f"behave {index}" for index in range(4))]
    found = values(run_beside(Job(worker_tasks.misbehave, None), tasks, **HOW))
    assert found.pop("be killed") == ["its process was ended by SIGKILL, perhaps because memory ran out"]
    assert found.pop("exit") == ["its process ended with exit code 3"]
    assert found.pop("crash") == ["its process was ended by SIGSEGV"]
    assert found == {task: [task, None] for task in tasks[3:]}


def test_a_warning_is_given_here() -> None:
    job = Job(worker_tasks.misbehave, None)
    with pytest.warns(RuntimeWarning, match="careful"):
        assert values(run_beside(job, ["warn"], **HOW)) == {"warn": ["warn", None]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(run_beside(job, ["warn"], **HOW)) == {"warn": ["warn", "RuntimeWarning: careful"]}


def test_tasks_are_taken_when_a_process_is_free() -> None:
    """So that one that fails can keep those after it from being done."""
    done: list[str] = []

    def tasks() -> object:
        yield "refuse"
        while not done:
            yield f"behave {len(taken)}"

    taken: list[str] = []
    for event in run_beside(Job(worker_tasks.misbehave, None), tasks(), count=1, threads=1):  # type: ignore[arg-type]
        taken.append(event.task)
        done += [event.task] if isinstance(event, Finished) else []
    assert taken == ["refuse"]


def test_what_still_works_at_the_end_of_the_time_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time ends when both are at work."""
    clock = SimpleNamespace(monotonic=lambda: 1e6 if len(list(tmp_path.iterdir())) == 2 else 0.0)
    monkeypatch.setattr(workers, "time", clock)
    monkeypatch.setattr(workers, "_LONGEST_WAIT", 0.05)
    assert list(run_beside(Job(worker_tasks.nap, str(tmp_path)), [1, 2, 3], until=1e3, **HOW)) == []
    assert len(list(tmp_path.iterdir())) == 2
    assert all_gone(tmp_path)


def test_nothing_is_begun_after_the_end_of_the_time() -> None:
    past, job = time.monotonic() - 1, Job(worker_tasks.double, {})
    assert list(run_beside(job, [1, 2], until=past, **HOW)) == []
    assert list(run_here(job, [2, 3], until=past)) == [Progressed(2, 0)]
    assert list(run_here(job, [2], until=math.inf)) == [Progressed(2, 0), Progressed(2, 2), Finished(2, None)]


def test_whoever_stops_listening_stops_the_work(tmp_path: Path) -> None:
    events = run_beside(Job(worker_tasks.nap, str(tmp_path)), [0, 1], count=1, threads=1)
    assert next(events) == Progressed(0, 0)
    events.close()
    assert all_gone(tmp_path)


def test_a_process_has_its_threads_and_keeps_its_words_to_itself(capfd: pytest.CaptureFixture[str]) -> None:
    job = Job(worker_tasks.surroundings, None)
    found = values(run_beside(job, ["pid", "main", "environment", "modules"], count=1, threads=3))
    assert found["pid"][0] != os.getpid()
    assert found["main"][0] is None
    environment, modules = found["environment"][0], found["modules"][0]
    assert {environment[name] for name in workers.THREADS} == {"3"}
    assert not {"polars", "scipy", "pytest", "typer", "rich"} & set(modules)
    assert capfd.readouterr() == ("", "")


def test_a_file_beside_the_user_takes_no_modules_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("random", "tempfile", "queue", "select", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    assert values(run_beside(Job(worker_tasks.double, {}), [1], **HOW)) == {1: [0, None]}


@pytest.mark.parametrize("program", [None, "", "/usr/sbin/httpd", "/nowhere/python3"])
def test_where_no_python_can_be_started_it_says_so(program: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(NoWorkersError):
        list(run_beside(Job(worker_tasks.double, {}), [1], **HOW))


def test_a_process_that_cannot_begin_is_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(NoWorkersError, match="before it was ready"):
        list(run_beside(Job(worker_tasks.double, {}), [1], **HOW))


def test_a_full_disk_is_no_place_for_what_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda buffering: full.open("wb", buffering))
    with pytest.raises(NoWorkersError, match="No space left"):
        list(run_beside(Job(worker_tasks.look, np.ones(100_000)), [1], **HOW))


SCRIPT = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore some
for one in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(one, signal.SIG_DFL)
from calcli.models.workers import Job, run_beside
from tests.support import worker_tasks
print("begun", flush=True)
list(run_beside(Job(worker_tasks.nap, sys.argv[1]), [1, 2], count=2, threads=1))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP], ids=lambda how: how.name
)
def test_nothing_is_left_however_the_program_ends(how: signal.Signals, tmp_path: Path) -> None:
    """Not a process, not a file, not a second run of the script."""
    signed_in, temporary = tmp_path / "in", tmp_path / "temporary"
    signed_in.mkdir()
    temporary.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(script), str(signed_in)],
        env=environment(TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert soon(lambda: len(list(signed_in.iterdir())) == 2, process)
        process.send_signal(how)
        assert process.stdout is not None
        assert process.stdout.read() == b"begun\n"
        assert process.wait(timeout=HANGS) == -how
    assert soon(lambda: all_gone(signed_in))
    assert list(temporary.iterdir()) == []
