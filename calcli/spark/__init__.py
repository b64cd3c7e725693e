"""The verbs on a Spark cluster: workers sum over rows, the driver finishes from the sums."""
