"""Fits on one core and on many: the processor time of their parts, and how long these would take side by side.

``python benchmarks/speed/cores.py [--only TEXT] [--clock]`` writes Markdown. Each command runs once, its parts one
after the other, and the time of each is recorded, less what waits for parts of its own. These are then dealt to 1, 2, 8
and 16 cores as calcli deals them: the first part that nobody has begun, of the newest section, to the first core that
is free; the last few share the cores. So a busy machine does no harm. What processes do for `compare` counts as parts
too, and they start `START` seconds late.

With ``--clock`` the commands run as they are, with 1, 2, 4, … threads up to the number of cores, and seconds of the
clock are shown, the better of two runs: for a quiet machine.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from auto import SAMPLE, THREADS
from foundation import CALCLI, timed

CORES = (1, 2, 8, 16)

MOST_PROCESSES = 8
"""As many `compare` starts at most."""

START = 1.2
"""Seconds until a process has imported what it needs."""

FIT = ("fit", "-q", str(SAMPLE))
CASES = {
    "fit": FIT,
    **{f"fit -m {method}": (*FIT, "-m", method) for method in ("pool", "boost", "mbct", "ccl", "effects")},
    "compare": ("compare", "-q", str(SAMPLE)),
    "uncertainty fit --trees 100": ("uncertainty", "fit", "-q", str(SAMPLE), "--trees", "100"),
}


class Trace:
    """A part: seconds of work, and the sections that it waits for between them."""

    def __init__(self) -> None:
        self.steps: list[float | list[Trace]] = []
        self._since = time.thread_time()

    def pause(self) -> None:
        self.steps.append(time.thread_time() - self._since)

    def resume(self, section: list[Trace]) -> None:
        self.steps.append(section)
        self._since = time.thread_time()

    def to_json(self) -> list[Any]:
        return [step if isinstance(step, float) else [part.to_json() for part in step] for step in self.steps]


def record(words: list[str]) -> None:
    """Run a command with its parts one after the other, and print the trace as JSON."""
    from calcli.numeric import side_by_side

    running = [Trace()]

    def as_they_come(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        running[-1].pause()
        section: list[Trace] = []
        for place, item in enumerate(items):
            section.append(Trace())
            running.append(section[-1])
            result = work(item)
            running.pop().pause()
            outside = Trace()  # what the listener does with a result is not of the section
            yield place, result
            outside.pause()
        running[-1].resume(section)

    def on_threads(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        todo = list(items)
        return [work(item) for item in todo] if len(todo) <= 1 else [one for _, one in as_they_come(work, todo)]

    side_by_side.as_they_come, side_by_side.on_threads = as_they_come, on_threads

    from calcli.models import workers

    def run_beside(job: Any, tasks: Iterable[Any], *, count: int, threads: int, until: float) -> Iterator[Any]:
        for _, events in as_they_come(lambda task: [*workers.run_here(job, [task])], [*tasks]):
            yield from events

    workers.run_beside = run_beside
    from calcli.cli.main import main as command

    def tell() -> None:
        running[0].pause()
        sys.stderr.write("\n" + json.dumps(running[0].to_json()))

    atexit.register(tell)  # a command ends its process
    sys.argv = ["calcli", *words]
    command()


class Part:
    """A part that is dealt to cores, and whoever waits for it."""

    def __init__(self, steps: list[Any], waiting: Part | None) -> None:
        self.steps, self.waiting = [*steps], waiting
        self.left, self.inside = 0.0, 0
        """`left`, `inside`: seconds of the step at work, and parts that it waits for."""


def dealt(trace: list[Any], cores: int, sharing: int) -> float:
    """Seconds until all is done, by so many cores, which the last parts share if these are no more than `sharing` more.

    More parts than cores at work are each so much slower.
    """
    now, sections, at_work = 0.0, list[list[Part]](), list[Part]()
    ready = [Part(trace, None)]
    while True:
        while ready or any(sections):
            todo, free = sum(map(len, sections)), cores - len(at_work)
            if free <= 0 and (ready or todo > free + sharing):
                break
            part = ready.pop() if ready else next(section for section in reversed(sections) if section).pop(0)
            part.left = part.steps.pop(0) if part.steps and not isinstance(part.steps[0], list) else 0.0
            at_work.append(part)
        if not at_work:
            return now
        part, slower = min(at_work, key=lambda one: one.left), max(1.0, len(at_work) / cores)
        at_work.remove(part)
        now += part.left * slower
        for other in at_work:
            other.left -= part.left
        while part.steps and isinstance(part.steps[0], list) and not part.steps[0]:
            part.steps.pop(0)
        if part.steps:
            if isinstance(part.steps[0], list):
                inner = [Part(steps, part) for steps in part.steps.pop(0)]
                part.inside = len(inner)
                sections.append(inner)
            else:
                ready.append(part)
        elif part.waiting is not None:
            part.waiting.inside -= 1
            if part.waiting.inside == 0:
                ready.append(part.waiting)


def written(words: tuple[str, ...], out: Path) -> list[str]:
    return [] if words[0] == "compare" else ["-o", str(out)]


def simulated(words: tuple[str, ...], out: Path) -> list[float]:
    """Seconds on each number of cores."""
    asked = dict.fromkeys(THREADS, "1") | {"OMP_NUM_THREADS": str(max(CORES))}
    ended = subprocess.run(
        [sys.executable, __file__, "--record", *words, *written(words, out)],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
    )
    trace = json.loads(ended.stderr.splitlines()[-1])
    if words[0] != "compare":
        return [dealt(trace, cores, cores - 1) for cores in CORES]
    return [dealt(trace, min(cores, MOST_PROCESSES), 0) + (START if cores > 1 else 0.0) for cores in CORES]


def threads() -> list[int]:
    """1, 2, 4, … up to the number of cores."""
    return [1 << place for place in range((os.cpu_count() or 1).bit_length())]


def clock(words: tuple[str, ...], out: Path) -> list[float]:
    """Seconds of the clock, with each number of threads."""
    found = []
    for count in threads():
        environment = [f"{name}={count}" for name in THREADS]
        command = ["/usr/bin/env", *environment, CALCLI, *words, *written(words, out)]
        found.append(min(timed(command).wall for _ in range(2)))
    return found


def main() -> None:
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--clock", action="store_true", help="as the commands are, in seconds of the clock")
    given = parser.parse_args()
    names = [f"threads: {count}" for count in threads()] if given.clock else [f"cores: {cores}" for cores in CORES]
    print(f"| command | {' | '.join(names)} | ratio of the second |\n| --- |{' --: |' * (len(names) + 1)}")
    with tempfile.TemporaryDirectory() as name:
        for what, words in CASES.items():
            if given.only in what:
                seconds = (clock if given.clock else simulated)(words, Path(name) / "artifact")
                cells = " | ".join(f"{one:.1f} s" for one in seconds)
                print(f"| `{what}` | {cells} | {seconds[1] / seconds[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
