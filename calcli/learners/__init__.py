"""Models over features: CatBoost, and models that other people's libraries wrote."""
