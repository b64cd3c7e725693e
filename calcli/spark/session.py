"""A Spark session, and what goes wrong in it in calcli's words."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from calcli import errors, extras
from calcli.errors import CalcliError, DataError, FileSystemError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = Path(__file__).with_name("log4j2.properties")
_OURS = re.compile(r"calcli\.errors\.(\w+): (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_CAUSES = re.compile(r"^(?:: |Caused by: )[\w.$]+: (.+)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Exit|Interrupt)\b.*", re.MULTILINE)

BATCH = 1 << 16
"""Rows that Java hands to Python at a time: with Spark's 10,000 the way takes a sixth longer."""

OPENING = 1 << 18
"""So many bytes are read in the time that a small file takes to open. With Spark's 4 MB a task has 32 small files at
most, and each task costs a twentieth of a second to start in Python."""

HUGE_METHOD = 8_000
"""Bytes of a generated method that Java still compiles. Spark's own limit is that of what Java can load, so that a
longer expression would be interpreted, which is many times slower than code that Spark generates in pieces."""


@contextmanager
def spark_session(master: str | None) -> Iterator[SparkSession]:
    """The session that runs already, or a new one that is stopped afterwards.

    `master` is the URL of a cluster; None is what Spark's own configuration says, or else this machine.
    """
    extras.require("pyspark", "--engine spark")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # The settings of a new session; one that runs keeps its own where Spark cannot change them.
    running = SparkSession.getActiveSession()
    builder = (
        SparkSession.builder.appName("calcli")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}")
        .config("spark.sql.codegen.hugeMethodLimit", str(HUGE_METHOD))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH))
        .config("spark.sql.files.openCostInBytes", str(OPENING))
        .config("spark.executorEnv.POLARS_MAX_THREADS", "1")  # Spark runs a task for each core already
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")  # as one machine reads them
    )
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    try:
        started = running if running is not None and connected(running) else builder.getOrCreate()
    except (PySparkException, RuntimeError, ImportError) as error:
        raise _without_spark(error) from None
    # Spark's Python workers are the `python3` of the PATH, which on this machine need not be the one that runs.
    if running is None and "PYSPARK_PYTHON" not in os.environ and not connected(started):
        context = started.sparkContext
        if str(context.master).startswith("local"):
            context.pythonExec = sys.executable
    try:
        yield started
    finally:
        if running is None:
            started.stop()


def connected(session: SparkSession) -> bool:
    """Whether the session speaks to a server (Spark Connect), and has nothing of Java here."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _without_spark(error: Exception) -> CalcliError:
    text = str(error)
    if isinstance(error, ImportError):
        install = extras.install_line(["pyspark"])
        return MissingExtraError(f"no Spark Connect: {text.splitlines()[0]}", hint=f"try: {install}")
    if "JAVA_GATEWAY" in text or "Java gateway" in text:
        return MissingExtraError(
            "Spark needs Java 17 or newer, and could not start it", hint="install it, or set JAVA_HOME"
        )
    return UsageError(f"no Spark: {text.splitlines()[0] if text else type(error).__name__}", hint="see: --master")


@contextmanager
def failures(output: str = "") -> Iterator[None]:
    """Errors of Spark as errors of calcli; one that was raised by calcli on a worker as it was raised there."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if "PATH_ALREADY_EXISTS" in text or "TABLE_OR_VIEW_ALREADY_EXISTS" in text:
            raise FileSystemError(f"{output} exists already", hint="choose another name") from None
        ours = _OURS.search(text)
        if ours is None:
            why = _of_worker(text)
            if why is None and "PythonWorkerFactory" in text:
                raise DataError(
                    f"Spark's workers cannot run Python as {os.environ.get('PYSPARK_PYTHON', 'python3')!r}",
                    hint="name an interpreter that has calcli, on every worker: PYSPARK_PYTHON=/opt/calcli/bin/python",
                ) from error
            raise DataError(f"Spark could not finish: {why or first_line(error)}") from error
        kind = getattr(errors, ours[1], DataError)
        raise kind(ours[2]) from None


def _of_worker(text: str) -> str | None:
    """The last line of the traceback of a Python worker, if there is one."""
    lines = _PYTHON_ERROR.findall(text.partition("Traceback (most recent call last)")[2])
    return lines[-1] if lines else None


def first_line(error: Exception) -> str:
    """The reason for an error: the last cause of one in Java, else its first line."""
    if causes := _CAUSES.findall(str(error)):
        return str(causes[-1])
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
