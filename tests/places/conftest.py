"""Servers of this machine, started once for the module that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from calcli.places import stores
from tests.support.places import AZURE_ACCOUNT, AZURE_KEY, Web, azure_server, databases, need, s3_server, web


@pytest.fixture(scope="module")
def _amazon() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture(scope="module")
def _microsoft() -> Iterator[str]:
    with azure_server() as url:
        yield url


@pytest.fixture
def s3(_amazon: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """An S3 store with an empty bucket, and the proxy before it."""
    import boto3

    for name, value in (("ACCESS_KEY_ID", "AKIANOBODY"), ("SECRET_ACCESS_KEY", "verysecret"), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(stores, "_RETRIES", {**stores._RETRIES, "max_retries": 1})
    with web(_amazon) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        client = boto3.resource("s3", endpoint_url=_amazon, region_name="us-east-1")
        bucket = client.create_bucket(Bucket="bucket")
        proxy.bucket = "s3://bucket"
        yield proxy
        bucket.objects.all().delete()
        bucket.delete()


@pytest.fixture
def azure(_microsoft: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """An Azure store with an empty container, and the proxy before it."""
    from azure.storage.blob import ContainerClient

    for name, value in (("NAME", AZURE_ACCOUNT), ("KEY", AZURE_KEY)):
        monkeypatch.setenv(f"AZURE_STORAGE_ACCOUNT_{name}", value)
    monkeypatch.setattr(stores, "_RETRIES", {**stores._RETRIES, "max_retries": 1})
    with web(_microsoft) as proxy:
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"{proxy.url}/{AZURE_ACCOUNT}")
        container = ContainerClient(f"{_microsoft}/{AZURE_ACCOUNT}", "bucket", credential=AZURE_KEY)
        container.create_container()
        proxy.bucket = "az://bucket"
        yield proxy
        container.delete_container()


@pytest.fixture(params=["s3", "azure"])
def store(request: pytest.FixtureRequest) -> Web:
    """A store of each kind."""
    found: Web = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def site() -> Iterator[Web]:
    """A web server."""
    need("obstore")
    with web() as server:
        yield server


@pytest.fixture(scope="module", params=["postgresql", "sqlite", "duckdb"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database of each kind."""
    if request.param == "postgresql":
        yield request.getfixturevalue("postgres")
        return
    with ExitStack() as stack:
        yield databases(stack, tmp_path_factory.mktemp("database"), request.param)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server."""
    with ExitStack() as stack:
        yield databases(stack, tmp_path_factory.mktemp("database"), "postgresql")
