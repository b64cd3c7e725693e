"""States as files, and back, bit for bit; nothing here evaluates or unpickles.

A role is kept as an index in JSON, its arrays in one npz file if it has any, and its blobs as they are. The index names
the other files::

    {"arrays": "<role>-<sha256>.npz" or null, "blobs": {name: "<role>-<sha256>.<suffix>", …}, "params": {…}}

``numpy.load`` opens the npz files, but numpy neither writes nor reads them here: its writer stores the time, and its
reader allocates what a header claims before checking the size of the file. Only the files of `pack_arrays` are read:
entries without compression, headers of format 1.0, plain number types, exactly as many bytes as the shape needs.
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
from calcli.artifacts.manifest import Payload, is_role, refuse_unsafe
from calcli.state import Json, State


@dataclass(frozen=True, slots=True)
class File:
    """A payload with its content."""

    payload: Payload
    data: bytes


def encode(role: str, state: State) -> list[File]:
    """The files of `state`, the index first. Equal states give equal bytes.

    A state that could not be read back exactly is a `ValueError`: an object array, a NaN in the parameters, a name with
    ``..``.
    """
    if not is_role(role):
        raise ValueError(f"{role!r} cannot be the role of a payload")
    for name in state.blobs:
        refuse_unsafe(name)
    arrays = [_file(role, "npz", pack_arrays(state.arrays), "npz")] if state.arrays else []
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
        arrays={} if arrays is None else unpack_arrays(by_name[arrays].data),
        blobs={name: by_name[payload].data for name, payload in blobs.items()},
    )


def _index(indexes: list[File]) -> tuple[dict[str, Json], str | None, dict[str, str]]:
    """The parameters, and the names of the payloads with the arrays and the blobs."""
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


Array = NDArray[np.generic]

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    r"\{'descr': '(\|b1|\|[iu]1|[<>](?:[iu][248]|f[248]))', "
    r"'fortran_order': (True|False), "
    r"'shape': \(((?:[0-9]{1,19}, ?)*(?:[0-9]{1,19})?)\), \} *\n"
)
_DTYPE = re.compile(r"\|b1|\|[iu]1|[<>](?:[iu][248]|f[248])")
_ALIGNMENT = 64
_MOST_DIMENSIONS = 32
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip file


def pack_arrays(arrays: Mapping[str, Array]) -> bytes:
    """The npz file of `arrays`; their order does not matter."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            refuse_unsafe(name)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=_NO_TIME)
            entry.create_system = 3  # the default depends on the platform
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, _npy(name, np.asarray(arrays[name])))
    return out.getvalue()


def unpack_arrays(data: bytes) -> dict[str, Array]:
    """The arrays of a file that `pack_arrays` wrote; anything else is a `ValueError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _refuse_bombs(entries, len(data))
            arrays = {_array_name(entry.filename): _array(archive.read(entry)) for entry in entries}
    except ValueError:
        raise
    except Exception as error:  # zipfile raises all kinds of errors on hostile bytes
        raise ValueError(f"it is not an npz file: {error}") from None
    if len(arrays) < len(entries):
        raise ValueError("two of its arrays have the same name")
    return arrays


def _npy(name: str, array: Array) -> bytes:
    if not _DTYPE.fullmatch(array.dtype.str):
        raise ValueError(f"the array {name!r} is of {array.dtype}: only plain numbers and booleans are kept")
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    header = f"{{'descr': '{array.dtype.str}', 'fortran_order': {fortran}, 'shape': {array.shape}, }}"
    padding = -(len(_MAGIC) + 2 + len(header) + 1) % _ALIGNMENT
    text = (header + " " * padding + "\n").encode("ascii")
    return b"".join((_MAGIC, len(text).to_bytes(2, "little"), text, array.tobytes("F" if fortran else "C")))


def _array(npy: bytes) -> Array:
    start = len(_MAGIC) + 2
    end = start + int.from_bytes(npy[len(_MAGIC) : start], "little")
    header = _HEADER.fullmatch(npy[start:end].decode("ascii"))
    if not npy.startswith(_MAGIC) or not header:
        raise ValueError("the header of an array is not one that calcli writes")
    dtype = np.dtype(header[1])
    shape = tuple(int(size) for size in header[3].split(",") if size.strip())
    # Compared as Python integers, which do not overflow, and before anything is allocated.
    if len(shape) > _MOST_DIMENSIONS or math.prod(shape) * dtype.itemsize != len(npy) - end:
        raise ValueError(f"an array of shape {shape[:_MOST_DIMENSIONS]} does not fit into its {len(npy) - end} bytes")
    view: Array = np.ndarray(shape, dtype, buffer=npy, offset=end, order="F" if header[2] == "True" else "C")
    return view.copy(order="K")  # aligned and writable, as some libraries require


def _array_name(entry: str) -> str:
    name = entry.removesuffix(".npy")
    if name == entry:
        raise ValueError(f"its entry {entry[:120]!r} is not an array")
    refuse_unsafe(name)
    return name


def _refuse_bombs(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse entries that would take more memory than the file has bytes."""
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("its arrays are compressed; calcli never compresses them")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("its arrays claim to be larger than the file")
