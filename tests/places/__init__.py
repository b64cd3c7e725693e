"""Tests of `calcli.places`."""
