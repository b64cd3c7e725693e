"""From rows to a calibrator: recipes, splits, cross-validation, the choice of a method, the model that is kept."""
