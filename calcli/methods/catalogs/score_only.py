"""The names of the methods that need nothing but the score: calibrators of cells and of clusters."""

from calcli.methods.catalogs.binning import SPECS as BINNING
from calcli.methods.catalogs.scaling import SPECS as SCALING

SCORE_ONLY = tuple(spec.name for spec in (*SCALING, *BINNING) if not spec.needs_features)
