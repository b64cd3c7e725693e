"""Reports for people: verdicts, tables, the HTML page."""
