"""Boosting: `growing` grows the trees, `correction` is what they do to a score, `boost` is the method."""
