"""Tables in, tables out: formats, sources, the binding of columns to their parts, checks, sinks."""
