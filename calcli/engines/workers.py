"""Processes beside this one, for work of which Python lets only one thread do any at a time.

`run_here` does tasks one after the other, `run_beside` does the same tasks in other processes, and both tell of it in
the same words. The function that does a task, the task, and what all tasks share are pickled; the arrays that are
shared lie in a file that every process maps, so that there is one copy of them.

The processes are started with `subprocess` and not with `multiprocessing`: a fork copies the locks of threads without
the threads, and a spawned process runs the user's own script again, up to where it called calcli. The file has no name,
and a process that loses sight of this one ends itself, so that nothing is left behind, however this process ends.
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

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Value = TypeVar("Value")

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
"""The variables that tell libraries how many threads to use; they read them when they are imported."""

_ALIGNED = 64
_LONGEST_WAIT = 3600.0
_START = (
    "import sys; from multiprocessing.connection import Connection; line = Connection(int(sys.argv[1])); "
    "sys.path[:] = line.recv(); from calcli.engines.workers import serve; serve(line)"
)


@dataclass(frozen=True, slots=True)
class Job(Generic[Shared, Task, Value]):
    """What is done with each task.

    Attributes
    ----------
    handle
        A function of a module. It takes what is shared and a task, never None, and comes to values one by one.
    shared
        What all tasks have in common.
    """

    handle: Callable[[Shared, Task], Iterable[Value]]
    shared: Shared


class Progressed(NamedTuple, Generic[Task, Value]):
    """A value that a task has come to."""

    task: Task
    value: Value


class Finished(NamedTuple, Generic[Task]):
    """A task is over; `error` says what went wrong, if anything did."""

    task: Task
    error: str | None


class NoWorkersError(Exception):
    """No process can be started here. The tasks that have not ended are still to be done."""


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
        except Exception as failure:  # whatever a task dies of is told, and the others go on
            error = _named(failure)
        yield Finished(task, error)
        if time.monotonic() > until:
            return


def run_beside(
    job: Job[Shared, Task, Value], tasks: Iterable[Task], *, count: int, threads: int, until: float = math.inf
) -> Generator[Progressed[Task, Value] | Finished[Task], None, None]:
    """Do the tasks in `count` processes of so many `threads` each. At `until` those that still work are killed.

    A task is taken when there is a process for it, so that until then the caller can decide what comes next. A process
    that dies, for want of memory perhaps, ends its task with an error, and another takes its place.
    """
    todo = iter(tasks)
    crew: dict[Any, _Worker[Task, Value]] = {}
    with _laid_out(job.shared) as layout:

        def hire(task: Task) -> None:
            worker = _Worker[Task, Value](layout, task, threads)
            crew[worker.line] = worker
            worker.begin(job.handle, layout)

        try:
            for task in islice(todo, count):
                hire(task)
            while crew and (left := until - time.monotonic()) > 0:
                for line in wait(list(crew), timeout=min(left, _LONGEST_WAIT)):
                    worker = crew[line]
                    event = worker.hear()
                    if event is not None:
                        yield event
                    if not isinstance(event, Finished):
                        continue
                    following = next(todo, None)
                    if following is not None and not worker.dead:
                        worker.give(following)
                        continue
                    worker.end()
                    del crew[line]
                    if following is not None:
                        hire(following)
        finally:
            for worker in crew.values():
                worker.end()


class _Layout(NamedTuple):
    """A pickled value in a file: its pickle, then the arrays in it, each from a start and so many bytes long."""

    file: int
    spans: tuple[tuple[int, int], ...]


@contextmanager
def _laid_out(value: object) -> Iterator[_Layout]:
    """Put a value where other processes can map it: in a file that has no name, and is gone when nobody has it open."""
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
        yield _Layout(file.fileno(), tuple(spans))


def _mapped(layout: _Layout) -> Any:
    """The value again, on the very bytes of the file; what is written to its arrays stays in this process."""
    everything = memoryview(mmap.mmap(layout.file, 0, access=mmap.ACCESS_COPY))
    whole, *arrays = (everything[start : start + size] for start, size in layout.spans)
    return pickle.loads(whole, buffers=arrays)


class _Worker(Generic[Task, Value]):
    """One process, as it is seen from here.

    Attributes
    ----------
    line
        What is said in both directions.
    task
        What it works on.
    dead
        Whether it has ended, though nobody had told it to.
    """

    def __init__(self, layout: _Layout, task: Task, threads: int) -> None:
        self.task = task
        self.dead = False
        self._ready = False
        python = _interpreter()
        self.line, theirs = Pipe()
        try:
            self._process = subprocess.Popen(
                [python, "-P", "-c", _START, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), layout.file),
                env={**os.environ, **dict.fromkeys(THREADS, str(threads))},
                process_group=0,  # Ctrl-C is for this process, which ends the others
            )
        except OSError as error:
            self.line.close()
            raise NoWorkersError(str(error)) from error
        finally:
            theirs.close()

    def begin(self, handle: Callable[..., object], layout: _Layout) -> None:
        """Tell it all that it has to know."""
        with suppress(OSError):  # it is heard of soon that it is dead
            self.line.send([place for place in sys.path if isinstance(place, str)])
            self.line.send((handle, layout))
        self.give(self.task)

    def give(self, task: Task) -> None:
        """The next task."""
        self.task = task
        with suppress(OSError):
            self.line.send(task)

    def hear(self) -> Progressed[Task, Value] | Finished[Task] | None:
        """What it says; None when it says that it is ready."""
        try:
            news = self.line.recv()
        except (EOFError, OSError):
            self.dead = True
            return Finished(self.task, self._death())
        match news:
            case ("value", value):
                return Progressed(self.task, value)
            case ("end", error, warned):
                return Finished(self.task, error or _warned_again(warned))
        self._ready = True
        return None

    def end(self) -> None:
        """Kill it; done twice, nothing happens."""
        self.line.close()
        self._process.kill()
        self._process.wait()

    def _death(self) -> str:
        """What it died of."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self.end()
        code = self._process.returncode
        if not self._ready:
            raise NoWorkersError(f"a process ended with {code} before it was ready")
        if code >= 0:
            return f"its process ended with exit code {code}"
        why = ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
        names = {each.value: each.name for each in signal.Signals}
        return f"its process was ended by {names.get(-code, f'signal {-code}')}{why}"


