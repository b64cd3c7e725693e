"""The tests. Several run beside each other, so that each keeps to one thread of the libraries that count with many.

Some start calcli in processes of its own. Where Python is told to keep no bytecode, each of these would compile all of
calcli: they are not told. A directory of bytecode of their own would have them compile all other libraries instead.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
