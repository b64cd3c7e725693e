"""Tables, reports and artifacts in an object store, and on a web server that is only read."""

from __future__ import annotations

import gzip
import io
import threading
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import calcli
from calcli.artifacts import store as artifacts
from calcli.artifacts import writers
from calcli.cli.main import main
from calcli.errors import CalcliError, DataError, FileSystemError, UsageError
from calcli.places import Url, stores
from calcli.tables.side_tables import read_costs
from calcli.tables.sink import write
from calcli.tables.source import open_source
from tests.support.artifacts import draft, same, state
from tests.support.places import AZURE_ACCOUNT, AZURE_KEY, Web
from tests.support.samples import clicks

ROWS = clicks()


def as_parquet(frame: pl.DataFrame = ROWS) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def put(url: str, data: bytes) -> None:
    stores.put(Url(url), data)


def rows_of(url: str) -> pl.DataFrame:
    with open_source(url) as source:
        return source.typed().collect()


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.csv.gz", "rows.arrow", "rows.ndjson.zst"])
def test_a_table_is_what_it_is_on_disk(store: Web, tmp_path: Path, name: str) -> None:
    write(ROWS.lazy(), tmp_path / name)
    assert write(ROWS.lazy(), f"{store.bucket}/a b/{name}") == len(ROWS)
    assert stores.read(Url(f"{store.bucket}/a b/{name}")).data == (tmp_path / name).read_bytes()
    with open_source(f"{store.bucket}/a b/{name}") as there, open_source(tmp_path / name) as here:
        assert there.typed().collect().equals(here.typed().collect())
        assert there.stem == here.stem == "rows"
        fact, expected = there.files()[0], here.files()[0]
        assert (fact.path, fact.bytes, fact.sha256) == (f"{store.bucket}/a b/{name}", expected.bytes, expected.sha256)


PLACES = ("a.parquet", "b.parquet", "day=1/x.parquet", "day=2/x.parquet", "_old/x.parquet", "day=2/deep/y.parquet")
PATTERNS = ("*.parquet", "**/*.parquet", "d*/x.parquet", "day=*/", "day=2", "", "?.parquet", "[ab].parquet", "*/x.csv")


def test_patterns_and_directories_name_what_they_name_on_disk(store: Web, tmp_path: Path) -> None:
    for place in PLACES:
        path = tmp_path / "in" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_parquet(ROWS[:3].with_columns(place=pl.lit(place))))
        put(f"{store.bucket}/in/{place}", path.read_bytes())

    def found(base: str, pattern: str) -> object:
        try:
            with open_source(f"{base}/{pattern}") as source:
                names = [str(path).removeprefix(base) for path in source.paths]
                return names, source.typed().collect().rows()
        except CalcliError as error:
            return type(error)

    for pattern in PATTERNS:
        assert found(f"{store.bucket}/in", pattern) == found(str(tmp_path / "in"), pattern), pattern


def test_a_web_server_is_read_and_not_written(site: Web, tmp_path: Path) -> None:
    site.pages["/a/rows.csv.gz"] = gzip.compress(ROWS.write_csv().encode())
    with open_source(f"{site.url}/a/rows.csv.gz?signature=verysecret") as source:
        assert source.typed().collect().equals(ROWS)
        assert source.files()[0].path == f"{site.url}/a/rows.csv.gz"
    assert ("GET", "/a/rows.csv.gz?signature=verysecret") in site.requests
    with pytest.raises(DataError, match="404"):
        open_source(f"{site.url}/b.csv")
    with pytest.raises(UsageError, match="only read"):
        write(ROWS.lazy(), f"{site.url}/there.csv")


def test_a_matrix_of_costs_is_read_from_anywhere(site: Web) -> None:
    site.pages["/costs.csv"] = b",a,person\nb,1,0.5\na,0,0.5\n"
    assert read_costs(f"{site.url}/costs.csv?key=verysecret", ["a", "b"]) == (("a", "person"), ((0.0, 0.5), (1.0, 0.5)))
    site.pages["/none.csv"] = b"a"
    with pytest.raises(DataError, match="no matrix of costs") as refused:
        read_costs(f"{site.url}/none.csv?key=verysecret", ["a", "b"])
    assert "verysecret" not in str(refused.value)


