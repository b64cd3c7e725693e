"""How much tests draw.

Hypothesis draws the same examples in each run, or with ``CALCLI_FUZZ=N`` so many others. A run draws the first 20 for
each law; with ``CALCLI_EXAMPLES=50``, as CI has it, it draws more of the same. A law whose examples cost more or less
than most asks for `examples` of its own, of which there are more in the same proportion.

The tests of calibration in a report draw a tenth of the tables.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from calcli.metrics import diagnosis, joint_test

DRAWS = joint_test.DRAWS, diagnosis.DRAWS
FEWER = 199, 99
"""So many draws and the rows themselves make a test of 5 % that is exact, as more do (Dwass 1957)."""

USUAL = 20


def examples(count: int) -> settings:
    """A decorator of a law that draws so many where others draw 20."""
    return settings(max_examples=max(1, count * int(_others() or os.environ.get("CALCLI_EXAMPLES", USUAL)) // USUAL))


def draw_examples() -> None:
    """Let all tests of this process draw so, whatever else the machine does."""
    others = _others()
    settings.register_profile(
        "busy",
        max_examples=int(others or os.environ.get("CALCLI_EXAMPLES", USUAL)),
        deadline=None,
        derandomize=others is None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("busy")
    if others is None:
        with suppress(ImportError):
            from hypothesis.internal.conjecture import providers

            # Constants of our code are not drawn: they would be those of the modules that a process has imported by
            # then, so that examples would depend on which tests it has run before.
            providers.is_local_module_file = lambda _: False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let reports draw fewer tables, which is a third of what it costs to measure a few hundred rows.

    The tests of metrics, the slow ones, and those beside processes of a cluster draw what users do.
    """
    all_of_them = item.nodeid.startswith(("tests/metrics/", "tests/spark/")) or item.get_closest_marker("slow")
    joint_test.DRAWS, diagnosis.DRAWS = DRAWS if all_of_them else FEWER


def _others() -> str | None:
    return os.environ.get("CALCLI_FUZZ")
