"""The verbs on a Spark cluster: the workers add up what rows say, and this process draws the conclusions."""
