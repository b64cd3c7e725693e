"""Shared parts of the methods with trees, which are beside: `mbct`, `heterogeneous` and `boost`."""
