"""Smooth maps of the score with a handful of numbers."""
