"""States as files, and back, bit for bit.

A role is kept as an index in JSON, its arrays in one npz file if it has any, and its blobs as they are. The index names
the other files::

    {"arrays": "<role>-<sha256>.npz" or null, "blobs": {name: "<role>-<sha256>.<suffix>", …}, "params": {…}}

Nothing here evaluates or unpickles.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from calcli.artifacts import npz, strictjson
from calcli.artifacts.manifest import Payload, is_role, refuse_unsafe
from calcli.state import Json, State


@dataclass(frozen=True, slots=True)
class File:
    """A payload with its content."""

    payload: Payload
    data: bytes


def encode(role: str, state: State) -> list[File]:
    """The files of `state`, the index first. Equal states give equal bytes.

    Raises
    ------
    ValueError
        If the state could not be read back exactly: an object array, a NaN in the parameters, a name with ``..``.
    """
    if not is_role(role):
        raise ValueError(f"{role!r} cannot be the role of a payload")
    for name in state.blobs:
        refuse_unsafe(name)
    arrays = [_file(role, "npz", npz.pack(state.arrays), "npz")] if state.arrays else []
    blobs = {name: _file(role, "blob", state.blobs[name], _suffix(name)) for name in sorted(state.blobs)}
    index = {
        "arrays": arrays[0].payload.name if arrays else None,
        "blobs": {name: file.payload.name for name, file in blobs.items()},
        "params": dict(state.params),
    }
    files = [_file(role, "json", strictjson.dumps(index).encode(), "json"), *arrays, *blobs.values()]
    return list({file.payload.name: file for file in files}.values())  # equal blobs are one file


def decode(files: Iterable[File]) -> State:
    """The state in the files of `encode`; a `ValueError` for any other content."""
    by_name = {file.payload.name: file for file in files}
    params, arrays, blobs = _index([file for file in by_name.values() if file.payload.codec == "json"])
    for name in blobs:
        refuse_unsafe(name)
    missing = [name for name in (arrays, *blobs.values()) if name is not None and name not in by_name]
    if missing:
        raise ValueError(f"the index names {missing[0][:120]!r}, which is missing")
    return State(
        params=params,
        arrays={} if arrays is None else npz.unpack(by_name[arrays].data),
        blobs={name: by_name[payload].data for name, payload in blobs.items()},
    )


def _index(indexes: list[File]) -> tuple[dict[str, Json], str | None, dict[str, str]]:
    """The parameters, the payload name of the arrays, and those of the blobs."""
    if len(indexes) != 1:
        raise ValueError(f"there are {len(indexes)} indexes, not one")
    index = strictjson.loads_object(indexes[0].data)
    params, arrays, blobs = index.get("params"), index.get("arrays", 0), index.get("blobs")
    if isinstance(params, dict) and isinstance(arrays, str | None) and isinstance(blobs, dict):
        names = {name: payload for name, payload in blobs.items() if isinstance(payload, str)}
        if len(names) == len(blobs):
            return params, arrays, names
    raise ValueError("the index does not hold parameters, arrays and blobs")


def _file(role: str, codec: str, data: bytes, suffix: str) -> File:
    sha256 = hashlib.sha256(data).hexdigest()
    return File(Payload(role, f"{role}-{sha256}.{suffix}", sha256, len(data), codec), data)


def _suffix(name: str) -> str:
    """The suffix of a blob's name, so that the file can be opened by its own program."""
    suffix = PurePosixPath(name).suffix.removeprefix(".")
    return suffix if re.fullmatch(r"[A-Za-z0-9]{1,16}", suffix) else "bin"
