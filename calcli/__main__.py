"""``python -m calcli``."""

import sys

from calcli.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
