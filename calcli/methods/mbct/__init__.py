"""Multiple boosting calibration trees (Huang et al. 2022)."""
