"""Read and check one generation of an artifact: a manifest and the payloads that it names."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from calcli import files
from calcli.artifacts import codecs
from calcli.artifacts.codecs import File
from calcli.artifacts.manifest import (
    COPY_AGAIN,
    MANIFEST,
    Manifest,
    claims_to_be_ours,
    hash_in_name,
    is_old_manifest,
    is_payload,
    old_manifest_name,
)
from calcli.errors import ArtifactError, FileSystemError, nearest
from calcli.places import Url, stores
from calcli.state import State

LOCK = ".lock"
"""The file that a writer of a directory holds."""

ELSEWHERE = "choose another directory, or move this one away"

_MOST_NEIGHBOURS = 1000


def exists(directory: Path | Url) -> bool:
    path = directory / MANIFEST
    if isinstance(path, Url):
        return stores.version(path) is not None
    with suppress(OSError):
        return path.is_file()
    return False


def manifest_bytes(directory: Path | Url) -> bytes:
    """The current manifest; an `ArtifactError` says what else is at `directory`."""
    try:
        return _checked(directory / MANIFEST)
    except FileNotFoundError:
        raise ArtifactError(_nothing_at(directory), hint="calcli fit makes one") from None


def load(directory: Path | Url, manifest: Manifest, *, hint: str = COPY_AGAIN) -> dict[str, State]:
    """All states of a generation. A missing payload is a `FileNotFoundError`."""
    encoded = [
        File(payload, _checked(directory / payload.name, size=payload.bytes, sha256=payload.sha256, hint=hint))
        for payload in manifest.payloads
    ]
    return decoded(encoded, directory, hint)


def decoded(encoded: Iterable[File], directory: Path | Url, hint: str) -> dict[str, State]:
    """The states in the files of all roles."""
    by_role: dict[str, list[File]] = {}
    for file in encoded:
        by_role.setdefault(file.payload.role, []).append(file)
    try:
        return {role: codecs.decode(parts) for role, parts in by_role.items()}
    except ValueError as error:
        raise ArtifactError(f"{directory} is damaged: {error}", hint=hint) from None


def previous(directory: Path | Url, manifest: Manifest) -> Manifest | None:
    if manifest.previous is None:
        return None
    path = directory / manifest.previous
    try:
        return Manifest.from_json(_checked(path, sha256=hash_in_name(path.name)), str(path))
    except FileNotFoundError:
        raise ArtifactError(f"{path}, the previous generation, is missing", hint=COPY_AGAIN) from None


def needed(directory: Path | Url, manifest: Manifest) -> set[str | None]:
    """The names of the files of this generation and the previous one."""
    older = previous(directory, manifest)
    payloads = {payload.name for kept in (manifest, older) if kept for payload in kept.payloads}
    return {MANIFEST, manifest.previous, *payloads}


def succeeding(manifest: Manifest, current: bytes | None, keep: Callable[[str, bytes], None]) -> Manifest:
    """The manifest, with `current` as its previous generation; `keep` gets `current` under a name of its own."""
    if current is None:
        return replace(manifest, previous=None)
    name = old_manifest_name(hashlib.sha256(current).hexdigest())
    keep(name, current)
    return replace(manifest, previous=name)


def way_back(directory: Path | Url, manifest: Manifest) -> str:
    """The hint for a damaged generation."""
    if manifest.previous is None:
        return COPY_AGAIN
    return f"{COPY_AGAIN}, or go back to the previous one: calcli refit {shlex.quote(str(directory))} --rollback"


def check_ours(directory: Path | Url, current: bytes) -> Manifest:
    """The manifest that is in place; one that is not ours is refused, because it would be replaced."""
    try:
        return Manifest.from_json(current, str(directory / MANIFEST))
    except ArtifactError as error:
        if claims_to_be_ours(current):
            raise ArtifactError(f"{directory} cannot be replaced: {error.message}", hint=ELSEWHERE) from None
        raise FileSystemError(
            f"{directory} is not an artifact: its {MANIFEST} is not calcli's", hint=ELSEWHERE
        ) from None


def is_our_name(name: str) -> bool:
    return name in (MANIFEST, LOCK) or is_payload(name) or is_old_manifest(name)


def _nothing_at(directory: Path | Url) -> str:
    if isinstance(directory, Url):
        return f"there is no artifact {directory}"
    if directory.is_dir():
        return f"{directory} is not an artifact: it holds no {MANIFEST}"
    if directory.exists():
        return f"{directory} is a file; an artifact is a directory"
    try:
        neighbours = islice(directory.absolute().parent.iterdir(), _MOST_NEIGHBOURS)
        artifacts = [path.name for path in neighbours if exists(path)]
    except OSError:
        artifacts = []
    match = nearest(directory.name, artifacts)
    return f"there is no artifact {directory}" + (f"; did you mean {directory.with_name(match)}?" if match else "")


def _checked(path: Path | Url, *, size: int | None = None, sha256: str | None = None, hint: str = COPY_AGAIN) -> bytes:
    """`files.read` with the errors of a reader of artifacts; a `FileNotFoundError` passes."""
    try:
        if isinstance(path, Url):
            return files.undamaged(stores.read(path).data, size=size, sha256=sha256)
        return files.read(path, size=size, sha256=sha256)
    except files.DamagedFileError as error:
        raise ArtifactError(f"{path} is damaged: {error}", hint=hint) from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from None
    except OSError as error:
        raise FileSystemError(f"cannot read {path}: {error.strerror}") from error
