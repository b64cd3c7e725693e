"""Ensembles on tables: training, loading and measuring them, and what their manifest says."""
