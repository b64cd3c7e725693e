"""Decisions: prediction sets and intervals that hold the truth at a chosen level."""
