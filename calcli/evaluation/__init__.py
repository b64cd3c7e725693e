"""The scores that `evaluate` compares, the rows it keeps of them, and the test for drift."""
