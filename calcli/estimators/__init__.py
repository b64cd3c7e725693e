"""calcli in scikit-learn's shape: estimators and pictures for arrays, on top of the verbs."""
