"""How to calibrate: one module per method, one catalog row each."""
