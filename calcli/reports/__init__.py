"""What was measured: the schema of reports, the metrics of scores, curves, gates, guards."""
