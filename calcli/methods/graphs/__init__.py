"""Methods that calibrate a row by the rows that it is related to."""
