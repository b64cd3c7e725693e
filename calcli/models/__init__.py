"""Kinds of artifacts, each with the columns that it adds to a table, how it is kept, measured and fitted again."""
