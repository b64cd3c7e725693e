"""The inner loops of MBCT, as machine code.

A row is a line of codes (one for each feature), a probability p, a label y and perhaps a weight w. The codes of a
feature are 0 for whatever is rare or was never seen, then 1, 2, ..; a cell is one code of one feature. A split of a
node has a branch for each code with enough rows there, and branch 0, the rest, for all others.

Indices are unsigned where they are looked up in tables: for signed ones numba asks each time whether they are negative.
The cache of compiled code watches the file of a kernel alone: so a kernel calls none of another file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint16]
Flags = NDArray[np.uint8]
Places = NDArray[np.int64]
Table = NDArray[np.uint32]

ODDS, LINEAR = 0, 1

SUMS = 5
MASS, POSITIVE, COUNT, FACTS = 5, 6, 7, 8
"""The facts of some rows: the sums, then their weight, that of the positive ones, and how many they are."""

BRANCHES, ERROR, SQUARE, LOSS, FOUND = 0, 1, 2, 3, 4
"""What is found out about a split: how many branches it has, and what `searching.judge` says."""
