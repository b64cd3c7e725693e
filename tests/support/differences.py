"""What tests of exported statements found, printed when all have run, whichever process ran them."""

from __future__ import annotations

from typing import Any

LARGEST = "largest difference"
"""A property of a test: the dialect, the method, and the number."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    found: dict[str, dict[str, float]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == LARGEST and report.when == "call":
                    dialect, method, number = value
                    of_methods = found.setdefault(dialect, {})
                    of_methods[method] = max(number, of_methods.get(method, 0.0))
    if found:
        terminalreporter.section("largest difference of exported statements to apply")
    for dialect, of_methods in found.items():
        terminalreporter.line(f"{dialect}: " + ", ".join(f"{method} {most:.0e}" for method, most in of_methods.items()))
