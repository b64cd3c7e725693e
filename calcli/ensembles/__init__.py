"""Ensembles on tables: training, loading, metrics, manifest."""
