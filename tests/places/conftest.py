"""Servers of this machine, started once for the module that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.places import Web, databases, need, s3_server, web


@pytest.fixture(scope="module")
def _server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def store(_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """An S3 store with an empty bucket ``bucket``, and the proxy before it."""
    import boto3

    from calcli.places import stores

    for name, value in (("ACCESS_KEY_ID", "AKIANOBODY"), ("SECRET_ACCESS_KEY", "verysecret"), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(stores, "_RETRIES", {**stores._RETRIES, "max_retries": 1})
    with web(_server) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        client = boto3.resource("s3", endpoint_url=_server, region_name="us-east-1")
        bucket = client.create_bucket(Bucket="bucket")
        yield proxy
        bucket.objects.all().delete()
        bucket.delete()


@pytest.fixture
def site() -> Iterator[Web]:
    """A web server."""
    need("obstore")
    with web() as server:
        yield server


@pytest.fixture(scope="module", params=["postgresql", "sqlite", "duckdb"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database of each kind."""
    with ExitStack() as stack:
        yield databases(stack, tmp_path_factory.mktemp("database"), request.param)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server."""
    with ExitStack() as stack:
        yield databases(stack, tmp_path_factory.mktemp("database"), "postgresql")
