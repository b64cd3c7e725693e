"""Writing: whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from calcli.errors import CalcliError, ClosedPipeError, DataError, FileSystemError, UsageError
from calcli.files import replacing
from calcli.tables.arrow_types import ArrowTypes
from calcli.tables.scan import scan_frames
from calcli.tables.sink import write, write_bytes
from calcli.tables.source import open_source
from tests.support.shell import HANGS
from tests.support.tables import ordinary

SUFFIXES = ["parquet", "csv", "tsv", "arrow", "ndjson"]
NAMES = {"arrow": "ipc"}
FRAME = ordinary().drop("day")


def read(path: Path, format: str | None = None) -> pl.DataFrame:  # noqa: A002
    with open_source(path, format=format) as source:
        return source.typed().collect()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_format(tmp_path: Path, suffix: str) -> None:
    assert write(FRAME.lazy(), tmp_path / f"a.{suffix}") == len(FRAME)
    assert read(tmp_path / f"a.{suffix}").equals(FRAME)
    assert [path.name for path in tmp_path.iterdir()] == [f"a.{suffix}"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "ndjson"])
@pytest.mark.parametrize("packed", ["gz", "zst"])
def test_compressed(tmp_path: Path, suffix: str, packed: str) -> None:
    path = tmp_path / f"a.{suffix}.{packed}"
    write(FRAME.lazy(), path)
    assert read(path).equals(FRAME)
    write(FRAME.lazy(), tmp_path / f"plain.{suffix}")
    plain = (tmp_path / f"plain.{suffix}").read_bytes()
    unpacked = (
        gzip.decompress(path.read_bytes()) if packed == "gz" else pa.CompressedInputStream(str(path), "zstd").read()
    )
    assert unpacked == plain


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_standard_output_gets_what_a_file_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer))
    frame = FRAME.with_columns(pl.col("site").cast(pl.Categorical)).lazy()
    assert write(frame, "-", format=NAMES.get(suffix, suffix)) == len(FRAME)
    (tmp_path / f"a.{suffix}").write_bytes(buffer.getvalue())
    assert read(tmp_path / f"a.{suffix}").cast({"site": pl.String}).equals(FRAME)


def test_text_written_before_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        file.buffer.write(b"before\n")
        write(pl.LazyFrame({"a": [1]}), "-", format="csv")
        file.buffer.write(b"after\n")
    assert (tmp_path / "out").read_text() == "before\na\n1\nafter\n"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_row_order_and_counts_of_many_chunks(tmp_path: Path, suffix: str) -> None:
    frame = pl.DataFrame({"a": range(100_000)})
    frame.write_parquet(tmp_path / "in.parquet", row_group_size=2_500)
    lazy = pl.scan_parquet(tmp_path / "in.parquet").map_batches(lambda rows: rows, streamable=True)
    assert write(lazy, tmp_path / f"out.{suffix}") == 100_000
    assert read(tmp_path / f"out.{suffix}").equals(frame)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 1e22, 123456789.123456789, 1e-12])
@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_text_keeps_every_bit_of_a_float(tmp_path: Path, suffix: str, value: float) -> None:
    write(pl.LazyFrame({"calibrated": [value, -value]}), tmp_path / f"a.{suffix}")
    assert read(tmp_path / f"a.{suffix}")["calibrated"].to_list() == [value, -value]


def failing(after: int, error: BaseException) -> pl.LazyFrame:
    seen = 0

    def fail(rows: pl.DataFrame) -> pl.DataFrame:
        nonlocal seen
        seen += len(rows)
        if seen > after:
            raise error
        return rows

    frame = pl.DataFrame({"a": range(500_000)}).lazy()
    return frame.map_batches(fail, streamable=True)


@pytest.mark.parametrize("error", [DataError("row 7 is bad", hint="mend it"), KeyboardInterrupt(), ValueError("bug")])
@pytest.mark.parametrize("restored", [ArrowTypes(), ArrowTypes({"a": pa.int32()})], ids=["plain", "restored"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failure_leaves_nothing_behind(
    tmp_path: Path, suffix: str, restored: ArrowTypes, error: BaseException
) -> None:
    target = tmp_path / f"a.{suffix}"
    target.write_text("what was there before")
    with pytest.raises(type(error)) as caught:
        write(failing(100_000, error), target, arrow_types=restored)
    if isinstance(error, DataError):
        assert caught.value is error
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert target.read_text() == "what was there before"


@pytest.mark.parametrize("restored", [ArrowTypes(), ArrowTypes({"a": pa.int32()})], ids=["plain", "restored"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_standard_output_gets_the_whole_table_or_nothing(
    monkeypatch: pytest.MonkeyPatch, suffix: str, restored: ArrowTypes
) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer))
    with pytest.raises(DataError):
        write(failing(400_000, DataError("row 7 is bad")), "-", format=NAMES.get(suffix, suffix), arrow_types=restored)
    sys.stdout.flush()
    assert not buffer.getvalue()


@pytest.mark.parametrize("form", ["csv", "tsv", "ndjson", "parquet"])
def test_a_stream_has_rows_before_the_last_is_known(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    buffer = io.BytesIO()

    def rows(_: object) -> Iterator[pl.DataFrame]:
        for _ in range(1000):
            if buffer.getvalue():
                raise DataError("row 7 is bad")
            yield pl.DataFrame({"a": range(10_000)})

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer))
    with pytest.raises(DataError, match="row 7 is bad"):
        write(scan_frames(rows, {"a": pl.Int64()}), "-", format=form, stream=True)


KILLED = """
import os, signal, sys
import polars as pl
import pyarrow as pa
from calcli.tables.arrow_types import ArrowTypes
from calcli.tables.sink import write

