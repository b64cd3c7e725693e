"""Pipes, disks and signals, met by real processes. PYTHONUNBUFFERED would hide half of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from calcli import __version__, files
from calcli.cli import arguments
from calcli.cli.main import main
from calcli.cli.process import prepare_libraries
from tests.support.shell import HANGS, Run, calcli, environment

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


def unread() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("fit", "--help"),
        ("methods",),
        ("methods", "--format", "json"),
        ("evaluate", "test.csv"),
        ("fit", "-q", "train.parquet", "-m", "platt", "-o", "kept"),
        ("apply", "-q", "train.platt", "test.csv", "-o", "-", "--output-format", "csv"),
    ],
    ids=" ".join,
)
def test_a_reader_that_went_away_is_141_and_silence(here: Path, words: tuple[str, ...]) -> None:
    pipe = unread()
    try:
        done = calcli(*words, cwd=here, stdout=pipe)
    finally:
        os.close(pipe)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_row_that_is_wrong_in_two_ways_is_one_line(here: Path, run: Run) -> None:
    Path("bad.csv").write_bytes(b"label,logit\n0,1\n1,\xff\xfe,3\n")
    code, out, err = run("evaluate", "bad.csv")
    assert (code, out) == (3, "")
    assert err.startswith("calcli: bad.csv")
    assert err.count("\n") == 1


@needs_full
@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("methods",),
        pytest.param(("evaluate", "test.csv"), marks=pytest.mark.slow),
        ("apply", "-q", "train.platt", "test.csv", "-o", "-", "--output-format", "csv"),
    ],
    ids=" ".join,
)
def test_a_full_disk_is_7_and_one_line(here: Path, words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        done = calcli(*words, cwd=here, stdout=full)
    assert done.returncode == 7
    assert done.stderr.startswith("calcli: ")
    assert done.stderr.count("\n") == 1
    assert "full" in done.stderr or "No space left" in done.stderr


@needs_full
def test_a_full_disk_below_stderr_fails_nothing(here: Path) -> None:
    with FULL.open("w") as full:
        done = calcli("apply", "train.platt", "test.csv", "-o", "kept.csv", cwd=here, stderr=full)
    assert (done.returncode, done.stdout) == (0, "")
    assert (here / "kept.csv").exists()


@pytest.mark.parametrize(
    ("words", "closed", "said"),
    [
        ("--version", ">&-", "write to standard output"),
        ("apply train.platt test.csv -o -", ">&-", "write standard output"),
        ("evaluate - --input-format csv", "<&-", "read standard input"),
    ],
)
def test_streams_that_were_closed_before_the_start(here: Path, words: str, closed: str, said: str) -> None:
    command = f"exec '{sys.executable}' -m calcli {words} {closed}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=here, env=environment(), check=False, stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr) == (7, f"calcli: cannot {said}: it is closed\n")


def test_ctrl_c_while_it_waits_for_input(here: Path) -> None:
    """Which it does once it has taken more of its input than a pipe holds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "calcli", "evaluate", "-", "--input-format", "csv"],
        cwd=here,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"label,logit\n" + b"1,0.5\n" * 300_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANGS)
    assert (process.returncode, out, err) == (130, b"", b"calcli: interrupted\n")


@pytest.mark.parametrize("delay", [0.02, 0.25, *(pytest.param(some, marks=pytest.mark.slow) for some in (0.05, 0.1))])
def test_ctrl_c_at_any_time_is_130(here: Path, delay: float) -> None:
    """From the first line of calcli on; what happens before it, Python itself decides.

    Python forgets an interrupt that comes within a callback of its own, such as that of the lock of a module that was
    imported: then it is pressed again.
    """
    code = (
        "import signal, sys, threading, os\n"
        f"timer = threading.Timer({delay}, os.kill, (os.getpid(), signal.SIGINT))\n"
        "from calcli.cli import main\n"
        "run = main._run\n"
        "main._run = lambda words: (timer.start(), run(words))[1]\n"
        "code = main.main(['evaluate', '-', '--input-format', 'csv'])\n"
        "timer.cancel()\n"
        "sys.exit(code)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=here,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=HANGS / 10)  # its input does not end
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=HANGS)
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (130, b"calcli: interrupted\n")


