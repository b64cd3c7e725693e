"""Read an artifact, or write its next generation, in a directory or an object store.

Readers take no lock: one that finds a payload missing reads the manifest again, because it was replaced meanwhile.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from calcli.artifacts import codecs, generation
from calcli.artifacts.codecs import File
from calcli.artifacts.manifest import COPY_AGAIN, MANIFEST, JsonObject, Manifest, Payload
from calcli.errors import ArtifactError
from calcli.extras import EXTRAS
from calcli.places import Url, folder
from calcli.state import State

if TYPE_CHECKING:  # `apply` only reads
    from calcli.artifacts.writers import DirectoryWriter, ObjectWriter

Given: TypeAlias = str | os.PathLike[str]

IN_MEMORY = Path("an artifact in memory")
"""Stands for the directory of an artifact that has none."""

STATE = "state"
"""The role of the calibrator itself; all other roles are side inputs."""

_MOST_RETRIES = 100


@dataclass(frozen=True, slots=True)
class Artifact:
    """One generation of an artifact, every payload checked against its hash."""

    path: Path | Url
    manifest: Manifest
    states: Mapping[str, State]
    """Role to state: ``state``, and the side inputs that were kept."""

    sha256: str
    """The hash of the manifest. The manifest names the payloads by hash, so this identifies the generation."""

    @property
    def state(self) -> State:
        if STATE not in self.states:
            raise ArtifactError(f"{self.path} holds no calibrator: no payload has the role {STATE!r}", hint=COPY_AGAIN)
        return self.states[STATE]


def exists(directory: Given) -> bool:
    """Whether there is an artifact, damaged or not."""
    return generation.exists(folder(directory))


def describe(directory: Given) -> Manifest:
    """The manifest; the payloads are not read."""
    path = folder(directory)
    return Manifest.from_json(generation.manifest_bytes(path), str(path / MANIFEST))


def read(directory: Given) -> Artifact:
    """The current generation."""
    path = folder(directory)
    text = generation.manifest_bytes(path)
    for _ in range(_MOST_RETRIES):
        manifest = Manifest.from_json(text, str(path / MANIFEST))
        try:
            states = generation.load(path, manifest, hint=generation.way_back(path, manifest))
            return Artifact(path, manifest, states, hashlib.sha256(text).hexdigest())
        except FileNotFoundError as error:
            # Two replacements since the manifest was read remove its payloads; then there is a newer one to read.
            previous, text = text, generation.manifest_bytes(path)
            if text == previous:
                hint = generation.way_back(path, manifest)
                raise ArtifactError(f"{error.filename} is missing from the artifact", hint=hint) from None
    raise ArtifactError(f"{path} was replaced {_MOST_RETRIES} times while it was read", hint="try again later")


def write(directory: Given, draft: Manifest, states: Mapping[str, State], *, timeout: float | None = None) -> Manifest:
    """Make a directory, which may be missing or empty, an artifact, or the next generation of the artifact that it is.

    The draft is the manifest without `payloads`, `requires`, `previous` and the payload names in `sides`: the manifest
    that is returned has them. `states` are those of the roles ``state`` and of the side inputs that are kept; `timeout`
    is how many seconds another writer is waited for, if it is not the `patience` of `calcli.files`.
    """
    path = folder(directory)
    # 1. encode everything in memory
    manifest, encoded = pack(draft, states)
    manifest.to_json()  # raises if it cannot be written, before the directory is touched
    # 2. put it on the disk and commit it
    with _writing(path, timeout) as writer:
        for file in encoded:
            writer.put(file.payload.name, file.data)
        return writer.commit(manifest)


def pack(draft: Manifest, states: Mapping[str, State]) -> tuple[Manifest, list[File]]:
    """The first generation of an artifact in memory: its manifest and its payloads."""
    from calcli.learners import cbm

    given = {side.get("role") for side in draft.sides}
    encoded = [
        file
        for role in sorted(states)
        for file in codecs.encode(role, states[role] if role in given else _reproducible(states[role]))
    ]
    payloads = tuple(file.payload for file in encoded)
    sides = tuple({**side, "payload": _payload_of(side, payloads)} for side in draft.sides)
    blobs = (blob for state in states.values() for blob in state.blobs.values())
    requires = (EXTRAS["catboost"],) if any(blob.startswith(cbm.START) for blob in blobs) else ()
    return replace(draft, payloads=payloads, sides=sides, requires=requires, previous=None), encoded


def unpack(manifest: bytes, payloads: Mapping[str, bytes]) -> Artifact:
    """The artifact that `pack` made, from its JSON and the content of its payloads by name; hashes are checked."""
    described = Manifest.from_json(manifest)
    encoded = []
    for payload in described.payloads:
        data = payloads.get(payload.name, b"")
        if hashlib.sha256(data).hexdigest() != payload.sha256:
            raise ArtifactError(f"{IN_MEMORY} is damaged: {payload.name} is not what was kept", hint=COPY_AGAIN)
        encoded.append(File(payload, data))
    states = generation.decoded(encoded, IN_MEMORY, COPY_AGAIN)
    return Artifact(IN_MEMORY, described, states, hashlib.sha256(manifest).hexdigest())


def rollback(directory: Given, *, timeout: float | None = None) -> Manifest:
    """Swap the previous and the current generation: done twice, it has changed nothing."""
    path = folder(directory)
    describe(path)  # raises before a lock file is made in a directory that is no artifact
    with _writing(path, timeout) as writer:
        return writer.commit(_older(path))


def _older(directory: Path | Url) -> Manifest:
    """The manifest of the previous generation, which is whole."""
    older = generation.previous(directory, describe(directory))
    if older is None:
        raise ArtifactError(f"{directory} has no previous version", hint="it has been written only once")
    try:
        generation.load(directory, older)
    except FileNotFoundError as error:
        raise ArtifactError(f"{error.filename} is missing from the previous version", hint=COPY_AGAIN) from None
    return older


def check_target(directory: Given) -> None:
    """Raise now the errors of `write` after the fit: something is in the way, or the directory is read-only."""
    from calcli.artifacts import writers

    path = folder(directory)
    if isinstance(path, Url):
        writers.ObjectWriter.at(path)
    else:
        writers.check_directory(path)


def _writing(path: Path | Url, timeout: float | None) -> AbstractContextManager[DirectoryWriter | ObjectWriter]:
    from calcli.artifacts import writers

    if isinstance(path, Url):
        return nullcontext(writers.ObjectWriter.at(path))
    return writers.locked_directory(path, timeout)


def _payload_of(side: JsonObject, payloads: tuple[Payload, ...]) -> str | None:
    """The payload of a side input: the file with its content, or else the index of its role."""
    of_role = [payload for payload in payloads if payload.role == side.get("role")]
    of_content = [payload for payload in of_role if payload.sha256 == side.get("sha256")]
    return (of_content or of_role)[0].name if of_role else None  # the index is the first of a role


def _reproducible(state: State) -> State:
    """The state without the random identifiers that CatBoost writes into models, so that equal fits have equal bytes.

    Models that users hand in are side inputs and stay as they are: their hash identifies them.
    """
    models = {name: blob for name, blob in state.blobs.items() if name.endswith(".cbm")}
    if not models:
        return state
    from calcli.learners.catboost import normalise_cbm

    trained = {name: normalise_cbm(blob) for name, blob in models.items()}
    return replace(state, blobs={**state.blobs, **trained})
