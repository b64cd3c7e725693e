"""Calibrators in other languages: SQL text by dialect."""
