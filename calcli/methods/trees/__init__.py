"""What the methods that look at features by trees have in common."""
