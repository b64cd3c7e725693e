"""Writing and reading artifacts: a reader sees the old generation or the new one, whole, whatever is killed when.

A generation is a manifest and the payloads that it names. `write` goes through these stages, under the lock:

1. The payloads are written, each named by the sha256 of its content and flushed to the disk.
2. The current manifest is copied to ``manifest-<sha256>.json``: with its payloads it is the previous generation, for a
   rollback.
3. The directory is synced, so that all these names are on the disk.
4. ``manifest.json`` is replaced by one atomic rename, and the directory is synced again: this is the commit.
5. Files that neither generation names are removed.

A writer that fails or is killed before 4 leaves the old generation and leftovers, which the next writer removes.
Readers take no lock: one that finds a payload missing reads the manifest again, because it was replaced meanwhile.

An object store has the same names and stages, but no lock: the manifest is replaced on the condition that it is still
the one that was read at the beginning, and what a slower writer may yet name is left for an hour.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from calcli import files
from calcli.artifacts import codecs
from calcli.artifacts.codecs import File
from calcli.artifacts.manifest import (
    COPY_AGAIN,
    MANIFEST,
    JsonObject,
    Manifest,
    Payload,
    hash_in_name,
    is_old_manifest,
    is_payload,
    old_manifest_name,
)
from calcli.artifacts.upgrade import claims_to_be_ours
from calcli.errors import ArtifactError, CalcliError, FileSystemError, nearest
from calcli.extras import EXTRAS
from calcli.learners import cbm
from calcli.learners.catboost import normalise_cbm
from calcli.places import Url, folder, stores
from calcli.state import State

Given: TypeAlias = str | os.PathLike[str]

IN_MEMORY = Path("an artifact in memory")
"""Stands for the directory of an artifact that has none."""

STATE = "state"
"""The role of the calibrator itself; all other roles are side inputs."""

LOCK_TIMEOUT = 60.0

_LOCK = ".lock"
_LEFTOVER = timedelta(hours=1)
_MOST_RETRIES = 100
_MOST_NEIGHBOURS = 1000
_ELSEWHERE = "choose another directory, or move this one away"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One generation of an artifact, every payload checked against its hash.

    Attributes
    ----------
    states
        Role to state: ``state``, and the side inputs that were kept.
    sha256
        The hash of the manifest. The manifest names the payloads by hash, so this identifies the generation.
    """

    path: Path | Url
    manifest: Manifest
    states: Mapping[str, State]
    sha256: str

    @property
    def state(self) -> State:
        """The state of the calibrator."""
        if STATE not in self.states:
            raise ArtifactError(f"{self.path} holds no calibrator: no payload has the role {STATE!r}", hint=COPY_AGAIN)
        return self.states[STATE]


def exists(directory: Given) -> bool:
    """Whether there is an artifact, damaged or not."""
    path = folder(directory) / MANIFEST
    if isinstance(path, Url):
        return stores.version(path) is not None
    with suppress(OSError):
        return path.is_file()
    return False


def describe(directory: Given) -> Manifest:
    """The manifest; the payloads are not read."""
    path = folder(directory)
    return Manifest.from_json(_manifest_bytes(path), str(path / MANIFEST))


def read(directory: Given) -> Artifact:
    """The current generation."""
    path = folder(directory)
    text = _manifest_bytes(path)
    for _ in range(_MOST_RETRIES):
        manifest = Manifest.from_json(text, str(path / MANIFEST))
        try:
            states = _load(path, manifest, hint=_way_back(path, manifest))
            return Artifact(path, manifest, states, hashlib.sha256(text).hexdigest())
        except FileNotFoundError as error:
            # Two replacements since the manifest was read remove its payloads; then there is a newer one to read.
            previous, text = text, _manifest_bytes(path)
            if text == previous:
                hint = _way_back(path, manifest)
                raise ArtifactError(f"{error.filename} is missing from the artifact", hint=hint) from None
    raise ArtifactError(f"{path} was replaced {_MOST_RETRIES} times while it was read", hint="try again later")