def test_an_error_that_a_library_raises_for_ctrl_c_is_130(here: Path) -> None:
    """As matplotlib's compiled parts do of a transformation that was interrupted: "incompatible function arguments"."""
    code = (
        "import os, signal, sys\n"
        "from calcli.cli import main\n"
        "def compiled(words):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n"
        "        pass\n"
        "    raise TypeError('incompatible function arguments')\n"
        "main._run = compiled\n"
        "sys.argv = ['calcli', 'diagram']\n"
        "main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=here, env=environment(), check=False, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"calcli: interrupted\n")


def test_a_path_comes_out_byte_for_byte(here: Path) -> None:
    name = b"k\xffept".decode("utf-8", "surrogateescape")
    words = ("fit", "-q", "train.parquet", "-m", "platt", "--holdout", "none", "-o", name)
    done = calcli(*words, cwd=here, text=False)
    assert (done.returncode, done.stdout) == (0, b"k\xffept\n")


@pytest.mark.parametrize(
    "words",
    [("methods",), pytest.param(("evaluate", "test.csv", "--with", "train.platt"), marks=pytest.mark.slow)],
    ids=" ".join,
)
def test_an_encoding_without_our_letters_ends_nothing(here: Path, words: tuple[str, ...]) -> None:
    done = calcli(*words, cwd=here, env=environment(PYTHONIOENCODING="ascii"), text=False)
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert b"\\u" not in done.stdout


@pytest.mark.slow
def test_json_is_json_in_every_encoding(here: Path) -> None:
    names = ["Ł", "猫"]
    pl.DataFrame({"label": ["Ł", "猫"] * 5, "prob": [0.2, 0.7] * 5}).write_csv(here / "cats.csv")
    words = ("evaluate", "cats.csv", "--positive", "猫", "--format", "json")
    for encoding in ("ascii", "utf-8", "latin-1"):
        done = calcli(*words, cwd=here, env=environment(PYTHONIOENCODING=encoding, PYTHONUTF8="0"), text=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.decode(encoding))["binding"]["classes"] == names


LOUD = """
import os, sys
from calcli.cli import catalogs
from calcli.cli.main import main
from calcli.errors import DataError

def measured(*_, last=sys.argv[-1], **__):
    os.write(2, b"thread 'main' panicked at src/lib.rs:7\\n")  # as a library does that knows nothing of Python
    if last == "abort":
        os.abort()
    print("note", file=sys.stderr)
    raise DataError("a panic became one line")

catalogs.metrics = measured
sys.argv = ["calcli", "metrics", *sys.argv[1:-1]]
sys.exit(main())
"""


@pytest.mark.parametrize("debug", [False, True])
def test_what_a_library_writes_to_stderr_is_shown_with_debug_alone(debug: bool) -> None:
    words = ["--debug"] if debug else []
    done = subprocess.run(
        [sys.executable, "-c", LOUD, *words, ""], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert ("panicked" in done.stderr) == debug
    assert done.stderr.endswith("calcli: a panic became one line\n")
    if not debug:
        assert done.stderr == "note\ncalcli: a panic became one line\n"


def test_an_abort_is_still_shown() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOUD, "abort"], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in done.stderr


def test_stderr_that_was_closed_before_the_start(here: Path) -> None:
    words = ["sh", "-c", 'exec "$0" -m calcli metrics nll 2>&-', sys.executable]
    done = subprocess.run(words, cwd=here, env=environment(), capture_output=True, check=False)
    assert done.returncode == 0
    assert b"nll" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "apply train.platt test.csv -o out.csv -q",
        pytest.param("diagram test.csv -o picture.svg -q", marks=pytest.mark.slow),
    ],
)
def test_variables_of_libraries_that_make_no_sense_stop_nothing(here: Path, words: str) -> None:
    env = environment(NUMBA_NUM_THREADS="0", POLARS_MAX_THREADS="0", OMP_NUM_THREADS="many", MPLBACKEND="nonsense")
    done = calcli(*words.split(), cwd=here, env=env)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("debug", "last"), [("", ["left"]), ("1", ["stayed", "left"])])
def test_a_command_ends_after_what_was_registered_for_its_exit(debug: str, last: list[str]) -> None:
    """And with all of its output, though the interpreter is not taken apart; with --debug a profiler sees the end."""
    code = "import atexit; from calcli.cli.main import main; atexit.register(print, 'left'); main(); print('stayed')"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        env=environment(CALCLI_DEBUG=debug),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"calcli {__version__}", *last]


def test_idle_threads_of_openblas_sleep_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ({}, {"OPENBLAS_THREAD_TIMEOUT": "20"}):
        monkeypatch.setattr(os, "environ", dict(given))
        prepare_libraries()
        assert os.environ == {"OPENBLAS_THREAD_TIMEOUT": "4", **given}


def test_variables_that_libraries_would_stop_at_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"MPLBACKEND": "nonsense", "NUMBA_NUM_THREADS": "0", "POLARS_MAX_THREADS": "-1", "OMP_NUM_THREADS": "2"}
    monkeypatch.setattr(os, "environ", dict(given))
    prepare_libraries()
    assert os.environ.keys() & given.keys() == {"OMP_NUM_THREADS"}


class Clock:
    """A clock that stands still but for those who sleep."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_whoever_waits_for_a_lock_says_so_after_a_second_and_gives_up(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, told = Clock(), []
    words = ["fit", "train.parquet", "--method", "platt", "-o", "art", "--quiet", "--holdout", "none"]
    monkeypatch.setattr(files, "time", clock)
    monkeypatch.setattr(arguments, "write_stderr", lambda text: told.append((text, clock.seconds)))
    Path("art").mkdir()
    with files.locked(Path("art/.lock"), 0.0, []):
        assert main([*words, "--lock-timeout", "2.5"]) == 7
    ((text, when),) = told
    assert text == "calcli: waiting up to 2.5 s for art/.lock: another process is writing to art"
    assert 1.0 <= when <= clock.seconds - 1.0
    assert 2.5 <= clock.seconds < 3.5
    said = capsys.readouterr().err
    assert said.startswith("calcli: another calcli is writing to art: it has held art/.lock for 2.5 s")
    assert main(words) == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems hold no process to such a limit")
@pytest.mark.parametrize(
    ("kilobytes", "words"),
    [
        (600_000, "fit train.parquet -m platt -o kept -q"),
        pytest.param(1_000_000, "apply train.platt test.csv -o out.csv", marks=pytest.mark.slow),
        pytest.param(1_500_000, "fit train.parquet -m platt -o kept -q", marks=pytest.mark.slow),
        (2_500_000, "apply train.platt test.csv -o out.csv"),
    ],
)
def test_too_few_addresses_end_in_a_line(kilobytes: int, words: str, here: Path) -> None:
    program = f"ulimit -v {kilobytes} && exec {sys.executable} -m calcli {words}"
    done = subprocess.run(
        ["bash", "-c", program], env=environment(), capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert done.returncode == 7
    assert f"may use {kilobytes * 1024 / 1e9:.2f} GB of addresses" in done.stderr
    assert done.stderr.count("\n") == 1
