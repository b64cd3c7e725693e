"""One module per command: its options, one call of its verb, one call of its renderer."""
