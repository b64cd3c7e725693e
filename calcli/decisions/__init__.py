"""From probabilities to decisions: thresholds, costs, targets, abstention, prediction sets and intervals."""
