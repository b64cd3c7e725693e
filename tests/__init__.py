"""The tests. Several run beside each other, so that each keeps to one thread of the libraries that count with many.

Some start calcli in processes of its own. Where Python is told to keep no bytecode, these would compile all of calcli
each, so that it is kept for them in a directory that lasts as long as the tests.
"""

import atexit
import os
import shutil
import sys
import tempfile

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

if sys.dont_write_bytecode and "PYTHONPYCACHEPREFIX" not in os.environ:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="bytecode-")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)
