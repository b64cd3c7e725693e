"""Answers for people: what was found, laid out for a terminal."""
