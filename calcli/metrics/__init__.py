"""Metrics: numbers, each with the definition that tells it from others of its name."""
