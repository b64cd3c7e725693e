"""Parts of an artifact that is not finished yet, kept so that a killed run can go on where it stopped.

They lie in a hidden directory beside the artifact, ``.<name>.unfinished``: no command takes it for an artifact or for
a table. A part's file carries the key of the run, a hash of everything that its content depends on, so that nothing of
another run is ever taken. When the artifact is written, the directory goes, with whatever earlier runs left in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from calcli import files

_LOCK = ".lock"
_WAIT = 1.0
_DIGEST = hashlib.sha256().digest_size


class Checkpoint:
    """The parts of one run."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self.finished = False
        self._key = key

    def get(self, part: str) -> bytes | None:
        """A part that was kept; None where it was not, or is damaged."""
        with files.disk_errors(f"cannot read {self.folder}"):
            try:
                found = files.read(self._path(part))
            except (FileNotFoundError, files.DamagedFileError):
                return None
        digest, content = found[:_DIGEST], found[_DIGEST:]
        return content if hashlib.sha256(content).digest() == digest else None

    def put(self, part: str, content: bytes) -> None:
        """Keep a part; once this returns, it outlives whatever happens."""
        with files.disk_errors(f"cannot write {self.folder}"):
            files.replace(self._path(part), hashlib.sha256(content).digest() + content)
            files.sync_directory(self.folder)

    def finish(self) -> None:
        """The artifact is written: nothing is needed any more."""
        self.finished = True

    def _path(self, part: str) -> Path:
        return self.folder / f"{self._key}-{part}"


class NullCheckpoint(Checkpoint):
    """Where there is no artifact, nothing is kept."""

    def __init__(self) -> None:
        super().__init__(Path(), "")

    def get(self, part: str) -> bytes | None:
        """Never there."""
        return None

    def put(self, part: str, content: bytes) -> None:
        """Nowhere to put it."""


@contextmanager
def checkpoint(artifact: Path | None, key: str) -> Iterator[Checkpoint]:
    """What an earlier run with the same key has kept; no other run can be at the same artifact meanwhile.

    Parameters
    ----------
    artifact
        The directory that will be written in the end; None where none will be.
    key
        Stands for all that the parts depend on: a word of hexadecimal digits.
    """
    if artifact is None:
        yield NullCheckpoint()
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
            with suppress(OSError):  # what cannot be swept is swept by the next run
                for half in folder.glob(f"{files.TEMPORARY}*"):
                    half.unlink()
                if parts.finished or {path.name for path in folder.iterdir()} == {_LOCK}:
                    _sweep(folder, made)


def _sweep(folder: Path, made: list[Path]) -> None:
    """Remove the directory, its lock last: whoever waits for it makes it anew. Parents that were made go if empty."""
    for path in folder.iterdir():
        if path.name != _LOCK:
            path.unlink()
    (folder / _LOCK).unlink()
    folder.rmdir()
    for parent in reversed(made):
        if parent != folder:
            parent.rmdir()