def _interpreter() -> str:
    """The Python that runs this; a program that has Python built in would only start itself."""
    if not Path(sys.executable or "").name.lower().startswith(("python", "pypy")):
        raise NoWorkersError(f"{sys.executable} is no Python interpreter")
    return sys.executable


def _warned_again(warned: list[tuple[str, type[Warning], str, int]]) -> str | None:
    """Warn here of what was warned of there; where warnings are errors, the first is the error."""
    try:
        for message, category, file, number in warned:
            warnings.warn_explicit(message, category, file, number)
    except Warning as error:
        return _named(error)
    return None


def serve(line: Connection) -> NoReturn:
    """Work in a process that `_Worker` started, until it is killed or left alone."""
    handle, layout = line.recv()
    shared = _mapped(layout)
    tasks: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(line, tasks), daemon=True).start()
    line.send(("ready",))
    while True:
        task = tasks.get()
        error = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                for value in handle(shared, task):
                    line.send(("value", value))
            except Exception as failure:
                error = _named(failure)
        warned = [(str(each.message), each.category, each.filename, each.lineno) for each in caught]
        line.send(("end", error, warned))


def _listen(line: Connection, tasks: SimpleQueue[Any]) -> None:
    """Take what is said, also while work is being done; when nobody is there any more, end this process at once."""
    try:
        while True:
            tasks.put(line.recv())
    finally:
        os._exit(1)


def _named(failure: BaseException) -> str:
    return str(failure) if isinstance(failure, CalcliError) else f"{type(failure).__name__}: {failure}"
