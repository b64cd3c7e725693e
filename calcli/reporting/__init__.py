"""What a report says to people: in words, and as a page."""
