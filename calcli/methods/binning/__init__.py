"""Step functions of the score."""