def test_an_option_is_told_to_the_store(s3: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    with stores.storage_options({"endpoint": s3.url}):
        put("s3://bucket/x.parquet", as_parquet())
        assert rows_of("s3://bucket/x.parquet").equals(ROWS)
    with pytest.raises(UsageError, match="nonsense"), stores.storage_options({"nonsense": "1"}):
        rows_of("s3://bucket/x.parquet")


def test_credentials_come_from_files_too(s3: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"AWS_{name}")
    profile = "[nightly]\naws_access_key_id = FROMFILE\naws_secret_access_key = verysecret\n"
    (tmp_path / "credentials").write_text(profile)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "nightly")
    put("s3://bucket/x.parquet", as_parquet())
    assert rows_of("s3://bucket/x.parquet").equals(ROWS)
    assert {signer.split("/")[0] for signer in s3.signers} == {"FROMFILE"}


def test_credentials_come_from_a_connection_string_too(azure: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"{azure.url}/{AZURE_ACCOUNT}"
    for name in ("ACCOUNT_NAME", "ACCOUNT_KEY", "ENDPOINT"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}")
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING",
        f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};BlobEndpoint={address};",
    )
    put("az://bucket/x.parquet", as_parquet())
    assert rows_of("az://bucket/x.parquet").equals(ROWS)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("evaluate s3://bucket/no.parquet", 3, "there is no object 's3://bucket/no.parquet'"),
        ("evaluate s3://nobucket/no.parquet", 3, "NoSuchBucket"),
        ("evaluate s3://bucket/*.parquet", 3, "matches nothing"),
        ("inspect s3://bucket/nothing.platt", 4, "there is no artifact s3://bucket/nothing.platt"),
        ("apply s3://nobucket/nothing.platt train.parquet -o x.csv", 4, "there is no artifact"),
        ("fit train.parquet -m platt -o s3://nobucket/x", 7, "NoSuchBucket"),
        ("fit train.parquet -m platt -o sqlite:///x.db", 2, "holds tables only"),
        ("evaluate ftp://host/x.csv", 2, "calcli cannot read or write ftp:// URLs"),
        ("evaluate train.parquet --table x", 2, "for a database"),
        ("evaluate train.parquet --storage-option verysecret", 2, "KEY=VALUE"),
    ],
)
def test_what_is_refused_is_one_line(
    s3: Web, here: Path, capsys: pytest.CaptureFixture[str], words: str, code: int, says: str
) -> None:
    assert main(words.split()) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err
    assert "verysecret" not in err


