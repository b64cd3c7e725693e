"""Results laid out for a terminal."""
