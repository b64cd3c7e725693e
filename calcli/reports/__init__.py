"""Reports: their schema, and the metrics, curves, gates and guards in them."""