def write(directory: Given, draft: Manifest, states: Mapping[str, State], *, timeout: float = LOCK_TIMEOUT) -> Manifest:
    """Make `directory` an artifact, or the next generation of the artifact that it is.

    Parameters
    ----------
    directory
        A path where nothing is, an empty directory, or an artifact.
    draft
        The manifest without `payloads`, `requires`, `previous` and the payload names in `sides`, which are filled in
        here.
    states
        Role to state: ``state``, and the side inputs that are kept.
    timeout
        Seconds to wait for another writer.

    Returns
    -------
    Manifest
        As it was written.
    """
    path = folder(directory)
    # 1. encode everything in memory
    manifest, encoded = pack(draft, states)
    manifest.to_json()  # raises if it cannot be written, before the directory is touched
    # 2. put it on the disk and commit it
    if isinstance(path, Url):
        stored = _current_object(path)
        for file in encoded:
            stores.put(path / file.payload.name, file.data)
        return _commit_object(path, manifest, stored)
    with _writing(path, timeout) as current:
        for file in encoded:
            _put_unless_there(path / file.payload.name, file.data)
        return _commit(path, manifest, current)


def pack(draft: Manifest, states: Mapping[str, State]) -> tuple[Manifest, list[File]]:
    """The first generation of an artifact in memory: its manifest and its payloads."""
    given = {side.get("role") for side in draft.sides}
    encoded = [
        file
        for role in sorted(states)
        for file in codecs.encode(role, states[role] if role in given else _reproducible(states[role]))
    ]
    payloads = tuple(file.payload for file in encoded)
    sides = tuple({**side, "payload": _payload_of(side, payloads)} for side in draft.sides)
    return replace(draft, payloads=payloads, sides=sides, requires=_requires(states), previous=None), encoded


def unpack(manifest: bytes, payloads: Mapping[str, bytes]) -> Artifact:
    """The artifact that `pack` made, from its JSON and the content of its payloads by name; hashes are checked."""
    described = Manifest.from_json(manifest)
    by_role: dict[str, list[File]] = {}
    for payload in described.payloads:
        data = payloads.get(payload.name, b"")
        if hashlib.sha256(data).hexdigest() != payload.sha256:
            raise ArtifactError(f"{IN_MEMORY} is damaged: {payload.name} is not what was kept", hint=COPY_AGAIN)
        by_role.setdefault(payload.role, []).append(File(payload, data))
    states = _decoded(by_role, IN_MEMORY, COPY_AGAIN)
    return Artifact(IN_MEMORY, described, states, hashlib.sha256(manifest).hexdigest())


def rollback(directory: Given, *, timeout: float = LOCK_TIMEOUT) -> Manifest:
    """Swap the previous and the current generation: done twice, it has changed nothing."""
    path = folder(directory)
    describe(path)  # raises before a lock file is made in a directory that is no artifact
    if isinstance(path, Url):
        stored = _current_object(path)
        return _commit_object(path, _older(path), stored)
    with _writing(path, timeout) as current:
        return _commit(path, _older(path), current)


def _older(directory: Path | Url) -> Manifest:
    """The manifest of the previous generation, which is whole."""
    older = _previous(directory, describe(directory))
    if older is None:
        raise ArtifactError(f"{directory} has no previous version", hint="it has been written only once")
    try:
        _load(directory, older)
    except FileNotFoundError as error:
        raise ArtifactError(f"{error.filename} is missing from the previous version", hint=COPY_AGAIN) from None
    return older


def check_target(directory: Given) -> None:
    """Raise now what `write` would raise after the fit: something is in the way, or the directory is read-only."""
    path = folder(directory)
    if isinstance(path, Url):
        _current_object(path)
        return
    with files.disk_errors(f"cannot write {path}"):
        _replaceable(path)
        existing = path.absolute()
        while not os.path.lexists(existing):
            existing = existing.parent
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _commit(directory: Path, manifest: Manifest, current: bytes | None) -> Manifest:
    """Make `manifest`, whose payloads are written, the current one, and `current` the previous."""
    previous = None
    if current is not None:
        previous = old_manifest_name(hashlib.sha256(current).hexdigest())
        _put_unless_there(directory / previous, current)
    committed = replace(manifest, previous=previous)
    # Names may reach the disk in any order: sync all others before the rename that commits.
    files.sync_directory(directory)
    files.replace(directory / MANIFEST, committed.to_json())
    files.sync_directory(directory)
    return committed


