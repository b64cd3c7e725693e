"""A pool of processes for GIL-bound work.

`run_here` does tasks one after the other, `run_beside` does the same tasks in other processes, `run_in_threads` in
threads of this one, and all report the same events.

What is sent: the function that does a task, the tasks and their values are pickled and go through a connection. What
all tasks share is pickled once into a file without a name, which every process maps, so that there is one copy of its
arrays in memory.

How processes start: with `subprocess` and not with `multiprocessing`, as a fork copies the locks of threads without the
threads, and a spawned process runs the user's own script again, up to where it called calcli.

How they end: a process that has died closes its connection, which `_Worker.receive` reads as the end of its task. A
process whose parent has died reads the end of the connection and exits (`_receive_tasks`). So no process is left
behind, however either of them ends, and the file goes with the last of them.
"""

from __future__ import annotations

import math
import mmap
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from calcli.errors import CalcliError
from calcli.locks import WINDOWS
from calcli.numeric.side_by_side import as_they_come

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Value = TypeVar("Value")

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
"""The variables that tell libraries how many threads to use; they read them when they are imported."""

_ALIGNED = 64
"""Arrays start at multiples of so many bytes, as numpy likes them."""

_LONGEST_WAIT = 3600.0
"""Seconds; operating systems wait no longer than some limit."""

_MAIN = (
    "import sys; from multiprocessing.connection import Connection; connection = Connection(int(sys.argv[1])); "
    "sys.path[:] = connection.recv(); from calcli.models.workers import run_worker; run_worker(connection)"
)
"""The program of a process: it imports from where this one does, so that it can unpickle the user's functions too."""


@dataclass(frozen=True, slots=True)
class Job(Generic[Shared, Task, Value]):
    """The function of all tasks, and the value that they share."""

    handle: Callable[[Shared, Task], Iterable[Value]]
    """A function of a module, as it is pickled by its name: from what is shared and a task, never None, to values."""

    shared: Shared
    """The value that all tasks have in common."""


class Progressed(NamedTuple, Generic[Task, Value]):
    """A value that a task has yielded."""

    task: Task
    value: Value


class Finished(NamedTuple, Generic[Task]):
    """A task is over; `error` says what went wrong, if anything did."""

    task: Task
    error: str | None


class NoWorkersError(Exception):
    """No process can be started here. The tasks without a `Finished` are still to be done."""


def run_here(
    job: Job[Shared, Task, Value], tasks: Iterable[Task], *, until: float = math.inf
) -> Generator[Progressed[Task, Value] | Finished[Task], None, None]:
    """Do the tasks one after the other. After `until` (of `time.monotonic`) nothing more is begun."""
    for task in tasks:
        error = None
        try:
            for value in job.handle(job.shared, task):
                yield Progressed(task, value)
                if time.monotonic() > until:
                    return
        except Exception as failure:  # any error ends its task, and the others go on
            error = _message(failure)
        yield Finished(task, error)
        if time.monotonic() > until:
            return


def run_in_threads(
    job: Job[Shared, Task, Value], tasks: Iterable[Task]
) -> Generator[Progressed[Task, Value] | Finished[Task], None, None]:
    """Do the tasks in as many threads of this process as there may be; those that have begun cannot be stopped."""
    todo = list(tasks)

    def work(task: Task) -> list[Progressed[Task, Value] | Finished[Task]]:
        return [*run_here(job, [task])]

    for _, events in as_they_come(work, todo):
        yield from events


def run_beside(
    job: Job[Shared, Task, Value], tasks: Iterable[Task], *, count: int, threads: int, until: float = math.inf
) -> Generator[Progressed[Task, Value] | Finished[Task], None, None]:
    """Do the tasks in `count` processes of so many `threads` each. At `until` those that still work are killed.

    A task is taken when there is a process for it, so that until then the caller can decide what comes next. A process
    that dies, for want of memory perhaps, ends its task with an error, and another takes its place.
    """
    todo = iter(tasks)
    pool: dict[Any, _Worker[Task, Value]] = {}
    with _in_file(job.shared) as shared:

        def start(task: Task) -> None:
            worker = _Worker[Task, Value](shared, task, threads)
            pool[worker.connection] = worker
            worker.start(job.handle, shared)

        try:
            # A process for each of the first tasks, then their events as they come.
            for task in islice(todo, count):
                start(task)
            while pool and (left := until - time.monotonic()) > 0:
                for connection in wait(list(pool), timeout=min(left, _LONGEST_WAIT)):
                    worker = pool[connection]
                    event = worker.receive()
                    if event is not None:
                        yield event
                    if not isinstance(event, Finished):
                        continue
                    # The worker is free, or dead: the next task is for it, or for one in its place.
                    following = next(todo, None)
                    if following is not None and not worker.dead:
                        worker.send_task(following)
                        continue
                    worker.end()
                    del pool[connection]
                    if following is not None:
                        start(following)
        finally:  # the time is over, the caller has stopped listening, or an error
            for worker in pool.values():
                worker.end()


class _SharedFile(NamedTuple):
    """A pickled value in a file: its pickle, then the arrays in it, each from a start and so many bytes long."""

    file: int
    spans: tuple[tuple[int, int], ...]


