"""Where tables, artifacts and reports are: a path on this machine, the URL of an object, a table of a database.

A user gives text or a path; `place` makes it one of the three, once, and no room above parses a URL. Messages, reports
and manifests name a place by its text (``str``), which holds no password and no token.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from calcli.errors import UsageError

OBJECTS = ("s3", "gs", "az", "abfss", "https", "http")
"""The schemes of object stores and of web servers, which are only read."""

QUERIED = ("snowflake", "bigquery", "grpc", "grpc+tls", "mysql", "mssql", "redshift", "trino", "databricks")
"""The schemes of databases that are only read, by a query; those of ``grpc`` speak Flight SQL."""

DATABASES = ("postgresql", "postgres", "sqlite", "duckdb", *QUERIED)

_NO_SECRETS = ("user", "host", "hostaddr", "port", "dbname", "sslmode", "connect_timeout", "application_name")
"""Settings in the URL of a database whose values a message may hold."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class Url:
    """An object of a store, or all objects whose names begin with its own and a slash."""

    text: str = field(repr=False)
    """The URL as it was given, with its secrets."""

    @property
    def scheme(self) -> str:
        return urlsplit(self.text).scheme.lower()

    @property
    def web(self) -> bool:
        """Whether it is on a web server, which cannot list or store objects."""
        return self.scheme in ("https", "http")

    @property
    def root(self) -> str:
        """The URL of the store; on a web server, the URL of the object itself."""
        return self.text if self.web else "/".join(self.text.split("/", 3)[:3])

    @property
    def key(self) -> str:
        """The name of the object in its store."""
        return "" if self.web else self.text.removeprefix(self.root).strip("/")

    @property
    def name(self) -> str:
        return str(self).rsplit("/", 1)[-1]

    @property
    def parent(self) -> Url:
        return Url(self.text.rstrip("/").rpartition("/")[0])

    def with_name(self, name: str) -> Url:
        return self.parent / name

    def __truediv__(self, name: str) -> Url:
        return Url(f"{self.text.rstrip('/')}/{name}")

    def __str__(self) -> str:
        if not self.web:
            return self.text.rstrip("/")
        parts = urlsplit(self.text)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def __fspath__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Database:
    """Rows of a database: those of a table, or those of a query.

    Attributes
    ----------
    url
        ``postgresql://…``, ``sqlite:///FILE`` or ``duckdb:///FILE``; ``#TABLE`` at its end names a table. Of the others
        that ADBC has drivers for, as ``snowflake://…``, only a `query` is read.
    query, table
        The rows to read; only a table is written.
    replace
        Whether rows that are written take the place of the table; by default they are added to it.
    """

    url: str = field(repr=False)
    query: str | None = None
    table: str | None = None
    replace: bool = False

    def __post_init__(self) -> None:
        start, _, rest = self.url.rpartition("@")  # a password may hold anything
        address, _, table = rest.partition("#")
        object.__setattr__(self, "url", f"{start}@{address}" if start else address)
        if table and self.table is None and self.query is None:
            object.__setattr__(self, "table", unquote(table))
        if self.scheme not in DATABASES:
            raise UsageError(f"{self} is no database", hint=f"known are {', '.join(f'{one}://' for one in DATABASES)}")
        if None not in (self.query, self.table):
            raise UsageError("--query and --table are both given", hint="keep one")

    @property
    def scheme(self) -> str:
        scheme = self.url.partition("://")[0].lower()
        return "postgresql" if scheme == "postgres" else scheme

    @property
    def file(self) -> Path | None:
        if self.scheme not in ("sqlite", "duckdb"):
            return None
        return Path(unquote(self.url.partition(":///")[2].partition("?")[0]))

    @property
    def secrets(self) -> set[str]:
        """The parts of the URL that no message may hold, and pieces of them, as drivers may split URLs elsewhere."""
        start, _, rest = self.url.partition("://")[2].rpartition("@")
        settings = (pair.partition("=") for pair in rest.partition("?")[2].split("&"))
        hidden = [start.partition(":")[2], *(value for name, _, value in settings if name not in _NO_SECRETS)]
        whole = {text for secret in hidden for text in (secret, unquote(secret))}
        return {text for text in whole if text} | {
            part for text in whole for part in re.split(r"[/:@?#&]", text) if len(part) > 2
        }

    @property
    def name(self) -> str:
        return self.table or "query"

    def __str__(self) -> str:
        scheme, _, rest = self.url.partition("://")
        start, at, rest = rest.rpartition("@")
        address = f"{scheme}://{start.partition(':')[0]}{at}{rest.partition('?')[0]}"
        return address if self.table is None else f"{address}#{self.table}"

    def __fspath__(self) -> str:
        return str(self)


LakeKind: TypeAlias = Literal["delta", "iceberg"]


@dataclass(frozen=True, slots=True)
class Lake:
    """The present version of a table of Delta Lake or Apache Iceberg, which is a directory."""

    where: Path | Url
    kind: LakeKind
    names: tuple[str, ...] = field(repr=False)
    """The files below it."""

    @property
    def name(self) -> str:
        return self.where.name

    def __str__(self) -> str:
        return str(self.where)

    def __fspath__(self) -> str:
        return str(self)


Place: TypeAlias = Path | Url | Database | Lake


def place(given: str | os.PathLike[str]) -> Path | Url | Database:
    """The path, URL or database that a user names; an error for a URL of an unknown scheme."""
    if isinstance(given, Url | Database):
        return given
    if not isinstance(given, str | os.PathLike):
        raise UsageError(f"a {type(given).__name__} stands where a path is expected")
    text = os.fspath(given)
    found = _SCHEME.match(text)
    if found is None:
        return Path(text)
    scheme = found[1].lower()
    if scheme in OBJECTS:
        return Url(text)
    if scheme in DATABASES:
        return Database(text)
    raise UsageError(
        f"calcli cannot read or write {scheme}:// URLs",
        hint=f"use a file, or one of {', '.join(f'{one}://' for one in (*OBJECTS, *DATABASES))}",
    )


def folder(given: str | os.PathLike[str]) -> Path | Url:
    """The place of an artifact or a file: `place` without databases."""
    found = place(given)
    if isinstance(found, Database):
        raise UsageError(f"{found} is a database, which holds tables only", hint="name a file, or an object of a store")
    return found


def with_table(given: Any, query: str | None, table: str | None, *, instead: bool = False) -> Database:
    """The database that a single URL names, with the query to read, or the table to read or write."""
    items = [given] if isinstance(given, str | os.PathLike) else given
    found = [place(item) for item in items] if isinstance(items, list | tuple) else []
    if len(found) == 1 and isinstance(found[0], Database):
        return replace(found[0], query=query, table=table or found[0].table, replace=instead)
    raise UsageError("--query and --table are for a database", hint="name one, such as postgresql://HOST/NAME")
