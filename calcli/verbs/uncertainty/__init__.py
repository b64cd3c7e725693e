"""The verbs about uncertainty: train an ensemble, apply it, measure it, and decompose what others predicted."""