@contextmanager
def _in_file(value: object) -> Iterator[_SharedFile]:
    """Write a value to an unnamed file that other processes can map; it is gone when no process has it open."""
    arrays: list[pickle.PickleBuffer] = []
    whole = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile(buffering=0))
            spans = []
            for part in (memoryview(whole), *(array.raw() for array in arrays)):
                spans.append((file.seek(-file.tell() % _ALIGNED, os.SEEK_CUR), len(part)))
                left = part
                while left:
                    left = left[file.write(left) :]
        except OSError as error:  # a full disk, for one
            raise NoWorkersError(str(error)) from error
        yield _SharedFile(file.fileno(), tuple(spans))


def _mapped(shared: _SharedFile) -> Any:
    """The value, its arrays mapped copy-on-write from the file."""
    everything = memoryview(mmap.mmap(shared.file, 0, access=mmap.ACCESS_COPY))
    whole, *arrays = (everything[start : start + size] for start, size in shared.spans)
    return pickle.loads(whole, buffers=arrays)


class _Worker(Generic[Task, Value]):
    """A process of the pool, as its parent sees it.

    It is sent: the module path, then the function and the shared file, then tasks. It sends: ``("ready",)`` once, then
    ``("value", value)`` for each value, and ``("end", error, warnings)`` after each task.

    Attributes
    ----------
    connection
        To and from the process.
    task
        What it works on.
    dead
        Whether it has ended before it was told to.
    """

    def __init__(self, shared: _SharedFile, task: Task, threads: int) -> None:
        self.task = task
        self.dead = False
        self._ready = False
        if WINDOWS:
            raise NoWorkersError("a process of Windows is given no open files")
        python = _interpreter()
        self.connection, theirs = Pipe()
        try:
            self._process = subprocess.Popen(
                [python, "-P", "-c", _MAIN, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                # Standard output is the caller's data, and a pipe that somebody waits for until all have closed it.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), shared.file),
                env={**os.environ, **dict.fromkeys(THREADS, str(threads))},
                process_group=0,  # Ctrl-C is for this process, which ends the others
            )
        except OSError as error:
            self.connection.close()
            raise NoWorkersError(str(error)) from error
        finally:
            theirs.close()  # else the connection would stay open when the process dies

    def start(self, handle: Callable[..., object], shared: _SharedFile) -> None:
        """Send the shared value, and the first task."""
        with suppress(OSError):  # it is dead, which `receive` will find
            self.connection.send([place for place in sys.path if isinstance(place, str)])
            self.connection.send((handle, shared))
        self.send_task(self.task)

    def send_task(self, task: Task) -> None:
        self.task = task
        with suppress(OSError):
            self.connection.send(task)

    def receive(self) -> Progressed[Task, Value] | Finished[Task] | None:
        """The next event; None when the process has become ready."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self.dead = True
            return Finished(self.task, self._cause_of_death())
        match message:
            case ("value", value):
                return Progressed(self.task, value)
            case ("end", error, caught):
                return Finished(self.task, error or _warn_again(caught))
        self._ready = True
        return None

    def end(self) -> None:
        """Kill it; done twice, nothing happens."""
        self.connection.close()
        self._process.kill()
        self._process.wait()

    def _cause_of_death(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self.end()
        code = self._process.returncode
        if not self._ready:  # it has not begun with any task: the next process would do no better
            raise NoWorkersError(f"a process ended with {code} before it was ready")
        if code >= 0:
            return f"its process ended with exit code {code}"
        why = ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
        names = {each.value: each.name for each in signal.Signals}
        return f"its process was ended by {names.get(-code, f'signal {-code}')}{why}"


def _interpreter() -> str:
    """The Python that runs this; a program that has Python built in would only start itself."""
    if not Path(sys.executable or "").name.lower().startswith(("python", "pypy")):
        raise NoWorkersError(f"{sys.executable} is not a Python interpreter")
    return sys.executable


def _warn_again(caught: list[tuple[str, type[Warning], str, int]]) -> str | None:
    """Issue the warnings of a task in this process; where warnings are errors, the first is the task's error."""
    try:
        for message, category, file, line in caught:
            warnings.warn_explicit(message, category, file, line)
    except Warning as error:
        return _message(error)
    return None


def run_worker(connection: Connection) -> NoReturn:
    """Work in a process that `_Worker` started, until it is killed or its parent is gone."""
    handle, file = connection.recv()
    shared = _mapped(file)
    tasks: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_receive_tasks, args=(connection, tasks), daemon=True).start()
    connection.send(("ready",))
    while True:
        task = tasks.get()
        error = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                for value in handle(shared, task):
                    connection.send(("value", value))
            except Exception as failure:
                error = _message(failure)
        again = [(str(each.message), each.category, each.filename, each.lineno) for each in caught]
        connection.send(("end", error, again))


def _receive_tasks(connection: Connection, tasks: SimpleQueue[Any]) -> None:
    """Read the connection also while a task is being done, so that the end of the parent is noticed at once."""
    try:
        while True:
            tasks.put(connection.recv())
    finally:
        os._exit(1)


def _message(failure: BaseException) -> str:
    return str(failure) if isinstance(failure, CalcliError) else f"{type(failure).__name__}: {failure}"
