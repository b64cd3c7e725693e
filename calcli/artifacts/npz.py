"""Named arrays as one npz file, whose bytes depend on the arrays and on nothing else.

``numpy.load`` opens these files, and they are what ``numpy.savez`` means, but they are written and read here: the
library's own writer stamps the time and follows its version, and its reader allocates what a header claims before it
looks whether the file has as much. Read is only what is written: stored, not compressed; format 1.0; the plain number
types below; a size that fits the shape exactly.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    r"\{'descr': '([|<>][biuf][1248])', 'fortran_order': (True|False), 'shape': (\(\)|\([0-9]+,\)|\([0-9]+(?:, [0-9]+)+\)), \} *\n"
)
_KINDS = frozenset({"|b1", "|i1", "|u1"} | {f"{order}{kind}" for order in "<>" for kind in _WIDE})
