"""Ensembles of models that know what they do not know (Malinin, Prokhorenkova & Ustimenko, ICLR 2021)."""
