"""Heterogeneous calibration (Durfee et al. 2022): partitions of the feature space, and calibrators in their cells."""
