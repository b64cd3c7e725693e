"""The tests on every Python that calcli supports, and at the ends of what it admits: ``nox``, or ``nox -s base-3.13``.

An interpreter that this machine lacks is skipped, and nox says so; ``nox --error-on-missing-interpreters`` does not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nox

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
OF_THE_BASE = ("artifacts", "decisions", "metrics", "numeric", "reports", "tables", "test_windows.py")
"""The tests that need no extra."""
PACKAGE = os.environ.get("CALCLI_WHEEL", ".")
"""What is installed: this directory, or its wheel, for sessions beside each other, which would all build it here."""

nox.options.sessions = ["base"]
nox.options.default_venv_backend = "venv"

if shutil.which("pyenv"):  # it hides all interpreters but one
    os.environ["PYENV_VERSION"] = ":".join(subprocess.check_output(["pyenv", "versions", "--bare"], text=True).split())


@nox.session(python=PYTHONS)
def base(session: nox.Session) -> None:
    """Run the tests of the base, which need no extra, at the newest versions that are admitted."""
    session.install(f"{PACKAGE}[test]")
    session.run("python", "-m", "pytest", *(session.posargs or [f"tests/{name}" for name in OF_THE_BASE]))


@nox.session(python=PYTHONS)
def everything(session: nox.Session) -> None:
    """Run all tests with every extra, at the newest versions that are admitted."""
    session.install(f"{PACKAGE}[all,test]")
    session.run("python", "-m", "pytest", "-m", "", *session.posargs)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """Run all tests at the lowest versions that pyproject.toml admits."""
    constraints = Path(session.create_tmp()) / "lowest.txt"
    constraints.write_text(subprocess.check_output([sys.executable, "tests/lowest.py"], text=True))
    session.install(f"{PACKAGE}[all,test]", "-c", str(constraints))
    session.run("python", "-m", "pytest", "-m", "", "-W", "default", *session.posargs)
