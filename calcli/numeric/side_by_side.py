"""Work that several threads do side by side.

A section is a list of items; an item may have a section of its own, as a fit among several has one for its folds.
Whoever has a section waits until it is over, and counts as no thread meanwhile: of all sections together, as many items
are at work as there are threads. Items of the newest section are begun first. The last few, for which some processors
would wait, share them all: three of a second each take two processors a second and a half, and not two. Libraries that
work inside an item should do so on one thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from calcli.numeric.threads import one_thread_of_algebra, sharing, threads

Item = TypeVar("Item")
Result = TypeVar("Result")


def on_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results of `work` in the order of the items; a single item stays on this thread."""
    todo = list(items)
    if len(todo) <= 1 or threads() == 1:
        return [work(item) for item in todo]
    results = dict(as_they_come(work, todo))
    return [results[place] for place in range(len(todo))]


def as_they_come(work: Callable[[Item], Result], items: Iterable[Item]) -> Generator[tuple[int, Result], None, None]:
    """The results of `work` with the places of the items, in the order in which they are over.

    After an error nothing more is begun; of several errors that of the first item is raised. Whoever stops listening,
    because of an interrupt perhaps, waits for nothing: what is at work then is done in vain.
    """
    section = _Section(work, items)
    left, errors = len(section.todo), dict[int, BaseException]()
    _CREW.open(section)
    try:
        with one_thread_of_algebra():
            while left:
                over = _CREW.wait(section)
                left -= 1 + over.dropped
                if over.error is not None:
                    errors[over.place] = over.error
                elif not errors:
                    yield over.place, over.result
    finally:
        _CREW.close(section)
    if errors:
        raise errors[min(errors)]


class _Over(NamedTuple):
    """An item that is over, by its place, and how many others shall not be begun because of its error."""

    place: int
    result: Any = None
    error: BaseException | None = None
    dropped: int = 0


_IS_HELPER: ContextVar[bool] = ContextVar("whether this thread does an item", default=False)


class _Section(Generic[Item, Result]):
    """Items: those that nobody has begun (`todo`), and those that are `over`."""

    def __init__(self, work: Callable[[Item], Result], items: Iterable[Item]) -> None:
        self._work, self._context = work, copy_context()
        self.todo = deque(enumerate(items))
        self.over: SimpleQueue[_Over] = SimpleQueue()

    def do(self, place: int, item: Item) -> None:
        """Do one item, with the context variables of whoever waits for it."""
        context = self._context.copy()
        context.run(_IS_HELPER.set, True)
        try:
            self.over.put(_Over(place, context.run(self._work, item)))
        except BaseException as error:
            self.over.put(_Over(place, error=error, dropped=_CREW.drop(self)))


class _Crew:
    """The threads that do items, and the sections that are not over, the oldest first.

    Of those `at_work`, some are `coming`: they have not begun with an item yet.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sections: list[_Section[Any, Any]] = []
        self._at_work = self._coming = 0

    def open(self, section: _Section[Any, Any]) -> None:
        with self._lock:
            self._sections.append(section)

    def drop(self, section: _Section[Any, Any]) -> int:
        """Begin no more of its items; how many these are."""
        with self._lock:
            count = len(section.todo)
            section.todo.clear()
            return count

    def close(self, section: _Section[Any, Any]) -> None:
        self.drop(section)
        with self._lock:
            self._sections.remove(section)

    def wait(self, section: _Section[Any, Any]) -> _Over:
        """The next item that is over; meanwhile another thread may take the place of this one."""
        helps = _IS_HELPER.get()
        with self._lock:
            self._at_work -= helps
        try:
            self._call()
            return section.over.get()
        finally:
            with self._lock:
                self._at_work += helps

    def _more(self) -> int:
        """How many threads more may do items that nobody takes: one for each, if these are few."""
        todo = sum(len(section.todo) for section in self._sections) - self._coming
        free = threads() - self._at_work
        return max(0, todo if todo <= free + sharing() else min(free, todo))

    def _call(self) -> None:
        """Start as many threads as there may be more."""
        with self._lock:
            count = self._more()
            self._at_work += count
            self._coming += count
        for _ in range(count):
            try:
                # A process may end while items are done in vain.
                threading.Thread(target=self._help, daemon=True).start()
            except RuntimeError:  # there can be no more threads
                self._help()

    def _help(self) -> None:
        """Do items, those of the newest section first, until there are none, or too many threads."""
        came = True
        while True:
            with self._lock:
                self._coming -= came
                self._at_work -= 1
                if not self._more():
                    return
                self._at_work += 1
                section = next(each for each in reversed(self._sections) if each.todo)
                place, item = section.todo.popleft()
            came = False
            self._call()  # the items that are left may now be few
            section.do(place, item)


_CREW = _Crew()
