"""States as files, and back, bit for bit.

Each role of an artifact has one index in JSON::

    {"arrays": "<role>-<sha256>.npz" or null, "blobs": {name: "<role>-<sha256>.<suffix>", …}, "params": {…}}

Arrays go into a plain npz that ``numpy.load`` opens as well; its bytes depend on the arrays alone. Blobs are files as
they are. Nothing here evaluates, unpickles or decompresses: what is read is compared with the few things that are
ever written, and refused when it is anything else.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from calcli.artifacts import strictjson
from calcli.artifacts.manifest import Payload, is_role
from calcli.errors import ArtifactError
from calcli.state import Json, State

Array = NDArray[np.generic]

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([|<>][biuf][1248])', 'fortran_order': (True|False), 'shape': \(([0-9, ]{0,600})\), \} *\n"
)
_DTYPES = frozenset("|b1 |i1 |u1 <i2 <i4 <i8 <u2 <u4 <u8 <f2 <f4 <f8 >i2 >i4 >i8 >u2 >u4 >u8 >f2 >f4 >f8".split())
_MOST_DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class File:
    """A payload with its content."""

    payload: Payload
    data: bytes


def encode(role: str, state: State) -> list[File]:
    """The files that keep `state`, the index first. Equal states give equal bytes."""
    if not is_role(role):
        raise ValueError(f"{role!r} cannot be the role of a payload")
    arrays = _file(role, "npz", "npz", pack_arrays(state.arrays)) if state.arrays else None
    blobs = {name: _file(role, "blob", _suffix(name), data) for name, data in state.blobs.items()}
    for name in blobs:
        _refuse_unsafe(name)
    index = {
        "params": dict(state.params),
        "arrays": arrays.payload.name if arrays else None,
        "blobs": {name: file.payload.name for name, file in blobs.items()},
    }
    files = [_file(role, "json", "json", strictjson.dumps(index).encode())]
    files += [arrays] if arrays else []
    # Two blobs with the same content are one file.
    return list({file.payload.name: file for file in [*files, *blobs.values()]}.values())


def decode(role: str, files: Iterable[File]) -> State:
    """The state that `encode` made files of. Whatever else the files hold is an `ArtifactError`."""
    by_name = {file.payload.name: file for file in files}
    params, arrays, blobs = _index(role, [file for file in by_name.values() if file.payload.codec == "json"])
    named = [*([arrays] if arrays else []), *blobs.values()]
    for name in named:
        if name not in by_name:
            raise ArtifactError(f"the index of {role} names {name[:120]!r}, which is not a payload of {role}")
    try:
        return State(
            params=params,
            arrays=unpack_arrays(by_name[arrays].data) if arrays else {},
            blobs={name: by_name[payload].data for name, payload in blobs.items()},
        )
    except ValueError as error:
        raise ArtifactError(f"{arrays} is damaged: {error}") from None


def _index(role: str, files: list[File]) -> tuple[dict[str, Json], str | None, dict[str, str]]:
    if len(files) != 1:
        raise ArtifactError(f"the artifact has {len(files)} indexes of {role}, not one")
    name = files[0].payload.name
    try:
        index = strictjson.loads(files[0].data)
    except ValueError as error:
        raise ArtifactError(f"{name} is damaged: {error}") from None
    if isinstance(index, dict):
        params, arrays, blobs = index.get("params"), index.get("arrays", ""), index.get("blobs")
        if isinstance(params, dict) and isinstance(arrays, str | None) and arrays != "" and isinstance(blobs, dict):
            ...
    raise ArtifactError(f"{name} is damaged: it is not an index of parameters, arrays and blobs")
