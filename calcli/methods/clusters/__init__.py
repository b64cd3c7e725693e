"""Clusters of rows, and a calibrator for each: CCL."""