def _commit_object(url: Url, manifest: Manifest, current: stores.Stored | None) -> Manifest:
    """`_commit` in a store, on the condition that `current` is still the manifest there."""
    previous = None
    if current is not None:
        previous = old_manifest_name(hashlib.sha256(current.data).hexdigest())
        stores.put(url / previous, current.data)
    committed = replace(manifest, previous=previous)
    text = committed.to_json()
    try:
        stores.put(url / MANIFEST, text, instead_of=None if current is None else current.version)
    except stores.ChangedError:
        if stores.read(url / MANIFEST).data != text:  # or else a first try did it, and its answer was lost
            raise FileSystemError(
                f"another calcli has replaced {url} meanwhile; nothing was changed", hint="run this again"
            ) from None
    with suppress(OSError, CalcliError):  # what cannot be removed is left to the next writer
        _sweep_objects(url)
    return committed


def _current_object(url: Url) -> stores.Stored | None:
    """`_replaceable` in a store: the manifest to replace."""
    try:
        stored = stores.read(url / MANIFEST)
    except FileNotFoundError:
        if foreign := min((name for name in _objects(url) if not _is_our_name(name)), default=None):
            raise FileSystemError(f"{url} is not an artifact: it contains {foreign!r}", hint=_ELSEWHERE) from None
        return None
    _check_ours(url, stored.data)
    return stored


def _objects(url: Url) -> dict[str, datetime]:
    """The names of all objects below `url`, and when they were made, by the clock of the store."""
    try:
        return {entry.url.key.removeprefix(f"{url.key}/"): entry.modified for entry in stores.listing(url)}
    except FileNotFoundError as error:
        raise FileSystemError(f"cannot write {url}: {error.strerror}", hint="make the bucket first") from None


def _sweep_objects(url: Url) -> None:
    """Remove the objects of former generations, and what writers left that did not come to their end."""
    needed = _needed(url, Manifest.from_json(stores.read(url / MANIFEST).data))
    objects = _objects(url)
    for name, modified in objects.items():
        if name not in needed and _is_our_name(name) and modified < objects[MANIFEST] - _LEFTOVER:
            stores.remove(url / name)


@contextmanager
def _writing(directory: Path, timeout: float) -> Iterator[bytes | None]:
    """Hold the lock, with the current manifest; at the end leftovers go, and all traces of a failed first write."""
    made: list[Path] = []
    with files.disk_errors(f"cannot write {directory}"):
        _replaceable(directory)  # raises before a lock file is made in a directory that is not ours
        try:
            with files.locked(directory / _LOCK, timeout, made):
                try:
                    yield _replaceable(directory)
                finally:
                    # The outcome is decided by now. What cannot be removed is left to the next writer.
                    with suppress(OSError, CalcliError):
                        _sweep(directory)
        except BaseException:
            with suppress(OSError):
                for path in reversed(made):
                    path.rmdir()  # fails where it is not empty
            raise


def _replaceable(directory: Path) -> bytes | None:
    """The current manifest, None if there is nothing yet; an error if something that is not ours is in the way."""
    if os.path.lexists(directory) and not directory.is_dir():
        raise FileSystemError(f"{directory} exists and is not a directory", hint="choose another directory")
    try:
        current = files.read(directory / MANIFEST)
    except FileNotFoundError:
        if foreign := _foreign(directory):
            raise FileSystemError(f"{directory} is not an artifact: it contains {foreign!r}", hint=_ELSEWHERE) from None
        return None
    except files.DamagedFileError as error:
        raise FileSystemError(f"{directory / MANIFEST} is in the way: {error}", hint=_ELSEWHERE) from None
    _check_ours(directory, current)
    return current


def _check_ours(directory: Path | Url, current: bytes) -> None:
    """Refuse to replace a manifest that is not ours."""
    if not claims_to_be_ours(current):
        raise FileSystemError(f"{directory} is not an artifact: its {MANIFEST} is not calcli's", hint=_ELSEWHERE)
    try:
        Manifest.from_json(current, str(directory / MANIFEST))
    except ArtifactError as error:
        raise ArtifactError(f"{directory} cannot be replaced: {error.message}", hint=_ELSEWHERE) from None


def _sweep(directory: Path) -> None:
    """Remove our files that neither generation names.

    The generations are read from the disk: after an interrupt the caller does not know how far it had come.
    """
    current = _replaceable(directory)
    needed: set[str | None] = {_LOCK}
    if current is not None:
        needed |= _needed(directory, Manifest.from_json(current))
    for entry in list(os.scandir(directory)):
        if entry.name not in needed and _is_ours(entry):
            Path(entry.path).unlink()
    if current is None:  # a first write has failed
        (directory / _LOCK).unlink()  # last, because it lets the next writer in


