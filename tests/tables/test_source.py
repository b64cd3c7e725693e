"""Opening tables, from anywhere."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from calcli.errors import CalcliError, DataError, FileSystemError, UsageError
from calcli.tables.sink import write
from calcli.tables.source import open_source
from calcli.tables.spool import FileFact
from tests.support.tables import ordinary, put, put_text

SUFFIXES = ["parquet", "csv", "tsv", "arrow", "ndjson"]
FRAME = pl.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [0.5, None, -1.0], "d": [True, None, False]})


@pytest.fixture
def spooled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where temporary files are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_format(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path / f"data.v2.{suffix}", FRAME)
    with open_source(path) as source:
        assert source.columns == ("a", "b", "c", "d")
        assert source.schema == FRAME.schema
        assert source.typed().collect().equals(FRAME)
        assert source.typed(["c", "a"]).collect().equals(FRAME.select("c", "a"))
        assert source.rows() == 3
        assert source.text == (suffix in ("csv", "tsv"))
        assert source.stem == "data"
        assert source.paths == (path,)
        content = path.read_bytes()
        assert source.files() == (FileFact(str(path), len(content), hashlib.sha256(content).hexdigest()),)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("packed", ["gz", "zst"])
def test_compressed(tmp_path: Path, spooled: Path, suffix: str, packed: str) -> None:
    plain = put(tmp_path / f"data.{suffix}", FRAME).read_bytes()
    path = tmp_path / f"data.{suffix}.{packed}"
    if packed == "gz":
        path.write_bytes(gzip.compress(plain[:10]) + gzip.compress(plain[10:]))  # members, as pigz and cat leave them
    else:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(plain)
    with open_source(path) as source:
        assert source.typed().collect().equals(FRAME)
        assert source.stem == "data"
        content = path.read_bytes()
        assert source.files() == (FileFact(str(path), len(content), hashlib.sha256(content).hexdigest()),)
        assert list(spooled.rglob("input-*"))
    assert not list(spooled.iterdir())


@pytest.mark.parametrize("packed", [bytes, gzip.compress, lambda data: pa.compress(data, "zstd", asbytes=True)])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_standard_input(
    tmp_path: Path, spooled: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, packed: Callable[[bytes], bytes]
) -> None:
    content = put(tmp_path / f"data.{suffix}", FRAME).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed(content))))
    format = {"arrow": "ipc"}.get(suffix, suffix)  # noqa: A001
    with open_source("-", format=format) as source:
        assert source.typed().collect().equals(FRAME)
        assert source.typed().collect().equals(FRAME)
        assert source.stem is None
        assert source.paths == ()
        assert source.files() == (FileFact(None, len(content), hashlib.sha256(content).hexdigest()),)
    assert not list(spooled.iterdir())


def test_temporary_files_go_even_if_nobody_closes(tmp_path: Path, spooled: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n1\n"))
    source = open_source(tmp_path / "a.csv.gz")
    assert list(spooled.iterdir())
    del source
    assert not list(spooled.iterdir())
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"a\n"))
    with pytest.raises(DataError):
        open_source(tmp_path / "b.csv.gz")
    assert not list(spooled.iterdir())


def test_a_pipe_is_spooled(tmp_path: Path, spooled: Path) -> None:
    read, written = os.pipe()
    with open(written, "wb") as pipe:  # noqa: PTH123
        pipe.write(b"a,b\n1,2\n")
    with open_source(f"/dev/fd/{read}", format="csv") as source:
        assert source.raw.collect().rows() == [("1", "2")]
        assert source.raw.collect().rows() == [("1", "2")]
    os.close(read)


def test_arrow_stream_format(tmp_path: Path) -> None:
    arrow = FRAME.to_arrow()
    with pyarrow.ipc.new_stream(str(tmp_path / "a.arrows"), arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=2)
    with open_source(tmp_path / "a.arrows") as source:
        assert source.raw.collect().equals(FRAME)
        assert source.raw.select("b").head(1).collect().item() == "x"
        assert source.raw.filter(pl.col("a") > 1).collect().equals(FRAME.filter(pl.col("a") > 1))
    with open_source([tmp_path / "a.arrows", put(tmp_path / "b.arrow", FRAME)]) as source:
        assert source.raw.collect().equals(pl.concat([FRAME, FRAME]))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_several_files_in_order(tmp_path: Path, suffix: str) -> None:
    parts = [ordinary(20, seed=seed).drop("day") for seed in range(3)]
    for number, part in enumerate(parts):
        put(tmp_path / "in" / f"{number}.{suffix}", part.select(reversed(part.columns)) if number == 1 else part)
    whole = pl.concat(parts)
    (tmp_path / "in" / "_SUCCESS").touch()
    (tmp_path / "in" / ".hidden.csv").write_text("x\n1\n")
    (tmp_path / "in" / "README.md").touch()
    for data in (
        [tmp_path / "in" / f"{number}.{suffix}" for number in range(3)],
        str(tmp_path / "in" / f"*.{suffix}"),
        tmp_path / "in",
        str(tmp_path / "*"),
    ):
        if data == str(tmp_path / "*"):
            with pytest.raises(DataError, match="1 directories and no file"):
                open_source(data)
            continue
        with open_source(data) as source:
            assert source.typed().collect().equals(whole)
            assert source.stem is None
            assert len(source.files()) == 3


def test_one_match_of_a_glob_names_the_output(tmp_path: Path) -> None:
    put(tmp_path / "train.parquet", FRAME)
    with open_source(str(tmp_path / "tr*.parquet")) as source:
        assert source.stem == "train"
    with open_source(tmp_path) as source:
        assert source.stem is None


def test_brackets_in_names_are_no_patterns(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        path = put(tmp_path / f"a[1]*.{suffix}", FRAME)
        put(tmp_path / f"a1x.{suffix}", ordinary(3))
        with open_source(str(path)) as source:
            assert source.typed().collect().equals(FRAME)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_hive_directories_become_columns(tmp_path: Path, suffix: str) -> None:
    root = tmp_path / "other=9" / "data"
    put(root / "day=1" / "site=a%20b" / f"p.{suffix}", pl.DataFrame({"x": [1, 2]}))
    put(root / "day=2" / "site=__HIVE_DEFAULT_PARTITION__" / f"p.{suffix}", pl.DataFrame({"x": [3]}))
    with open_source(root) as source:
        expected = pl.DataFrame({"x": [1, 2, 3], "day": [1, 1, 2], "site": ["a b", "a b", None]})
        assert source.typed().collect().equals(expected)
        assert source.raw.select("day").collect().height == 3
        assert [str(value) for value in source.raw.filter(pl.col("site") == "a b").collect()["x"]] == ["1", "2"]
    put(root / "day=3" / "site=c" / f"p.{suffix}", pl.DataFrame({"x": [3], "day": [1]}))
    with pytest.raises(DataError, match="a column 'day', and so have the directories"):
        open_source(root)
    put(root / f"p.{suffix}", pl.DataFrame({"x": [3]}))
    with pytest.raises(DataError, match="the directories above"):
        open_source(root)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "ndjson"])
def test_wider_numbers_hold_narrower_ones(tmp_path: Path, suffix: str) -> None:
    put(tmp_path / f"1.{suffix}", pl.DataFrame({"x": [1], "y": ["a"]}))
    put(tmp_path / f"2.{suffix}", pl.DataFrame({"y": ["b"], "x": [2.5]}))
    with open_source(tmp_path) as source:
        assert source.raw.collect().equals(pl.DataFrame({"x": [1.0, 2.5], "y": ["a", "b"]}))
    put(tmp_path / f"3.{suffix}", pl.DataFrame({"x": ["no"], "y": ["b"]}))
    with pytest.raises(DataError, match=r"column 'x' is String in .*3\..*, but Float64 in .*1\."):
        open_source(tmp_path).raw.select("x").collect()


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_columns_that_differ(tmp_path: Path, suffix: str) -> None:
    one = put(tmp_path / f"1.{suffix}", pl.DataFrame({"x": [1]}))
    two = put(tmp_path / f"2.{suffix}", pl.DataFrame({"x": [1], "y": [1]}))
    with pytest.raises(DataError, match=r"2\.\w+ has a column 'y', which .*1\."):
        open_source([one, two])
    with pytest.raises(DataError, match=r"1\.\w+ has no column 'y', which .*2\."):
        open_source([two, one])


def test_absent_keys_of_json_are_null(tmp_path: Path) -> None:
    one = put_text(tmp_path / "1.ndjson", '{"a": 1}\n{"b": "x"}\n')
    two = put_text(tmp_path / "2.ndjson", '{"c": 2.5, "a": null}\n')
    with open_source([one, two]) as source:
        expected = pl.DataFrame({"a": [1, None, None], "b": [None, "x", None], "c": [None, None, 2.5]})
        assert source.raw.collect().equals(expected)


def test_many_files_at_once(tmp_path: Path) -> None:
    for number in range(40):
        put(tmp_path / f"k={number % 2}" / f"{number:02}.parquet", pl.DataFrame({"x": [number, number]}))
    with open_source(tmp_path) as source:
        frame = source.raw.collect()
        assert frame["x"].to_list() == [n for k in (0, 1) for n in range(k, 40, 2) for _ in (0, 1)]
        assert (frame["x"] % 2 == frame["k"]).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame,
        lambda frame: frame.lazy(),
        lambda frame: frame.to_arrow(),
        lambda frame: frame.to_arrow().to_batches()[0],
        lambda frame: pd.DataFrame({name: pd.array(frame[name].to_list()) for name in frame.columns}),
    ],
    ids=["polars", "lazy", "table", "batch", "pandas"],
)
def test_frames_in_memory(make: Any) -> None:
    with open_source(make(FRAME)) as source:
        assert source.typed().collect().equals(FRAME)
        assert source.format is None
        assert source.stem is None
        assert source.files() == ()
        assert source.rows() == 3


def test_pandas_missing_values_are_null_and_its_index_is_no_column() -> None:
    frame = pd.DataFrame(
        {"x": [1.0, float("nan")], "o": pd.Categorical(["lo", "hi"], ["lo", "mid", "hi"], ordered=True)}
    )
    frame.index = ["r", "s"]
    with open_source(frame) as source:
        assert source.raw.collect().rows() == [(1.0, "lo"), (None, "hi")]
        assert source.schema["o"] == pl.Enum(["lo", "mid", "hi"])


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        *(
            (data, UsageError, "cannot read rows from")
            for data in (5, None, {"a": [1]}, object(), [{"a": 1}], b"a", [None])
        ),
        *((make({"a": []}), DataError, "has no rows") for make in (pl.DataFrame, pd.DataFrame, pa.table)),
        (pd.DataFrame({"a": [1, "x", object()]}), DataError, "cannot be read"),
    ],
)
def test_what_is_no_table_in_memory(data: Any, error: type[CalcliError], message: str) -> None:
    with pytest.raises(error, match=message):
        open_source(data)


@pytest.mark.parametrize("name", ["*", "^a.*$", "^$"])
def test_names_that_are_patterns(tmp_path: Path, name: str) -> None:
    frame = pl.DataFrame({"a": [1, 2], name: [3, 4]})
    for data in (
        put(tmp_path / "a.csv", frame),
        put(tmp_path / "a.parquet", frame),
        frame,
        frame.lazy(),
        frame.to_arrow(),
    ):
        with pytest.raises(DataError, match="which stands for other columns; rename it"):
            open_source(data)


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    put(tmp_path / "train.parquet", FRAME)
    with pytest.raises(
        DataError, match=r"no file .*trian.parquet'; '.*' contains train.parquet; did you mean .*train.parquet'"
    ):
        open_source(tmp_path / "trian.parquet")
    with pytest.raises(DataError, match="there is no directory"):
        open_source(tmp_path / "nowhere" / "train.parquet")


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([], UsageError, "no input"),
        *((data, UsageError, "the name of the table is empty") for data in ("", [""], ["a.csv", ""])),
        (["-", "-"], UsageError, "standard input is named twice"),
        ("-", UsageError, "--input-format"),
        ("*.nothing", DataError, "matches nothing"),
        (["a.csv", "a.parquet"], UsageError, "a.csv is csv, a.parquet is parquet"),
        ("noformat", UsageError, "unknown suffix; known"),
        ("mixed", DataError, "1 csv and 1 parquet; choose with --input-format"),
        ("nothing", DataError, "holds no table"),
    ],
)
def test_what_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Any, error: type[CalcliError], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n1\n")))
    put(Path("a.csv"), FRAME)
    put(Path("a.parquet"), FRAME)
    put(Path("mixed/a.csv"), FRAME)
    put(Path("mixed/a.parquet"), FRAME)
    Path("nothing").mkdir()
    Path("noformat").touch()
    with pytest.raises(error, match=message):
        open_source(data, format="csv" if data == ["-", "-"] else None)


def test_format_chooses_in_a_mixed_directory(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", FRAME)
    put(tmp_path / "a.parquet", FRAME.head(1))
    with open_source(tmp_path, format="parquet") as source:
        assert source.rows() == 1
    (tmp_path / "sub").mkdir()
    for number in range(2):
        put(tmp_path / "a.ndjson", FRAME).rename(tmp_path / "sub" / f"part-{number}")
    with open_source(tmp_path / "sub", format="ndjson") as source:
        assert source.rows() == 6


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def in_stream_format(buffer: io.BytesIO) -> None:
    with pyarrow.ipc.new_stream(buffer, FRAME.to_arrow().schema) as writer:
        writer.write_table(FRAME.to_arrow())


PARQUET, TWICE = written(ordinary().write_parquet), pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
BROKEN = {
    **{f"empty.{suffix}": b"" for suffix in ("parquet", "arrow", "ndjson", "csv", "csv.gz")},
    **{f"text.{suffix}": b"a,b\n1,2\n" for suffix in ("parquet", "arrow", "csv.gz", "csv.zst")},
    "cut.parquet": PARQUET[:-50],
    "hollow.parquet": PARQUET[:20] + bytes(2000) + PARQUET[2020:],
    "twice.parquet": written(lambda buffer: pyarrow.parquet.write_table(TWICE, buffer)),
    "norows.parquet": written(FRAME.clear().write_parquet),
    "nocolumns.parquet": written(lambda buffer: pyarrow.parquet.write_table(pa.table({}), buffer)),
    "cut.arrow": written(ordinary().write_ipc)[:-50],
    "cut.arrows": written(in_stream_format)[:-60],
    "norows.arrow": written(FRAME.clear().write_ipc),
    "old.feather": b"FEA1" + bytes(40),
    "cut.ndjson": b'{"a": 1}\n{"a": 2',
    "list.ndjson": b'[{"a": 1}, 2]\n',
    "bytes.ndjson": b'{"a": "\xff"}\n',
    "cut.csv.gz": gzip.compress(os.urandom(5000))[:-900],
}


def test_copies_of_those_who_were_killed_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = put_text(tmp_path / "a.csv.gz", gzip.compress(b"a,b\n1,2\n"))
    program = "import sys, os, signal; from calcli.tables.source import open_source\n"
    program += "source = open_source(sys.argv[1]); os.kill(os.getpid(), signal.SIGKILL)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program, str(path)], env=environment, check=False)
    (killed,) = tmp_path.glob("calcli-*")
    (tmp_path / "calcli-other").mkdir()  # of somebody else: it has no lock
    with open_source(path) as one:
        assert not killed.exists()
        (own,) = set(tmp_path.glob("calcli-*")) - {tmp_path / "calcli-other"}
        with open_source(path) as two:
            assert own.exists()  # its owner lives
            assert one.rows() == two.rows() == 1
    assert [folder.name for folder in tmp_path.glob("calcli-*")] == ["calcli-other"]


def test_rows_do_not_count_twice(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", ordinary(10))
    (tmp_path / "link.csv").symlink_to(path)
    for twice in ([path, path], [path, tmp_path / "link.csv"], [tmp_path / "*.csv"], tmp_path):
        with pytest.raises(UsageError, match="is named twice; name it once"):
            open_source(twice)


def test_text_is_unpacked_whatever_its_name_says(tmp_path: Path) -> None:
    put_text(tmp_path / "a.csv", gzip.compress(b"a,b\n1,2\n"))
    with open_source(tmp_path / "a.csv") as source:
        assert source.raw.collect().rows() == [("1", "2")]


def test_json_beside_tables_is_none_of_them(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", ordinary(10))
    put_text(tmp_path / "about.json", '{"rows": 10}')
    with open_source(tmp_path) as source:
        assert (source.format, source.rows()) == ("parquet", 10)
    with open_source(tmp_path, format="json") as source:
        assert source.columns == ("rows",)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DataError, match="holds no table"):
        open_source(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(tmp_path: Path, name: str) -> None:
    path = put_text(tmp_path / name, BROKEN[name])

    def copy() -> None:
        with open_source(path) as source:
            write(source.typed(), tmp_path / "out.parquet")

    with pytest.raises(DataError) as caught:
        copy()
    assert name in str(caught.value) or "out.parquet" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.parquet").exists()


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.parquet", FRAME)
    path.chmod(0)

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)  # the tests may run as root, who may read everything
    with pytest.raises(FileSystemError, match="permission denied") as caught:
        open_source(path)
    assert caught.value.exit_code == 7


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", FRAME)
    with open_source(path) as source:
        path.unlink()
        with pytest.raises(DataError, match="not there any more"):
            source.rows()
