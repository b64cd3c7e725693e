"""Calibration methods: one module and one spec in a catalog for each."""
