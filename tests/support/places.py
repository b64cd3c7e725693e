"""Places that are not files: an S3 server, a web server and databases of this machine, and what breaks on the way."""

from __future__ import annotations

import http.client
import http.server
import importlib.util
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.engines import postgres_server

SECRET = "geheim%2F%40wort"
"""A password as a URL has it."""


def need(*modules: str) -> None:
    """Skip the test where a package is not installed."""
    for module in modules:
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:  # of the package around it
            found = None
        if found is None:
            pytest.skip(f"no {module}")


@dataclass
class Web:
    """A server that passes requests on, or has pages of its own.

    Attributes
    ----------
    requests, signers
        The method and path of each that came, and the name of the key that signed it.
    breaks
        By method and path: whether the connection is cut, in the middle of the answer to a GET, else before.
    swallows
        By method and path: whether the connection is cut once the request is done, without an answer.
    before
        Called with the method and the path of each request.
    bucket
        Of a store, the URL of the bucket that tests may use.
    """

    pages: dict[str, bytes] = field(default_factory=dict)
    upstream: str | None = None
    breaks: Callable[[str, str], bool] = lambda method, path: False
    swallows: Callable[[str, str], bool] = lambda method, path: False
    before: Callable[[str, str], None] = lambda method, path: None
    requests: list[tuple[str, str]] = field(default_factory=list)
    signers: list[str] = field(default_factory=list)
    url: str = ""
    bucket: str = ""


@contextmanager
def web(upstream: str | None = None) -> Iterator[Web]:
    """A web server, or a proxy before another one."""
    state = Web(upstream=upstream)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.requests.append((self.command, self.path))
            state.signers += re.findall(r"Credential=([^,]+)", self.headers.get("Authorization") or "")
            state.before(self.command, self.path)
            cut = state.breaks(self.command, self.path)
            if cut and self.command != "GET":
                self.close_connection = True
                return
            status, headers, content = self._answer(body)
            if state.swallows(self.command, self.path):
                self.close_connection = True
                return
            self.send_response_only(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[: len(content) // 2] if cut else content)
            self.close_connection = self.close_connection or cut

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        def _answer(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            if state.upstream is None:
                path = urlsplit(self.path).path
                content = state.pages.get(path, b"")
                return 200 if path in state.pages else 404, [("Content-Length", str(len(content)))], content
            connection = http.client.HTTPConnection(urlsplit(state.upstream).netloc)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OF_CONNECTION]
            size = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            connection.close()
            return answer.status, [*kept, ("Content-Length", size or "0")], content

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_OF_CONNECTION = ("content-length", "transfer-encoding", "connection", "keep-alive")


@contextmanager
def s3_server() -> Iterator[str]:
    """The URL of an S3 server, which keeps its objects in memory."""
    need("moto", "flask", "obstore", "boto3")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""What Azurite's documentation gives as its only account."""


@contextmanager
def azure_server() -> Iterator[str]:
    """The URL of an Azure blob store, which keeps its objects in memory."""
    need("obstore", "azure.storage.blob")
    command = shutil.which("azurite-blob")
    if command is None:
        pytest.skip("no azurite-blob")
    # Port 0: the system chooses it, and the server says which.
    arguments = ["--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with subprocess.Popen([command, *arguments], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            said = next((line for line in server.stdout if "successfully listens on" in line), "")
            yield said.split()[-1]
        finally:
            server.kill()


def databases(stack: ExitStack, folder: Path, scheme: str) -> str:
    """The URL of an empty database; that of PostgreSQL has a password."""
    if scheme != "postgresql":
        need({"sqlite": "adbc_driver_sqlite", "duckdb": "duckdb"}[scheme], "adbc_driver_manager")
        return f"{scheme}:///{folder}/here.{scheme}"
    need("adbc_driver_postgresql")
    import adbc_driver_postgresql.dbapi as driver

    url = f"postgresql://calcli:{SECRET}@/postgres?host={postgres_server(stack)}"
    driver.connect(url).close()
    return url
