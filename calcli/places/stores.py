"""Objects of stores (S3, Google Cloud Storage, Azure) and of web servers, by obstore.

Credentials come from where the tools of each store look for them: the environment, files and the machine itself. An
error of a store becomes one line of our own, because its answers can hold keys, tokens and signatures.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, TypeAlias

from calcli.errors import FileSystemError, UsageError
from calcli.extras import require
from calcli.places import Url

Version: TypeAlias = Mapping[str, str]
"""The ETag of an object, and its generation where the store counts them: another content has another version."""

CHUNK = 1 << 23

_options: ContextVar[Mapping[str, str]] = ContextVar("storage options", default=MappingProxyType({}))
_OF_CLIENT = ("allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "read_timeout", "timeout")
_OF_CREDENTIALS = ("access_key", "secret", "token", "skip_signature", "web_identity", "container_credentials")
_ADDRESSES = ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL")
_AZURE = ("az://", "abfss://")
_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_", "HTTP", "http", "HOME")
_CLIENT = {"connect_timeout": "10s", "read_timeout": "60s", "timeout": "1d"}
_RETRIES: Any = {
    "max_retries": 4,
    "retry_timeout": timedelta(minutes=2),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}


class Stored(NamedTuple):
    """The content of an object, and its version."""

    data: bytes
    version: Version


class Entry(NamedTuple):
    """An object in a listing."""

    url: Url
    modified: datetime


class ChangedError(Exception):
    """Another writer has meanwhile replaced, made or removed the object."""


@contextmanager
def storage_options(options: Mapping[str, str]) -> Iterator[None]:
    """Options for the stores that are opened within, beside the environment: ``{"region": "eu-central-1"}``.

    The keys are those of polars and delta-rs: ``region``, ``endpoint``, ``skip_signature``, ``allow_http``, ...
    """
    before = _options.set({**_options.get(), **options})
    try:
        yield
    finally:
        _options.reset(before)


def settings(url: Url) -> dict[str, str]:
    """The options of a store for the libraries of lakes, with the prefix ``aws_`` if it is Amazon's."""
    options = _with_connection_string(url.root, _options.get().items())
    if _unencrypted(options):
        options.setdefault("allow_http", "true")
    if url.scheme != "s3":
        return options
    found = {
        "region": os.environ.get("AWS_REGION"),
        "endpoint": os.environ.get("AWS_ENDPOINT_URL"),
        **{name.removeprefix("aws_"): value for name, value in options.items()},
    }
    if (provider := _amazon_credentials(options)) is not None:
        credential = provider()
        found |= {name: credential[name] for name in ("access_key_id", "secret_access_key")}
        found["session_token"] = credential["token"]
    return {f"aws_{name}": value for name, value in found.items() if value is not None}


def read(url: Url) -> Stored:
    """A whole object; a `FileNotFoundError` if there is none."""
    with _reached("read", url) as store:
        answer = store.get(url.key)
        return Stored(bytes(answer.bytes()), _version(answer.meta))


def download(url: Url, target: IO[bytes]) -> None:
    """Write an object into a file, in pieces."""
    with _reached("read", url) as store:
        answer = store.get(url.key)
        written = sum(target.write(piece) for piece in answer.stream(min_chunk_size=CHUNK))
        if written != answer.meta["size"]:
            raise ConnectionResetError("the connection was cut off")


def put(url: Url, data: bytes | IO[bytes], *, instead_of: Version | str | None = "anything") -> None:
    """Give the object this content, whole or not at all.

    With `instead_of`, only in place of that version, or if there is no such object yet (None); else a `ChangedError`.
    """
    mode: Any = "overwrite" if instead_of == "anything" else "create" if instead_of is None else dict(instead_of)  # type: ignore[arg-type]
    with _reached("write", url) as store:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        if url.web:
            raise UsageError(
                f"{url} is on a web server, which is only read", hint="write to a file, or to a store: s3://"
            )
        try:
            store.put(url.key, data, mode=mode, use_multipart=None if mode == "overwrite" else False)
        except (AlreadyExistsError, PreconditionError):
            raise ChangedError from None
        except FileNotFoundError:  # of a version that was removed, or of the bucket
            if isinstance(mode, dict):
                raise ChangedError from None
            raise FileSystemError(f"cannot write {url}: there is no such bucket", hint="make it first") from None


def listing(url: Url) -> list[Entry]:
    """All objects below `url`, in the order of their names."""
    prefix = url.key and f"{url.key}/"
    with _reached("list", url) as store:
        if url.web:
            return []
        found = store.list(prefix or None).collect()
        entries = [Entry(Url(f"{url.root}/{entry['path']}"), entry["last_modified"]) for entry in found]
        return sorted((entry for entry in entries if entry.url.key.startswith(prefix)), key=lambda one: one.url.key)


