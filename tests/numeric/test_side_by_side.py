"""Items are done once each, by as many threads as there may be, whatever is inside them."""

from __future__ import annotations

import itertools
import threading
from contextvars import ContextVar

import pytest
from threadpoolctl import threadpool_info

from calcli.numeric import threads as numbers
from calcli.numeric.side_by_side import as_they_come, on_threads
from tests.support.shell import HANGS


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("OMP_NUM_THREADS", str(request.param))
    return int(request.param)


def test_sections_within_sections_keep_the_number_of_threads(threads: int) -> None:
    lock, at_work, most = threading.Lock(), 0, 0

    def leaf(number: int) -> int:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        found = sum(range(2000 * number))
        with lock:
            at_work -= 1
        return found

    def middle(number: int) -> int:
        return sum(on_threads(leaf, range(number)))

    def outer(number: int) -> list[int]:
        return on_threads(middle, range(number))

    expected = [[sum(sum(range(2000 * k)) for k in range(j)) for j in range(i)] for i in range(9)]
    assert on_threads(outer, range(9)) == expected
    assert 1 <= most <= threads


def test_as_many_items_are_at_work_as_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the others, inside a section of its own too: fewer threads would wait for ever."""
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    for parties, sections in ((4, 1), (4, 2)):
        barrier = threading.Barrier(parties)

        def work(_: int, barrier: threading.Barrier = barrier) -> int:
            return barrier.wait(HANGS)

        def outer(_: int, count: int = parties // sections, work=work) -> list[int]:
            return on_threads(work, range(count))

        found = on_threads(outer, range(sections)) if sections > 1 else [on_threads(work, range(parties))]
        assert sorted(place for each in found for place in each) == [0, 1, 2, 3]


def test_the_error_of_the_first_item_is_raised_and_nothing_more_is_begun(threads: int) -> None:
    """Each thread begins one item more at most: that which ends the section for it."""
    begun = []

    def work(number: int) -> None:
        begun.append(number)
        if number >= 3:
            raise ValueError(number)

    with pytest.raises(ValueError, match=r"^3$"):
        on_threads(work, range(100))
    assert len(begun) <= 3 + threads
    assert on_threads(abs, [-1, -2]) == [1, 2]  # whoever comes next is served


def test_whoever_stops_listening_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    go_on, begun, before = threading.Event(), [], set(threading.enumerate())

    def work(number: int) -> int:
        begun.append(number)
        assert number == 0 or go_on.wait(HANGS)
        return number

    events = as_they_come(work, range(50))
    assert next(events) == (0, 0)
    events.close()
    go_on.set()
    assert on_threads(abs, range(-50, 0)) == [*range(50, 0, -1)]
    for thread in set(threading.enumerate()) - before:
        thread.join(HANGS)
    assert sorted(begun) == list(range(len(begun)))
    assert len(begun) <= 3  # the first, and what the two threads had at hand


def test_items_have_the_context_of_their_section_and_one_thread_of_algebra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    told: ContextVar[str] = ContextVar("told")
    told.set("here")

    def work(_: int) -> tuple[str, int]:
        return told.get(), max(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")

    before = [each["num_threads"] for each in threadpool_info()]
    assert on_threads(work, range(6)) == [("here", 1)] * 6
    assert [each["num_threads"] for each in threadpool_info()] == before


@pytest.mark.parametrize("items", [4, 7, 15])
def test_the_last_items_share_the_processors(monkeypatch: pytest.MonkeyPatch, items: int) -> None:
    """The last seven of four processors wait for each other: four threads would wait for ever."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(numbers, "processors", lambda: 4)
    last, begun, most = threading.Barrier(min(items, 7)), itertools.count(), items - min(items, 7)

    def work(number: int) -> int:
        return number if next(begun) < most else number + 0 * last.wait(timeout=60)

    assert on_threads(work, range(items)) == [*range(items)]
