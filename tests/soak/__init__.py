"""Attacks: what an on-call engineer would try. A few of each in the suite, thousands by ``just soak``."""
