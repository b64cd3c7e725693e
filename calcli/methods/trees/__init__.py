"""Methods that look at features: trees whose leaves have a calibration of their own."""