def test_no_key_or_signature_is_said(
    s3: Web, site: Web, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.breaks = lambda method, path: True
    assert main(["evaluate", f"{site.url}/x.csv?token=verysecret", "--debug"]) in (3, 7)
    s3.breaks = lambda method, path: True
    assert main(["evaluate", "s3://bucket/x.csv", "--debug"]) == 7
    assert main(["fit", "train.parquet", "-m", "platt", "-o", "s3://bucket/x", "--debug"]) == 7
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1/")
    assert main(["evaluate", "s3://bucket/x.csv", "--storage-option", "token=verysecret", "--debug"]) == 7
    told = "".join(capsys.readouterr())
    assert "check the name of the host" in told
    assert "AKIANOBODY" not in told
    assert "verysecret" not in told
    assert "Signature" not in told


def test_no_key_of_azure_is_said(
    azure: Web, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "dmVyeXNlY3JldA==")
    assert main(["evaluate", "az://bucket/x.csv", "--debug"]) == 7
    assert main(["fit", "train.parquet", "-m", "platt", "-o", "az://bucket/x", "--debug"]) == 7
    told = "".join(capsys.readouterr())
    assert "403" in told
    assert "dmVyeXNlY3JldA" not in told
    assert "SharedKey" not in told


@pytest.mark.slow
def test_every_verb_takes_a_store(store: Web, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(f"{store.bucket}/train.parquet", (here / "train.parquet").read_bytes())
    put(f"{store.bucket}/test.parquet", (here / "test.parquet").read_bytes())
    for words in (
        "fit s3://bucket/train.parquet -m platt -o s3://bucket/kept.platt",
        "apply s3://bucket/kept.platt s3://bucket/test.parquet -o s3://bucket/scored.csv",
        "evaluate s3://bucket/test.parquet --with s3://bucket/kept.platt --html s3://bucket/page.html",
        "evaluate s3://bucket/test.parquet --drift s3://bucket/kept.platt",
        "evaluate s3://bucket/test.parquet --drift s3://bucket/kept.platt",
        "diagram s3://bucket/test.parquet -o s3://bucket/d.html",
        "inspect s3://bucket/kept.platt",
        "export s3://bucket/kept.platt",
        "refit s3://bucket/kept.platt s3://bucket/test.parquet",
    ):
        given = words.replace("s3://bucket", store.bucket).split()
        assert main(given) in ((0, 1) if "refit" in words else (0,)), capsys.readouterr().err
    assert main(["fit", "train.parquet", "-m", "platt", "-o", "kept.platt"]) == 0
    assert main(["apply", "kept.platt", "test.parquet", "-o", "scored.csv"]) == 0
    assert stores.read(Url(f"{store.bucket}/scored.csv")).data == (here / "scored.csv").read_bytes()
    assert stores.read(Url(f"{store.bucket}/page.html")).data.startswith(b"<!DOCTYPE html>")
    assert f"{store.bucket}/test.parquet".encode() in stores.read(Url(f"{store.bucket}/kept.platt.drift.json")).data
    assert (
        calcli.load(f"{store.bucket}/kept.platt").manifest.data["files"][0]["path"] == f"{store.bucket}/train.parquet"
    )


@pytest.mark.slow
def test_a_write_that_is_cut_off_leaves_what_was_there(store: Web) -> None:
    put(f"{store.bucket}/x.csv", b"old")
    store.breaks = lambda method, path: method in ("PUT", "POST")
    with pytest.raises(FileSystemError, match=rf"cannot write {store.bucket}/x\.csv"):
        write(ROWS.lazy(), f"{store.bucket}/x.csv")
    store.breaks = lambda method, path: False

    def fail(frame: pl.DataFrame) -> pl.DataFrame:
        raise DataError("no")

    with pytest.raises(DataError):
        write(ROWS.lazy().map_batches(fail), f"{store.bucket}/x.csv")
    assert stores.read(Url(f"{store.bucket}/x.csv")).data == b"old"
    assert [entry.url.key for entry in stores.listing(Url(store.bucket))] == ["x.csv"]


@pytest.mark.slow
def test_a_read_that_is_cut_off_is_one_line(store: Web, site: Web) -> None:
    put(f"{store.bucket}/x.parquet", as_parquet())
    site.pages["/x.parquet"] = as_parquet()
    store.breaks = site.breaks = lambda method, path: "x.parquet" in path and method == "GET"
    for url in (f"{store.bucket}/x.parquet", f"{site.url}/x.parquet"):
        with pytest.raises(FileSystemError, match="cannot read"):
            open_source(url)


def test_an_artifact_is_read_as_it_was_written(store: Web) -> None:
    url = f"{store.bucket}/models/a.platt"
    assert not artifacts.exists(url)
    artifacts.write(url, draft(1), {"state": state(1)})
    assert artifacts.exists(url)
    assert same(artifacts.read(url).state, state(1))
    artifacts.write(url, draft(2), {"state": state(2)})
    assert same(artifacts.read(url).state, state(2))
    artifacts.rollback(url)
    assert same(artifacts.read(url).state, state(1))
    artifacts.rollback(url)
    assert same(artifacts.read(url).state, state(2))


def test_another_thing_is_not_replaced(store: Web) -> None:
    put(f"{store.bucket}/mine/thesis.tex", b"years of work")
    with pytest.raises(FileSystemError, match=r"thesis\.tex"):
        artifacts.write(f"{store.bucket}/mine", draft(1), {"state": state(1)})
    assert [entry.url.key for entry in stores.listing(Url(store.bucket))] == ["mine/thesis.tex"]


@pytest.mark.slow
def test_whatever_request_fails_a_reader_has_the_old_or_the_new_artifact(store: Web) -> None:
    url = f"{store.bucket}/a.platt"
    artifacts.write(url, draft(0), {"state": state(0)})
    count = 0

    def breaks(at: int) -> Callable[[str, str], bool]:
        seen: dict[str, None] = {}

        def asked(method: str, path: str) -> bool:
            seen.setdefault(f"{method} {path}")
            return len(seen) > at

        return asked

    for attempt in range(1, 20):
        before = artifacts.read(url)
        store.breaks = breaks(count)
        try:
            artifacts.write(url, draft(attempt), {"state": state(attempt)})
            failed = False
        except FileSystemError:
            failed = True
        store.breaks = lambda method, path: False
        after = artifacts.read(url)
        assert after.sha256 == before.sha256 or same(after.state, state(attempt))
        assert failed or same(after.state, state(attempt))
        count += 1
        if not failed:
            break
    assert count > 4  # requests, each of which has failed once


@pytest.mark.slow
def test_a_commit_whose_answer_is_lost_is_one(store: Web) -> None:
    url = f"{store.bucket}/a.platt"
    lost: list[str] = []

    def once(method: str, path: str) -> bool:
        if method != "PUT" or not path.endswith("manifest.json") or lost:
            return False
        lost.append(path)
        return True

    for generation in (1, 2):
        lost.clear()
        store.swallows = once
        artifacts.write(url, draft(generation), {"state": state(generation)})
        assert lost
        assert same(artifacts.read(url).state, state(generation))


@pytest.mark.slow
def test_of_two_writers_one_is_refused(store: Web) -> None:
    url = f"{store.bucket}/a.platt"
    for generation in (0, 10):
        seen: list[str] = []

        def other(method: str, path: str, generation: int = generation, seen: list[str] = seen) -> None:
            if method == "PUT" and path.endswith("manifest.json") and not seen:
                seen.append(path)
                artifacts.write(url, draft(generation + 1), {"state": state(generation + 1)})

        store.before = other
        with pytest.raises(FileSystemError, match="meanwhile"):
            artifacts.write(url, draft(generation + 2), {"state": state(generation + 2)})
        store.before = lambda method, path: None
        assert same(artifacts.read(url).state, state(generation + 1))


@pytest.mark.slow
def test_readers_see_the_old_or_the_new_artifact(store: Web) -> None:
    url = f"{store.bucket}/a.platt"
    artifacts.write(url, draft(0), {"state": state(0)})
    done = threading.Event()
    found: list[object] = []

    def read() -> None:
        last = False
        while not last:
            last = done.is_set()
            try:
                artifact = artifacts.read(url)
                found.append(any(same(artifact.state, state(each)) for each in range(6)))
            except Exception as error:
                found.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for generation in range(1, 6):
            artifacts.write(url, draft(generation), {"state": state(generation)})
    finally:
        done.set()
        reader.join()
    assert set(found) == {True}


@pytest.mark.slow
def test_only_old_leftovers_are_removed(store: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{store.bucket}/a.platt"
    for generation in range(4):
        artifacts.write(url, draft(generation), {"state": state(generation)})
    assert len(stores.listing(Url(url))) > 4  # what a slower writer may yet name
    monkeypatch.setattr(writers, "_LEFTOVER", -writers._LEFTOVER)
    artifacts.write(url, draft(4), {"state": state(4)})
    kept = {entry.url.name for entry in stores.listing(Url(url))}
    manifest = artifacts.describe(url)
    assert {"manifest.json", manifest.previous, *(payload.name for payload in manifest.payloads)} <= kept
    assert len(kept) == 2 + 2 * len(manifest.payloads)
    artifacts.rollback(url)
    assert same(artifacts.read(url).state, state(3))
