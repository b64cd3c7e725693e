"""Checkpoints: finished parts of an unfinished artifact, so that a killed run can go on where it stopped.

They are kept in a hidden directory beside the artifact, ``.<name>.unfinished``, which no command takes for an artifact
or a table. The file of a part carries the key of its run, a hash of everything that its content depends on, so that a
part of another run is never used. When the artifact is written, the directory is removed with all its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from calcli import files
from calcli.locks import sync_directory
from calcli.places import Url

_LOCK = ".lock"
_WAIT = 1.0
_DIGEST = hashlib.sha256().digest_size


class Checkpoint:
    """The parts of one run; without a `folder` none is kept."""

    def __init__(self, folder: Path | None, key: str) -> None:
        self.folder = folder
        self.finished = False  # set once the artifact is written: no part is then needed any more
        self._key = key

    def get(self, part: str) -> bytes | None:
        """The content of a part; None if it was not kept, or is damaged."""
        if self.folder is None:
            return None
        with files.disk_errors(f"cannot read {self.folder}"):
            try:
                data = files.read(self.folder / self._name(part))
            except (FileNotFoundError, files.DamagedFileError):
                return None
        digest, content = data[:_DIGEST], data[_DIGEST:]
        return content if hashlib.sha256(content).digest() == digest else None

    def put(self, part: str, content: bytes) -> None:
        """Keep a part; once this returns, it survives a crash or a power loss."""
        if self.folder is None:
            return
        with files.disk_errors(f"cannot write {self.folder}"):
            files.replace(self.folder / self._name(part), hashlib.sha256(content).digest() + content)
            sync_directory(self.folder)

    def _name(self, part: str) -> str:
        return f"{self._key}-{part}"


@contextmanager
def checkpoint(artifact: Path | Url | None, key: str) -> Iterator[Checkpoint]:
    """The parts that an earlier run of the same key has kept, locked against other runs for the artifact.

    Without an artifact that will be written in the end, and for one in a store, none is kept. `key` is a hash, in
    hexadecimal digits, of everything that the parts depend on.
    """
    if not isinstance(artifact, Path):
        yield Checkpoint(None, key)
        return
    folder = artifact.with_name(f".{artifact.name}.unfinished")
    made: list[Path] = []
    with ExitStack() as stack:
        with files.disk_errors(f"cannot write {folder}"):
            stack.enter_context(files.locked(folder / _LOCK, _WAIT, made))
        parts = Checkpoint(folder, key)
        try:
            yield parts
        finally:
            with suppress(OSError):  # what cannot be removed is left to the next run
                for half in folder.glob(f"{files.TEMPORARY}*"):
                    half.unlink()
                if parts.finished or {path.name for path in folder.iterdir()} == {_LOCK}:
                    _sweep(folder, made)


def _sweep(folder: Path, made: list[Path]) -> None:
    """Remove the directory, its lock last, and the parents that were made; a waiting run makes them again."""
    for path in folder.iterdir():
        if path.name != _LOCK:
            path.unlink()
    (folder / _LOCK).unlink()
    folder.rmdir()
    for parent in reversed(made):
        if parent != folder:
            parent.rmdir()
