"""The command line: the one room that knows of typer, rich, terminals and exit codes."""