def version(url: Url) -> Version | None:
    """The version of an object; None if there is no object."""
    try:
        with _reached("read", url) as store:
            return _version(store.head(url.key))
    except FileNotFoundError:
        return None


def remove(url: Url) -> None:
    with _reached("remove", url) as store:
        store.delete(url.key)


def _version(meta: Mapping[str, Any]) -> Version:
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name) not in (None, "null")}


@lru_cache(maxsize=8)
def _opened(root: str, given: tuple[tuple[str, str], ...], _surroundings: tuple[tuple[str, str], ...]) -> Any:
    from obstore.store import HTTPStore, from_url

    settings = _with_connection_string(root, given)
    client: Any = {**_CLIENT, **{name: settings.pop(name) for name in _OF_CLIENT if name in settings}}
    client.setdefault("allow_http", str(root.startswith("http://") or _unencrypted(settings)).lower())
    if root.startswith("http"):
        return HTTPStore.from_url(root, client_options=client, retry_config=_RETRIES)
    provider = _amazon_credentials(settings) if root.startswith("s3") else None
    config: Any = settings or None
    return from_url(root, config=config, client_options=client, retry_config=_RETRIES, credential_provider=provider)


def _with_connection_string(root: str, options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The options, and those of Azure's connection string, which obstore does not read."""
    words = {
        "AccountName": "account_name",
        "AccountKey": "account_key",
        "SharedAccessSignature": "sas_key",
        "BlobEndpoint": "endpoint",
    }
    text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "") if root.startswith(_AZURE) else ""
    parts = (part.partition("=") for part in text.split(";"))
    found = {words[name]: value for name, _, value in parts if name in words}
    return found | {name.lower(): value for name, value in options}


def _unencrypted(settings: Mapping[str, str]) -> bool:
    """Whether an address begins with ``http://``."""
    addresses = [*settings.values(), *(os.environ.get(name, "") for name in _ADDRESSES)]
    return any(address.startswith("http://") for address in addresses)


def _amazon_credentials(settings: Mapping[str, str]) -> Any:
    """Credentials, found as Amazon's own tools do: variables, profiles in files, single sign-on, roles of machines."""
    if any(part in name for name in settings for part in _OF_CREDENTIALS):
        return None
    require("boto3", "s3://")
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider()
    except Exception:  # botocore has an exception for each thing that can be wrong with a profile
        return None


@contextmanager
def _reached(action: str, url: Url) -> Iterator[Any]:
    """The store; errors of obstore become a line of our own, and a missing object a `FileNotFoundError`."""
    require("obstore", f"{url.scheme}://")
    from obstore.exceptions import (
        BaseError,
        PermissionDeniedError,
        UnauthenticatedError,
        UnknownConfigurationKeyError,
    )

    surroundings = tuple(sorted(item for item in os.environ.items() if item[0].startswith(_VARIABLES)))
    try:
        yield _opened(url.root, tuple(sorted(_options.get().items())), surroundings)
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, reason(error), str(url)) from None
    except UnknownConfigurationKeyError as error:
        key = re.search(r"'([^']*)'", str(error))
        raise UsageError(
            f"--storage-option {key[1] if key else ''}: {url.scheme}:// has no such option",
            hint="see docs/places.md",
        ) from None
    except (BaseError, OSError, ValueError) as error:
        why = reason(error)
        if why.startswith("404"):
            raise FileNotFoundError(None, why, str(url)) from None
        denied = isinstance(error, PermissionDeniedError | UnauthenticatedError) or why.startswith(("401", "403"))
        hint = "check the credentials and their permissions" if denied else None
        if "error sending request" in why:
            hint = "check the name of the host, and the network"
        raise FileSystemError(f"cannot {action} {url}: {why}", hint=hint) from None


def reason(error: BaseException) -> str:
    """The reason without secrets: the code of the answer, or the last words of its first line."""
    text = str(error)
    if status := re.search(r"status code: (\d{3}[A-Za-z ]*)", text):
        code = re.search(r"<Code>(\w+)</Code>", text)
        return f"{status[1].strip()} ({code[1]})" if code else status[1].strip()
    words = text.split("\n", 1)[0].rsplit(" - ", 1)[-1]
    return re.sub(r"\w+://\S+", "…", words).strip() or type(error).__name__


def content(where: Path | Url) -> bytes:
    """The bytes of a file or an object; a `FileNotFoundError` if there is none."""
    return where.read_bytes() if isinstance(where, Path) else read(where).data