def kill(rows):
    os.kill(os.getpid(), signal.SIGKILL)

types = ArrowTypes({"a": pa.int32()} if sys.argv[2] == "restored" else {})
write(pl.LazyFrame({"a": [1]}).map_batches(kill), sys.argv[1], arrow_types=types)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["plain", "restored"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path, suffix: str, how: str) -> None:
    target = tmp_path / f"a.{suffix}"
    others = {f".a.{suffix}.0123456.tmp", f".b.{suffix}.01234567.tmp", f"a.{suffix}.01234567.tmp"}
    for name in others:
        (tmp_path / name).touch()
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), how], check=False, timeout=HANGS)
    assert done.returncode == -9
    assert len([path for path in tmp_path.iterdir() if path.name not in others]) == 1
    write(FRAME.lazy(), target)
    assert {path.name for path in tmp_path.iterdir()} == others | {target.name}


def test_what_another_writer_is_writing_is_no_leftover(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    with replacing(target) as slow:
        slow.write(b"slow")
        write_bytes(b"quick", target)
        assert target.read_bytes() == b"quick"
    assert target.read_bytes() == b"slow"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("old")
    seen = []

    def look(rows: pl.DataFrame) -> pl.DataFrame:
        seen.append((target.read_text(), len(list(tmp_path.iterdir()))))
        return rows

    write(pl.DataFrame({"a": range(300_000)}).lazy().map_batches(look, streamable=True), target)
    assert {text for text, _ in seen} == {"old"}
    assert target.read_text().startswith("a\n0\n1\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_the_input_can_be_replaced(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        path = tmp_path / f"a.{suffix}"
        write(FRAME.lazy(), path)
        with open_source(path) as source:
            write(source.raw.with_columns(added=pl.lit(1)), path)
        assert read(path).equals(FRAME.with_columns(added=pl.lit(1, pl.Int64))), suffix


def test_mode_and_links_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.csv"
    real.write_text("old")
    real.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(real)
    write(pl.LazyFrame({"a": [1]}), link)
    assert link.is_symlink()
    assert real.read_text() == "a\n1\n"
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("name", "format", "error", "message"),
    [
        ("nowhere/a.csv", None, FileSystemError, r"no directory .*; make the directory first"),
        ("", "csv", FileSystemError, "it is a directory; name a file in it"),
        ("a", None, UsageError, "--output-format"),
        ("-", None, UsageError, "--output-format"),
        ("a.parquet.gz", None, UsageError, "compresses its own columns"),
    ],
)
def test_targets_that_cannot_be_written(
    tmp_path: Path,
    name: str,
    format: str | None,  # noqa: A002
    error: type[CalcliError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        write(FRAME.lazy(), name if name == "-" else tmp_path / name, format=format)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("restored", [ArrowTypes(), ArrowTypes({"age": pa.float32()})], ids=["plain", "restored"])
@pytest.mark.parametrize("format", ["parquet", "csv", "ipc", "ndjson"])
def test_a_full_disk(format: str, restored: ArrowTypes) -> None:  # noqa: A002
    with pytest.raises(FileSystemError, match="cannot write /dev/full: the disk is full; free some space") as caught:
        write(FRAME.lazy(), "/dev/full", format=format, arrow_types=restored)
    assert caught.value.exit_code == 7


@pytest.mark.parametrize(
    ("number", "words"), [(28, "the disk is full"), (13, "permission denied"), (30, "read-only"), (5, "Input/output")]
)
def test_what_the_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(FileSystemError, match=words):
        write(FRAME.lazy(), tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())


def test_devices_are_not_replaced() -> None:
    assert write(FRAME.lazy(), "/dev/null", format="parquet") == len(FRAME)
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_fifo(tmp_path: Path, suffix: str) -> None:
    fifo = tmp_path / f"fifo.{suffix}"
    os.mkfifo(fifo)
    with os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write(FRAME.lazy(), fifo)  # less than a pipe holds
        (tmp_path / f"a.{suffix}").write_bytes(reader.read())
    assert read(tmp_path / f"a.{suffix}").equals(FRAME)
    assert fifo.is_fifo()


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc", "ndjson"])
@pytest.mark.parametrize("rows", [1, 300_000])
def test_a_closed_pipe(monkeypatch: pytest.MonkeyPatch, format: str, rows: int) -> None:  # noqa: A002
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(ClosedPipeError) as caught:
        write(pl.DataFrame({"a": range(rows)}).lazy(), "-", format=format)
    assert caught.value.exit_code == 141
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def test_a_small_table_into_a_pipe_that_nobody_reads() -> None:
    """What fits into a buffer fails when it is flushed, which must be before `write` returns."""
    program = (
        "import sys, time, polars as pl\n"
        "from calcli.tables.sink import write\n"
        "from calcli.errors import CalcliError\n"
        "sys.stdin.read()\n"
        "try: write(pl.LazyFrame({'a': [1]}), '-', format='csv')\n"
        "except CalcliError as error: sys.stderr.write(str(error.exit_code))\n"
        "sys.stderr.flush()\n"
        "import os; os._exit(0)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin
    assert child.stdout
    assert child.stderr
    child.stdout.close()
    child.stdin.close()
    assert child.stderr.read() == b"141"
    child.stderr.close()
    child.wait()


def test_errors_of_the_input_come_through(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 1_500_000 + "3\n")
    with open_source(path) as source, pytest.raises(CalcliError, match="1 fields in row 1500001"):
        write(source.raw, tmp_path / "b.csv")
    assert not (tmp_path / "b.csv").exists()


def test_bytes_are_there_whole_or_not_at_all(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    target = tmp_path / "x.png"
    write_bytes(b"\x89PNG", target)
    assert target.read_bytes() == b"\x89PNG"
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]
    write_bytes(b"abc", "-")
    assert capfdbinary.readouterr().out == b"abc"
    write_bytes(b"abc", "/dev/null")
    with pytest.raises(FileSystemError, match="there is no directory"):
        write_bytes(b"abc", tmp_path / "no" / "x.png")
    with pytest.raises(FileSystemError, match="it is a directory"):
        write_bytes(b"abc", tmp_path)
    with pytest.raises(FileSystemError, match="the disk is full"):
        write_bytes(b"abc" * 10_000, "/dev/full")
