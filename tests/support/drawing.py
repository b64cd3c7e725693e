"""How Hypothesis draws examples: the same ones in each run, or with ``CALCLI_FUZZ=N`` so many others.

A run draws the first 20 for each law; with ``CALCLI_EXAMPLES=50``, as CI has it, it draws more of the same.
"""

from __future__ import annotations

import os
from contextlib import suppress

from hypothesis import HealthCheck, settings


def draw_examples() -> None:
    """Let all tests of this process draw so, whatever else the machine does."""
    others = os.environ.get("CALCLI_FUZZ")
    settings.register_profile(
        "busy",
        max_examples=int(others or os.environ.get("CALCLI_EXAMPLES", "20")),
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