def _needed(directory: Path | Url, manifest: Manifest) -> set[str | None]:
    """The names of the two generations."""
    older = _previous(directory, manifest)
    payloads = {payload.name for kept in (manifest, older) if kept for payload in kept.payloads}
    return {MANIFEST, manifest.previous, *payloads}


def _put_unless_there(path: Path, data: bytes) -> None:
    with suppress(FileNotFoundError, files.DamagedFileError):
        if files.read(path, size=len(data)) == data:
            return
    files.replace(path, data)


def _load(directory: Path | Url, manifest: Manifest, *, hint: str = COPY_AGAIN) -> dict[str, State]:
    """All states of a generation. A missing payload is a `FileNotFoundError`."""
    by_role: dict[str, list[File]] = {}
    for payload in manifest.payloads:
        data = _checked(directory / payload.name, size=payload.bytes, sha256=payload.sha256, hint=hint)
        by_role.setdefault(payload.role, []).append(File(payload, data))
    return _decoded(by_role, directory, hint)


def _decoded(by_role: Mapping[str, list[File]], place: Path | Url, hint: str) -> dict[str, State]:
    """The states in the files of each role."""
    try:
        return {role: codecs.decode(encoded) for role, encoded in by_role.items()}
    except ValueError as error:
        raise ArtifactError(f"{place} is damaged: {error}", hint=hint) from None


def _way_back(directory: Path | Url, manifest: Manifest) -> str:
    """The hint for a damaged generation."""
    if manifest.previous is None:
        return COPY_AGAIN
    return f"{COPY_AGAIN}, or go back to the previous one: calcli refit {shlex.quote(str(directory))} --rollback"


def _previous(directory: Path | Url, manifest: Manifest) -> Manifest | None:
    """The manifest of the previous generation."""
    if manifest.previous is None:
        return None
    path = directory / manifest.previous
    try:
        return Manifest.from_json(_checked(path, sha256=hash_in_name(path.name)), str(path))
    except FileNotFoundError:
        raise ArtifactError(f"{path}, the previous generation, is missing", hint=COPY_AGAIN) from None


def _manifest_bytes(directory: Path | Url) -> bytes:
    """The current manifest, or an `ArtifactError` that says what is at `directory` instead."""
    try:
        return _checked(directory / MANIFEST)
    except FileNotFoundError:
        raise ArtifactError(_nothing_at(directory), hint="calcli fit makes one") from None


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


def _foreign(directory: Path) -> str | None:
    """The name of something in `directory` that calcli did not write."""
    if not directory.is_dir():
        return None
    return min((entry.name for entry in os.scandir(directory) if not _is_ours(entry)), default=None)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return _is_our_name(entry.name.removeprefix(files.TEMPORARY)) and entry.is_file(follow_symlinks=False)


def _is_our_name(name: str) -> bool:
    return name in (MANIFEST, _LOCK) or is_payload(name) or is_old_manifest(name)


def _payload_of(side: JsonObject, payloads: tuple[Payload, ...]) -> str | None:
    """The payload of a side input: the file with its content, or else the index of its role."""
    of_role = [payload for payload in payloads if payload.role == side.get("role")]
    of_content = [payload for payload in of_role if payload.sha256 == side.get("sha256")]
    return (of_content or of_role)[0].name if of_role else None  # the index is the first of a role


def _requires(states: Mapping[str, State]) -> tuple[str, ...]:
    """The extra that brings CatBoost, where there is a model of it to be applied."""
    models = (blob for state in states.values() for blob in state.blobs.values() if blob.startswith(cbm.START))
    return () if next(models, None) is None else (EXTRAS["catboost"],)


def _reproducible(state: State) -> State:
    """The state without the random identifiers that CatBoost writes into models, so that equal fits have equal bytes.

    Models that users hand in are side inputs and stay as they are: their hash identifies them.
    """
    trained = {name: normalise_cbm(blob) for name, blob in state.blobs.items() if name.endswith(".cbm")}
    return replace(state, blobs={**state.blobs, **trained}) if trained else state
