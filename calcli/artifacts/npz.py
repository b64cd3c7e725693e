"""Named arrays as one npz file, whose bytes depend on nothing but the arrays.

``numpy.load`` opens these files, but numpy neither writes nor reads them here: its writer stores the time, and its
reader allocates what a header claims before checking the size of the file. Only what `pack` writes is read: entries
without compression, headers of format 1.0, plain number types, and exactly as many bytes as the shape needs.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from calcli.artifacts.manifest import refuse_unsafe

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


def pack(arrays: Mapping[str, Array]) -> bytes:
    """The npz file of `arrays`; their order in the mapping does not matter."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            refuse_unsafe(name)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=_NO_TIME)
            entry.create_system = 3  # the default depends on the platform
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, _npy(name, np.asarray(arrays[name])))
    return out.getvalue()


def unpack(data: bytes) -> dict[str, Array]:
    """The arrays of a file that `pack` wrote; anything else is a `ValueError`."""
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
