"""Where the rows are when the work is done: on one machine, or on a cluster."""
