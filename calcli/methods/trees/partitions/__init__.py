"""Partitions of the feature space, and calibrators in their cells."""
