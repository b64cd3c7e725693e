"""Formulas: pure functions on arrays, no files, no memory of earlier calls."""
