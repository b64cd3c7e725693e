"""Writing the next generation of an artifact into an object store.

The names and stages are those of a directory (see `directory_writer`), but there is no lock: the manifest is replaced
on the condition that it is still the one that was read at the beginning, and what a slower writer may yet name is left
for an hour.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from calcli.artifacts.generation import ELSEWHERE, check_ours, is_our_name, needed, succeeding
from calcli.artifacts.manifest import MANIFEST, Manifest
from calcli.errors import CalcliError, FileSystemError
from calcli.places import Url, stores

_LEFTOVER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """A place in a store, and the manifest that is replaced there."""

    url: Url
    current: stores.Stored | None

    @classmethod
    def at(cls, url: Url) -> ObjectWriter:
        """An error if something that is not ours is in the way."""
        try:
            stored = stores.read(url / MANIFEST)
        except FileNotFoundError:
            if foreign := min((name for name in _objects(url) if not is_our_name(name)), default=None):
                raise FileSystemError(f"{url} is not an artifact: it contains {foreign!r}", hint=ELSEWHERE) from None
            return cls(url, None)
        check_ours(url, stored.data)
        return cls(url, stored)

    def put(self, name: str, data: bytes) -> None:
        stores.put(self.url / name, data)

    def commit(self, manifest: Manifest) -> Manifest:
        """Make `manifest`, whose payloads are written, the current one, unless another writer was faster."""
        committed = succeeding(manifest, None if self.current is None else self.current.data, self.put)
        text = committed.to_json()
        try:
            stores.put(self.url / MANIFEST, text, instead_of=None if self.current is None else self.current.version)
        except stores.ChangedError:
            if stores.read(self.url / MANIFEST).data != text:  # or else a first try did it, and its answer was lost
                raise FileSystemError(
                    f"another calcli has replaced {self.url} meanwhile; nothing was changed", hint="run this again"
                ) from None
        with suppress(OSError, CalcliError):  # what cannot be removed is left to the next writer
            _sweep(self.url)
        return committed


def _objects(url: Url) -> dict[str, datetime]:
    """The names of all objects below `url`, and when they were made, by the clock of the store."""
    try:
        return {entry.url.key.removeprefix(f"{url.key}/"): entry.modified for entry in stores.listing(url)}
    except FileNotFoundError as error:
        raise FileSystemError(f"cannot write {url}: {error.strerror}", hint="make the bucket first") from None


def _sweep(url: Url) -> None:
    """Remove the objects of former generations, and what writers left that did not come to their end."""
    kept = needed(url, Manifest.from_json(stores.read(url / MANIFEST).data))
    objects = _objects(url)
    for name, modified in objects.items():
        if name not in kept and is_our_name(name) and modified < objects[MANIFEST] - _LEFTOVER:
            stores.remove(url / name)
