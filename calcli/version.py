"""The version of calcli and the name under which it is installed, in their one place."""

VERSION = "0.1.0"

DISTRIBUTION = "calcli-calibration"
"""What pip calls it. On the package index ``calcli`` is another project."""
